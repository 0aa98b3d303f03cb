"""Reads StableHLO into a Module: a function or a nested block is a Region, an op a Node.

An MLIR module is walked through jaxlib's bindings, which are imported when first needed;
text (of a saved capture) is parsed by them first. The terminator of a block (`return`) gives the
region's results and is no node. JAX itself is not imported.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from jaxlens.errors import ReadError, UnavailableError
from jaxlens.ir.graph import Module, Node, Region, Type, Value, callers_first, paused, unique
from jaxlens.ir.stablehlo.locations import resolver
from jaxlens.ir.stablehlo.stamps import CLOSING, Paths
from jaxlens.ir.stablehlo.types import attribute, constant_text, shortened, type_of

_ROLES = {
    "stablehlo.while": ("cond", "body"),
    "stablehlo.select_and_scatter": ("select", "scatter"),
    "stablehlo.if": ("true", "false"),
    "stablehlo.sort": ("comparator",),
    "stablehlo.case": (),
}
_BYTECODE, _PORTABLE, _HEAD = b"ML\xefR", b"StableHLO_v", 64  # with its producer's name
_DEEPEST = 1000
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|->|(?P<opening>[\[({<])|(?P<closing>[\])}>])')
_UNSAID = {"api_version": "1", "called_computations": "[]", "has_side_effect": "false"}
# A frozen dataclass assigns each field through a call; filling its slots takes a fifth of that.
_new = object.__new__
_setters = [vars(Node)[field.name].__set__ for field in fields(Node)]
_set_id, _set_opcode, _set_operands, _set_results, _set_attrs = _setters[:5]
_set_regions, _set_scope, _set_spans, _set_text, _set_stamps, _set_modules = _setters[5:]
_CALLEES = ("callee", "called_computations", "decomposition")


def read(module: Any, stamps: Sequence[Paths] = ()) -> Module:
    """Reads a program.

    Args:
        module: An MLIR module (`lowered.compiler_ir("stablehlo")`), or its text.
        stamps: The result of `restamp` for this module.

    Returns:
        Ids are "s0", "s1", ...: a block's ops in order, then those of the blocks inside it.
        `attrs` has the module's attributes, name and attributes of the entry's first argument as
        "main arg0", and ops beside the functions (meshes).

    Raises:
        ReadError: The text is not StableHLO that this jaxlib can parse.
        UnavailableError: There is no jaxlib to read it with.
    """
    ir = _bindings()
    if isinstance(module, str):
        module = parse(module)
    with paused():
        return _Reader(ir, module, stamps).module()


def is_bytecode(data: bytes) -> bool:
    """Whether bytes are a module as MLIR writes it."""
    return data.startswith(_BYTECODE)


def parse(module: str | bytes) -> Any:
    """Text or bytecode as an MLIR module, in a context of its own.

    Raises:
        ReadError: It does not parse; with MLIR's first error.
    """
    ir = _bindings()
    if isinstance(module, str) and _is_deep(module):  # MLIR's parser would overflow the stack
        raise ReadError(
            f"this StableHLO text has brackets {_DEEPEST:,} deep, which no program needs: mend it"
        )
    context = _context(ir)
    try:
        if isinstance(module, bytes) and _PORTABLE in module[:_HEAD]:
            from jaxlib.mlir.dialects import stablehlo

            return stablehlo.deserialize_portable_artifact(context, module)
        return ir.Module.parse(module, context)
    except (ir.MLIRError, ValueError) as error:
        reason = next((line for line in str(error).splitlines() if "error" in line), str(error))
        noun = "text" if isinstance(module, str) else "bytecode"
        raise ReadError(f"this jaxlib cannot parse the StableHLO {noun}: {reason}") from None


def _is_deep(text: str) -> bool:
    """Whether brackets lie in each other deeper than a program's do."""
    depth = 0
    for mark in _MARK.finditer(text):
        kind = mark.lastgroup
        if kind == "opening":
            depth += 1
            if depth > _DEEPEST:
                return True
        elif kind == "closing":
            depth -= 1
    return False


def without_locations(text: str) -> str:
    """Returns a module's text without the locations that it has; as it is if there is no jaxlib."""
    try:
        module = parse(text)
    except (ReadError, UnavailableError):
        return text
    return str(module.operation.get_asm(enable_debug_info=False))


def _bindings() -> Any:
    try:
        from jaxlib.mlir import ir
    except ImportError:
        raise UnavailableError("StableHLO is read with jaxlib: pip install jaxlib") from None
    return ir


def _context(ir: Any) -> Any:
    """A context with the dialects of JAX's programs, which allows others."""
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    context = ir.Context()
    context.allow_unregistered_dialects = True
    registry = ir.DialectRegistry()
    try:
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext

        _jax_mlir_ext.register_dialects(registry)  # func, arith and others
    except (ImportError, AttributeError):  # moved: then those ops parse in generic form only
        pass
    context.append_dialect_registry(registry)
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    context.load_all_available_dialects()
    return context


class _Reader:
    """State while a module is read; caches are keyed by MLIR's uniqued objects."""

    def __init__(self, ir: Any, module: Any, stamps: Sequence[Paths]) -> None:
        self._module, self._stamps = module, stamps
        self._names = ir.AsmState(module.operation)  # as MLIR prints them
        self._dense = ir.DenseElementsAttr
        self._place = resolver(ir)
        self._types: dict[Any, Type] = {}
        self._texts: dict[Any, str] = {}
        self._values: dict[Any, str] = {}
        self._region_names: dict[str, int] = {}
        self._functions: frozenset[str] = frozenset()
        self._next = 0
        self._regions: dict[str, Region] = {}
        self._pending: list[tuple[str, str, Any]] = []

    def module(self) -> Module:
        """The whole program."""
        module = self._module
        attrs = self._attrs(module.operation.attributes)
        name = attrs.pop("sym_name", '"module"').strip('"')
        functions = []
        for op in map(_plain, module.body.operations):
            if op.name == "func.func":
                functions.append((str(op.attributes["sym_name"]).strip('"'), op))
            else:
                symbol = op.attributes.get("sym_name", "")
                texts = self._attrs(op.attributes)
                texts.pop("sym_name", "")
                attrs[f"{op.name} {symbol}".strip()] = " ".join(texts.values())
        self._functions = frozenset(name for name, _ in functions)
        self._region_names = dict.fromkeys(self._functions, 1)
        for title, op in functions:
            self._function(title, op, attrs)
        entry = "main" if "main" in self._regions else next(iter(self._regions), "")
        if not entry:
            raise ReadError("this StableHLO module has no function in it")
        return Module(name, "stablehlo", entry, callers_first(self._regions, entry), attrs)

    def _function(self, title: str, op: Any, attrs: dict[str, str]) -> None:
        """One function with all blocks inside it."""
        if not len(op.regions[0].blocks):  # a declaration
            self._regions[title] = Region(title, (), (), (), "func")
            return
        block = op.regions[0].blocks[0]
        if title == "main":  # names and attributes of the inputs: donation, sharding
            marks = list(op.attributes["arg_attrs"]) if "arg_attrs" in op.attributes else []
            for index, argument in enumerate(block.arguments):
                mark = str(marks[index]) if index < len(marks) else "{}"
                name = getattr(argument.location, "name_str", "")
                if text := " ".join(filter(None, (name, shortened(mark) if mark != "{}" else ""))):
                    attrs[f"main arg{index}"] = text
        self._pending.append((title, "func", block))
        while self._pending:
            self._block(*self._pending.pop())

    def _block(self, title: str, kind: str, block: Any) -> None:
        """One block; the blocks inside its ops follow it."""
        parameters = tuple(map(self._value, block.arguments))
        nodes: list[Node] = []
        inner: list[tuple[str, str, Any]] = []
        results: tuple[str, ...] = ()
        for op in map(_plain, block.operations):
            name = op.name
            if name in CLOSING:
                results = tuple(self._values[v] for v in op.operands)
                continue
            blocks = list(_blocks(op, name)) if len(op.regions) else []
            op_name = name.rpartition(".")[2]
            titles = [unique(f"{op_name} {role}", self._region_names) for _, role in blocks]
            nodes.append(self._node(op, name, tuple(titles)))
            inner += [(t, "block", b) for t, (b, _) in zip(titles, blocks, strict=True)]
        self._regions[title] = Region(title, parameters, tuple(nodes), results, kind)
        self._pending += reversed(inner)

    def _value(self, value: Any) -> Value:
        name = self._values[value] = value.get_name(self._names)[1:]
        return Value(name, self._type(value.type))

    def _node(self, op: Any, name: str, inner: tuple[str, ...]) -> Node:
        values = tuple(map(self._value, op.results))
        attributes = op.attributes
        try:
            attrs = self._attrs(attributes) if len(attributes) else {}
        except TypeError:  # the bindings have no class for complex constants
            attrs = {}
            for key in attributes:
                try:
                    attrs[key] = self._text(attributes[key])
                except TypeError:
                    attrs[key] = constant_text(op)
        if name == "stablehlo.custom_call":  # MLIR's text omits these: text and module agree
            attrs = {k: v for k, v in attrs.items() if _UNSAID.get(k) != v}
        called = self._called(attrs) if attrs else ()
        names = self._values
        where, frames = self._place(op.location)
        node: Node = _new(Node)
        _set_id(node, f"s{self._next}")
        paths = self._stamps[self._next] if self._stamps else ()
        self._next += 1
        _set_opcode(node, name)
        _set_operands(node, tuple([names[operand] for operand in op.operands]))
        _set_results(node, values)
        _set_attrs(node, attrs)
        _set_regions(node, inner + called)
        _set_scope(node, where)
        _set_spans(node, frames)
        _set_text(node, "")
        _set_stamps(node, paths)
        _set_modules(node, ())
        return node

    def _called(self, attrs: dict[str, str]) -> tuple[str, ...]:
        """Functions that an op's attributes refer to."""
        symbols = [
            s for key in _CALLEES if key in attrs for s in attrs[key].strip("[]").split(", ")
        ]
        names = (symbol.removeprefix("@").strip('"') for symbol in symbols)
        return tuple(name for name in names if name in self._functions)

    def _type(self, kind: Any) -> Type:
        type_ = self._types.get(kind)
        if type_ is None:
            type_ = self._types[kind] = type_of(str(kind))
        return type_

    def _attrs(self, attributes: Any) -> dict[str, str]:
        return {name: self._text(attr) for name, attr in attributes.items()}

    def _text(self, attr: Any) -> str:
        text = self._texts.get(attr)
        if text is None:
            text = self._texts[attr] = attribute(attr, self._dense)
        return text


def _plain(op: Any) -> Any:
    """The operation itself: in a dialect's view `name` or `operands` may mean something else."""
    return op.operation


def _blocks(op: Any, name: str) -> Iterator[tuple[Any, str]]:
    """Every block of an op, with its role."""
    several = len(op.regions) > 1
    roles = _ROLES.get(name, ("body",))
    for index, region in enumerate(op.regions):
        role = roles[index] if index < len(roles) else f"branch {index}" if several else "body"
        for block in region.blocks:
            yield block, role
