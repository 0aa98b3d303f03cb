"""What really lives: names by containers, buffers that are shared, donation, and growth."""

import collections
import functools
import gc
import types
import weakref
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.call import abstract_call
from jaxlens.questions.arrays.measure import array_names
from tests.support.paths import run_python

pytestmark = pytest.mark.reads_jax


def by_name(answer: Any) -> dict[str, Any]:
    return {name: array for array in answer.named for name in array.names}


def test_names_through_containers_attributes_and_closures() -> None:
    @dataclass
    class State:
        mu: Any

    table = jnp.arange(10)
    names = {
        "w": jnp.ones((3, 4)),
        "params": {"layers": [{"w": jnp.ones(2)}, {"w": jnp.ones(5)}]},
        "state": State([{"m": jnp.ones(6)}]),
        "bag": types.SimpleNamespace(inner=(jnp.ones(7),)),
        "lookup": lambda i: table[i],
        "part": functools.partial(jnp.add, jnp.ones(9)),
        "key": jax.random.key(0),
        "numpy": np.ones(100),
        "text": "w",
    }
    names["loop"] = names["params"]["loop"] = names["params"]  # contains itself
    found = by_name(jaxlens.arrays(names))
    sizes = {name: found[name].bytes for name in found}
    assert sizes["w"] == 48
    assert found["w"].type == "f32[3,4]"
    assert sizes["params['layers'][1]['w']"] == 20
    assert sizes["state.mu[0]['m']"] == 24
    assert sizes["bag.inner[0]"] == 28
    assert sizes["table in lookup"] == 40
    assert sizes["part.args[0]"] == 36
    assert sizes["key"] == 8
    assert "numpy" not in sizes


def test_what_a_capture_keeps_has_the_name_of_the_capture() -> None:
    cap = jaxlens.capture(lambda tree: tree["x"] + 1, {"x": jnp.ones(11)})
    assert by_name(jaxlens.arrays({"caps": [cap]}))["caps[0]"].bytes == 44


def test_an_array_that_could_not_be_allocated_is_listed_and_not_read() -> None:
    code = """if True:
        import jax, jax.numpy as jnp, jaxlens
        small, large = jax.jit(lambda x: (x + 1, x[:, None] * x))(jnp.ones(4_000_000))
        print([array.bytes for array in jaxlens.arrays({"small": small}).named])
    """
    assert run_python(code) == "[16000000]\n"


def test_two_names_of_one_buffer_count_once() -> None:
    x = jnp.ones(1000)
    jax.block_until_ready(x)
    answer = jaxlens.arrays({"x": x, "same": x, "put": jax.device_put(x)})
    (array,) = answer.named
    assert set(array.names) == {"x", "same", "put"}
    assert array.bytes == 4000


def test_automatic_names_come_last() -> None:
    x = jnp.ones(10)
    (array,) = jaxlens.arrays({"_": x, "Out": {3: x}, "x": x}).named
    assert array.name == "x"


def test_a_widget_does_not_lead_back_to_all_variables() -> None:
    kernel = type("Kernel", (), {"__module__": "ipykernel.ipkernel"})()
    kernel.variables = names = {"w": jnp.ones(3), "panel": types.SimpleNamespace(comm=kernel)}
    assert list(by_name(jaxlens.arrays(names))) == ["w"]


def test_the_names_are_those_of_the_caller() -> None:
    local = jnp.ones(77)
    found = by_name(jaxlens.arrays())
    assert found["local"].bytes == local.nbytes


def test_donated_and_deleted_arrays_do_not_count() -> None:
    x, y = jnp.ones(1000), jnp.ones(500)
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    jaxlens.arrays({"x": x, "y": y})
    z = f(x)
    y.delete()
    answer = jaxlens.arrays({"x": x, "y": y, "z": z})
    assert [array.name for array in answer.named] == ["z"]
    assert answer.deleted == ("x", "y")
    assert {"x", "y"} <= {array.name for array in answer.gone}


def test_what_grew_since_the_last_look() -> None:
    names = {"w": jnp.ones(10), "history": []}
    jaxlens.arrays(names)
    names["history"] += [jnp.full((5,), n) for n in range(3)]
    answer = jaxlens.arrays(names)
    (grown,) = [held for held in answer.by_variable if held.new_arrays]
    assert (grown.name, grown.new_arrays, grown.new_bytes) == ("history", 3, 60)
    again = jaxlens.arrays(names)
    assert [held.new_arrays for held in again.by_variable] == [0, 0]


def test_a_look_keeps_nothing_alive_and_makes_nothing() -> None:
    x = jnp.ones((64, 64))
    gc.collect()  # arrays of earlier tests, which would be gone in between
    before = len(jax.live_arrays())
    answer = jaxlens.arrays({"x": x})
    str(answer), answer.html()
    assert len(jax.live_arrays()) == before
    array = weakref.ref(x)
    del x
    assert array() is None


def test_each_array_has_the_line_that_made_it() -> None:
    @jax.jit
    def f(x):
        return x * 2

    def make(x):
        return f(x)

    x = jnp.ones(3)
    found = [make(x) for _ in range(3)]  # the third is served by JAX's fastest way
    names = {"x": x, "y": found[2], "z": x + 1, "put": jax.device_put(np.ones(4)), "item": x[0]}
    here = test_each_array_has_the_line_that_made_it.__code__.co_firstlineno
    made = {name: array.made for name, array in by_name(jaxlens.arrays(names)).items()}
    file = "test_live_arrays.py"
    assert made == {
        "x": f"{file}:{here + 8}",
        "y": f"{file}:{here + 6}",
        **dict.fromkeys(("z", "put", "item"), f"{file}:{here + 10}"),
    }


def test_names_through_queues_and_slots() -> None:
    class Slots:
        __slots__ = ("a", "empty")

    s = Slots()
    s.a = jnp.ones(13)
    found = by_name(jaxlens.arrays({"q": collections.deque([jnp.ones(17)]), "s": s}))
    assert {name: array.bytes for name, array in found.items()} == {"q[0]": 68, "s.a": 52}


def test_bytes_are_those_of_jax() -> None:
    keep = [jnp.ones((n, 3), d) for n in (1, 50) for d in ("float32", "int8", "bool")]
    jax.block_until_ready(keep)
    answer = jaxlens.arrays({"keep": keep})
    assert sum(a.bytes for a in answer.named) == sum(a.nbytes for a in keep) == 51 * 3 * 6
    buffers, failed = {}, 0
    for array in jax.live_arrays():
        try:  # the address of an array that another test could not allocate ends the process
            array.block_until_ready()
        except RuntimeError:
            failed += array.nbytes
            continue
        if array.size:
            buffers[array.unsafe_buffer_pointer()] = array.nbytes
    assert answer.bytes == sum(buffers.values()) + failed


def test_what_a_traceback_keeps_has_the_name_of_the_function(monkeypatch) -> None:
    def train():
        leak = jnp.ones((31, 7))
        raise KeyError(leak.shape)

    try:
        train()
    except KeyError as error:
        monkeypatch.setattr("sys.last_value", error, raising=False)
    found = by_name(jaxlens.arrays({"x": jnp.ones(2)}))
    assert found["leak in train (traceback of KeyError)"].bytes == 31 * 7 * 4


def test_what_keeps_an_array_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_names, "_ARRAYS", 10**6)  # whatever other tests left is larger

    def generate():
        kept = jnp.ones((9, 41))
        yield kept.shape

    class Holder:
        pass

    generator, holder = generate(), Holder()
    next(generator)
    holder.inner = {"deep": [jnp.ones((9, 42))]}
    space: dict[str, Any] = {"jax": jax, "captured": jnp.ones((9, 43))}
    exec("f = jax.jit(lambda x: x + captured); f(1.0); del captured", space)
    running = jnp.ones((9, 44))
    own = abstract_call._kept(jnp.ones((9, 45)))  # as a look at a call keeps its small arguments
    found = {array.type: array.holder for array in jaxlens.arrays({}).unnamed}
    assert found["f32[9,41]"].startswith("the suspended ")
    assert found["f32[9,41]"].endswith("generate")
    assert found["f32[9,42]"].endswith(".Holder")
    assert found["f32[9,43]"] == "JAX, as a constant of a traced program"
    assert found["f32[9,44]"] == ""  # only a function that runs holds it
    assert running.shape == (9, 44)
    assert "jaxlens" not in found["f32[9,45]"]
    assert own().shape == (9, 45)


def test_an_array_without_a_name() -> None:
    x = jnp.ones((123, 4))
    answer = jaxlens.arrays({})
    assert x.nbytes in {array.bytes for array in answer.unnamed if array.type == "f32[123,4]"}
    assert "f32[123,4]" not in str(answer)


OVER_FOUR = """
import jax, jax.numpy as jnp, numpy as np, jaxlens
jax.config.update("jax_num_cpu_devices", 4)
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("d",))
w = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("d")))
np.asarray(w), w.addressable_shards  # makes arrays of the pieces, in the same memory
(array,) = jaxlens.arrays({"w": w}).named
print(array.name, array.sharding, dict(array.by_device))
print(sum(a.bytes for a in jaxlens.arrays({}).unnamed if "[2,4]" in a.type))
"""


def test_an_array_over_devices_and_its_pieces_count_once() -> None:
    assert run_python(OVER_FOUR).splitlines() == [
        "w P('d') over d=4 {'CPU 0': 32, 'CPU 1': 32, 'CPU 2': 32, 'CPU 3': 32}",
        "0",
    ]


def test_a_function_of_no_module_is_named_as_the_holder() -> None:
    # Larger than what other tests left: holders are named of the largest. Without `__name__`,
    # as of many an `exec`.
    names: dict[str, Any] = {"big": jnp.ones(30_000_001)}
    exec("def outer(big):\n    return lambda: big\nkept = outer(big)", names)
    kept = types.SimpleNamespace(call=names.pop("kept"))
    del names
    gc.collect()
    assert kept.call.__module__ is None
    (own,) = (one for one in jaxlens.arrays({}).unnamed if one.type == "f32[30000001]")
    assert own.holder == "the function outer.<locals>.<lambda>"
