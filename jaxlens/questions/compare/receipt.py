"""Receipts: facts of one program for a test or notebook to assert, each computed on first use.

    receipt = jaxlens.receipt(step, params, x)
    assert receipt.fusions == 2
    receipt.expect(equations=12, kernels=3)     # says what differs, and where
    receipt.within(peak="2GB", kernels=12)      # upper bounds, likewise
    assert receipt.fingerprint == "3c0f..."     # the same program as on that day

The fingerprint is made of the jaxpr (operations, parameters, types, dataflow) and of
StableHLO (which holds captured arrays too), names and source lines left out. Neither depends on
the machine, so it is the same in every process and on every machine with one version of JAX, for
one kind of device and one `jax.config`. What is compiled (fusions, kernels, memory) depends on the
machine's cores and its CPU too.
"""

import hashlib
from functools import cached_property
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.jaxpr.canonical import jaxpr_lines, stablehlo_text
from jaxlens.program.figures import FIGURES, Figures, figure_text, read_bounds
from jaxlens.program.kernels import inside
from jaxlens.program.sentences import lines_of, listed, named_inputs, opcodes
from jaxlens.questions.memory.facts import facts as memory_facts
from jaxlens.questions.memory.report import report as memory_report
from jaxlens.render.document import Code, Document
from jaxlens.report import Finding, amount, share
from jaxlens.views.view import View

_DIGITS = 16
_FEW, _SENTENCES = 8, 2  # fusions, and findings, in a failed assertion
_PORTABLE = tuple(name for name, figure in FIGURES.items() if not figure.compiled)


class Receipt(View[Figures]):
    """Facts of one program. Counting equations traces; a fact of the compile compiles, once.

    Attributes:
        capture: The program.
        equations: Equations of the jaxpr, each nested body once.
        primitives: Equations by primitive.
        flops: Arithmetic operations of the equations, of all devices, loops by their trips.
        transcendentals: Exponentials, roots and the like, likewise.
        bytes: Bytes of the results, and of what the equations read of the arguments.
        instructions: Instructions of the optimised program, each once; a fusion is one.
        fusions: Fusions of the optimised program that join several operations (not a single
            one).
        kernels: Kernels that XLA generated.
        library_calls: Calls of libraries.
        executions: How often kernels and library calls start in a run, loops by their
            trips.
        temporaries: Bytes of scratch memory, by XLA's buffer assignment.
        peak: Bytes in use at the worst moment of XLA's order, as `jaxlens.memory` counts
            them.
        on_chip: Bytes in use at most outside the device's main memory, such as in a TPU's
            VMEM.
        reserved: Bytes taken from start to end: arguments, results and scratch memory.
        xla_flops: XLA's own figure for the optimised program, each loop body once.
        xla_bytes: Bytes that instructions access by XLA's account, each loop body once.
        moved: Bytes of main memory that kernels read and write in a run, loops by their
            trips.
    """

    capture: Capture

    def __init__(self, capture: Capture) -> None:
        super().__init__(capture, self._document)
        self._computed: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """A figure by its name."""
        return self._fact(name) if name in FIGURES else super().__getattr__(name)

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that are the same for the same program; lowers, compiles nothing.

        Raises:
            UnavailableError: A saved capture has no StableHLO.
        """
        digest = hashlib.sha256()
        for line in jaxpr_lines(self.capture.jaxpr.module):
            digest.update(f"{line}\n".encode(errors="surrogatepass"))
        text = stablehlo_text(self.capture.stablehlo.text)
        digest.update(text.encode(errors="surrogatepass"))
        return digest.hexdigest()[:_DIGITS]

    @property
    def stable(self) -> str:
        """The facts that no machine changes, as text to keep beside a test. Compiles nothing."""
        deviations = [f"Not what runs: {sentence}" for sentence in self.capture.deviations]
        return "\n".join([self.title, *deviations, *self._stable_rows()])

    def _stable_rows(self) -> list[str]:
        kinds = ", ".join(k if n == 1 else f"{k} {n:,}" for k, n in self.primitives.items())
        rows = {name: figure_text(self.facts.get(name)) for name in _PORTABLE}
        rows["equations"] += f": {kinds}" if kinds else ""
        return _rows({"fingerprint": self.fingerprint, **rows})

    def figures(self, *, compiled: bool = True) -> dict[str, Any]:
        """Every fact by name, as plain data; None for what this backend does not give. Compiles.

        Args:
            compiled: Whether to include the facts of a compile; without them nothing is compiled.
        """
        figures = {name: self.facts.get(name) for name in (FIGURES if compiled else _PORTABLE)}
        self._computed.update(figures)
        return {"fingerprint": self.fingerprint, "primitives": dict(self.primitives), **figures}

    def expect(self, **facts: Any) -> None:
        """Asserts facts, and says of each that is another where it comes from.

        Args:
            **facts: Facts by name: `fusions=2, equations=12, fingerprint="3c0f..."`.

        Raises:
            AssertionError: A fact is another.
            OptionError: There is no such fact.
        """
        __tracebackhide__ = True
        names = ("fingerprint", "primitives", *FIGURES)
        wrong = []
        for name, expected in facts.items():
            if name not in names:
                raise OptionError(f"a receipt has no fact {name!r}; {nearest(name, names)}")
            fact = getattr(self, name)
            if fact != expected:
                wrong.append(f"  {name}: {figure_text(fact)}, expected {figure_text(expected)}")
                wrong += self._why(name)
        if wrong:
            raise AssertionError("\n".join([f"{self.title} is another program:", *wrong]))

    def within(self, **most: float | str) -> None:
        """Asserts upper bounds, and says of what is over its bound where it comes from.

        Args:
            **most: Bounds by name: `peak="2GB", flops=1e9, kernels=12`.

        Raises:
            AssertionError: A figure is larger.
            OptionError: There is no such figure, or a bound is no number.
            UnavailableError: This backend does not give a figure.
        """
        __tracebackhide__ = True
        over = []
        for name, bound in read_bounds(most).items():
            figure = self._fact(name)
            if figure > bound:
                unit = FIGURES[name].unit
                texts = (amount(x, unit) if unit else f"{x:,.10g}" for x in (figure, bound))
                over.append(f"  {name}: {' is over its budget of '.join(texts)}")
                over += self._owners(name) or self._why(name)
        if over:
            raise AssertionError("\n".join([f"{self.title} is too large:", *over]))

    def __eq__(self, other: object) -> bool:
        """Whether every fact is the same; compiles both, unless the fingerprints differ."""
        if not isinstance(other, Receipt):
            return NotImplemented
        return self.fingerprint == other.fingerprint and self.figures() == other.figures()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """One line with the facts that are known so far: what pytest shows of a failed assert."""
        facts = ", ".join(f"{name} {text}" for name, text in self._computed_facts().items())
        return f"<Receipt of {self.title}{facts and f': {facts}'}>"

    def __str__(self) -> str:
        """The stable text, and below it what is known of the compile so far."""
        return "\n".join([self.stable, *self._compiled_rows()])

    def _document(self) -> Document:
        rows = (*self._stable_rows(), *self._compiled_rows())
        return Document("receipt", self.title, (Code("text", "\n".join(rows)),))

    def _compiled_rows(self) -> list[str]:
        facts = self._computed_facts().items()
        return _rows({name: text for name, text in facts if name not in _PORTABLE})

    @property
    def title(self) -> str:
        """The function, its inputs and its device: `step(params, x f32[8]) for cpu`."""
        program = self.capture.program
        inputs = named_inputs(program.inputs)
        flags = f", {', '.join(program.flags)}" if program.flags else ""
        return f"{program.title}({inputs}) for {program.target.platform}{flags}"

    def _fact(self, name: str) -> int:
        """Returns a figure by name.

        Raises:
            UnavailableError: The backend does not provide it.
        """
        figure = self.facts.get(name)
        if figure is None:
            title, program = FIGURES[name].title, self.capture.program.name
            why = self.facts.missing.get(name, "this backend does not say")
            raise UnavailableError(f"no {title} of {program}: {why}")
        self._computed[name] = figure
        return figure

    def _computed_facts(self) -> dict[str, str]:
        known = self._computed
        return {name: figure_text(known[name]) for name in FIGURES if name in known}

    def _owners(self, name: str) -> list[str]:
        """Returns which lines own the memory or flops; [] for other figures."""
        findings: tuple[Finding, ...] = ()
        if name in ("temporaries", "peak", "reserved"):
            findings = memory_report(memory_facts(self.capture)).findings
        elif name == "flops":
            flops = self.facts.counted
            lines = sorted(flops.by_line.items(), key=lambda item: -item[1])
            shares = [f"{line or 'no line'} {share(n, flops.counted)}" for line, n in lines if n]
            return [f"    {listed(shares)}"]
        return [f"    {finding.text}" for finding in findings[:_SENTENCES]]

    def _why(self, name: str) -> list[str]:
        """Returns details of a fact that differs from the expected one."""
        if name in ("equations", "primitives"):
            kinds = [f"{kind} {n:,}" for kind, n in self.primitives.items()]
            return [f"    {listed(kinds, 3 * _FEW)}"]
        if name not in ("fusions", "kernels", "instructions"):
            return []
        module = self.capture.optimized.module
        fusions = [node for node in module.nodes() if node.opcode == "fusion"]
        rows = []
        for node in fusions[:_FEW]:
            fused = inside(node, module)
            lines = listed(lines_of(fused))
            rows.append(f"    {node.id}: {opcodes(fused)}{f' ({lines})' if lines else ''}")
        left = len(fusions) - len(rows)
        return [*rows, *([f"    and {left:,} more fusions"] if left else [])]


def _rows(facts: dict[str, str]) -> list[str]:
    return [f"  {name:<16} {text}" for name, text in facts.items()]
