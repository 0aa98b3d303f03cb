"""Hashes of persistent cache keys, whose parts are made to differ one by one."""

import json
import logging
import textwrap

import pytest

from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

START = """
    import json, logging, os, sys
    import jax, numpy as np
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    import jaxlens
    X = np.ones(3, np.float32)

    def step(x):
        return x * 2
"""

ONE_BY_ONE = """
    found = {}
    def look(name, call):
        jax.clear_caches()
        with jaxlens.recompiles() as log:
            call()
        key = log.log.compiles[0].step("compile").disk
        told = [f.text for f in log.findings]
        found[name] = told, dict(key.parts)

    def other(x):
        return x * 3
    other.__name__ = "step"

    def unkept(x):
        return x * 4

    def both():
        os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_min_max=true"
        jax.jit(step)(X)
        del os.environ["XLA_FLAGS"]

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000)
    with jaxlens.recompiles() as log:
        jax.jit(unkept)(X)
    print([len(os.listdir(sys.argv[1])), log.findings[-1].text])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    look("first", lambda: jax.jit(step)(X))
    look("same", lambda: jax.jit(step)(X))
    fast = {"xla_cpu_enable_fast_math": True}
    look("option", lambda: jax.jit(step, compiler_options=fast)(X))
    look("flags", both)
    look("device", lambda: jax.jit(step)(jax.device_put(X, jax.devices()[1])))
    look("program", lambda: jax.jit(other)(X))
    print(json.dumps(found))
"""


def run(code, folder, *more):
    code = textwrap.dedent(START) + textwrap.dedent(code)
    return run_python(code, str(folder), *more, JAX_PLATFORMS="cpu", XLA_FLAGS="")


@pytest.fixture(scope="module")
def process_results(tmp_path_factory):
    """The results of one process, and the folder of its cache."""
    folder = tmp_path_factory.mktemp("cache")
    unkept, found = run(ONE_BY_ONE, folder).splitlines()
    return unkept, json.loads(found), folder


def differing(found, name):
    """The parts whose hashes differ from those of the first compile."""
    first, here = found["first"][1], found[name][1]
    return [part for part in first if first[part] != here[part]]


def test_the_hash_of_the_part_that_differs_differs(process_results):
    found = process_results[1]
    assert found["first"][0] == [
        "Nothing recompiled; 1 function was compiled for the first time: step."
    ]
    assert found["same"][0][-1].startswith("1 program came out of the persistent cache")
    assert differing(found, "same") == []
    assert differing(found, "option") == ["the compile options"]
    assert differing(found, "flags") == ["XLA_FLAGS"]
    assert "the compile options" in differing(found, "device")
    assert differing(found, "program") == ["the program"]
    assert found["option"][0][-1] == (
        "step is not in the persistent cache, which holds 1 program of that name under another key."
    )


def test_a_program_that_is_not_kept_is_told_of(process_results):
    assert process_results[0] == (
        "[0, 'The persistent cache was not given the program of unkept: it took less than "
        "jax_persistent_cache_min_compile_time_secs (1000).']"
    )


TWICE = """
    heard = []
    logging.getLogger("jax").addHandler(type("Heard", (logging.Handler,), {
        "emit": lambda self, record: heard.append(record.name)})())
    own = logging.getLogger("jax._src.cache_key")
    levels = own.level, list(own.filters)
    with jaxlens.recompiles() as log:
        jax.jit(step)(X)
    assert (own.level, list(own.filters)) == levels
    assert "jax._src.cache_key" not in heard
    parts = dict(log.log.compiles[0].step("compile").disk.parts)
    own.setLevel(logging.DEBUG)
    jax.clear_caches()
    with jaxlens.recompiles():
        jax.jit(step)(X)
    assert "jax._src.cache_key" in heard
    print(json.dumps([parts, "The key that the persistent cache was asked by" in log.html()]))
"""


def test_hashes_are_those_of_any_process_and_nobody_else_hears_them(process_results):
    parts, shown = json.loads(run(TWICE, process_results[2]))
    assert parts == process_results[1]["first"][1]
    assert shown
    assert next(iter(parts)) == "the program"
    assert len(parts) == 8
    assert all(len(digest) == 64 for digest in parts.values())


def test_a_cache_that_is_off_has_no_key():
    import jax

    import jaxlens

    level = logging.getLogger("jax._src.cache_key").level
    with jaxlens.recompiles() as log:
        jax.jit(lambda x: x * 5)(1.0)
    assert log.log.compiles[0].step("compile").disk is None
    assert logging.getLogger("jax._src.cache_key").level == level


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
    said = [run_python(textwrap.dedent(code), str(tmp_path), size) for size in ("3", "3", "4")]
    assert said[0].startswith("1 0 ")
    assert said[1].startswith("1 1 ")
    assert "1 program came out of the persistent cache" in said[1]
    assert said[2].startswith("1 0 <lambda> is not in the persistent cache, which holds 1 program")
