"""What a capture is made of: its program, its stages, and the facts of its compile.

All of it is frozen data; where it comes from is behind a `Driver` (`ir/driver.py`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial, reduce
from typing import Literal

from jaxlens.errors import UnavailableError
from jaxlens.ir.graph import Module, Span, Type
from jaxlens.ir.lazy import lazy
from jaxlens.ir.stage import StageInfo
from jaxlens.ir.stamps import unstamped
from jaxlens.ir.text_store import Packed


@dataclass(frozen=True, slots=True)
class Input:
    """One array leaf of the arguments.

    Attributes:
        name: Its pytree path: "params['w']".
        type: Its type.
        donated: Whether the program may reuse its memory.
        sharding: How it lies on several devices, "" for one.
        path: JAX's name of it, where a library's jit hands it over in containers of its own
            ("model.states[0][1]"); "" where that is the name.
    """

    name: str
    type: Type
    donated: bool = False
    sharding: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Static:
    """An argument that is part of the program and not of its data. `text` is bounded in length."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """An array that the function closed over, measured and never printed.

    Attributes:
        name: What the user calls it ("params['w']", "self.table"); "constant 2" for one that
            no name was found for.
        type: Shape and dtype.
        bytes: Its data.
        span: Where it is first read.
        held: What holds it: "global", "closure", "default argument", "argument of a partial",
            "attribute"; "" where unknown.
        holder: Name of the function or class that does.
        defined: Where that function is defined.
        reads: Equations that read it, in all bodies; 0 where they were not counted.
        bodies: Bodies of the jaxpr that hold it as a constant of their own.
        argument: The attribute that can be an argument ("model.params"), where what holds it is
            an object that JAX refuses as one; else "".
    """

    name: str
    type: Type
    bytes: int
    span: Span | None = None
    held: str = ""
    holder: str = ""
    defined: Span | None = None
    reads: int = 0
    bodies: int = 1
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the program is to run.

    Attributes:
        platform: "cpu", "gpu" or "tpu".
        kind: Device kind as JAX names it ("cpu", "NVIDIA H200", "TPU v5e").
        devices: How many take part.
        absent: Whether the device is not in this process (compiled from a description).
        jax: Version of jax.
        jaxlib: Version of jaxlib.
        processes: The process of each device, in the program's order; () if all are of one.
    """

    platform: str
    kind: str
    devices: int = 1
    absent: bool = False
    jax: str = ""
    jaxlib: str = ""
    processes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Text of a file or cell that made some of the program.

    Attributes:
        file: The name that `Span.file` has.
        text: Its whole text; "" where it could not be read.
        library: Whether it belongs to an installed package.
    """

    file: str
    text: str
    library: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What was taken: the first line of every output is made of this.

    Attributes:
        name: The function's name, or "expression".
        inputs: Array leaves in order.
        outputs: Results with their pytree paths; empty until traced.
        statics: Arguments that are part of the program.
        target: Where it is to run.
        span: Where the function is defined.
        transforms: What was put round it, outermost first ("grad", "vmap").
        flags: XLA settings that differ from its defaults ("without fusion", "xla_cpu_foo=1").
        unjitted: Whether the function is not jitted: what is shown is its jit, and the call as it
            is written runs op by op. The first line says so in a few words.
        deviations: A sentence for each other way in which the program shown is not the one that
            runs, and what that changes in the figures. Every view prints them below its first
            line. A saved program's hold what `Driver.deviations` added.
        origin: Where the program was read from ("read from a jax.stages.Compiled"); "" for a call.
        jit: What jits the function, or would: "jax.jit", "nnx.jit", "eqx.filter_jit"; "" for a
            function of JAX's own, and for a program that JAX made under a transform, whose
            arguments are not the function's.
        engine: Which library made the program, if it is not JAX: "by jaxlens.core".
    """

    name: str
    inputs: tuple[Input, ...]
    statics: tuple[Static, ...]
    target: Target
    span: Span | None = None
    transforms: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    unjitted: bool = False
    deviations: tuple[str, ...] = ()
    origin: str = ""
    jit: str = "jax.jit"
    engine: str = ""

    @property
    def title(self) -> str:
        """The name in the calls of its transforms: "grad(loss)"."""
        return reduce(lambda name, by: f"{by}({name})", reversed(self.transforms), self.name)

    @property
    def call(self) -> str:
        """The call with the names of its arguments: "grad(loss)(params, x)"."""
        roots = dict.fromkeys(root_name(leaf.name) for leaf in self.inputs)
        return self.title if self.title == "expression" else f"{self.title}({', '.join(roots)})"


def root_name(name: str) -> str:
    """Returns the argument that a pytree path starts at: "params" for "params['w']"."""
    match = re.match(r"\**\w+", name)
    return match.group(0) if match else name


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one step took here, in wall-clock seconds."""

    step: str
    seconds: float
    note: str = ""


CONVERSION = "conversion to HLO"
"""The step from StableHLO to HLO, which computes what only depends on constants."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something that the compile did, with what it did within, as XLA's profile names it.

    Attributes:
        name: XLA's name: a pipeline, a pass ("algsimp"), a step ("Codegen"), a kernel.
        kind: "kernel" for the lowering of one kernel to LLVM IR, "llvm" for LLVM's passes over it,
            "code" for making its machine code.
        seconds: Wall clock, all of its times together.
        times: How often it was done there.
        inside: Index of the part that it was done within; -1 for the compile itself.
        aside: Whether other threads did it beside what the rest of the compile did.
    """

    name: str
    kind: Literal["pipeline", "pass", "step", "kernel", "llvm", "code"]
    seconds: float
    times: int = 1
    inside: int = -1
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What XLA's own profiler says of one compile.

    Attributes:
        seconds: Wall clock of the compile, profiler on.
        parts: What it did, each after what it was done within.
        note: Why there are no parts; "" where there are.
    """

    seconds: float
    parts: tuple[Part, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if any(part.inside >= n for n, part in enumerate(self.parts)):
            raise ValueError("a part is inside of one that does not precede it")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes as XLA's buffer assignment gives them; None where the backend does not say."""

    arguments: int | None
    outputs: int | None
    temporaries: int | None
    aliases: int | None
    code: int | None = None
    note: str = ""
    peak: int | None = None  # XLA's own figure, which is wrong for some programs on CPU

    @property
    def needed(self) -> int | None:
        """Arguments, outputs and temporaries, donated arguments once; None if one is unknown."""
        if self.arguments is None or self.outputs is None or self.temporaries is None:
            return None
        return self.arguments + self.outputs + self.temporaries - (self.aliases or 0)


KernelKind = Literal["kernel", "library call", "thunk"]
KernelText = Literal["llvm_before", "llvm_after", "asm"]
KERNEL_TEXTS: tuple[KernelText, ...] = ("llvm_before", "llvm_after", "asm")
"""Fields of a `Kernel` with code, which can be long."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One thing that the executable calls or launches.

    Attributes:
        name: Symbol name, as LLVM and the object file have it.
        instruction: Name of the optimised HLO instruction that it computes.
        kind: "kernel" (code of XLA's or Pallas's), "library call" or "thunk" (the runtime's own).
        llvm_before: LLVM IR before LLVM's optimisations, "" where there is none.
        llvm_after: LLVM IR after them.
        asm: Disassembly or PTX, "" where there is none.
        note: Why something is missing.
        launch: How the GPU's runtime starts it: "32 blocks of 64 threads"; "" elsewhere.
    """

    name: str
    instruction: str
    kind: KernelKind
    llvm_before: str = ""
    llvm_after: str = ""
    asm: str = ""
    note: str = ""
    launch: str = ""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} of {self.instruction}>"


def lazy_kernel(kernel: Kernel, texts: Mapping[KernelText, Callable[[], str]]) -> Kernel:
    """Returns a kernel with a function for each of some texts.

    Disassembling a large program takes longer than compiling a small one, and a table of kernels
    does not need it.
    """
    makers: dict[str, Callable[[Kernel], str]]
    makers = {name: partial(_made, make) for name, make in texts.items()}
    kept = (field.name for field in fields(Kernel) if field.name not in texts)
    return lazy(Kernel, makers, **{name: getattr(kernel, name) for name in kept})


def _made(make: Callable[[], str], _: Kernel) -> str:
    return make()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether this very call would have hit JAX's caches, asked before anything was staged.

    Attributes:
        hit: True, False, or None where it cannot be known.
        layer: The first cache that misses: "trace", "compile", or "" for a hit.
        reasons: One line per difference to the nearest earlier key
            ("x: f32[64,784], was f32[128,784]"); why it is not known, where it is not.
        earlier: How many keys the function had.
    """

    hit: bool | None
    layer: str = ""
    reasons: tuple[str, ...] = ()
    earlier: int = 0


class Stage:
    """One stage of one capture; text and module are made when first asked for.

    Attributes:
        info: Its row of THE TABLE.
        title: What a tab says; a pass's stage has "pipeline / pass" here.
    """

    def __init__(
        self,
        info: StageInfo,
        text: Callable[[], str],
        read: Callable[[], Module] | None = None,
        title: str = "",
        plain: Callable[[], str] | None = None,
    ) -> None:
        """Args are those of the class, and what makes them when they are first asked for.

        Args:
            info: See above.
            text: What was printed, with stamps.
            read: The program as a graph; None for machine code, which is text alone.
            title: See above.
            plain: The text without stamps, where there is a faster way than to take them out.
        """
        self.info = info
        self.title = title or info.title
        self._text = text
        self._read = read
        self._plain = plain

    @cached_property
    def raw(self) -> str:
        """What was printed where the program carried stamps (`ir.stamps`), with them."""
        return self._text()

    @property
    def packed(self) -> Packed | None:
        """The text where it is packed, with others of the same compile."""
        return self._text if isinstance(self._text, Packed) else None

    @cached_property
    def text(self) -> str:
        """What JAX or XLA printed, as it is without stamps."""
        return unstamped(self.raw) if self._plain is None else self._plain()

    @cached_property
    def module(self) -> Module:
        """The program as a graph.

        Raises:
            UnavailableError: It is machine code.
        """
        if self._read is None:
            raise UnavailableError(
                f"{self.title} is text and no graph: cap.{self.info.name}.text has it, and each of "
                "cap.kernels its own"
            )
        return self._read()

    def holds(self, module: Module) -> bool:
        """Whether a module is that of this stage; does not read the stage."""
        return vars(self).get("module") is module

    def __repr__(self) -> str:
        return f"<Stage {self.title}>"


@dataclass(frozen=True, slots=True)
class PassStage:
    """The HLO after one pass that changed something.

    Attributes:
        index: Position among the dumps.
        pipeline: Pipeline that ran the pass ("simplification").
        name: The pass ("algsimp"); "pipeline-start" where only the pipeline is known.
        stage: Its text and module.
        changed: Whether the program differs from the dump before it.
        before: The pass that was to run next; "" where it is not known.
    """

    index: int
    pipeline: str
    name: str
    stage: Stage
    changed: bool = True
    before: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The roof of a roofline.

    Attributes:
        name: The device.
        products: Flops per second of matrix products, by element type as HLO writes it.
        vector: Flops per second of everything else; None where no figure is published.
        bandwidth: Bytes per second of its main memory.
        source: Where the figures come from.
        measured: Whether they were measured on this machine.
        memory: Bytes of its main memory; None where no figure is published.
        memory_source: Where that figure comes from; "" if from `source`, up to its semicolon.
        links: Bytes per second that it can send to other devices; None where none is published.
    """

    name: str
    products: Mapping[str, float] = field(default_factory=dict)
    vector: float | None = None
    bandwidth: float = 0.0
    source: str = ""
    measured: bool = False
    memory: float | None = None
    memory_source: str = ""
    links: float | None = None

    def flops(self, dtype: str, product: bool) -> float:
        """The peak rate of a kernel in flops per second.

        A type that is not listed has the rate of the nearest wider one, else the highest rate.
        """
        if not product and self.vector is not None:
            return self.vector
        for candidate in (dtype, *_WIDER.get(dtype, ())):
            if candidate in self.products:
                return self.products[candidate]
        return max(self.products.values())


_WIDER: Mapping[str, tuple[str, ...]] = {
    "f16": ("bf16", "f32"),
    "bf16": ("f16", "f32"),
    "f32": ("bf16",),
    "f64": ("f32",),
    "s8": ("bf16",),
    "u8": ("s8", "bf16"),
    "f8e4m3fn": ("bf16",),
    "f8e5m2": ("f8e4m3fn", "bf16"),
    "c64": ("f32",),
    "c128": ("f64", "f32"),
}


Event = Literal["call", "line", "return", "after", "yield", "resume"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A variable and the value that it was bound to, as text: "tracer f32[3,4]", "3"."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TapeStep:
    """One line of Python that ran while JAX traced.

    Attributes:
        event: "call" where a function began, "line", "return" where it ended, "yield" and
            "resume" where a generator paused and continued, and "after" for equations that JAX
            recorded when the function had returned, such as a backward pass.
        key: The file as Python knows it, the key of `Capture.sources`.
        file: The same file by its short name.
        line: Line number.
        function: Qualified name.
        depth: Number of user functions on the stack around it.
        bound: Variables that it bound or changed.
        made: Ids of the equations that it recorded.
        printed: What it wrote to standard output: while tracing only, not when the program runs.
        wrote: Global names and containers of outer scopes that it changed, while tracing only.
        raised: Name of the exception that it, or a call in it, raised.
        code: Index of its function in `LineTrace.code`.
    """

    event: Event
    key: str
    file: str
    line: int
    function: str
    depth: int
    bound: tuple[Bound, ...] = ()
    made: tuple[str, ...] = ()
    printed: str = ""
    wrote: tuple[str, ...] = ()
    raised: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class BytecodeInstruction:
    """One instruction of Python's virtual machine, as `dis` says it; they differ by version.

    Attributes:
        offset: Its position in the bytecode, in bytes.
        name: Its name ("BINARY_OP").
        argument: Its argument as `dis` shows it ("+", "x", "to 24"); "" for none.
        line: The line that it was compiled from.
        end_line: The last line of the expression that it was compiled from.
        column: First column of that expression in bytes, from 0; -1 where unknown.
        end_column: Column after its last; -1 where unknown.
    """

    offset: int
    name: str
    argument: str
    line: int
    end_line: int = 0
    column: int = -1
    end_column: int = -1


@dataclass(frozen=True, slots=True)
class FunctionBytecode:
    """The bytecode of one function.

    Attributes:
        key: The file as Python knows it, the key of `Capture.sources`.
        file: The same file by its short name.
        function: Qualified name.
        instructions: In the order of the bytecode.
    """

    key: str
    file: str
    function: str
    instructions: tuple[BytecodeInstruction, ...]


@dataclass(frozen=True, slots=True)
class LineTrace:
    """All steps of one trace, in order.

    Attributes:
        steps: The steps.
        cut: Whether there were more steps than are kept.
        code: Bytecode of the functions that ran, in the order of their first call.
    """

    steps: tuple[TapeStep, ...]
    cut: bool = False
    code: tuple[FunctionBytecode, ...] = ()
