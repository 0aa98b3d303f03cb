"""Every cause of a recompile: the reason given, and the count compared with JAX's."""

import functools
import gc
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.support.jax_events import Compiles, jitted_sum, stop_watches
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((128, 784), np.float32)


@pytest.fixture(autouse=True)
def _first_calls():
    stop_watches()


def watched(*calls):
    """The log of all calls but the first; its count of compiles must be JAX's."""
    calls[0]()
    with Compiles() as truth, jaxlens.recompiles() as log:
        for call in calls[1:]:
            call()
    assert len(log.log.compiles) + len(log.log.operations) == len(truth.names)
    assert not log.log.trouble
    return log


def reasons(log):
    return [call.reason for call in log.log.calls if call.role == "user"]


# ---- the eleven ways -------------------------------------------------------------------------

REASONS = {
    "x: f32[64,784], was f32[128,784]": (X, X[:64]),
    "x: f32[1,128,784], was f32[128,784]": (X, X[None]),
    "x: f16[128,784], was f32[128,784]": (X, X.astype(np.float16)),
    "x: weak f32[], was f32[]": (np.float32(1), 1.0),
    "x: pytree PyTreeDef([*, *]), was PyTreeDef((*, *))": ((1.0, 2.0), [1.0, 2.0]),
    "x['b']: new": ({"w": 1.0}, {"w": 1.0, "b": 2.0}),
}
STATIC = {
    "n: static value 4, was 3": (3, 4),
    "n: static value 1.0, was 1": (1, 1.0),  # equal numbers of two types are two keys to JAX
    "n[0][1][1]: static value 7, was 4": ((("sizes", (3, 4)),), (("sizes", (3, 7)),)),
}


@pytest.mark.parametrize("reason", REASONS)
def test_another_argument(reason):
    f, (before, after) = jitted_sum(), REASONS[reason]
    assert reasons(watched(lambda: f(before), lambda: f(after))) == [reason]


@pytest.mark.parametrize("reason", STATIC)
def test_another_static_value(reason):
    f, (before, after) = jax.jit(lambda x, n: x * 2, static_argnames="n"), STATIC[reason]
    log = watched(lambda: f(X, n=before), lambda: f(X, n=after))
    assert reasons(log) == [reason]
    assert log.findings[0].text.startswith("<lambda> compiled again: n")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: lambda x: x * 2, "a new function object of the same lambda"),
        (lambda: functools.partial(np_like, 2), "a new functools.partial of np_like"),
        (lambda: Model().double, "a new bound method double"),
        (lambda: jax.grad(loss), "a new function that jax.grad made of loss"),
    ],
)
def test_a_new_function_object_in_a_loop(make, says):
    with Compiles() as truth, jaxlens.recompiles() as log:
        for _ in range(3):
            jax.jit(make())(X)
            gc.collect()
    assert truth.names == [f"jit({log.log.compiles[0].function})"] * 3
    first, *again = log.log.compiles
    assert first.reason == "never called before"
    assert [call.changes[0].kind for call in again] == ["function", "function"]
    assert says in again[0].reason
    assert "test_recompiles.py:" in again[0].reason
    assert ", twice because it was a new" in log.findings[0].text
    assert "all 3 are equal" in log.findings[1].text


def np_like(n, x):
    return x * n


def loss(x):
    return (x * x).sum()


class Model:
    def double(self, x):
        return x * 2


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (lambda: jax.enable_x64(True), "jax_enable_x64: True, was False; x: weak f64[], was weak"),
        (
            lambda: jax.default_matmul_precision("float32"),
            "jax_default_matmul_precision: 'float32', was None",
        ),
        (lambda: jax.numpy_dtype_promotion("strict"), "jax_numpy_dtype_promotion: "),
        (lambda: jax.default_device(jax.devices()[0]), "jax_default_device: "),
    ],
)
def test_a_setting(setting, says):
    f = jitted_sum()

    def under():
        with setting():
            f(1.0)

    (reason,) = reasons(watched(lambda: f(1.0), under))
    assert reason.startswith(says)


def test_debug_nans_is_no_part_of_the_key():
    f = jitted_sum()

    def under():
        with jax.debug_nans(True):
            f(X)

    assert [c for c in watched(lambda: f(X), under).log.calls if c.compiled] == []


def test_donated():
    def f(x):
        return x * 2

    here = jnp.asarray(X)
    log = watched(lambda: jax.jit(f)(here), lambda: jax.jit(f, donate_argnums=0)(here + 0))
    assert reasons(log) == ["x: donated, was not donated"]
    assert [step.served for step in log.log.recompiles[0].steps] == ["memory", "", ""]


def test_an_option_of_jit():
    def f(x):
        return x * 2

    asked = {"xla_cpu_enable_fast_math": True}
    log = watched(lambda: jax.jit(f)(X), lambda: jax.jit(f, compiler_options=asked)(X))
    (reason,) = reasons(log)
    assert reason.startswith("jit's compiler_options: (('xla_cpu_enable_fast_math', True)")


def test_committed():
    f = jitted_sum()
    here = jnp.asarray(X)
    log = watched(lambda: f(here), lambda: f(jax.device_put(here, jax.devices()[0])))
    (call,) = log.log.recompiles
    assert [step.kind for step in call.steps] == ["lower", "compile"]  # JAX says nothing of it
    assert call.reason.startswith("x: committed to ")
    assert call.reason.endswith(", was not committed to a device")
    assert "x became committed to " in log.findings[0].text


def test_a_numpy_array_after_a_jax_array_compiles_nothing():
    f = jitted_sum()
    with jaxlens.recompiles() as log:
        f(jnp.asarray(X))
        f(X)
    assert len(log.log.calls) == log.compiles == 1


DEVICES = """
    import jax, numpy as np
    jax.config.update("jax_num_cpu_devices", 8)
    import jaxlens
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), "i")
    f = jax.jit(lambda w: w * 2)
    w = np.ones((8, 4), np.float32)
    f(w)
    with jaxlens.recompiles() as log:
        f(jax.device_put(w, jax.devices()[1]))
        f(jax.device_put(w, NamedSharding(mesh, P("i"))))
        f(jax.device_put(w, NamedSharding(mesh, P(None))))
        jax.jit(lambda w: w + 1, out_shardings=NamedSharding(mesh, P("i")))(w)
    for call in log.log.calls:
        if call.role == "user":
            print(call.layer, "|", call.reason)
    print(log.findings[0].text)
"""


def test_devices_and_shardings():
    lines = run_python(textwrap.dedent(DEVICES)).splitlines()
    assert lines[0] == "lower | w: committed to cpu:1, was not committed to a device"
    assert lines[1] == "trace | w: committed as P('i',) over 8 devices, was on no mesh"
    assert lines[2].startswith("lower | w: committed as P(None,) over 8 devices, was ")
    assert lines[3] == "trace | never called before"
    assert "because w lies elsewhere: not committed to a device, committed to cpu:1" in lines[4]


IMPORT = """
    import jax, numpy as np
    from jax._src import config
    f = jax.jit(lambda x, n: x * n, static_argnums=1)
    before = len(config.trace_context_names())
    f(np.ones(3), 1)
    import jaxlens
    with jaxlens.recompiles() as log:
        f(np.ones(3), 1)
        f(np.ones(3), 2)
    assert log.compiles == 1, log
    assert "traced so: it works" in str(log), log
    assert len(config.trace_context_names()) == before, "watching changes every key"
    import jax.extend  # brings Pallas's settings from jax 0.12 on
    with jaxlens.recompiles() as log:
        f(np.ones(3), 1)
    if len(config.trace_context_names()) == before:
        assert log.compiles == 0
    else:
        assert "JAX's settings: " in log.log.compiles[0].reason, log
        assert "a module that was imported since" in log.log.compiles[0].reason, log
"""


def test_the_import_of_a_module_that_has_settings():
    run_python(textwrap.dedent(IMPORT))


# ---- what is no recompile --------------------------------------------------------------------


def test_cached_calls_are_not_told_of():
    f = jitted_sum()
    f(X)
    with jaxlens.recompiles() as log:
        f(X)
    assert log.log.calls == ()
    assert log.findings[0].text == (
        "Nothing was traced or compiled: JAX's caches served every call."
    )


def test_inner_functions_are_no_compiles_of_their_own():
    inner = jax.jit(lambda x: jnp.where(x > 0, x, 0))

    @jax.jit
    def outer(x):
        return inner(x) + inner(x * 2)

    with Compiles() as truth, jaxlens.recompiles() as log:
        outer(X)
    assert truth.names == ["jit(outer)"]
    assert [(c.function, [s.kind for s in c.steps]) for c in log.log.calls] == [
        ("outer", ["trace", "lower", "compile"])
    ]


def test_operations_outside_of_jit_are_apart():
    with Compiles() as truth, jaxlens.recompiles() as log:
        y = jnp.sin(np.ones((3, 5, 7), np.float32))
        y @ jnp.ones((3, 7, 2))
    assert log.compiles == 0
    assert log.operations == len(truth.names) >= 2
    assert "operations of JAX's own ran outside of jit" in log.findings[-1].text


def test_a_scan_outside_of_jit_compiles_its_body_each_time():
    with jaxlens.recompiles() as log:
        for _ in range(2):
            jax.lax.scan(lambda c, x: (c + x, c), 0.0, np.ones(11, np.float32))
    assert any("lax.scan outside of jit compiled 2 times" in f.text for f in log.findings)


def test_a_jitted_function_under_grad():
    f = jax.jit(lambda q: (q * q).sum())
    with Compiles() as truth, jaxlens.recompiles() as log:
        for n in (3, 4):
            jax.grad(f)(np.ones(n, np.float32))
    mine = [c for c in log.log.compiles if c.under == "grad"]
    assert len(mine) == truth.names.count("jit(<lambda>)") == 4  # forward and backward, twice
    assert "q: f32[4], was f32[3]" in [c.reason for c in mine]
    assert "under grad compiled 4 times, once because q's length" in log.findings[0].text


def test_traced_lowered_and_compiled_step_by_step():
    f = jitted_sum()
    with jaxlens.recompiles() as log:
        lowered = f.lower(X)
        lowered.compile()
        f(X)
    (call, *rest) = [c for c in log.log.calls if c.steps]
    assert [step.kind for step in call.steps] == ["trace", "lower", "compile"]
    assert rest == []


def test_a_new_jit_of_the_same_function_compiles_nothing():
    def f(x):
        return x + 1

    jax.jit(f)(X)
    with jaxlens.recompiles() as log:
        jax.jit(f)(X)
    assert log.compiles == log.traces == 0


def test_caches_that_were_cleared_between_two_watches():
    f = jitted_sum()
    for was_cleared in (False, True):
        with jaxlens.recompiles() as log:
            f(X)
            f(X[:2])
        reasons = [call.reason for call in log.log.compiles]
        assert ["clear_cache() was called" in reason for reason in reasons] == [was_cleared, False]
        jax.clear_caches()


def test_our_own_looks_are_not_the_users():
    f = jitted_sum()
    with jaxlens.recompiles() as log:
        str(jaxlens.hlo(f, X))
    assert [c for c in log.log.calls if c.role == "user"] == []


# ---- which earlier key -----------------------------------------------------------------------


def test_the_nearest_earlier_key_is_named():
    f = jitted_sum(static_argnames="n")
    f(X, n=2)
    f(X[:64], n=8)
    with jaxlens.recompiles() as log:
        f(X[:32], n=8)
    assert reasons(log) == ["x: f32[32,784], was f32[64,784]"]
    assert log.log.calls[0].earlier == 2


def test_a_static_object_that_equals_no_other():
    class Config:
        pass

    f = jitted_sum(static_argnames="n")
    f = jax.jit(lambda x, n: x * 2, static_argnames="n")
    log = watched(lambda: f(X, Config()), lambda: f(X, Config()))
    assert "another " in reasons(log)[0]


def test_the_nearest_key_differs_in_weak_type_alone():
    f = jax.jit(lambda x, s: x * s)
    with jaxlens.recompiles() as log:
        for s in (2.0, 3, jnp.float32(3)):
            f(X, s)
    assert log.log.compiles[-1].reason == "s: f32[], was weak f32[]"


def test_an_array_of_the_same_rank_is_nearer_than_a_number():
    """And what is padded has an axis."""
    f = jax.jit(lambda x: x * 3)
    with jaxlens.recompiles() as log:
        for x in (jnp.float32(2), jnp.ones(3), jnp.ones(7)):
            f(x)
    assert reasons(log)[1:] == ["x: f32[3], was f32[]", "x: f32[7], was f32[3]"]
    f = jax.jit(lambda x: x * 3)
    with jaxlens.recompiles() as log:
        f(jnp.float32(2))
        f(jnp.ones(3))
    assert "Cure: give x one type at every call, f32[3] or f32[], from the start" in log.text()


def test_the_two_passes_of_grad_are_no_recompile():
    f = jax.jit(lambda table, at: table[at])
    with jaxlens.recompiles() as log:
        jax.grad(lambda table: f(table, np.zeros((8, 16), int)).sum())(np.ones((128, 64)))
    assert [call.changes for call in log.log.compiles] == [(), ()]


def test_an_edited_function_of_one_line_is_another_function(tmp_path):
    path = tmp_path / "module.py"
    with jaxlens.recompiles() as log:
        for n in (2, 3):
            path.write_text(f"import jax\n@jax.jit\ndef step(x):\n    return x * {n}\n")
            names = {}
            exec(compile(path.read_text(), str(path), "exec"), names)
            names["step"](X)
    assert [call.changes for call in log.log.compiles] == [(), ()]


def test_a_new_shape_is_not_blamed_on_a_setting():
    f = jax.jit(lambda x: x + 1)
    with jaxlens.recompiles() as log:
        f(np.ones(3, np.float32))
        with jax.default_matmul_precision("highest"):
            f(np.ones(5, np.float32))
    assert log.log.recompiles[0].main.kind == "type"
    words = " ".join(str(log).split())
    assert "x's length changed: 3, 5 (and jax_default_matmul_precision with it)" in words


def test_what_was_only_traced_is_not_compiled_again():
    f = jax.jit(lambda x: x * 3)
    with jaxlens.recompiles() as log:
        jax.eval_shape(f, jnp.ones(3))
        f(np.ones(4, np.float32))
        f(np.ones(5, np.float32))
    first, second = log.log.compiles
    assert (first.changes, second.reason) == ((), "x: f32[5], was f32[4]")


def test_a_function_that_another_traced_first():
    inner = jax.jit(lambda x: x - 7)
    outer = jax.jit(lambda x: inner(x) + inner(x[:2]).sum())
    outer(np.ones(3, np.float32))
    with jaxlens.recompiles() as log:
        inner(np.ones(3, np.float32))
        inner(np.ones(2, np.float32))
    first, second = log.log.compiles
    assert (first.changes, second.reason) == ((), "x: f32[2], was f32[3]")


def test_shardings_are_named_as_the_user_wrote_them():
    def init(x):
        return {"a": x, "w": x * 9}

    mesh = jax.make_mesh((1,), ("x",))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    jax.eval_shape(init, X)
    with jaxlens.recompiles() as log:
        jax.jit(init, out_shardings={"a": None, "w": where})(X)
        jax.jit(init)(X)
        jax.jit(init, out_shardings=where)(X)
    first, second, third = log.log.compiles
    assert first.changes == ()
    # The trace without shardings is in the cache, and the lowering knows outputs by number.
    assert second.reason == "jit's out_shardings of output 1: not given, was P('x',) on mesh x=1"
    words = " ".join(str(log).split())
    assert "jit's out_shardings of output 1 changed: P('x',) on mesh x=1, not given" in words
    assert third.reason == "jit's out_shardings: P('x',) on mesh x=1, was not given"


def test_a_trace_without_a_compile_is_no_earlier_call():
    f = jax.jit(lambda x: x * 11)
    with jaxlens.recompiles() as log:
        jax.make_jaxpr(f)(np.ones(5, np.float32))
        f(np.ones(4, np.float32))
    (call,) = log.log.compiles
    assert call.changes == ()
