"""What a process finds in the persistent cache of earlier ones, and what it leaves there."""

import json
import textwrap

import pytest

from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

CODE = """
    import json, os, sys
    import jax, numpy as np
    import jaxlens

    folder = sys.argv[1]
    least = "jax_persistent_cache_min_compile_time_secs"
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    X = np.ones(3, np.float32)

    def step(x):
        return x * 2

    def unkept(x):
        return x * 4

    def look(*call):
        jax.clear_caches()
        with jaxlens.recompiles() as log:
            jax.jit(call[0], **dict(call[1:]))(X)
        return log.compiles, log.loaded, log.findings[-1].text

    found = [look(unkept)]
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update(least, 1000)
    found += [look(unkept), len(os.listdir(folder))]
    jax.config.update(least, 0)
    options = "compiler_options", {"xla_cpu_enable_fast_math": True}
    found += [look(step), look(step, options)]
    print(json.dumps(found))
"""


def test_what_was_loaded_missed_and_not_kept_is_told(tmp_path):
    code = textwrap.dedent(CODE)
    first, again = (json.loads(run_python(code, str(tmp_path), XLA_FLAGS="")) for _ in range(2))
    new = "Nothing recompiled; 1 function was compiled for the first time: "
    assert first == [
        [1, 0, f"{new}unkept."],
        [
            1,
            0,
            "The persistent cache was not given the program of unkept: it took less than "
            "jax_persistent_cache_min_compile_time_secs (1000).",
        ],
        0,
        [1, 0, f"{new}step."],
        [
            1,
            0,
            "step is not in the persistent cache, which holds 1 program of that name under another "
            "key: the compile options differ.",
        ],
    ]
    assert again[:2] == first[:2]
    for compiles, loaded, text in again[3:]:
        assert (compiles, loaded) == (1, 1)
        assert text.startswith("1 program came out of the persistent cache")
