"""The line trace of known functions: steps, variables, equations and notes."""

import gc
import sys
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import core
from jaxlens.core import numpy as cnp
from jaxlens.errors import UnavailableError
from jaxlens.lines import record as stages_tape

pytestmark = pytest.mark.reads_jax

X = np.ones((2, 4), np.float32)
log = []
count = 0


def layer(h, w):
    return jnp.tanh(h @ w)


def model(params, x, flag=True):
    global count
    count += 1
    h = x
    for w in params:
        h = layer(h, w)
        log.append(1)
    if flag:  # noqa: SIM108 - two branches
        h = h * 2
    else:
        h = h - 1
    n = h.shape[0]
    while n > 1:
        n //= 2
    return h.sum() / n


PARAMS = [np.ones((4, 4), np.float32)] * 3
FIRST = model.__code__.co_firstlineno


def at(offset: int) -> str:
    return f"test_line_trace.py:{FIRST + offset}"


def test_steps_are_the_lines_that_python_ran() -> None:
    ran = []

    def follow(frame, event, _):
        if frame.f_code.co_filename == __file__:
            ran.append((event, frame.f_lineno))
            return follow
        return None

    before = sys.gettrace()
    sys.settrace(follow)
    jax.make_jaxpr(model)(PARAMS, X)
    sys.settrace(before)
    tape = jaxlens.tape(model, PARAMS, X)
    assert [(s.event, s.line) for s in tape.steps] == ran
    assert sys.gettrace() is before


def test_equations_stand_with_the_line_that_recorded_them() -> None:
    tape = jaxlens.tape(model, PARAMS, X)
    nodes = list(tape.capture.jaxpr.module.nodes())
    made = [id for step in tape.steps for id in step.made]
    assert made == [node.id for node in nodes]
    owner = {node.id: node.owner.line for node in nodes}
    assert all(owner[id] == step.line for step in tape.steps for id in step.made)


def test_loops_branches_and_what_happens_now_only() -> None:
    tape = jaxlens.tape(model, PARAMS, X)
    loops = [(one.line, one.times, one.equations) for one in tape.loops]
    assert loops == [(at(4), 3, 6), (at(12), 1, 0)]  # a product and a tanh each time
    assert [(one.line, one.taken) for one in tape.branches] == [(at(7), True)]
    words = " ".join(str(tape).split())
    assert f"The loop at {at(4)} was unrolled: 3 passes, 6 equations." in words
    assert f"Only one branch of the if at {at(7)} is in the program" in words
    assert f"global count is bound anew ({at(2)})" in words
    assert f"log ({at(6)})" in words
    other = jaxlens.tape(jax.jit(model, static_argnums=2), PARAMS, X, False)
    assert [(one.line, one.taken) for one in other.branches] == [(at(7), False)]


def test_variables_are_told_without_calling_anything() -> None:
    class Shy:
        def __repr__(self):
            raise AssertionError("looked at")

    def f(x):
        shy = Shy()
        y = x + 1
        few = [y, 3, "text"]
        many = {"a": x, "b": shy}
        return y, few[0], many["a"]

    tape = jaxlens.tape(f, jnp.ones(3))
    bound = {b.name: b.text for s in tape.steps for b in s.bound}
    assert bound["x"] == bound["y"] == "tracer f32[3]"
    assert bound["shy"] == "Shy object"
    assert bound["few"] == "[tracer f32[3], 3, 'text']"
    assert bound["many"] == "{'a': tracer f32[3], 'b': Shy object}"
    assert bound["returns"] == "(tracer f32[3], tracer f32[3], tracer f32[3])"


def test_what_was_printed_is_kept_and_still_printed(capsys) -> None:
    def f(x):
        print("shape", x.shape)
        return x * 2

    out = sys.stdout
    tape = jaxlens.tape(f, jnp.ones(3))
    line = f.__code__.co_firstlineno + 1
    assert tape.printed == (f"test_line_trace.py:{line}",)
    assert sys.stdout is out
    assert capsys.readouterr().out == "shape (3,)\n"


def test_the_backward_pass_comes_when_the_function_is_done() -> None:
    tape = jaxlens.tape(jax.grad(model), PARAMS, X)
    last = tape.steps[-1]
    assert last.event == "after"
    stacks = [
        str(e.source_info.name_stack) for e in jax.make_jaxpr(jax.grad(model))(PARAMS, X).eqns
    ]
    backward = [f"e{n}" for n, stack in enumerate(stacks) if "transpose" in stack]
    assert set(backward) <= set(last.made)
    assert tape.after == len(last.made)


def test_inner_functions_that_are_jitted_or_looped() -> None:
    @jax.jit
    def inner(x):
        return jnp.sin(x)

    def f(x):
        y = inner(x)
        return jax.lax.scan(lambda c, _: (c * 2, None), y, None, 3)[0]

    tape = jaxlens.tape(f, 1.0)
    opcode = {n.id: n.opcode for n in tape.capture.jaxpr.module.nodes()}
    made = {opcode[i]: s.function.split(".")[-1] for s in tape.steps for i in s.made}
    assert made["sin"] == "inner"
    assert made["mul"] == "<lambda>"
    assert made["scan"] == "f"


def test_of_the_core() -> None:
    def f(x):
        for i in range(2):
            x = cnp.sin(x) * i
        return x

    tape = jaxlens.tape(core.grad(f), 1.0)
    assert tape.loops[0].times == 2
    nodes = {n.id for n in tape.capture.jaxpr.module.nodes()}
    assert {i for s in tape.steps for i in s.made} == nodes


def test_a_tape_that_is_asked_for_late_is_traced_again() -> None:
    cap = jaxlens.capture(model, PARAMS, X)
    nodes = [node.id for node in cap.jaxpr.module.nodes()]
    assert [i for s in cap.tape.steps for i in s.made] == nodes


def test_one_trace_serves_both() -> None:
    calls = []

    def f(x):
        calls.append(1)
        return x + 1

    cap = jaxlens.capture(f, 1.0)
    assert cap.tape.steps
    assert cap.jaxpr.text
    assert cap.optimized.text
    assert len(calls) == 1


def test_a_saved_capture_keeps_its_tape(tmp_path) -> None:
    cap = jaxlens.capture(model, PARAMS, X)
    text = str(jaxlens.tape(cap))
    cap.save(tmp_path / "with.jaxlens", stages=["jaxpr"])
    assert str(jaxlens.tape(jaxlens.load(tmp_path / "with.jaxlens"))) == text
    other = jaxlens.capture(model, PARAMS, X)
    other.save(tmp_path / "without.jaxlens", stages=["jaxpr"])
    with pytest.raises(UnavailableError):
        str(jaxlens.tape(jaxlens.load(tmp_path / "without.jaxlens")))
    other.stablehlo.text
    assert jaxlens.tape(other).loops == jaxlens.tape(cap).loops


def test_the_users_error_is_the_users_and_nothing_stays_behind() -> None:
    def f(x):
        raise ValueError("mine")

    before, out = sys.gettrace(), sys.stdout
    with pytest.raises(ValueError, match="mine"):
        str(jaxlens.tape(f, 1.0))
    assert sys.gettrace() is before
    assert sys.stdout is out


def test_a_long_trace_is_cut_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(stages_tape, "MOST", 50)

    def f(x):
        for _ in range(100):
            x = x + 1
        return x

    tape = jaxlens.tape(f, 1.0)
    assert tape.cut
    assert len(tape.steps) <= 52
    assert "more steps than are kept" in str(tape)


def test_names_are_text() -> None:
    def f(x):
        note = "<script>alert(1)</script>"
        return x, len(note)

    markup = jaxlens.tape(f, jnp.ones(2)).html()
    assert "<script>alert" not in markup


def test_a_generator_goes_on_where_it_paused() -> None:
    def three(x):
        for i in range(3):
            yield x * i

    def f(x):
        total = 0
        for part in three(x):
            total = total + part
        return total

    tape = jaxlens.tape(f, 1.0)
    loops = {one.line: (one.times, one.equations) for one in tape.loops}
    inner, outer = three.__code__.co_firstlineno + 1, f.__code__.co_firstlineno + 2
    assert loops == {f"test_line_trace.py:{inner}": (3, 3), f"test_line_trace.py:{outer}": (3, 5)}
    own = [s for s in tape.steps if s.function.endswith("three")]
    assert [s.event for s in own if s.event != "line"] == (
        "call yield resume yield resume yield resume return".split()
    )
    assert [s.bound[-1].name for s in own if s.event in ("yield", "return")] == [
        "yields",
        "yields",
        "yields",
        "returns",
    ]


def test_a_condition_that_raises_decides_nothing() -> None:
    def inner(x):
        raise KeyError("a")

    def f(x):
        try:
            if x > 0:
                x = x * 2
        except jax.errors.TracerBoolConversionError:
            x = x + 1
        try:
            inner(x)
        except KeyError:
            x = x - 1
        return x

    tape = jaxlens.tape(f, 1.0)
    assert not tape.branches
    first = f.__code__.co_firstlineno
    raised = {s.line - first: s.raised for s in tape.steps if s.raised and s.event == "line"}
    line = inner.__code__.co_firstlineno + 1 - first
    assert raised == {2: "TracerBoolConversionError", 7: "KeyError", line: "KeyError"}
    left = next(s for s in tape.steps if s.event == "return" and s.function.endswith("inner"))
    assert [(b.name, b.text) for b in left.bound] == [("raises", "KeyError")]
    at = next(n for n, s in enumerate(tape.steps) if s.raised)
    assert tape.notes[at] == ("raises TracerBoolConversionError",)


def test_what_is_differentiated_within_a_loop_stands_with_its_line() -> None:
    def f(x):
        def body(c, _):
            c = jnp.sin(c)
            return c, c * 2

        return jax.lax.scan(body, x, None, 3)[1].sum()

    tape = jaxlens.tape(jax.grad(f), 1.0)
    nodes = {n.id: n for n in tape.capture.jaxpr.module.nodes()}
    first = f.__code__.co_firstlineno
    made = {s.line - first: [nodes[i].opcode for i in s.made] for s in tape.steps if s.made}
    assert made[2] == ["sin", "cos"]
    assert made[3] == ["mul"]
    assert all(i in nodes for s in tape.steps for i in s.made)
    assert sum(len(s.made) for s in tape.steps) == len(nodes)


def test_no_method_of_a_users_class_is_called() -> None:
    asked = []

    def trap(name):
        def method(self, *args):
            asked.append(name)
            raise AssertionError(name)

        return method

    names = ["__repr__", "__str__", "__len__", "__iter__", "__eq__", "__bool__"]
    methods = {name: trap(name) for name in names}
    shy = type("Shy", (), {**methods, "__class__": property(trap("__class__"))})
    more = type("More", (list,), methods)
    globals()["_HELD"] = more([1, 2])

    def f(x):
        a, b = shy(), _HELD  # noqa: F821 - set above
        both = (a, b)
        del both
        return x + 1

    bound = {b.name: b.text for s in jaxlens.tape(f, 1.0).steps for b in s.bound}
    del globals()["_HELD"]
    assert not asked
    assert bound["a"] == "Shy object"
    assert bound["both"] == "(Shy object, More object)"


def test_no_tracer_lives_on() -> None:
    seen = []

    def f(x):
        y = x + 1
        seen.append(weakref.ref(y))
        return y * 2

    cap = jaxlens.capture(f, jnp.ones(3))
    assert cap.tape.steps
    gc.collect()
    assert seen[0]() is None


def test_what_another_thread_prints_is_not_the_lines(capsys) -> None:
    def f(x):
        other = threading.Thread(target=print, args=("elsewhere",))
        other.start()
        other.join()
        return x + 1

    tape = jaxlens.tape(f, 1.0)
    assert tape.printed == ()
    assert capsys.readouterr().out == "elsewhere\n"


def test_what_a_library_traces_within_a_line_stands_with_that_line() -> None:
    def f(x):
        mask = jnp.tril(jnp.ones((3, 3), bool))
        return jax.nn.relu(jnp.where(mask, x, 0.0))

    tape = jaxlens.tape(f, jnp.ones((3, 3)))
    assert tape.after == 0
    nodes = {n.id: n.opcode for n in tape.capture.jaxpr.module.nodes()}
    lines = {i: s.line - f.__code__.co_firstlineno for s in tape.steps for i in s.made}
    assert lines.keys() == nodes.keys()
    assert {nodes[i]: line for i, line in lines.items()}["max"] == 2
    assert {line for i, line in lines.items() if nodes[i] == "iota"} == {1}


def test_a_listener_is_no_step() -> None:
    heard: list[str] | None = []

    def listener(name, *_, **__):
        if heard is not None:
            heard.append(name)

    jax.monitoring.register_event_duration_secs_listener(listener)
    tape = jaxlens.tape(jax.jit(layer), np.ones((2, 4), np.float32), PARAMS[0])
    functions = {step.function for step in tape.steps}
    told, heard = heard, None  # JAX keeps its listeners for good; this one falls silent
    assert told
    assert functions == {"layer"}
