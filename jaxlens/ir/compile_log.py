"""The log of a watch: what JAX traced, lowered and compiled, as frozen data.

A `CallEvent` is a call for which JAX did more than start a program: it traced, lowered or compiled
the function. It has the key that the call was looked up by, part by part, and what differs from the
nearest earlier key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jaxlens.ir.facts import Constant, Verdict
from jaxlens.ir.graph import Span

KeyPartKind = Literal["function", "input", "static", "structure", "option", "setting", "mesh"]
KeyChangeKind = Literal[
    "function",
    "type",
    "new",
    "gone",
    "static",
    "structure",
    "option",
    "setting",
    "mesh",
    "place",
    "donated",
    "lost",
    "other",
    "field",
    "calling",
    "closed",
]
CompileStepKind = Literal["trace", "lower", "compile"]
CacheLayer = Literal["", "trace", "lower", "compile"]

TYPE_TEXT = re.compile(r"(weak )?([\w<>]+)\[([^\]]*)\](.*)")
"""The text of a type in a key: weakness, dtype, shape, sharding."""

DISK_PARTS: Mapping[str, str] = {
    "program": "the program differs",
    "jaxlib": "jaxlib is another",
    "backend": "the backend is another",
    "flags": "XLA's flags differ",
    "options": "the compile options differ",
    "devices": "the devices differ",
    "compression": "the cache is compressed in another way",
    "hook": "the key's custom hook differs",
}
"""The parts of a key of the persistent cache, and what is said where one differs."""

LOOPS = ("scan", "while", "cond")
"""Operations that take functions. Outside of jit, each new function is a new program."""

_FIRST = ("function", "setting", "option", "donated", "structure", "field", "static")
_TEXTS: Mapping[str, str] = {
    "function": "{name}: {new}",
    "new": "{name}: new",
    "gone": "{name}: gone",
    "static": "{name}: static value {new}, was {old}",
    "structure": "{name}: pytree {new}, was {old}",
    "field": "{name}: kept in the pytree {new}, was {old}",
    "closed": "{name}, which it closes over: {new}, was {old}",
    "calling": "{name}: passed {new}, was {old}",
    "option": "jit's {name}: {new}, was {old}",
    "lost": "{new}",
    "other": "{new}",
}
_TEXT = "{name}: {new}, was {old}"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One part of a key.

    Attributes:
        name: The argument's pytree path, or the option's or setting's name.
        kind: What kind of part it is.
        text: Its value: a type ("f32[64,784]"), a static value, a setting.
        place: Where an input lies ("committed to cpu:1"); part of the compile cache's key.
        holder: The class of an input ("jax.Array", "numpy.ndarray", "float"); part of the fast
            path's key.
    """

    name: str
    kind: KeyPartKind
    text: str
    place: str = ""
    holder: str = ""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One difference between two keys; `str(change)` is the line that is shown."""

    kind: KeyChangeKind
    name: str
    new: str = ""
    old: str = ""

    def __str__(self) -> str:
        text = _TEXTS.get(self.kind, _TEXT).format(name=self.name, new=self.new, old=self.old)
        return text.removesuffix(", was ")


_FEWEST = 3  # arrays of one container whose changes are one
_OF_ARRAYS = ("place", "new", "gone", "donated", "option")
_STEP = re.compile(r"^[^.\[]++|\.[^.\[]++|\[[^\[\]]*+\]")


def merged(changes: Sequence[KeyChange]) -> tuple[KeyChange, ...]:
    """The changes, with equal ones of a container's arrays as one: "14 arrays of params: new".

    Moving an optimiser's state to a device is one change to the user.
    """
    groups: dict[object, list[KeyChange]] = {}
    for change in changes:
        values = () if change.kind in ("new", "gone") else (change.new, change.old)
        like = (change.kind, root(change.name), *values)
        groups.setdefault(like if change.kind in _OF_ARRAYS else id(change), []).append(change)
    merged_changes: list[KeyChange] = []
    created = recreated_objects(changes)
    for group in groups.values():
        outer = container([change.name for change in group])
        if len(group) >= _FEWEST and outer:
            is_option = group[0].kind == "option"
            name = (
                f"{outer} ({len(group):,} leaves)"
                if is_option
                else f"{len(group):,} arrays of {outer}"
            )
            merged_changes.append(replace(group[0], name=name))
        elif created.get(name := group[0].name, name) != name:
            merged_changes.append(KeyChange(group[0].kind, created[name], "another object"))
        else:
            merged_changes += group
    return tuple(dict.fromkeys(merged_changes))


def recreated_objects(changes: Sequence[KeyChange]) -> dict[str, str]:
    """Maps each object that equals no other to what the user created: that object or its container.

    Where the functions `opt.tx.init` and `opt.tx.update` are new, the user created a new `opt.tx`.
    """
    names = [change.name for change in changes if change.new.startswith("another ")]
    outer = {name: container([name]) for name in names}
    several = {c for c in outer.values() if c != root(c) and [*outer.values()].count(c) > 1}
    return {name: c if c in several else name for name, c in outer.items()}


def container(names: Sequence[str]) -> str:
    """The innermost container of all these paths: "state.opt_state"; "" for none."""
    shared = []
    for steps in zip(*(_STEP.findall(name)[:-1] for name in names), strict=False):
        if len(set(steps)) > 1:
            break
        shared.append(steps[0])
    return "".join(shared)


def root(name: str) -> str:
    """The argument that a path begins with."""
    return next(iter(_STEP.findall(name)), name)


def field_name(name: str) -> str:
    """What a pytree keeps beside its arrays: a field, or all of a class that names no fields."""
    return f"the aux data of {name}" if name == root(name) else name


@dataclass(frozen=True, slots=True)
class CompileStep:
    """One step of a call.

    Attributes:
        kind: What was done.
        seconds: How long it took, as JAX reports; None where it reports nothing.
        served: "memory" for a trace found in an inner cache of JAX's; "disk" for a program found
            in the persistent cache; "" for work that was done.
        failed: Name of the exception that it ended in.
        others: How many programs of that name the persistent cache had under other keys when it
            missed; None where it hit or was not used.
        unkept: Why a program that the persistent cache did not hold is not in it now either; ""
            for one that is, and where the cache was not used.
        differs: The parts (of `DISK_PARTS`) in which its key in the persistent cache differs from
            the last of its name that this process asked for; () where it hit or there was none.
    """

    kind: CompileStepKind
    seconds: float | None
    served: str = ""
    failed: str = ""
    others: int | None = None
    unkept: str = ""
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cure:
    """What would avoid a recompile.

    Attributes:
        text: What to do.
        tried: What a trial of it showed; "" if it was not tried.
        traced: Whether the trial traced the call again; else keys or programs were compared.
    """

    text: str
    tried: str = ""
    traced: bool = False


@dataclass(frozen=True, slots=True)
class Replication:
    """A value that XLA could reshard only by replicating it on every device of the mesh.

    Attributes:
        instruction: The HLO instruction that makes it, before partitioning.
        piece: Type of one device's piece ("f32[64,32]").
        old: Its sharding, as HLO prints it.
        new: The sharding that its reader needs.
        lines: The user's lines that it came from, innermost first.
        mesh: Names and sizes of the mesh axes; empty if the program declares none.
        whole: Type of the whole value; "" where unknown, as for the next two.
        old_spec: Its sharding as a PartitionSpec.
        new_spec: The sharding that its reader needs as a PartitionSpec.
    """

    instruction: str
    piece: str
    old: str
    new: str
    lines: tuple[Span, ...] = ()
    mesh: tuple[tuple[str, int], ...] = ()
    whole: str = ""
    old_spec: str = ""
    new_spec: str = ""


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One call for which JAX did more than start a program.

    Attributes:
        number: Order among the calls of its role, from 1.
        function: The function's name.
        role: "user" for a function of the user's or of a library; "op" for one of JAX's own that
            was called outside of jit and so compiled on its own.
        line: The user's line that called; None where the stack has none.
        defined: Where the function is defined; None for JAX's own functions, but the library's line
            for one of `LOOPS` that a library calls.
        steps: What was done, in order.
        layer: The first of JAX's caches that missed.
        changes: What differs from the nearest earlier key; empty for a first call.
        earlier: How many earlier keys the function had.
        parts: The key.
        thread: The thread that called, where it was not the one that watches; else "".
        under: The transform that ran it op by op ("grad"): no call of the function itself.
        program: Fingerprint of the StableHLO program; "" where it was not compiled, and for an
            operation that is none of `LOOPS`.
        cure: What would avoid it; None for a first call.
        bytes: What its program needs on one device: arguments, outputs, temporaries and the arrays
            that it closes over. None where the watch does not read it, or the backend does not
            give it.
        captured: The large arrays that its program contains, where the watch reads them.
        replicated: What XLA could not reshard, where the watch reads it.
        transforms: The transforms inside its jit, outermost first: of `jax.jit(jax.vmap(step))`,
            "vmap".
        disk_key: A hash of each part (of `DISK_PARTS`) of its key in the persistent cache. Empty
            where that was not asked, and where JAX's key is made otherwise.
    """

    number: int
    function: str
    role: Literal["user", "op"]
    line: Span | None
    defined: Span | None
    steps: tuple[CompileStep, ...]
    layer: CacheLayer
    changes: tuple[KeyChange, ...] = ()
    earlier: int = 0
    parts: tuple[KeyPart, ...] = ()
    thread: str = ""
    under: str = ""
    program: str = ""
    cure: Cure | None = None
    bytes: int | None = None
    captured: tuple[Constant, ...] = ()
    replicated: tuple[Replication, ...] = ()
    transforms: tuple[str, ...] = ()
    disk_key: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """The name: "step", "vmap(step)", or "step under grad" where a transform ran it."""
        name = "(".join((*self.transforms, self.function)) + ")" * len(self.transforms)
        return f"{name} under {self.under}" if self.under else name

    @property
    def identity(self) -> tuple[str, Span | None, str]:
        """What is compared with earlier calls: function, definition and transform.

        Without the number of the defining cell, which changes whenever the cell is run.
        """
        place = self.line if self.role == "op" else self.defined
        if place is not None and place.key:
            place = replace(place, file="")
        return self.function, place, self.under or "(".join(self.transforms)

    def step(self, kind: CompileStepKind) -> CompileStep | None:
        """The step of that kind, or None."""
        return next((step for step in self.steps if step.kind == kind), None)

    @property
    def compiled(self) -> bool:
        """Whether a program was made for it, by XLA or out of the persistent cache."""
        return self.step("compile") is not None

    @property
    def loaded(self) -> bool:
        """Whether its program was in the persistent cache."""
        step = self.step("compile")
        return step is not None and step.served == "disk"

    @property
    def backward(self) -> bool:
        """Whether it is the backward pass of a function under `grad`: its inputs have no names."""
        unnamed = [part.name.startswith("input ") for part in self.parts]
        return self.under in ("grad", "value_and_grad", "vjp") and unnamed != [] and all(unnamed)

    @property
    def seconds(self) -> float:
        """Seconds of all its steps."""
        return sum(step.seconds or 0.0 for step in self.steps)

    @property
    def main(self) -> KeyChange:
        """The change that brings the others with it: 64 bits change every type, but no shape."""
        ranks = {kind: rank for rank, kind in enumerate(_FIRST)}
        if any(c.kind == "type" and _difference(c)[0] in ("axis", "shape") for c in self.changes):
            ranks["setting"] = len(_FIRST) + 1
        return min(self.changes, key=lambda change: ranks.get(change.kind, len(_FIRST)))

    @property
    def cause(self) -> tuple[str, ...]:
        """What recompiles for one reason have in common: kind, argument, and what differs in it.

        A type differs in ("axis", "0"), ("shape",), ("dtype",), ("weak",) or more ("type",).
        """
        main = self.main
        if main.kind in ("new", "gone"):  # of one container that grows or shrinks
            return (main.kind, root(main.name))
        return (main.kind, main.name, *(_difference(main) if main.kind == "type" else ()))

    @property
    def reason(self) -> str:
        """What differs, in one line."""
        first = "never called before"
        if self.layer in ("lower", "compile") and not self.under:
            first = "traced before, never compiled"
        return "; ".join(map(str, merged(self.changes))) or first


def _difference(change: KeyChange) -> tuple[str, ...]:
    new, old = TYPE_TEXT.fullmatch(change.new), TYPE_TEXT.fullmatch(change.old)
    if not new or not old:
        return ("type",)
    (dtype, shape), (was_dtype, was_shape) = new.group(2, 3), old.group(2, 3)
    if dtype == was_dtype and shape != was_shape:
        sizes, before = shape.split(","), was_shape.split(",")
        if not (shape and was_shape) or len(sizes) != len(before):
            return ("shape",)  # a scalar has no axis
        axes = [i for i, (a, b) in enumerate(zip(sizes, before, strict=True)) if a != b]
        return ("axis", str(axes[0])) if len(axes) == 1 else ("shape",)
    if shape == was_shape and dtype != was_dtype:
        return ("dtype",)
    return ("weak",) if shape == was_shape and new[1] != old[1] else ("type",)


@dataclass(frozen=True, slots=True)
class CallKey:
    """What a call would be looked up by.

    Attributes:
        function: The function's name.
        parts: The parts that the call sets.
        verdict: Whether JAX's caches hold it, and what differs from the nearest key where not.
    """

    function: str
    parts: tuple[KeyPart, ...]
    verdict: Verdict

    @property
    def hit(self) -> bool | None:
        """Whether the call would hit; None if that is unknown."""
        return self.verdict.hit

    @property
    def layer(self) -> str:
        """The first cache that would miss: "trace", "compile"; "" for a hit."""
        return self.verdict.layer

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each difference to the nearest earlier key."""
        return self.verdict.reasons


@dataclass(frozen=True, slots=True)
class CompileLog:
    """Everything that was traced, lowered and compiled during a watch.

    Attributes:
        calls: In order.
        trouble: What could not be seen with this version of JAX, in sentences.
        going: Whether the watch goes on.
    """

    calls: tuple[CallEvent, ...] = ()
    trouble: tuple[str, ...] = ()
    going: bool = False

    @property
    def compiles(self) -> tuple[CallEvent, ...]:
        """Calls of functions, not of single operations, for which a program was made."""
        return tuple(c for c in self.calls if c.compiled and c.role == "user")

    @property
    def operations(self) -> tuple[CallEvent, ...]:
        """JAX's own functions that were called outside of jit and compiled on their own."""
        return tuple(c for c in self.calls if c.compiled and c.role == "op")

    @property
    def recompiles(self) -> tuple[CallEvent, ...]:
        """Compiles of functions that had been compiled before, for another key."""
        return tuple(call for call in self.compiles if call.changes)
