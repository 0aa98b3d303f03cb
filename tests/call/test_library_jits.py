"""A library's jit wrapper shows the program that it runs: that of the `jax.jit` inside it."""

import functools
import inspect
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.support import jitted_programs
from tests.support.compiled_by_jax import fingerprint
from tests.support.jax_events import EVENTS, Compiles, listeners  # noqa: F401
from tests.support.model_programs import MARKS

pytestmark = [pytest.mark.backend, *MARKS, pytest.mark.reads_jax]

X = np.random.default_rng(0).normal(size=(32, 8)).astype(np.float32)
Y = X[:, :4] ** 2


def is_what_runs(capture, lowered):
    """Whether a capture has the program, the aliased buffers and the arguments of JAX's own."""
    compiled = lowered.compile()
    compiled = getattr(compiled, "compiled", compiled)  # Equinox's
    assert fingerprint(capture.driver.executable.as_text()) == fingerprint(compiled.as_text())
    assert capture.memory.aliases == compiled.memory_analysis().alias_size_in_bytes
    (entry,) = jax.tree.leaves([compiled.in_tree.num_leaves])
    assert len(capture.program.inputs) == entry
    assert len(capture.outputs) == compiled.out_tree.num_leaves
    return True


@pytest.fixture
def nnx():
    return pytest.importorskip("flax.nnx")


@pytest.fixture
def eqx():
    return pytest.importorskip("equinox")


@pytest.fixture
def parts(nnx):
    return jitted_programs.nnx_parts()


def state(nnx, *nodes):
    """Every array of some models, as NumPy's."""

    def numbers(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return [numbers(leaf) for node in nodes for leaf in jax.tree.leaves(nnx.state(node))]


def test_a_step_that_updates_model_and_optimiser_in_place(nnx, parts):
    model, opt, train_step = parts
    step = nnx.jit(train_step)
    capture = jaxlens.capture(step, model, opt, X, Y)
    assert is_what_runs(capture, step.lower(model, opt, X, Y))
    names = [i.name for i in capture.program.inputs]
    assert names[0] == "model.drop.rngs.count"
    assert names[2] == "model.first.bias"
    assert names[-2:] == ["x", "y"]
    outputs = [o.name for o in capture.outputs]
    assert outputs[-1] == "result"
    assert outputs[:-1] == [f"new {name}" for name in names[:-2]]
    assert capture.program.span.line == inspect.getsourcelines(train_step)[1]
    assert (capture.program.unjitted, capture.deviations) == (False, ())


def test_the_backward_pass_and_the_optimiser_are_alive(nnx, parts):
    model, opt, train_step = parts
    capture = jaxlens.capture(nnx.jit(train_step), model, opt, X, Y)
    products = [n for n in capture.jaxpr.module.nodes() if n.opcode == "dot_general"]
    assert len(products) == 5  # two forward, three backward: x needs no gradient
    assert all(capture.links.fate(node.id).name != "dead" for node in products)
    own, line = {}, inspect.getsourcelines(train_step)
    for node in capture.jaxpr.module.nodes():
        for span in node.spans:
            if span.function.endswith("train_step"):
                own[span.line - line[1]] = own.get(span.line - line[1], 0) + 1
    assert own.get(2), "no equation comes from the line of opt.update"


def test_looking_leaves_the_model_as_it_was(nnx, parts):
    model, opt, train_step = parts
    step = nnx.jit(train_step, donate_argnums=(0, 1))
    before = state(nnx, model, opt)
    capture = jaxlens.capture(step, model, opt, X, Y)
    _ = capture.tape, capture.optimized, capture.kernels
    for old, new in zip(before, state(nnx, model, opt), strict=True):
        np.testing.assert_array_equal(old, new)  # alive too: none was donated
    assert jaxlens.key(step, model, opt, X, Y).verdict.hit is False
    with jaxlens.recompiles() as log:
        first = step(model, opt, X, Y)
    assert [call.function for call in log.log.compiles] == ["train_step"]
    assert float(first) > float(step(model, opt, X, Y))
    assert all(i.donated for i in capture.program.inputs[:-2])


@pytest.mark.parametrize(
    "make",
    [
        lambda nnx, model, opt, step: (nnx.jit(step, donate_argnums=(0, 1)), (model, opt, X, Y)),
        lambda nnx, model, opt, step: (nnx.jit(lambda m, x: m(x)), (model, X)),
        lambda nnx, model, opt, step: (
            nnx.jit(lambda m, x, n: m(x) * n, static_argnums=2),
            (model, X, 3),
        ),
        lambda nnx, model, opt, step: (
            nnx.jit(lambda both: both["m"](both["x"])),
            ({"m": model, "x": X},),
        ),
        lambda nnx, model, opt, step: (
            nnx.jit(step, graph=True, graph_updates=False),
            (model, opt, X, Y),
        ),
    ],
)
def test_every_kind_of_nnx_jit(nnx, parts, make):
    jitted, args = make(nnx, *parts)
    capture = jaxlens.capture(jitted, *args)
    assert is_what_runs(capture, jitted.lower(*args))
    assert not any("states" in i.name for i in (*capture.program.inputs, *capture.outputs))


def test_names_without_graph_updates_and_of_a_variable_alone(nnx, parts):
    model, opt, train_step = parts
    step = nnx.jit(train_step, graph=True, graph_updates=False)
    outputs = [o.name for o in jaxlens.capture(step, model, opt, X, Y).outputs]
    assert outputs[0] == "result"
    assert {"new model.norm.mean.value", "new optimizer.step.value"} <= set(outputs)
    assert len(set(outputs)) == len(outputs)

    @nnx.jit
    def count(steps):
        steps[...] += 1

    capture = jaxlens.capture(count, nnx.Variable(jnp.int32(0)))
    assert [i.name for i in capture.program.inputs] == ["steps"]
    assert [o.name for o in capture.outputs] == ["new steps"]


def test_methods_and_partials_of_what_nnx_jitted(nnx, parts):
    model, opt, train_step = parts
    step, direct = nnx.jit(train_step), type(model).fast
    lowered = step.lower(model, opt, X, Y)
    names = [i.name for i in jaxlens.capture(step, model, opt, X, Y).program.inputs]
    for bound in (functools.partial(step, model, opt), nnx.cached_partial(step, model, opt)):
        capture = jaxlens.capture(bound, X, Y)
        assert is_what_runs(capture, lowered)
        assert [i.name for i in capture.program.inputs] == names
    assert is_what_runs(jaxlens.capture(model.fast, X), direct.lower(model, X))


def test_nnx_scan_and_a_shared_layer(nnx):
    class Tied(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 8, rngs=rngs)
            self.second = self.first

    @nnx.jit
    def step(model, x):
        def body(x, _):
            return model.second(model.first(x)), None

        grads = nnx.grad(lambda m: m.second(m.first(x)).sum())(model)
        model.first.bias[...] += grads["first"]["bias"][...]
        return jax.lax.scan(body, x, None, length=3)[0]

    model = Tied(nnx.Rngs(0))
    capture = jaxlens.capture(step, model, X)
    assert is_what_runs(capture, step.lower(model, X))
    assert [i.name for i in capture.program.inputs] == [
        "model.first.bias",
        "model.first.kernel",
        "x",
    ]


def test_whether_a_call_of_a_librarys_jit_hits_is_known(nnx, eqx, parts):
    model, opt, train_step = parts
    net = eqx.nn.Linear(8, 4, key=jax.random.key(0))
    evaluate = eqx.filter_jit(lambda net, x, flag: jax.vmap(net)(x) * (2 if flag else 1))
    for jitted, args, other, reason in (
        (
            nnx.jit(train_step),
            (model, opt, X, Y),
            (model, opt, X[:3], Y[:3]),
            ("x: f32[3,8], was f32[32,8]", "y: f32[3,4], was f32[32,4]"),
        ),
        (evaluate, (net, X, True), (net, X, False), ("flag: static value False, was True",)),
        (
            jax.pmap(lambda x: x * 2),
            (X[None],),
            (X[None, :3],),
            ("x: f32[1,3,8], was f32[1,32,8]",),
        ),
    ):
        never = jaxlens.key(jitted, *args).verdict
        assert (never.hit, never.reasons) == (False, ("never called before",))
        with Compiles() as truth, jaxlens.recompiles() as log:
            jitted(*args)
        assert len(truth.names) == 1
        assert jaxlens.key(jitted, *args).verdict.hit is True
        assert jaxlens.capture(jitted, *args).verdict.hit is True
        with Compiles() as truth:
            jitted(*args)
        assert truth.names == []
        key = jaxlens.key(jitted, *other)
        assert (key.verdict.hit, key.verdict.reasons) == (False, reason)
        for compiled in log.log.compiles:
            parts = jaxlens.key(jitted, *args).parts[: len(compiled.parts)]
            if compiled.parts[0].name == "input 0":  # JAX hands the leaves of pmap's arguments on
                parts = (replace(parts[0], name="input 0"), *parts[1:])
            assert parts == compiled.parts


def test_equinox_steps_with_their_statics_and_donation(eqx):
    net = eqx.nn.MLP(8, 4, 16, 2, key=jax.random.key(0))

    def step(net, x, y, rate=0.1):
        loss, grads = eqx.filter_value_and_grad(lambda n: jnp.mean((jax.vmap(n)(x) - y) ** 2))(net)
        return eqx.apply_updates(net, jax.tree.map(lambda g: -rate * g, grads)), loss

    for donate in ("none", "all", "all-except-first"):
        jitted = eqx.filter_jit(step, donate=donate)
        capture = jaxlens.capture(jitted, net, X, Y, rate=0.2)
        assert is_what_runs(capture, jitted.lower(net, X, Y, rate=0.2))
        assert {i.name: i.donated for i in capture.program.inputs}["net.layers[0].weight"] == (
            donate == "all"
        )
        assert {s.name: s.text for s in capture.program.statics}["rate"] == "0.2"
        assert [o.name for o in capture.outputs][:2] == [
            "marker of filter_jit",
            "result[0].layers[0].weight",
        ]
        assert capture.outputs[-1].name == "result[1]"


def test_equinox_modules_methods_and_shapes(eqx):
    class Scale(eqx.Module):
        w: jax.Array
        n: int = eqx.field(static=True)

        @eqx.filter_jit
        def __call__(self, x, *, rate=0.1):
            return x @ self.w * self.n * rate

        @eqx.filter_jit
        def apply(self, x):
            return x @ self.w

    scale = Scale(jnp.ones((8, 3)), 2)
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    for call, direct in ((scale, Scale.__call__), (scale.apply, Scale.apply)):
        for x in (X, shape):
            capture = jaxlens.capture(call, x)
            assert is_what_runs(capture, direct.lower(scale, X))
            assert [i.name for i in capture.program.inputs] == ["self.w", "x"]
    whole = eqx.filter_jit(scale)
    assert is_what_runs(jaxlens.capture(whole, X), whole.lower(X))


def test_pmap_with_axes_statics_and_donation():
    for jitted, args in (
        (jax.pmap(lambda a, b: a + b.sum(), in_axes=(0, None)), (X[None], Y)),
        (jax.pmap(lambda p, n: p["w"] * n, static_broadcasted_argnums=1), ({"w": X[None]}, 3)),
        (jax.pmap(lambda p: p["w"] * 2, donate_argnums=0), ({"w": jnp.ones((1, 3))},)),
    ):
        capture = jaxlens.capture(jitted, *args)
        assert is_what_runs(capture, jitted.lower(*args))
        assert capture.program.inputs[0].name in ("a", "p['w']")


def test_asking_makes_no_entry_in_jaxs_caches(nnx, eqx, parts):
    model, opt, train_step = parts
    jitted = (
        (nnx.jit(train_step), (model, opt, X, Y)),
        (eqx.filter_jit(lambda x: x * 2), (X,)),
        (jax.pmap(lambda x: x * 3), (X[None],)),
        (eqx.filter_pmap(lambda x: x * 4), (X[None],)),
    )
    for f, args in jitted:
        _ = jaxlens.capture(f, *args).optimized, jaxlens.key(f, *args)
    for f, args in jitted:
        EVENTS.clear()
        f(*args)
        kinds = [event[0].rpartition("/")[2] for event in EVENTS if isinstance(event, tuple)]
        for kind in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile"):
            assert kinds.count(f"{kind}_duration"), f"{kind} of {f} was served from a cache"


def test_what_is_called_lower_is_no_jit():
    class Bounds:
        def __init__(self):
            self.lower = jnp.zeros(3)

        def __call__(self, x):
            return jnp.maximum(x, self.lower)

    class Words:
        def __init__(self):
            self.__wrapped__ = lambda x: x * 2

        def lower(self, *_):
            return "lower"

        def __call__(self, x):
            return x * 2

    x = jnp.ones(3)
    for f in (Bounds(), Words()):
        capture = jaxlens.capture(f, x)
        assert [i.name for i in capture.program.inputs] == ["x"]
        assert capture.program.unjitted


def test_wrong_arguments_are_the_librarys_own_error(eqx, parts):
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        jaxlens.capture(eqx.filter_jit(lambda x, y: x), X)


def test_another_threads_lowering_is_its_own(eqx):
    """A library's call is intercepted in its own thread only."""
    import threading

    inside, done = threading.Event(), threading.Event()

    class Slow:
        def __init__(self):
            self.jitted = jax.jit(lambda x: x + 1)
            self.__wrapped__ = self.jitted

        def lower(self, x):
            inside.set()
            assert done.wait(60)
            return self.jitted.lower(x)

        def __call__(self, x):
            return self.jitted(x)

    texts = []

    def other():
        inside.wait(60)
        texts.append(jax.jit(lambda x: x * 7).lower(X).as_text())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    capture = jaxlens.capture(Slow(), X)
    thread.join()
    assert "multiply" in texts[0]
    assert [n.opcode for n in capture.jaxpr.module.nodes()] == ["add"]
    assert "add" in jax.jit(lambda x: x + 1).lower(X).as_text()


@pytest.mark.models
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_memory_of_a_model_has_the_users_names():
    """Inputs that are not read are left out by JAX, which names the others in Flax's containers."""
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(32, 64, rngs=nnx.Rngs(0))
    x = jnp.ones((16, 32))

    @nnx.jit(donate_argnames=("model",))
    def step(model, unused, x):
        model.kernel[...] = model.kernel[...] * 0.9
        return model(x)

    answer = jaxlens.memory(step, model, x, x)
    names = [value.name for value in answer.at_peak if value.kind == "argument"]
    assert sorted(names) == ["model.bias", "model.kernel", "x"]
    donated = {one.name: one.result for one in answer.donations if one.donated}
    assert donated == {"model.kernel": "new model.kernel", "model.bias": "new model.bias"}
    assert "does not read it" not in str(answer)


def test_the_option_that_donates_is_that_of_the_users_jit(nnx, eqx):
    def twice(x):
        return x * 2

    jits = [(jax.jit, "jax.jit"), (nnx.jit, "nnx.jit"), (eqx.filter_jit, "eqx.filter_jit")]
    for jit, name in jits:
        cap = jaxlens.capture(jit(twice), X)
        assert cap.program.jit == name
        said = " ".join(str(jaxlens.memory(cap)).split())
        option = 'donate="all"' if name == "eqx.filter_jit" else "donate_argnames=('x',)"
        assert f"{option} in {name}" in said
