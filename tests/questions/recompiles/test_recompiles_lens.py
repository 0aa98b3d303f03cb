"""The report of a hand-written compile log; JAX is not needed."""

from dataclasses import replace

from jaxlens.ir.compile_log import CallEvent, CompileLog, CompileStep, Cure, KeyChange, KeyPart
from jaxlens.ir.graph import Span
from jaxlens.questions.recompiles.facts import facts
from jaxlens.questions.recompiles.report import document, error_text, recompiles_report
from jaxlens.views.view import View
from tests.support.documents import approved

STEP = Span("cell 1", 3, 3, function="step")
WORK = (CompileStep("trace", 0.01), CompileStep("lower", 0.02), CompileStep("compile", 0.3))


def call(number, *changes, function="step", defined=STEP, line=2, steps=WORK, **more):
    at = Span("cell 2", line, line)
    return CallEvent(number, function, "user", at, defined, steps, steps[0].kind, changes, **more)


def size(new, old, name="x"):
    return KeyChange("type", name, f"f32[{new},4]", f"f32[{old},4]")


def op(name, line=5):
    return CallEvent(1, name, "op", Span("cell 2", line, line), None, WORK, "trace")


X64 = KeyChange("setting", "jax_enable_x64", "True", "False")
LOADED = (WORK[0], WORK[1], CompileStep("compile", 0.1, "disk"))
FAILED = (CompileStep("trace", 0.1, failed="TypeError"),)
LOOP = replace(op("while"), defined=Span("lib/nuts.py", 9, library=True), program="p")
LOGS = {
    "sizes that fall": (call(1), *(call(n, size(33 - n, 34 - n)) for n in range(2, 7))),
    "two causes, the more frequent first": (
        call(1),
        call(2, KeyChange("static", "n", "4", "3")),
        call(3, size(5, 6), size(5, 6, "y")),
        call(4, size(4, 5), size(4, 5, "y")),
    ),
    "the function that compiled most comes first": (
        call(1, function="init", defined=Span("cell 1", 9, 9)),
        call(2),
        call(3, size(1, 2)),
    ),
    "first compiles alone": (call(1), call(2, function="init", defined=None)),
    "nothing at all": (),
    "cures, one of them tried": (
        call(1),
        call(2, size(1, 2), cure=Cure("pad x", "traced so: it works", traced=True)),
        call(3, X64, cure=Cure("set it")),
    ),
    "operations are apart": (call(1), *[op("add")] * 3, op("sin")),
    # A line that calls a jitted function too, as mcmc.run(...) does, cannot be within one.
    "operations in a line that calls a jitted function": (call(1, line=5), *[op("add")] * 3),
    "one operation": (op("add"),),
    # The body of a loop is a function of the user's, and it was compiled.
    "a loop outside of jit": (op("while"),),
    # A library's line has the loop: its body is no object of the user's.
    "a loop of a library": (LOOP, LOOP),
    # A line with three of forty operations is no cause.
    "many lines": (*[op("add")] * 3, *(op("sin", line=100 + n) for n in range(37))),
    "from disk, and failed": (
        call(1, steps=LOADED, thread="loader"),
        call(2, function="bad", defined=None, steps=FAILED),
    ),
}
CAUSES = (
    KeyChange("type", "x", "f16[4]", "f32[4]"),
    KeyChange("type", "x", "weak f32[]", "f32[]"),
    KeyChange("type", "x", "f32[1,4]", "f32[4]"),
    KeyChange("type", "x", "f32[5]", "f32[4]"),
    KeyChange("type", "x", "f32[2,5]", "f32[2,4]"),
    KeyChange("type", "x", "i32[2]", "f32[]"),
    KeyChange("type", "x", "f32[2]", "f32[]"),
    KeyChange("place", "w", "committed to cpu:1", "not committed to a device"),
    KeyChange("place", "w", "committed to cpu:1", "committed to cpu:0"),
    X64,
    KeyChange("structure", "p", "[*]", "(*,)"),
    KeyChange("donated", "x", "donated", "not donated"),
    KeyChange("function", "step", "a new functools.partial of f"),
    KeyChange("new", "p['b']", "f32[]"),
    KeyChange("gone", "p['b']", "", "f32[]"),
    KeyChange("option", "device", "cpu", "None"),
    KeyChange("lost", "step", "the caches were cleared"),
)


def test_what_is_said_of_each_log():
    logs = LOGS | {f"{why.kind}: {why.new}, {why.old}": (call(1), call(2, why)) for why in CAUSES}
    lines = []
    for name, calls in logs.items():
        found = recompiles_report(CompileLog(calls), "in this cell").findings
        lines += [f"{name}:", *(f"  {finding.trust}: {finding.text}" for finding in found)]
    approved("recompiles", "\n".join(lines))


def test_nothing_at_all_is_said_without_a_place_too():
    (finding,) = recompiles_report(CompileLog(())).findings
    assert finding.text.startswith("Nothing was traced or compiled: ")


def test_the_figures():
    log = CompileLog((call(1), call(2, size(1, 2)), op("add")))
    figures = facts(log)
    counts = figures.compiles, figures.recompiles, figures.operations, figures.traces
    assert counts == (2, 1, 1, 2)
    assert figures.by_function == {"step": 2}
    assert figures.reasons == ("step: x: f32[1,4], was f32[2,4]",)
    assert round(figures.seconds, 2) == 0.99


def test_the_line_of_an_error_names_recompiles_first():
    other = call(3, function="init", defined=None)
    assert error_text(CompileLog((other, call(2, size(1, 2))))) == (
        "step at cell 2:2 (x: f32[1,4], was f32[2,4]); init at cell 2:2 (never called before)"
    )
    many = [call(n, size(n, n + 1)) for n in range(1, 7)]
    assert error_text(CompileLog(tuple(many))).endswith(", and 3 more")
    passes = [
        call(n, under="grad", parts=(KeyPart(name, "input", "f32[4]"),))
        for n, name in enumerate(("x", "input 0"), 1)
    ]
    assert error_text(CompileLog(tuple(passes))) == (
        "step under grad at cell 2:2 (never called before); "
        "step under grad, backward pass at cell 2:2 (never called before)"
    )
    loaded = call(1, steps=(CompileStep("compile", 0.1, "disk"),))
    assert error_text(CompileLog((loaded,))).endswith("; loaded from the persistent cache)")


TEXT = """\
2 compiles

- step compiled 2 times in this cell, once because x's first axis changed: 2, 1.

Calls that were not served from JAX's caches
  #  function  called at  what is new in the key     what JAX did
  -  --------  ---------  -------------------------  -------------------------
  1  step      cell 2:2   never called before        traced, lowered, compiled
  2  step      cell 2:2   x: f32[1,4], was f32[2,4]  traced, lowered, compiled

Time of each step: left out, it changes from run to run; .text(times=True) writes it
"""


def test_the_text_is_stable_and_without_seconds():
    parts = (KeyPart("x", "input", "f32[1,4]", "", "numpy.ndarray"),)
    view = View(
        None,
        lambda: document(CompileLog((call(1), call(2, size(1, 2), parts=parts))), "in this cell"),
    )
    text = view.text()
    assert text.startswith(TEXT)
    assert "300 ms" not in text
    assert "300 ms" in view.text(times=True)
    assert "numpy.ndarray" in view.text(full=True)
    assert "numpy.ndarray" in view.html()
    assert view.json()["verb"] == "recompiles"


def test_names_are_text():
    evil = call(1, KeyChange("static", "n", "'<script>'", "1"), function="<img>")
    html = View(None, lambda: document(CompileLog((evil,)))).html()
    assert "<script>'" not in html
    assert "&lt;img&gt;" in html


def test_many_calls_are_cut_and_said():
    calls = tuple(call(n, size(n, n + 1)) for n in range(1, 2_001))
    view = View(None, lambda: document(CompileLog(calls)))
    assert "1,800 more: .log.calls has all" in view.text(full=True)
    assert len(view.html()) < 400_000


def test_of_many_operations_those_of_most_programs_are_listed():
    calls = (*(op(f"op{n}") for n in range(15)), op("add"), op("add"))
    table = recompiles_report(CompileLog(calls), "in this cell").tables[-1]
    assert [row[0].text for row in table.rows][:2] == ["add", "op0"]
    assert (len(table.rows), table.note) == (
        12,
        "4 more, with no more programs each: .log.calls has all.",
    )
