"""Receipts as data: what is recorded, what differs later, and bounds."""

import json
from copy import deepcopy
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.program.figures import read_bounds, split_bounds
from jaxlens.pytest_plugin.receipt_record import changes, record
from jaxlens.questions.compare.receipt import Receipt
from tests.support import fixed_captures
from tests.support.paths import RECORDS


def receipt(name="mlp_step.cpu"):
    return Receipt(jaxlens.load(RECORDS / f"{name}.jaxlens"))


def fixed():
    found = Receipt(fixed_captures.capture())
    found.fingerprint = "a1" * 8  # it has no StableHLO to make one of
    return found


@pytest.fixture(scope="module")
def cpu():
    return json.loads(json.dumps(record(receipt())))  # as it is read from a file


def test_a_record_holds_the_figures_and_what_a_person_reads(cpu):
    found = receipt()
    assert cpu["traced"]["equations"] == found.equations
    assert cpu["traced"]["fingerprint"] == {"cpu": found.fingerprint}
    section = cpu["compiled"]["cpu"]
    assert (section["kernels"], section["peak"]) == (found.kernels, found.peak)
    [line] = [text for text in cpu["traced"]["lines"] if "tanh" in text or "relu" in text][:1]
    assert "f32" in cpu["traced"]["lines"][line]


def test_an_equal_program_has_no_changes(cpu):
    assert changes(cpu, receipt()) == changes(cpu, receipt(), compiled=False)
    assert changes(cpu, receipt()).lines == changes(cpu, receipt()).left_out == ()


def test_figures_of_another_device_are_left_out_and_can_be_added(cpu):
    gpu = receipt("mlp_step.gpu-h100")
    kind = gpu.capture.program.target.kind
    found = changes(cpu, gpu)
    assert found.lines == ()
    assert found.left_out == (
        "it has no fingerprint for gpu: not compared",
        f"it has no compiled figures for {kind}: not compared",
    )
    both = record(gpu, cpu)
    assert both["compiled"].keys() == {"cpu", kind}
    assert both["traced"]["fingerprint"].keys() == {"cpu", "gpu"}
    assert changes(both, gpu).left_out == changes(both, receipt()).left_out == ()


def test_figures_of_a_program_that_is_gone_do_not_stay(cpu):
    earlier = deepcopy(cpu)
    earlier["traced"]["fingerprint"]["cpu"] = "0" * 16
    earlier["compiled"]["NVIDIA H100"] = {}
    assert record(receipt(), earlier)["compiled"].keys() == {"cpu"}
    assert record(receipt(), cpu, compiled=False)["compiled"].keys() == {"cpu"}


def test_another_version_or_machine_is_named_and_no_failure(cpu):
    other = {**cpu, "jax": "0.4.1"}
    version = receipt().capture.program.target.jax
    why = f"it was written with jax 0.4.1, this is {version}: not compared"
    assert changes(other, receipt()).left_out == (why,)
    older = {**cpu, "version": 2, "compiled": {"NVIDIA H100": {}}}
    why = "it was written with another version of jaxlens: not compared"
    assert changes(older, receipt()).left_out == (why,)
    assert record(receipt(), older) == cpu
    other = deepcopy(cpu)
    other["compiled"]["cpu"] |= {"made_by": "jaxlib 0.10.2 on arm64, 8 cores", "fusions": 99}
    found = changes(other, receipt())
    assert found.lines == ()
    (note,) = found.left_out
    assert "are of jaxlib 0.10.2 on arm64, 8 cores, this is jaxlib" in note
    assert note.endswith(f": fusions: {receipt().fusions}, was 99")
    other["compiled"]["cpu"]["fusions"] = receipt().fusions
    assert changes(other, receipt()).left_out == ()  # equal on another machine: nothing to report


def test_changes_name_figures_and_lines():
    now = fixed()
    earlier = json.loads(json.dumps(record(now)))
    traced, compiled = earlier["traced"], earlier["compiled"]["cpu"]
    traced |= {"flops": 7, "fingerprint": {"cpu": "00ff"}}
    lines = traced["lines"]
    text = "y = x @ w + b"
    was = lines.pop(text)
    lines["y = x @ w - b"] = was.replace("add f32", "sub f32 x 2")
    lines["z = jnp.sin(x)"] = "sin f32 #abcd"
    compiled["fusions"] = 1
    compiled["fused"] = {"multiply": 2}  # as older records have it, which says nothing now
    assert changes(earlier, now).lines == (
        f"  fingerprint: {now.fingerprint}, was 00ff",
        f"  flops: {now.flops}, was 7",
        "  fusions: 2, was 1",
        "by line:",
        f"  cell 3:2: {text}",
        "      was: y = x @ w - b",
        "      new add f32; gone sub f32 x 2",
        "  gone: z = jnp.sin(x)",
        "      gone sin f32",
    )


def test_many_changes_are_cut_unless_the_whole_is_asked_for():
    now = fixed()
    earlier = json.loads(json.dumps(record(now)))
    traced = earlier["traced"]
    traced["fingerprint"] = {"cpu": "00ff"}
    traced["lines"] |= {f"gone({n})": "sin f32 #abcd" for n in range(40)}
    cut, whole = (changes(earlier, now, whole=whole).lines for whole in (False, True))
    assert "  and 44 more lines" in cut
    assert not any(" more" in line for line in whole)
    assert all(f"  gone: gone({n})" in whole for n in range(40))


def test_a_line_that_only_reads_otherwise_is_no_change():
    now = fixed()
    earlier = json.loads(json.dumps(record(now)))
    lines = earlier["traced"]["lines"]
    lines["yy = x @ w + b"] = lines.pop("y = x @ w + b")
    assert changes(earlier, now).lines == ()
    earlier["traced"]["fingerprint"]["cpu"] = "00ff"
    assert changes(earlier, now).lines[1:] == (
        "  each line has the same operations: their order or that of arguments, "
        "a constant, a setting or jit's options differ",
    )


def test_names_of_results_are_no_difference_and_arguments_and_results_are_compared():
    args = {"w": jax.ShapeDtypeStruct((4,), "float32")}, jax.ShapeDtypeStruct((4,), "float32")

    def made(names, donate, swap=False):
        def step(params, x):
            values = jnp.sin(x), jnp.cos(x)
            return dict(zip(names, values[::-1] if swap else values, strict=True))

        return Receipt(jaxlens.capture(jax.jit(step, donate_argnums=donate), *args))

    first = made(["a", "b"], ())
    earlier = json.loads(json.dumps(record(first, compiled=False)))
    assert earlier["traced"]["arguments"] == {"params['w']": "f32[4]", "x": "f32[4]"}
    assert earlier["traced"]["results"] == {
        "result['a']": "f32[4], sin",
        "result['b']": "f32[4], cos",
    }
    assert changes(earlier, made(["c", "d"], ()), compiled=False).lines == ()
    assert changes(earlier, made(["a", "b"], 1), compiled=False).lines[1:] == (
        "arguments:",
        "  x: f32[4], donated, was f32[4]",
    )
    assert changes(earlier, made(["a", "b"], (), True), compiled=False).lines[1:] == (
        "results:",
        "  result['a']: f32[4], cos, was f32[4], sin",
        "  result['b']: f32[4], sin, was f32[4], cos",
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("1e9", 1e9), ("2GB", 2e9), ("1.5 MiB", 1.5 * 2**20), ("3 G", 3e9)],
)
def test_bounds_are_read(text, number):
    assert read_bounds({"peak": text}) == {"peak": number}
    assert split_bounds(f"peak={text}, kernels=3,") == {"peak": number, "kernels": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peek=1", "did you mean 'peak'"),
        ("peak=lots", "the bound of peak is a number such as 1e6 or 2GB, got 'lots'"),
        ("flops=1TB", "the bound of flops is a number such as 1e9 or 2Gflop, got '1TB'"),
        ("kernels=5kB", "the bound of kernels is a number such as 12, got '5kB'"),
        ("kernels=1,kernels=100", "one bound for each figure, got 'kernels=1,kernels=100'"),
        (" , ", "written peak=2GB,flops=1e9,kernels=12, got ' , '"),
        ("2GB", "written peak=2GB,flops=1e9,kernels=12, got '2GB'"),
    ],
)
def test_a_wrong_bound_says_what_to_write(text, message):
    with pytest.raises(OptionError, match=message):
        split_bounds(text)


def test_a_receipt_over_a_bound_says_where_it_comes_from():
    now = fixed()
    now.within(temporaries="1kB", kernels=12)
    with pytest.raises(AssertionError) as error:
        now.within(temporaries=95, fusions=2)
    head, figure, *why = str(error.value).splitlines()
    assert head == f"{now.title} is too large:"
    assert figure == "  temporaries: 96 B is over its budget of 95 B"
    assert why[-1].startswith("    Memory: arguments")


def test_devices_of_one_kind_have_a_section_by_their_number(cpu):
    found = receipt()
    program = found.capture.program
    program = replace(program, target=replace(program.target, devices=8))
    several = Receipt(replace(found.capture, program=program))
    assert changes(cpu, several).left_out == (
        "it has no compiled figures for 8 x cpu: not compared",
    )


def test_lines_that_differ_in_shapes_alone_say_so(cpu):
    earlier = deepcopy(cpu)
    lines = earlier["traced"]["lines"]
    lines.update({text: f"{operations[:-4]}0000" for text, operations in lines.items()})
    earlier["traced"]["fingerprint"]["cpu"] = "0" * 16
    said = changes(earlier, receipt(), compiled=False, whole=True).lines
    same = "      the same operations with other shapes, parameters, literals or operands"
    assert said.count(same) == len(lines)
