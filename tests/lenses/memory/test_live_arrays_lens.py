"""Sentences and tables about live arrays that are written down here."""

from jaxlens.ir.run.live_arrays import GoneArray, LiveArray, LiveArrays
from jaxlens.lenses.memory.live_arrays import facts, report

ONE = {"CPU 0": 400}


def sentences(look: LiveArrays) -> list[str]:
    return [finding.text for finding in report(facts(look)).findings]


def test_bytes_by_variable_and_device() -> None:
    split = LiveArray(("xs",), "f32[8,4]", {"CPU 0": 64, "CPU 1": 64}, "P('d') over d=2")
    layers = [LiveArray((f"params[{n}]['w']",), "f32[10,10]", ONE) for n in range(3)]
    constant = LiveArray((), "f32[3]", {"CPU 0": 12})
    known = facts(LiveArrays((split, *layers, constant)))
    assert known.bytes == 128 + 1200 + 12
    assert known.by_device == {"CPU 0": 64 + 1200 + 12, "CPU 1": 64}
    assert [(v.name, v.arrays, v.bytes) for v in known.by_variable] == [
        ("params", 3, 1200),
        ("xs", 1, 128),
    ]
    assert known.unnamed == (constant,)
    assert sentences(known.look) == [
        "Variables hold 4 arrays of 1.33 kB on 2 devices: params 1.2 kB in 3 arrays, xs 128 B."
    ]
    named, devices = report(known).tables
    assert [[cell.text for cell in row] for row in named.rows] == [
        ["params[*]['w']", "f32[10,10]", "3", "1.2 kB", "", "CPU 0"],
        ["xs", "f32[8,4]", "1", "128 B", "", "P('d') over d=2"],
    ]
    # What has no name depends on the version of JAX and on what ran before.
    assert devices.volatile
    assert [row[3].text for row in devices.rows] == ["1", "0"]


def test_what_grew_and_what_is_gone() -> None:
    old = LiveArray(("w",), "f32[10,10]", ONE)
    new = [LiveArray((f"history[{n}]",), "f32[10,10]", ONE, new=True) for n in range(2)]
    gone = (GoneArray("params['w']", 4_000), GoneArray("", 8))
    look = LiveArrays((old, *new), deleted=("state",), first=False, gone=gone)
    assert sentences(look)[1:] == [
        "Since the last look: new in history: 2 arrays, 800 B; gone: 1 array, 4 kB (params).",
        "Deleted or donated, so they hold no memory: state.",
    ]
    assert len(facts(look).new) == 2


def test_nothing_is_new_at_the_first_look() -> None:
    look = LiveArrays((LiveArray(("w",), "f32[10,10]", ONE, new=True),))
    assert facts(look).new == ()
    assert facts(look).by_variable[0].new_arrays == 0
    assert len(sentences(look)) == 1
    assert sentences(LiveArrays((), first=False)) == [
        "No variable holds an array on a device.",
        "Since the last look: the same arrays.",
    ]


def test_what_only_ipython_keeps_is_said() -> None:
    arrays = (
        LiveArray(("y", "Out[3]"), "f32[10,10]", ONE),
        LiveArray(("Out[4]", "_4"), "f32[10,10]", ONE),
    )
    assert sentences(LiveArrays(arrays))[1] == (
        "400 B live only because IPython keeps results that were displayed (Out): %reset out lets "
        "them go."
    )


def test_the_variable_of_a_closure_is_the_function() -> None:
    known = facts(LiveArrays((LiveArray(("table in lookup",), "i32[100]", ONE),)))
    assert known.by_variable[0].name == "lookup"
