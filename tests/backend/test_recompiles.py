"""Recompiles provoked in every way there is, each named rightly, and counted as JAX counts them."""

import functools
import gc
import inspect
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import LensError, OptionError

pytestmark = pytest.mark.backend

X = np.ones((128, 784), np.float32)


def made(**settings):
    """A jitted function that nobody has called."""

    @functools.partial(jax.jit, **settings)
    def f(x, n=1):
        return jax.tree.map(lambda leaf: (leaf * n).sum(), x)

    return f


class Compiles:
    """Compiles as JAX itself tells of them: the truth that a log is held against."""

    def __init__(self):
        self.names = []

    def __enter__(self):
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self

    def __exit__(self, *_):
        jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event, _, **about):
        if event.endswith("backend_compile_duration"):
            self.names.append(about["fun_name"])


def watched(*calls):
    """The log of calls, after the first of them; JAX's count is the log's."""
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


def test_shape():
    f = made()
    log = watched(lambda: f(X), lambda: f(X[:64]))
    assert reasons(log) == ["x: f32[64,784], was f32[128,784]"]
    assert log.findings[0].text == "f compiled again: x's first axis changed: 128, 64."


def test_rank():
    f = made()
    assert reasons(watched(lambda: f(X), lambda: f(X[None]))) == [
        "x: f32[1,128,784], was f32[128,784]"
    ]


def test_dtype():
    f = made()
    log = watched(lambda: f(X), lambda: f(X.astype(np.float16)))
    assert reasons(log) == ["x: f16[128,784], was f32[128,784]"]
    assert log.findings[0].text == "f compiled again: x's dtype changed: f32, f16."


def test_static_value():
    f = made(static_argnames="n")
    log = watched(lambda: f(X, n=3), lambda: f(X, n=4))
    assert reasons(log) == ["n: static value 4, was 3"]
    assert log.findings[0].text == ("f compiled again: n is static and its value changed: 3, 4.")


def test_weak_type():
    f = made()
    log = watched(lambda: f(np.float32(1)), lambda: f(1.0))
    assert reasons(log) == ["x: weak f32[], was f32[]"]
    assert "weak type changed" in log.findings[0].text


def test_pytree_structure():
    f = made()
    (reason,) = reasons(watched(lambda: f((1.0, 2.0)), lambda: f([1.0, 2.0])))
    assert reason == "x: pytree PyTreeDef([*, *]), was PyTreeDef((*, *))"


def test_a_key_more_in_a_dict():
    f = made()
    log = watched(lambda: f({"w": 1.0}), lambda: f({"w": 1.0, "b": 2.0}))
    assert reasons(log) == ["x['b']: new"]
    assert log.findings[0].text == "f compiled again: x['b'] is new."


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
    assert "; 2 of them because it was a new" in log.findings[0].text
    assert "all 3 are equal" in log.findings[1].text


def np_like(n, x):
    return x * n


def loss(x):
    return (x * x).sum()


class Model:
    def double(self, x):
        return x * 2


def test_a_def_in_a_loop_that_closes_over_another_value():
    with jaxlens.recompiles() as log:
        for rate in (0.1, 0.2):

            @jax.jit
            def step(x, rate=rate):
                return x - rate * x

            step(X)
            jax.jit(lambda x, rate=rate: x - rate)(X)
    texts = [finding.text for finding in log.findings]
    assert "because it was a new function object of the same def" in texts[0]
    assert "with another rate (0.1, 0.2)" in texts[0]
    assert "with rate as an argument (traced so: it works" in texts[1]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (lambda: jax.enable_x64(True), "jax_enable_x64: True, was False; x: weak f64[], was weak"),
        (lambda: jax.default_matmul_precision("float32"),
         "jax_default_matmul_precision: 'float32', was None"),
        (lambda: jax.numpy_dtype_promotion("strict"), "jax_numpy_dtype_promotion: "),
        (lambda: jax.default_device(jax.devices()[0]), "jax_default_device: "),
    ],
)  # fmt: skip
def test_a_setting(setting, says):
    f = made()

    def under():
        with setting():
            f(1.0)

    (reason,) = reasons(watched(lambda: f(1.0), under))
    assert reason.startswith(says)


def test_debug_nans_is_no_part_of_the_key():
    f = made()

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
    assert reason.startswith("jit's compiler_options_kvs: (('xla_cpu_enable_fast_math', True)")


def test_committed():
    f = made()
    here = jnp.asarray(X)
    log = watched(lambda: f(here), lambda: f(jax.device_put(here, jax.devices()[0])))
    (call,) = log.log.recompiles
    assert [step.kind for step in call.steps] == ["lower", "compile"]  # JAX says nothing of it
    assert call.reason.startswith("x: committed to ")
    assert call.reason.endswith(", was not committed to a device")
    assert "x became committed to " in log.findings[0].text


def test_a_numpy_array_after_a_jax_array_compiles_nothing():
    f = made()
    with jaxlens.recompiles() as log:
        f(jnp.asarray(X))
        f(X)
        f(X)
    assert log.compiles == 1
    assert reasons(log)[1:] == ["x: numpy.ndarray, was jax.Array"]
    assert log.fast_path == 1
    assert "compiled nothing" in log.findings[-1].text


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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DEVICES)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
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
    subprocess.run([sys.executable, "-c", textwrap.dedent(IMPORT)], check=True)


# ---- what is no recompile --------------------------------------------------------------------


def test_cached_calls_are_not_told_of():
    f = made()
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
    assert "under grad compiled 4 times; 1 of them because q's length" in log.findings[0].text


def test_traced_lowered_and_compiled_step_by_step():
    f = made()
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


def test_caches_that_were_cleared():
    f = made()
    with jaxlens.recompiles() as log:
        f(X)
        jax.clear_caches()
        f(X)
    assert log.compiles == 2
    assert "jax.clear_caches() was called" in log.log.compiles[1].reason


def test_our_own_looks_are_not_the_users():
    f = made()
    with jaxlens.recompiles() as log:
        str(jaxlens.hlo(f, X))
    assert [c for c in log.log.calls if c.role == "user"] == []


# ---- which earlier key -----------------------------------------------------------------------


def test_the_nearest_earlier_key_is_named():
    f = made(static_argnames="n")
    f(X, n=2)
    f(X[:64], n=8)
    with jaxlens.recompiles() as log:
        f(X[:32], n=8)
    assert reasons(log) == ["x: f32[32,784], was f32[64,784]"]
    assert log.log.calls[0].earlier == 2


def test_a_static_object_that_equals_no_other():
    class Config:
        pass

    f = made(static_argnames="n")
    f = jax.jit(lambda x, n: x * 2, static_argnames="n")
    log = watched(lambda: f(X, Config()), lambda: f(X, Config()))
    assert "another " in reasons(log)[0]


# ---- the way it is watched -------------------------------------------------------------------


def listeners():
    from jax._src import monitoring, util

    return (
        len(monitoring.get_event_listeners()),
        len(monitoring.get_event_duration_listeners()),
        len(monitoring.get_scalar_listeners()),
        util.test_event_listener,
    )


def test_no_listener_is_left_behind():
    before = listeners()
    with jaxlens.recompiles(), jaxlens.recompiles():
        made()(X)
    with pytest.raises(ZeroDivisionError), jaxlens.recompiles():
        1 / 0
    f = jaxlens.watch(made())
    assert listeners() != before
    del f
    gc.collect()
    assert listeners() == before


def test_watches_nest():
    f = made()
    with jaxlens.recompiles() as outer:
        f(X)
        with jaxlens.recompiles() as inner:
            f(X[:5])
        f(X[:6])
    assert (outer.compiles, inner.compiles) == (3, 1)
    assert inner.log.calls[0].reason == "x: f32[5,784], was f32[128,784]"


def test_a_trace_that_fails():
    f = jax.jit(lambda x: 1 / 0)
    with jaxlens.recompiles() as log:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                f(X)
    assert [call.steps[0].failed for call in log.log.calls] == ["ZeroDivisionError"] * 2
    assert "failed: ZeroDivisionError while it was traced" in log.findings[1].text


def test_a_log_that_is_still_written():
    f = made()
    with jaxlens.recompiles() as log:
        f(X)
        assert log.compiles == 1
        f(X[:3])
        assert log.compiles == 2
        assert "still watching" in str(log)
    assert "still watching" not in str(log)


def test_threads_are_named():
    f = made()

    def work():
        f(X[:7])

    with jaxlens.recompiles() as log:
        thread = threading.Thread(target=work, name="loader")
        thread.start()
        thread.join()
        f(X[:8])
    assert [call.thread for call in log.log.calls] == ["loader", ""]
    assert any("other threads: loader (1)" in finding.text for finding in log.findings)
    assert "test_recompiles.py" in log.log.calls[0].line.file


def test_threads_at_once():
    functions = [jax.jit(lambda x, i=i: x * i) for i in range(6)]
    with Compiles() as truth, jaxlens.recompiles() as log:
        threads = [threading.Thread(target=f, args=(X[: i + 1],)) for i, f in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log.compiles == len(truth.names) == 6
    assert all(len(call.steps) == 3 for call in log.log.calls)


def test_it_keeps_no_array_alive():
    import weakref

    f = made()
    x = jnp.ones((3, 9))
    held = weakref.ref(x)
    with jaxlens.recompiles() as log:
        f(x)
        del x
        gc.collect()
        assert held() is None
    assert log.compiles == 1


def program(f):
    """A program that compiles for many reasons."""
    for n in (3, 4, 3):
        f(np.ones(n, np.float32))
        jax.jit(lambda x: x * 2)(np.ones(n, np.float32))
        jax.jit(functools.partial(np_like, n))(np.ones(n, np.float32))
        jax.grad(lambda x: f(x))(np.ones(n, np.float32))
        jax.jit(Model().double)(np.ones(n, np.float32))
        gc.collect()
    f(jax.device_put(np.ones(3, np.float32), jax.devices()[0]))


def test_a_watched_program_compiles_as_often_as_an_unwatched_one():
    def counted(watch):
        jax.clear_caches()
        f = made()
        with Compiles() as truth:
            if watch:
                with jaxlens.recompiles() as log:
                    program(f)
                assert len(log.log.compiles) + len(log.log.operations) == len(truth.names)
            else:
                program(f)
        return truth.names

    assert counted(True) == counted(False)


def test_the_persistent_cache(tmp_path):
    code = """
        import jax, numpy as np, sys
        jax.config.update("jax_compilation_cache_dir", sys.argv[1])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        import jaxlens
        with jaxlens.recompiles() as log:
            jax.jit(lambda x: x * 2)(np.ones(int(sys.argv[2]), np.float32))
        print(log.compiles, log.loaded, log.findings[-1].text)
    """
    said = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), size],
            capture_output=True, text=True, check=True,
        ).stdout
        for size in ("3", "3", "4")
    ]  # fmt: skip
    assert said[0].startswith("1 0 ")
    assert said[1].startswith("1 1 ")
    assert "1 program came out of the persistent cache" in said[1]
    assert said[2].startswith("1 0 <lambda> is not in the persistent cache, which holds 1 program")


def test_without_jaxs_stack_the_steps_are_still_counted(monkeypatch):
    monkeypatch.setattr("jaxlens.stages.compat_calls._PJIT", ("nowhere.py",))
    monkeypatch.setattr("jaxlens.stages.compat_calls._hook", lambda note: None)
    f = made()
    with jaxlens.recompiles() as log:
        f(X)
        f(X[:9])
    assert log.compiles == 2
    assert "does not tell of calls that compile nothing" in str(log)


# ---- watch and assert_compiles ---------------------------------------------------------------


def test_watch_is_the_function_and_a_log():
    f = made(static_argnames="n")
    g = jaxlens.watch(f)
    assert g(X, n=2) == f(X, n=2)
    made()(X)  # not its call
    g(X[:3], n=2)
    assert g.log.compiles == 2
    assert g.log.log.calls[1].reason == "x: f32[3,784], was f32[128,784]"
    assert (g.__name__, g.__wrapped__) == ("f", f)
    assert g.lower(X).as_text() == f.lower(X).as_text()
    assert jax.vmap(g)(X).shape == (128,)
    with pytest.raises(AttributeError):
        g.nothing
    assert g.unwatch() is f
    with pytest.raises(OptionError, match="watch takes a function, got int"):
        jaxlens.watch(3)


def test_a_watched_method():
    class Net:
        @jaxlens.watch
        @functools.partial(jax.jit, static_argnums=0)
        def step(self, x):
            return x * 2

    net = Net()
    assert net.step(X).shape == X.shape
    assert Net.step.log.compiles == 1


def test_watched_exceptions_are_the_functions():
    def f():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jaxlens.watch(f)()


def test_assert_compiles():
    f = made()
    with jaxlens.assert_compiles(1) as log:
        f(X)
        f(X)
    assert log.compiles == 1
    with pytest.raises(AssertionError) as error, jaxlens.assert_compiles(0):
        f(X[:2])
    assert isinstance(error.value, LensError)
    said = str(error.value)
    assert said.startswith("expected no compile, got 1: f at test_recompiles.py:")
    assert said.endswith("(x: f32[2,784], was f32[128,784])")
    assert "\n" not in said


def test_assert_compiles_as_a_decorator():
    f = made()

    @jaxlens.assert_compiles(1)
    def test(n):
        f(X[:n])
        f(X[: n + 1])

    with pytest.raises(jaxlens.RecompileError, match="at most 1 compile, got 2"):
        test(11)
    f(X[:12])
    test(11)  # both are there now


def test_assert_compiles_leaves_other_errors_alone():
    def fails():
        made()(X)
        raise KeyError("mine")

    with pytest.raises(KeyError), jaxlens.assert_compiles(0):
        fails()
    with pytest.raises(OptionError, match="count of 0 or more"):
        jaxlens.assert_compiles(-1)


def test_assert_compiles_can_count_operations():
    with jaxlens.assert_compiles(0):
        jnp.cos(np.ones((13, 17), np.float32))
    with pytest.raises(jaxlens.RecompileError), jaxlens.assert_compiles(0, operations=True):
        jnp.cos(np.ones((13, 18), np.float32))


# ---- cures -----------------------------------------------------------------------------------


def cures(log):
    return [f.text for f in log.findings if f.text.startswith("Cure: ")]


def test_a_static_number_that_could_be_data_is_tried():
    calls = []

    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        calls.append(n)
        return x * n

    with jaxlens.recompiles() as log:
        for n in range(3):
            f(X, n)
    assert calls == [0, 1, 2]
    (cure,) = cures(log)
    assert cure.startswith("Cure: pass n as data")
    assert "it works, and one program serves all 3 values" in cure
    assert [made.text for made in log.cures] == ["pass n as data: take it out of static_argnames"]


def test_a_static_number_that_must_stay_is_tried():
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        return x.reshape(n, -1)

    with jaxlens.recompiles() as log:
        for n in (1, 2, 4):
            f(X, n)
    (cure,) = cures(log)
    assert "it must stay static" in cure


def test_padding_is_tried_and_the_count_is_that_of_programs():
    f = jax.jit(lambda x: (x * x).sum())
    with jaxlens.recompiles() as log:
        for n in range(1, 10):
            f(X[:n])
    assert log.findings[0].text == (
        "<lambda> compiled 9 times; 8 of them because x's first axis changed: "
        "1, 2, 3, 4, 5, 6, 7, 8, ... (9 values)."
    )
    (cure,) = cures(log)
    assert "5 programs instead of 9 (traced at a padded shape: it works)" in cure
    before = f._cache_size()
    padded = [np.zeros((1 << (n - 1).bit_length(), 784), np.float32) for n in range(1, 10)]
    with jaxlens.recompiles() as again:
        for x in padded:
            f(x)
    assert again.compiles == 1  # 16; 1, 2, 4 and 8 are there: 5 in all
    assert f._cache_size() == before + 1


def test_a_trial_changes_no_cache_and_prints_nothing(capsys):
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        print("traced")
        return x * n

    with jaxlens.recompiles() as log:
        f(X, 1)
        f(X, 2)
    before = f._cache_size()
    capsys.readouterr()
    with Compiles() as truth:
        assert cures(log)
    assert capsys.readouterr().out == ""
    assert truth.names == []
    assert f._cache_size() == before


def test_a_function_that_is_gone_with_an_array_is_said_to_be_untried():
    with jaxlens.recompiles() as log:

        def run(y):
            f = jax.jit(lambda x, n: x * n + y, static_argnums=1)
            for n in range(3):
                f(X, n)

        run(X)
        gc.collect()
    (cure,) = cures(log)
    assert cure.endswith("(not tried).")


def test_a_default_that_is_passed_is_another_key():
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n=2):
        return x * n

    with jaxlens.recompiles() as log:
        f(X)
        f(X, n=2)
    assert log.log.calls[1].reason == "n: static value 2, was not given (so 2)"
    (cure,) = cures(log)
    assert cure == ("Cure: pass n at every call, or at none (both mean the same, but not to JAX).")


def test_the_part_of_a_nested_static_value_that_differs_is_named():
    f = jax.jit(lambda x, config: x * 2, static_argnames="config")
    config = (("sizes", (3, 4, 5)), ("act", "relu"))
    other = (("sizes", (3, 7, 5)), ("act", "relu"))
    log = watched(lambda: f(X, config), lambda: f(X, other))
    assert reasons(log) == ["config[0][1][1]: static value 7, was 4"]


# ---- functions that libraries make -----------------------------------------------------------


def test_functions_that_equinox_made_are_told_apart():
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.Linear(4, 2, key=jax.random.key(0))

    @eqx.filter_jit
    def step(net, x, flag):
        return jax.vmap(net)(x).sum() * (2 if flag else 1)

    other = eqx.filter_jit(lambda x: x * 2)
    with jaxlens.recompiles() as log:
        for n in (3, 5):
            step(net, np.ones((n, 4), np.float32), True)
        step(net, np.ones((5, 4), np.float32), False)
        other(X)
    calls = list(log.log.compiles)
    assert [call.function for call in calls] == ["step", "step", "step", "<lambda>"]
    assert calls[1].reason == "x: f32[5,4], was f32[3,4]"
    assert calls[2].reason == "flag: static value False, was True"
    assert calls[3].reason == "never called before"
    assert calls[0].defined.line == inspect.getsourcelines(step.__wrapped__)[1]


def test_the_parts_of_equinox_modules_have_the_users_names():
    eqx = pytest.importorskip("equinox")

    class Scale(eqx.Module):
        w: jax.Array
        n: int = eqx.field(static=True)

        @eqx.filter_jit
        def __call__(self, x, *, rate=0.1):
            return x @ self.w * self.n * rate

    w = np.ones((784, 2), np.float32)
    with Compiles() as truth, jaxlens.recompiles() as log:
        Scale(jnp.asarray(w), 1)(X)
        Scale(jnp.asarray(w), 2)(X)
        Scale(jnp.asarray(w[:, :1]), 2)(X)
        Scale(jnp.asarray(w[:, :1]), 2)(X, rate=0.2)
    assert truth.names.count("jit(__call__)") == log.compiles == 4
    assert [call.reason for call in log.log.compiles] == [
        "never called before",
        "self.n: kept in the pytree 2, was 1",
        "self.w: f32[784,1], was f32[784,2]",
        "rate: static value 0.2, was not given (so 0.1)",
    ]
    assert "pass rate as data: as a jax.Array (traced so: it works" in str(log).replace("\n  ", " ")


def test_two_functions_of_one_name_that_equinox_jitted_in_a_loop():
    eqx = pytest.importorskip("equinox")
    with jaxlens.recompiles() as log:
        for rate in (2.0, 3.0):
            eqx.filter_jit(lambda x, rate=rate: x * rate)(X)
    (again,) = log.log.recompiles
    assert again.main.kind == "function"
    assert "rate, which it closes over: 3.0, was 2.0" in again.reason


def test_functions_that_flax_made():
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))

    @nnx.jit
    def step(model, x):
        return model(x).sum()

    with jaxlens.recompiles() as log:
        for n in (3, 3, 2):
            step(model, np.ones((n, 4), np.float32))
    assert [c.reason for c in log.log.compiles] == [
        "never called before",
        "x: f32[2,4], was f32[3,4]",
    ]
    assert log.findings[0].text == (
        "step compiled 2 times; 1 of them because x's first axis changed: 3, 2."
    )
    with jaxlens.recompiles() as log:
        step(nnx.Linear(4, 5, rngs=nnx.Rngs(0)), np.ones((2, 4), np.float32))
    (again,) = log.log.recompiles
    assert again.reason.split("; ") == [
        "model.bias: f32[5], was f32[2]",
        "model.kernel: f32[4,5], was f32[4,2]",
        "model.out_features: kept in the pytree 5, was 2",
    ]


def test_the_arrays_of_flax_models_have_the_users_names():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self):
            keys = nnx.Rngs(0)
            self.layers = nnx.List([nnx.Linear(4, 3, rngs=keys), nnx.Linear(3, 2, rngs=keys)])
            self.shared = self.layers[0]
            self.table = nnx.Param(jnp.ones(7))

    step = nnx.jit(lambda both, x: both["net"].layers[0](x))
    with jaxlens.recompiles() as log:
        step({"net": Net()}, np.ones((3, 4), np.float32))
    named = {part.name: part.text for part in log.log.compiles[0].parts if part.kind == "input"}
    net = "both['net']"
    assert named["x"] == "f32[3,4]"
    assert named[f"{net}.layers[1].kernel"] == "f32[3,2]"
    assert named[f"{net}.table"] == "f32[7]"
    assert len(named) == 6


@pytest.mark.models
def test_an_optimiser_that_starts_with_other_types():
    optax = pytest.importorskip("optax")
    rule = optax.scale_by_schedule(lambda count: 0.1 * count)

    @jax.jit
    def update(params, state):
        return rule.update(params, state)

    with jaxlens.recompiles() as log:
        params = {"w": jnp.ones(3)}
        state = rule.init(params)
        for _ in range(3):
            _, state = update(params, state)
    assert log.compiles == 1
