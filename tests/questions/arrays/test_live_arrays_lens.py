"""Sentences and tables about live arrays that are written down here."""

from jaxlens.questions.arrays.live_arrays import GoneArray, LiveArray, LiveArrays
from jaxlens.questions.arrays.report import report

ONE = {"CPU 0": 400}


def sentences(look: LiveArrays) -> list[str]:
    return [finding.text for finding in report(look).findings]


def test_bytes_by_variable_and_device() -> None:
    split = LiveArray(("xs",), "f32[8,4]", {"CPU 0": 64, "CPU 1": 64}, "P('d') over d=2")
    layers = [LiveArray((f"params[{n}]['w']",), "f32[10,10]", ONE) for n in range(3)]
    constant = LiveArray((), "f32[3]", {"CPU 0": 12})
    known = LiveArrays((split, *layers, constant))
    assert known.bytes == 128 + 1200 + 12
    assert known.by_device == {"CPU 0": 64 + 1200 + 12, "CPU 1": 64}
    assert [(v.name, v.arrays, v.bytes) for v in known.by_variable] == [
        ("params", 3, 1200),
        ("xs", 1, 128),
    ]
    assert known.unnamed == (constant,)
    assert sentences(known) == [
        "Variables hold 4 arrays of 1.33 kB on 2 devices: params 1.2 kB in 3 arrays, xs 128 B."
    ]
    named, nameless, devices = report(known).tables
    assert [[cell.text for cell in row] for row in named.rows] == [
        ["params[*]['w']", "f32[10,10]", "3", "1.2 kB", "", "CPU 0", "unknown"],
        ["xs", "f32[8,4]", "1", "128 B", "", "P('d') over d=2", "unknown"],
    ]
    assert [[cell.text for cell in row] for row in nameless.rows] == [
        ["unknown", "f32[3]", "1", "12 B", "unknown"]
    ]
    assert nameless.volatile
    # What has no name depends on the version of JAX and on what ran before.
    assert devices.volatile
    assert [row[3].text for row in devices.rows] == ["1", "0"]


def test_what_grew_and_what_is_gone() -> None:
    old = LiveArray(("w",), "f32[10,10]", ONE)
    new = [LiveArray((f"history[{n}]",), "f32[10,10]", ONE, new=True) for n in range(2)]
    gone = (GoneArray("params['w']", 4_000), GoneArray("", 8))
    look = LiveArrays((old, *new), deleted=("state",), first=False, gone=gone)
    assert sentences(look) == [
        "Since the last look: new in history: 2 arrays, 800 B; gone: 1 array, 4 kB (params).",
        "Variables hold 3 arrays of 1.2 kB on CPU 0: history 800 B in 2 arrays, w 400 B.",
        "Deleted or donated, so they hold no memory: state.",
    ]
    assert len(look.new) == 2


def test_nothing_is_new_at_the_first_look() -> None:
    look = LiveArrays((LiveArray(("w",), "f32[10,10]", ONE, new=True),))
    assert look.new == ()
    assert look.by_variable[0].new_arrays == 0
    assert len(sentences(look)) == 1
    assert sentences(LiveArrays((), first=False)) == [
        "Since the last look: the same arrays.",
        "No variable holds an array on a device.",
    ]


def test_a_list_that_grew_comes_before_what_was_replaced() -> None:
    step = "cell 4:3"
    old = [LiveArray((f"losses[{n}]",), "f32[]", {"CPU 0": 4}) for n in range(5)]
    new = [
        LiveArray((f"losses[{n}]",), "f32[]", {"CPU 0": 4}, new=True, made=step)
        for n in range(5, 10)
    ]
    params = LiveArray(("params['w']",), "f32[10,10]", ONE, new=True, made="cell 4:2")
    gone = (GoneArray("params['w']", 400),)
    assert sentences(LiveArrays((*old, *new, params), first=False, gone=gone))[0] == (
        "Since the last look: losses grew from 5 to 10 arrays, 20 B more, made at cell 4:3; "
        "replaced in params: 1 array, 400 B, made at cell 4:2."
    )


def test_what_only_a_traceback_keeps_is_said() -> None:
    kept = LiveArray(("x in train (traceback of KeyError)",), "f32[10,10]", ONE)
    named = LiveArray(("y", "y in train (traceback of KeyError)"), "f32[10,10]", ONE)
    assert sentences(LiveArrays((kept, named)))[1] == (
        "400 B live only because Python keeps the traceback of the last error (x in train): after "
        "the next error, 1/0 for one, gc.collect() frees them."
    )


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
    known = LiveArrays((LiveArray(("table in lookup",), "i32[100]", ONE),))
    assert known.by_variable[0].name == "lookup"
