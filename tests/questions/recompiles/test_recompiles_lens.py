"""The report of a hand-written compile log; JAX is not needed."""

from dataclasses import replace

from jaxlens.ir.compile_log import CallEvent, CompileLog, CompileStep, Cure, KeyChange, KeyPart
from jaxlens.ir.graph import Span
from jaxlens.questions.recompiles.report import document, facts, one_line, recompiles
from jaxlens.report import traced_again
from jaxlens.views.view import View

STEP = Span("cell 1", 3, 3, function="step")
WORK = (CompileStep("trace", 0.01), CompileStep("lower", 0.02), CompileStep("compile", 0.3))


def call(number, *changes, function="step", defined=STEP, line=2, steps=WORK, **more):
    at = Span("cell 2", line, line)
    return CallEvent(number, function, "user", at, defined, steps, steps[0].kind, changes, **more)


def size(new, old, name="x"):
    return KeyChange("type", name, f"f32[{new},4]", f"f32[{old},4]")


def op(name, line=5):
    return CallEvent(1, name, "op", Span("cell 2", line, line), None, WORK, "trace")


def sentences(*calls, where="in this cell"):
    return [finding.text for finding in recompiles(CompileLog(calls), where).findings]


def test_the_first_sentence():
    sizes = (31, 30, 29, 28, 27)
    calls = [call(n, size(new, new + 1)) for n, new in enumerate(sizes, 2)]
    assert sentences(call(1), *calls)[0] == (
        "step compiled 6 times in this cell, 5 times because x's first axis changed: "
        "32, 31, 30, 29, 28, 27."
    )


def test_two_causes_the_more_frequent_first():
    said = sentences(
        call(1),
        call(2, KeyChange("static", "n", "4", "3")),
        call(3, size(5, 6), size(5, 6, "y")),
        call(4, size(4, 5), size(4, 5, "y")),
    )
    assert said == [
        "step compiled 4 times in this cell, twice because x's first axis changed: 6, 5, 4 "
        "(and y with it); once because n is static and its value changed: 3, 4."
    ]


def test_the_function_that_compiled_most_comes_first():
    other = Span("cell 1", 9, 9)
    said = sentences(
        call(1, function="init", defined=other),
        call(2),
        call(3, size(1, 2)),
    )
    assert said[0].startswith("step compiled 2 times")
    assert said[1] == "Compiled for the first time: init."


def test_first_compiles_alone():
    assert sentences(call(1), call(2, function="init", defined=None)) == [
        "Nothing recompiled in this cell; 2 functions were compiled for the first time: "
        "step and init."
    ]


def test_nothing_at_all():
    assert sentences() == [
        "Nothing was traced or compiled in this cell: JAX's caches served every call."
    ]
    assert sentences(where="")[0].startswith("Nothing was traced or compiled: ")


def test_a_cure_says_whether_it_was_tried():
    tried = call(2, size(1, 2), cure=Cure("pad x", "traced so: it works", traced=True))
    untried = call(3, KeyChange("setting", "jax_enable_x64", "True", "False"), cure=Cure("set it"))
    report = recompiles(CompileLog((call(1), tried, untried)))
    assert [(f.text, f.trust) for f in report.findings[1:]] == [
        (f"Cure: pad x (traced so: it works). {traced_again(tried.function, 1)}", "traced"),
        ("Cure: set it (not tried).", "estimate"),
    ]


def test_causes_in_words():
    words = {
        KeyChange("type", "x", "f16[4]", "f32[4]"): "x's dtype changed: f32, f16",
        KeyChange("type", "x", "weak f32[]", "f32[]"): "x's weak type changed: f32[], weak f32[]",
        KeyChange("type", "x", "f32[1,4]", "f32[4]"): "x's shape changed: f32[4], f32[1,4]",
        KeyChange("type", "x", "f32[5]", "f32[4]"): "x's length changed: 4, 5",
        KeyChange("type", "x", "f32[2,5]", "f32[2,4]"): "x's second axis changed: 4, 5",
        KeyChange("type", "x", "i32[2]", "f32[]"): "x's type changed: f32[], i32[2]",
        KeyChange("type", "x", "f32[2]", "f32[]"): "x's shape changed: f32[], f32[2]",
        KeyChange(
            "place", "w", "committed to cpu:1", "not committed to a device"
        ): "w became committed to cpu:1",
        KeyChange(
            "place", "w", "committed to cpu:1", "committed to cpu:0"
        ): "w lies elsewhere: committed to cpu:0, committed to cpu:1",
        KeyChange(
            "setting", "jax_enable_x64", "True", "False"
        ): "jax_enable_x64 changed: False, True",
        KeyChange("structure", "p", "[*]", "(*,)"): "p came in other containers: (*,), [*]",
        KeyChange(
            "donated", "x", "donated", "not donated"
        ): "x was donated, and not donated before",
        KeyChange(
            "function", "step", "a new functools.partial of f"
        ): "it was a new functools.partial of f",
        KeyChange("new", "p['b']", "f32[]"): "p['b'] is new",
        KeyChange("gone", "p['b']", "", "f32[]"): "p['b'] is gone",
        KeyChange("option", "device", "cpu", "None"): "jit's device changed: None, cpu",
        KeyChange("lost", "step", "the caches were cleared"): "the caches were cleared",
    }
    for change, said in words.items():
        assert sentences(call(1), call(2, change))[0] == (
            f"step compiled 2 times in this cell, once because {said}."
        )


def test_operations_are_apart():
    said = sentences(call(1), op("add"), op("add"), op("add"), op("sin"))
    assert said[1] == (
        "Apart from these, 4 operations of JAX's own ran outside of jit, each compiled on its "
        "own: add 3 times and sin."
    )
    assert said[2] == (
        "Cure: call what runs at cell 2:5 within one jitted function, in the place of 4 programs "
        "(not tried)."
    )
    # A line that calls a jitted function too, as mcmc.run(...) does, cannot be within one.
    beside = sentences(call(1, line=5), op("add"), op("add"), op("add"))
    assert not any(said.startswith("Cure") for said in beside)
    assert sentences(op("add"))[0] == (
        "No function was compiled in this cell, but 1 operation of JAX's own ran outside of jit "
        "and was compiled on its own: add."
    )
    # The body of a loop is a function of the user's, and it was compiled.
    assert sentences(op("while"))[0] == (
        "1 operation of JAX's own ran outside of jit and was compiled on its own: while."
    )
    # A library's line has the loop: its body is no object of the user's.
    body = replace(op("while"), defined=Span("lib/nuts.py", 9, library=True), program="p")
    (said,) = sentences(body, body)[1:]
    assert said.endswith("call what runs at cell 2:5 within one jitted function.")
    # A line with three of forty operations is no cause.
    few = sentences(*[op("add")] * 3, *(op("sin", line=100 + n) for n in range(37)))
    assert not any(said.startswith("Cure") for said in few)


def test_disk_and_failures():
    loaded = (WORK[0], WORK[1], CompileStep("compile", 0.1, "disk"))
    failed = (CompileStep("trace", 0.1, failed="TypeError"),)
    said = sentences(
        call(1, steps=loaded, thread="loader"),
        call(2, function="bad", defined=None, steps=failed),
    )
    assert said[1:] == [
        "1 program came out of the persistent cache, not compiled by XLA: step.",
        "bad at cell 2:2 failed: TypeError while it was traced.",
    ]


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
    assert one_line(CompileLog((other, call(2, size(1, 2))))) == (
        "step at cell 2:2 (x: f32[1,4], was f32[2,4]); init at cell 2:2 (never called before)"
    )
    many = [call(n, size(n, n + 1)) for n in range(1, 7)]
    assert one_line(CompileLog(tuple(many))).endswith(", and 3 more")
    passes = [
        call(n, under="grad", parts=(KeyPart(name, "input", "f32[4]"),))
        for n, name in enumerate(("x", "input 0"), 1)
    ]
    assert one_line(CompileLog(tuple(passes))) == (
        "step under grad at cell 2:2 (never called before); "
        "step under grad, backward pass at cell 2:2 (never called before)"
    )
    loaded = call(1, steps=(CompileStep("compile", 0.1, "disk"),))
    assert one_line(CompileLog((loaded,))).endswith("; loaded from the persistent cache)")


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
    table = recompiles(CompileLog(calls), "in this cell").tables[-1]
    assert [row[0].text for row in table.rows][:2] == ["add", "op0"]
    assert (len(table.rows), table.note) == (
        12,
        "4 more, with no more programs each: .log.calls has all.",
    )
