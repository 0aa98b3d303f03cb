"""The driver of a saved capture: without JAX or a device; parts of the file are read on use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

from jaxlens.errors import CaptureFileError, ReadError, UnavailableError
from jaxlens.ir.driver import Extra, RecordedDriver
from jaxlens.ir.fact import SAVED, FactRow, T
from jaxlens.ir.facts import KERNEL_TEXTS, Kernel, PassStage, Program, Source, Stage, lazy_kernel
from jaxlens.ir.graph import Module, Span
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Origins, origins
from jaxlens.ir.jaxpr.canonical import jaxpr_lines
from jaxlens.ir.saved import file as saved_file
from jaxlens.ir.saved.columns import from_columns
from jaxlens.ir.saved.facts import from_json
from jaxlens.ir.saved.rules import check
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stablehlo.text import functions
from jaxlens.ir.stage import BY_NAME
from jaxlens.ir.text_store import Texts, from_bytes, memory

_BAD = (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
# Bounds of the characters of texts, by the bytes of the file: lines are stored once, and could be
# repeated at will. The dumps of a training step are 120 times their file, each at most 3 times.
_LEAST, _ONE_TEXT, _ALL_TEXTS = 16 << 20, 10, 500


@dataclass(frozen=True, slots=True)
class _PassRow:
    """A pass in the manifest."""

    index: int
    pipeline: str
    name: str
    changed: bool
    before: str
    title: str
    text: int


class SavedDriver(RecordedDriver):
    """The driver of a saved capture."""

    def __init__(self, archive: saved_file.Archive, manifest: dict[str, Any]) -> None:
        """Reads the manifest; texts and modules of the stages are read on use.

        Raises:
            CaptureFileError: The manifest is damaged.
        """
        self._archive = archive
        self._groups: dict[str, Texts] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._stages: dict[str, Stage] = {}
        get = manifest.get
        self.program = self._read(Program, get("program"))
        self._missing = self._read(Mapping[str, str], get("missing"))
        self._numbers = self._read(Mapping[str, int], get("stages"))
        self._pass_rows = self._read(tuple[_PassRow, ...], get("passes"))
        self._from_text = self._read(tuple[str], get("read_from_text", []))
        facts, kernels = get("facts"), get("kernels")
        if not isinstance(facts, dict) or not isinstance(kernels, list):
            raise archive.wrong("its manifest is damaged")
        self._facts = {
            row.name: self._read(row.type, facts[row.name]) for row in SAVED if row.name in facts
        }
        self._kernels = tuple(map(self._kernel, kernels))

    def _read(self, kind: Any, data: Any) -> Any:
        try:
            return from_json(kind, data)
        except _BAD:
            raise self._archive.wrong("its manifest is damaged") from None

    def _kernel(self, row: Any) -> Kernel:
        if not isinstance(row, dict):
            raise self._archive.wrong("its manifest is damaged")
        texts = {
            key: partial(self._text, "code.bin", self._read(int, row[key]))
            for key in KERNEL_TEXTS
            if key in row
        }
        kernel = self._read(Kernel, {key: row[key] for key in row.keys() - texts.keys()})
        return lazy_kernel(kernel, texts)

    def _text(self, group: str, number: int) -> str:
        """One text of a group, no longer than the bound."""
        if group not in self._groups:
            self._groups[group] = self._read_texts(group)
        texts = self._groups[group]
        if not 0 <= number < len(texts):
            raise self._archive.wrong(f"{group} has no text {number}")
        # Kernels and passes may refer to one text a thousand times; it is joined once.
        if (group, number) not in self._texts:
            self._texts[group, number] = texts[number]
        return self._texts[group, number]

    def _read_texts(self, group: str) -> Texts:
        """The texts of a group, after a check of the length of each and of all."""
        with self._archive.part(group) as part:
            result, temporary = memory(part)
            self._archive.claim(result, group)
            with self._archive.claimed(temporary, group):
                try:
                    texts = from_bytes(part)
                except (CaptureFileError, *_BAD):
                    raise self._archive.wrong(f"{group} is damaged") from None
        left = _LEAST + _ALL_TEXTS * self._archive.size
        for length in texts.lengths():
            left -= length
            if left < 0 or length > _LEAST + _ONE_TEXT * self._archive.size:
                raise self._archive.wrong(f"a text of {group} is too long")
        return texts

    def _absent(self, name: str) -> UnavailableError:
        return UnavailableError(self._missing.get(name, f"{name} is not in this file"))

    def fact(self, row: FactRow[T]) -> T:
        held: dict[str, Any] = self._facts
        if row.name not in held and row.name in ("kernels", "sources"):
            if row.name in self._missing:
                raise self._absent(row.name)
            held[row.name] = self._kernels if row.name == "kernels" else self._sources
        if row.name not in held:
            raise self._absent(row.name)
        return cast(T, held[row.name])

    def recorded(self) -> frozenset[Extra]:
        costly: set[Any] = {row.name for row in SAVED if row.costs}
        return super().recorded() | (costly & self._facts.keys())

    def stage(self, name: str) -> Stage:
        if name not in self._stages:
            if name not in self._numbers:
                raise self._absent(name)
            self._stages[name] = self._stage(name, self._numbers[name])
        return self._stages[name]

    def _stage(self, name: str, number: int) -> Stage:
        if name in ("jaxpr", "stablehlo"):
            text = partial(self._text, "early.bin", number)
            if name == "stablehlo" and name in self._from_text:
                read = partial(self._module, name, lambda: stablehlo.read(text()))
                return Stage(
                    BY_NAME[name],
                    text,
                    lambda: self._named(read()),
                    plain=lambda: stablehlo.without_locations(text()),
                )
            # The record of a job has no text of the jaxpr, which takes JAX long to print.
            stage = Stage(
                BY_NAME[name],
                lambda: text() or "\n".join(jaxpr_lines(stage.module)),
                lambda: self._columns(name),
            )
            return stage
        if name in ("llvm", "asm"):
            return Stage(BY_NAME[name], partial(self._text, "code.bin", number))
        return self._hlo(name, number)

    def _hlo(self, name: str, number: int, title: str = "", like: Stage | None = None) -> Stage:
        """A stage that is HLO; `like` is one of equal text, whose module both share."""

        def read() -> Module:
            if like is not None:
                return like.module
            origins = self._origins
            module = self._module(name, lambda: hlo.read(text(), stage=name, origins=origins))
            return self._named(module)

        text = partial(self._text, "hlo.bin", number)
        return Stage(BY_NAME[name], text, read, title)

    @cached_property
    def _origins(self) -> Origins | None:
        if "stablehlo" not in self._numbers:
            return None
        return origins(lambda: self.stage("stablehlo").module)

    def _columns(self, name: str) -> Module:
        most = _LEAST + _ONE_TEXT * self._archive.size
        with self._archive.json(f"{name}.json") as columns:
            module = self._module(name, lambda: from_columns(columns, most))
        body = module.body()
        if name == "jaxpr" and len(body.parameters) - body.constants != len(self.program.inputs):
            raise self._archive.wrong("its jaxpr has other arguments than its program")
        if name == "stablehlo":
            defined = functions(self.stage(name).raw)  # none where a later MLIR prints otherwise
            held = {r.name for r in module.regions.values() if r.kind == "func" and r.nodes}
            if defined and not held <= defined <= module.regions.keys():
                raise self._archive.wrong("its StableHLO is of another program than the text")
        return module

    def _module(self, name: str, read: Callable[[], Module]) -> Module:
        """A module of the file, after a check of what lenses and views rely on."""
        try:
            module = read()
            check(module)
        except (ReadError, *_BAD):
            raise self._archive.wrong(f"its {name} is damaged") from None
        return module

    def _named(self, module: Module) -> Module:
        """Gives files in the new module, in place, the names that they had when it was saved.

        In this process cells have other numbers, and files other neighbours.
        """
        sources = {} if "sources" in self._missing else self._sources
        renamed: dict[tuple[Span, ...], tuple[Span, ...]] = {}
        for node in module.nodes():
            if node.spans and node.spans not in renamed:
                renamed[node.spans] = tuple(
                    replace(span, file=source.file, library=source.library)
                    if (source := sources.get(span.key))
                    else span
                    for span in node.spans
                )
            if node.spans and renamed[node.spans] != node.spans:
                object.__setattr__(node, "spans", renamed[node.spans])
        return module

    def passes(self) -> tuple[PassStage, ...]:
        if not self._pass_rows:
            raise self._absent("passes")
        return self._passes

    @cached_property
    def _passes(self) -> tuple[PassStage, ...]:
        dumps: list[PassStage] = []
        for row in self._pass_rows:
            like = dumps[-1].stage if dumps and not row.changed else None
            stage = self._hlo("passes", row.text, row.title, like)
            dump = PassStage(row.index, row.pipeline, row.name, stage, row.changed, row.before)
            dumps.append(dump)
        return tuple(dumps)

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        with self._archive.json("sources.json") as sources:
            return cast(Mapping[str, Source], self._read(Mapping[str, Source], sources))
