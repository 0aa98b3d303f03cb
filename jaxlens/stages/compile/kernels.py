"""Maps each executed HLO instruction to its generated code, by symbol name.

On CPU a kernel's LLVM function and its object's symbol have the name of the HLO instruction
(`call.2_kernel` for a called computation that is compiled as one kernel); a sort's comparator has
the name of its computation. On GPU the thunk sequence names the kernel that each instruction
launches (the instruction's name with `_` for `.`, or that of an equal fusion) and its launch
dimensions. Matrix products, FFTs and custom calls run library code, and loops, branches and copies
are thunks of the runtime: they have no generated code.
Checked with jax 0.10.2 and 0.12.0.1.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial

from jaxlens.ir.facts import Kernel, KernelKind, KernelText, Part, lazy_kernel
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.instructions import idle
from jaxlens.ir.hlo.value_numbering import functions
from jaxlens.ir.machine import launches
from jaxlens.ir.machine.disassemble import disassemble, missing, readable, symbols
from jaxlens.stages.compile.dump_files import Dump

_DEFINE = re.compile(
    rb'^define (?!internal\b|private\b|available_externally\b)[^@\n]*@("[^"\n]*"|[\w.$-]+)\(',
    re.MULTILINE,
)
_ENTRY = re.compile(rb"^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w.$]+)", re.MULTILINE)
_LIBRARY_KIND = re.compile(r'"kind":\s*"__(\w+?)(?:[_$]fusion)?"')

# Opcodes that execute nothing: they name, group or describe values.
_SILENT = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency opt-barrier "
    "optimization-barrier domain".split()
)
_CALLS = frozenset({"while", "conditional", "call", "async-start"})
_ASYNC = ("-start", "-done", "async-update")
_LIBRARY = frozenset({"custom-call", "dot", "convolution", "fft", "cholesky", "triangular-solve"})
_LIBRARY_NAMES = {"ynn": "YNNPACK", "onednn": "oneDNN", "cublas": "cuBLAS", "cudnn": "cuDNN"}
_SORT = "the runtime sorts; shown is the comparison that it calls"
_NAMELESS = "no instruction has its name: XLA may share it"
_EQUAL = "equal to {}: XLA compiles equal fusions once"
# Targets of custom calls that are kernels of Pallas or Mosaic.
_WRITTEN = ("tpu_custom_call", "mosaic_gpu", "__gpu$xla.gpu.triton", "triton_kernel_call")
_OWN = ("triton", "custom")  # kinds of custom fusions that name no library
# Kinds of XLA:GPU thunks that launch generated code; the runtime implements the others.
_CODE = frozenset({"kKernel", "kCustomKernel"})


def kernels(module: Module, dump: Dump, platform: str) -> tuple[Kernel, ...]:
    """Returns the kernels, library calls and thunks of a program, loop bodies after their loop.

    Args:
        module: The optimised program.
        dump: XLA's dump of it.
        platform: "cpu", "gpu" or "tpu".

    Returns:
        One `Kernel` per executed instruction of the entry and of the computations that it calls
        (not inside fusions), in program order; then code that matches no instruction, if any.
    """
    code = _Code(dump)
    running = list(_running(module, code))
    if not code.launches:
        code.share(module, [node for node in running if node.opcode == "fusion"])
    rows = [_kernel(node, code, platform) for node in running]
    unmatched = [
        lazy_kernel(Kernel(name, "", "kernel", note=_NAMELESS), code.texts(name))
        for name in code.units
        if name not in code.taken
    ]
    return (*rows, *unmatched)


def without_code(rows: Iterable[Kernel], note: str) -> tuple[Kernel, ...]:
    """Returns the kernels without their code, and with a note that says why."""
    return tuple(
        Kernel(k.name, k.instruction, k.kind, note=note if k.kind == "kernel" else k.note)
        for k in rows
    )


class _Code:
    """The generated code of a dump, by symbol.

    Attributes:
        units: Unit by symbol.
        before: Unit of unoptimised LLVM IR by symbol, if its units have other names (GPU).
        launches: On GPU, the launches of each instruction, by its name.
        taken: The first instruction that each symbol is assigned to.
        shared: For fusions without code of their name, the name of an equal one with code.
    """

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self.units = dict(symbols_of(dump))
        self.before = dict(_defined(dump.llvm_before)) if dump.ptx else {}
        self.launches = launches.read(dump.thunks, dump.thunk_names)
        self.taken: dict[str, str] = {}
        self.shared: dict[str, str] = {}
        self._texts: dict[str, dict[KernelText, Callable[[], str]]] = {}

    def share(self, module: Module, fusions: Iterable[Node]) -> None:
        """Sets `shared` for the fusions without a symbol of their name.

        XLA compiles equal fusions once, under the name of one of them.
        """
        having: list[Node] = []
        lacking: list[Node] = []
        for node in fusions if self.units else ():
            if not _library(node):
                (having if self.symbol(node) else lacking).append(node)
        bodies = functions(module) if lacking else {}

        def computed(node: Node) -> tuple[object, ...]:
            return bodies.get(node.regions[0]), node.type, node.attrs.get("kind")

        first: dict[object, str] = {}
        for node in having if lacking else ():
            first.setdefault(computed(node), node.id)
        self.shared = {n.id: first[computed(n)] for n in lacking if computed(n) in first}

    def symbol(self, node: Node) -> str | None:
        """Returns the symbol of a node's code; None if no symbol has its name."""
        names = [launch.symbol for launch in self.launches.get(node.id, ())] or _names(node.id)
        if node.opcode == "sort":
            names += node.regions
        return next((name for name in names if name in self.units), None)

    def texts(self, symbol: str) -> dict[KernelText, Callable[[], str]]:
        """Returns a cached function per text of a symbol's code; kernels may share it."""
        if symbol not in self._texts:
            self._texts[symbol] = {kind: cache(make) for kind, make in self._makers(symbol).items()}
        return self._texts[symbol]

    def _makers(self, symbol: str) -> dict[KernelText, Callable[[], str]]:
        dump, unit = self._dump, self.units[symbol]

        def llvm(text: bytes) -> str:
            return _decoded(text) if unit else _definition(_DEFINE, text, symbol)

        def asm() -> str:
            if not is_object:
                return _definition(_ENTRY, dump.ptx[unit], symbol).strip()
            # `CompileOutput.asm` names the package that is missing.
            return "" if missing() else disassemble(dump.objects[unit], symbol)

        is_object = readable(dump.objects.get(unit, b""))

        makers: dict[KernelText, Callable[[], str]] = {}
        before = self.before.get(symbol, unit)
        if before in dump.llvm_before:
            makers["llvm_before"] = partial(llvm, dump.llvm_before[before])
        if unit in dump.llvm_after:
            makers["llvm_after"] = partial(llvm, dump.llvm_after[unit])
        if is_object or unit in dump.ptx:
            makers["asm"] = asm
        return makers


def symbols_of(dump: Dump) -> Iterator[tuple[str, str]]:
    """Yields (symbol, unit) of all generated code; opens object files only without LLVM IR."""
    if not dump.ptx:
        yield from _defined(dump.llvm_after or dump.llvm_before)
    for unit, text in dump.ptx.items():
        for match in _ENTRY.finditer(text):
            yield match[1].decode(), unit
    for unit, data in dump.objects.items():
        if unit not in dump.llvm_after and unit not in dump.llvm_before:
            yield from ((name, unit) for name in symbols(data))


def _defined(units: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yields (symbol, unit) of every function that the LLVM modules define."""
    for unit, text in units.items():
        for match in _DEFINE.finditer(text):
            yield match[1].strip(b'"').decode("utf-8", "replace"), unit


def _running(module: Module, code: _Code) -> Iterator[Node]:
    """Yields the executed instructions in order; a computation's follow its first caller.

    A stack of iterators replaces recursion, so nested loops of any depth are possible. Only calls
    without a symbol are entered: a call with one is compiled whole, as a single kernel.
    """
    entered = {module.entry}
    pending = [iter(module.body().nodes)]
    while pending:
        node = next(pending[-1], None)
        if node is None:
            pending.pop()
        elif node.opcode not in _SILENT:
            yield node
            if node.opcode in _CALLS and code.symbol(node) is None:
                fresh = [r for r in node.regions if r in module.regions and r not in entered]
                entered.update(fresh)
                pending += [iter(module.regions[r].nodes) for r in reversed(fresh)]


def _kernel(node: Node, code: _Code, platform: str) -> Kernel:
    symbol = code.symbol(node)
    if symbol is None and node.id in code.shared:
        owner = code.shared[node.id]
        texts = code.texts(next(name for name in _names(owner) if name in code.units))
        return lazy_kernel(Kernel(node.id, node.id, "kernel", note=_EQUAL.format(owner)), texts)
    own = code.launches.get(node.id, ())
    # If a node has several launches on GPU, that of its symbol.
    launch = next(
        (launched for launched in own if launched.symbol == symbol), next(iter(own), None)
    )
    wide = str(launch or "")
    if symbol is None:
        if launch is not None and launch.kind not in _CODE and node.opcode == "fusion":
            note = f"the runtime does it as {launch.kind[1:]}; no code is generated"
            return Kernel(node.id, node.id, "thunk", note=note)
        kind, note = _kind_and_note(node, platform)
        return Kernel(node.id, node.id, kind, note=note, launch=wide)
    owner = code.taken.setdefault(symbol, node.id)
    if owner != node.id:
        kernel = Kernel(node.id, node.id, "kernel", note=_EQUAL.format(owner), launch=wide)
    elif node.opcode == "sort" and symbol in node.regions:
        kernel = Kernel(node.id, node.id, "thunk", note=_SORT)
    else:
        kernel = Kernel(symbol, node.id, "kernel", launch=wide)
    return lazy_kernel(kernel, code.texts(symbol))


def _names(instruction: str) -> list[str]:
    """Returns the symbols that an instruction's code can have."""
    return [instruction, f"{instruction}_kernel", re.sub(r"[^\w$]", "_", instruction)]


def _library(node: Node) -> str:
    """Returns the library that a custom fusion calls, "" if it names none."""
    if "kCustom" not in node.text:  # attributes are parsed on first use
        return ""
    match = _LIBRARY_KIND.search(node.attrs.get("backend_config", ""))
    if node.attrs.get("kind") != "kCustom" or match is None or match[1].startswith(_OWN):
        return ""
    return _LIBRARY_NAMES.get(match[1], match[1])


def _kind_and_note(node: Node, platform: str) -> tuple[KernelKind, str]:
    """Returns the kind of an instruction without a symbol, and why it has no code to show.

    On TPUs, XLA generates code for all but control flow, async ops and custom calls, and does not
    dump it.
    """
    opcode = node.opcode
    library = _library(node) if opcode == "fusion" else ""
    if opcode == "custom-call" and idle(node):
        return "thunk", "names a buffer; nothing is computed"
    if opcode == "custom-call":
        target = node.attrs.get("custom_call_target", "").strip('"') or "a target without a name"
        if target.startswith(_WRITTEN):
            return "kernel", f"written by hand ({target}); its code is not dumped"
        return "library call", f"calls {target}: ready-made code, not generated here"
    if library:
        return "library call", f"computed by {library}; its code is not dumped"
    if opcode in _LIBRARY and platform != "tpu":
        return "library call", f"the runtime calls a library for {opcode}; its code is not dumped"
    if platform == "tpu" and opcode not in _CALLS and not opcode.endswith(_ASYNC):
        return "kernel", "XLA shows no machine code for TPUs"
    if opcode == "fusion":
        return "kernel", f"XLA showed no code of this name on {platform}"
    return "thunk", f"the runtime does {opcode}; no code is generated"


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _definition(pattern: re.Pattern[bytes], text: bytes, symbol: str) -> str:
    """Returns one function of an LLVM module, or one kernel of a PTX text, to its closing brace."""
    for match in pattern.finditer(text):
        if match[1].strip(b'"') == symbol.encode():
            end = text.find(b"\n}", match.start())
            return _decoded(text[match.start() : None if end < 0 else end + 3])
    return ""


def llvm_text(dump: Dump) -> str:
    """Returns every unit's optimised LLVM IR, or the unoptimised one if there is no other."""
    return "\n".join(map(_decoded, (dump.llvm_after or dump.llvm_before).values()))


def asm_text(rows: Iterable[Kernel], dump: Dump) -> str:
    """Returns each distinct assembly once, in program order; on GPU, the PTX as dumped."""
    if dump.ptx:
        return "\n".join(map(_decoded, dump.ptx.values()))
    return "\n".join(dict.fromkeys(kernel.asm for kernel in rows if kernel.asm))


def llvm_parts(dump: Dump) -> Iterator[Part]:
    """Yields two parts of the compile for each kernel: LLVM's passes, and code generation.

    XLA's profiler does not say which kernel LLVM compiles. But XLA:CPU compiles one LLVM module per
    kernel in one thread, and writes three files on the way: just before LLVM's passes, just after
    them, and just after code generation. Their modification times give the seconds, with a
    resolution of some milliseconds on some systems, and include the writing of the files. On GPU
    the three files of a kernel have different names, so there are no parts.
    """
    names: dict[str, str] = {}
    for symbol, unit in symbols_of(dump) if dump.written else ():
        names.setdefault(unit, symbol)
    for unit, (begun, optimised, done) in dump.written.items():
        if unit in names and begun <= optimised <= done:
            yield Part(names[unit], "llvm", (optimised - begun) * 1e-9, aside=True)
            yield Part(names[unit], "code", (done - optimised) * 1e-9, aside=True)
