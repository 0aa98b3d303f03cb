"""Why the persistent cache of one process did not have a program of the next."""

import json
import textwrap
from dataclasses import replace

import pytest

import jaxlens
from jaxlens.ir.compile_log import CompileStep
from jaxlens.jobs.record.difference import difference
from jaxlens.jobs.record.facts import facts
from tests.jobs.record.job_records import compiled, job, process
from tests.support.paths import run_python

KEY = {"program": "1", "jaxlib": "1", "flags": "1", "options": "1", "backend": "1"}
SETTINGS = {"jaxlib": "1.0", "XLA_FLAGS": ""}


def run(name, served="", unkept="", key=(), program="f1", settings=()):
    """The record of a process that compiles one program, with changes of its key."""
    step = CompileStep("compile", 0.1, served, unkept=unkept)
    made = compiled(1, program=program)
    call = replace(made.call, steps=(step,), disk_key={**KEY, **dict(key)})
    own = process(0, replace(made, call=call), count=1, settings={**SETTINGS, **dict(settings)})
    return facts(replace(job(own), name=name), lambda *_: None)


FAST = {"XLA_FLAGS": "--xla_fast=1"}
JAXLIB = {"jaxlib": "2.0"}
FLAGS = {"flags": "2", "options": "2"}
METADATA = "only names and lines differ, which jax_compilation_cache_include_metadata_in_key or a "


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ({}, {"served": "disk", "key": FLAGS}, None),
        ({}, {"key": FLAGS, "settings": FAST}, "XLA_FLAGS is unset in a, --xla_fast=1 in b"),
        ({}, {"key": {"flags": "2"}}, "XLA's flags differ"),
        ({}, {"key": {"options": "2"}}, "the compile options differ"),
        ({}, {"key": {"jaxlib": "2"}, "settings": JAXLIB}, "jaxlib is 1.0 in a, 2.0 in b"),
        ({}, {"key": {"program": "2"}, "program": "f2"}, "the program differs"),
        ({}, {"key": {"program": "2"}}, f"{METADATA}kernel puts into the key"),
        ({"unkept": "it was short"}, {}, "in a it was short"),
        ({}, {}, "its key is the same: the cache lies in another folder, or was emptied"),
        ({"key": {"backend": "0"}}, {}, "the backend is another"),
    ],
)
def test_the_part_of_the_key_that_differs_is_named(before, after, cause):
    found = difference(run("a", **before), run("b", **after), lambda *_: None).misses
    assert found == ({cause: ["step"]} if cause else {})


CODE = """
    import json, os, sys
    import jax, jax.numpy as jnp, numpy as np
    import jaxlens

    folder, name, comment = sys.argv[1:]
    jax.config.update("jax_compilation_cache_dir", f"{folder}/cache")
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    ops = {name: getattr(jnp, name) for name in ("sin", "cos", "tanh", "exp", "sqrt", "abs")}
    names = set(ops)
    rate, table = np.random.rand(), np.random.rand(1000).astype(np.float32)

    def written(name):
        code = f"{comment}def {name}(x):\\n    return x * 3"
        exec(compile(code, f"{folder}/{name}.py", "exec"), globals())
        return globals()[name]

    def order(x):
        for name in names:
            x = ops[name](x)
        return x

    def number(x):
        return x * rate

    def array(x):
        return x.sum() * table

    hits = []

    def heard(event, **_):
        hits.extend([called] if event.endswith("/cache_hits") else [])

    jax.monitoring.register_event_listener(heard)
    with jaxlens.record(f"{folder}/{name}"):
        for f in (written("plain"), order, number, array, written("located")):
            called = f.__name__
            if called == "located":
                jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
            jax.jit(f)(np.ones(3, np.float32))
    print(json.dumps(hits))
"""


@pytest.mark.backend
@pytest.mark.reads_jax
def test_what_jax_missed_in_the_next_process_is_explained(tmp_path):
    def next_process(name, comment="", **variables):
        code = textwrap.dedent(CODE)
        return json.loads(run_python(code, str(tmp_path), name, comment, **variables))

    def missed(name, of):
        causes = jaxlens.runs(tmp_path / name).diff(tmp_path / of).facts.misses
        return {function: cause for cause, names in causes.items() for function in names}

    every = {"plain", "order", "number", "array", "located"}
    plain = {"XLA_FLAGS": "", "PYTHONHASHSEED": "1"}
    assert next_process("a", **plain) == []
    hits = next_process("b", "# a comment\n", XLA_FLAGS="", PYTHONHASHSEED="2")
    found = missed("a", "b")
    assert {*hits} == every - found.keys() == {"plain"}  # JAX strips lines from the program
    assert found.pop("located").startswith("only names and lines differ")
    assert {*found.values()} == {"the program differs"}
    text = " ".join(str(jaxlens.runs(tmp_path / "a").diff(tmp_path / "b")).split())
    which = f"order, number and array of {tmp_path / 'b'}"
    assert f"The persistent cache did not have {which}: the program differs." in text
    assert "constant 0 (f32[1000]), has other values" in text
    assert "the same lines in another order, as a set has, which PYTHONHASHSEED decides" in text
    flags = {**plain, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}
    assert next_process("c", **flags) == []
    found = missed("a", "c")
    assert found.keys() == every
    both = f"unset in {tmp_path / 'a'}, {flags['XLA_FLAGS']} in {tmp_path / 'c'}"
    assert found["plain"] == f"XLA_FLAGS is {both}"
    assert found["number"].startswith("the program differs; XLA_FLAGS is")
