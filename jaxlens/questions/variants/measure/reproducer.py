"""Writes a program as one file of Python that needs jax alone: for the report of a bug."""

import os
from collections.abc import Sequence
from pprint import pformat
from string import Template
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.ir.facts import Target
from jaxlens.questions.variants.reproduced import Reproducer
from jaxlens.stages.compile.program_text import of_module, plain_array
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.driver import LiveDriver

_WIDTH = 100
# The settings that change what XLA makes of a module.
_SETTINGS = (
    "jax_disable_most_optimizations",
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_effort",
    "jax_memory_fitting_level",
    "jax_optimization_level",
    "jax_use_shardy_partitioner",
)
_FILE = Template('''\
"""Compiles and runs the program "$name" by itself. Needs jax, and neither the code that the
program was traced from nor any other package.

Made with jax $jax and jaxlib $jaxlib for $device. $data
"""

import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = $flags  # XLA reads them once, when jax is imported

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.extend.mlir import ir

PLATFORM = $platform
SETTINGS = $settings
COMPILER_OPTIONS = $options
ARGUMENTS = $arguments
DONATED = $donated
RESULTS = $results
MODULE = $module

for name, value in SETTINGS.items():
    try:
        jax.config.update(name, value)
    except AttributeError:
        print(f"this jax has no setting {name}, which was {value!r}")
if PLATFORM == "cpu":
    jax.config.update("jax_platforms", "cpu")
made_with = ($jax_text, $jaxlib_text)
print("made with jax {}, jaxlib {}".format(*made_with))
print(f"this is jax {jax.__version__}, jaxlib {jaxlib.__version__}")
if jax.default_backend() != PLATFORM:
    print(f"this runs on {jax.default_backend()}; the program was made for {PLATFORM}")


def zeros(*_):
    return [jnp.zeros(shape, dtype) for shape, dtype in RESULTS]


$libraries# A function of the same arguments and results, whose module is replaced by the program.
shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in ARGUMENTS]
lowered = jax.jit(zeros, keep_unused=True, donate_argnums=DONATED).lower(*shapes)
module = lowered.compiler_ir("stablehlo")
with module.context:
    sent = ir.Module.parse(MODULE)
    for op in list(module.body.operations):
        op.erase()
    for op in list(sent.body.operations):
        op.detach_from_parent()
        module.body.append(op)
    for attribute in sent.operation.attributes:
        key = getattr(attribute, "name", attribute)
        module.operation.attributes[key] = sent.operation.attributes[key]
compiled = lowered.compile(compiler_options=COMPILER_OPTIONS)
print("compiled")

$values
arguments = [jnp.asarray(v, dtype) for v, (_, dtype) in zip(arguments, ARGUMENTS)]
outputs = jax.block_until_ready(compiled(*arguments))
for number, output in enumerate(outputs):
    print(f"ran: output {number} is {output.dtype}{list(output.shape)}")
$check''')
_DRAWN = """\
random = np.random.default_rng(0)
arguments = [
    # Integers are 0: one may be an index or a length.
    (random.standard_normal(shape) if jnp.issubdtype(dtype, jnp.inexact) else np.zeros(shape))
    for shape, dtype in ARGUMENTS
]
"""
_SAVED = """\
saved = np.load(Path(__file__).with_suffix(".npz"))
arguments = [
    saved[f"argument{number}"].view(jnp.dtype(dtype)).reshape(shape)
    for number, (shape, dtype) in enumerate(ARGUMENTS)
]
"""
_SAVED_RIGHT = """\
right = [saved[f"right{number}"] for number in range(len(RESULTS))]
"""
_WRITTEN = """\
inf, nan = np.inf, np.nan
arguments = $arguments
right = $right
"""
_CHECK = """
# What each equation gives when it is compiled alone, and the error that rounding explains, relative
# to an element or to the root mean square of all; None for none.
LIMITS = $limits


def wrong(output, right, limit):
    if limit is None:
        return output != right
    wide = np.complex128 if np.iscomplexobj(right) else np.float64
    output, right = output.astype(wide), right.astype(wide)
    size = np.abs(np.where(np.isfinite(right), right, 0))
    same = (output == right) | (np.isnan(output) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        near = np.abs(output - right) <= limit * np.maximum(size, np.sqrt(np.mean(size**2)))
    return ~same & ~near


bad = 0
for number, (output, values, limit) in enumerate(zip(outputs, right, LIMITS)):
    output = np.asarray(output)
    values = np.asarray(values, output.dtype).reshape(output.shape)
    here = wrong(output, values, limit)
    bad += here.sum()
    if here.any():
        print(f"output {number}: {here.sum()} of {here.size} elements are wrong")
        print("compiled:", output[here][:4], "alone:", values[here][:4])
sys.exit(f"WRONG: {bad} elements" if bad else 0)
"""
_EMBEDDED = 256  # elements of all arrays of a check, up to which they are written into the file
_LAPACK = """\
for make in (jnp.linalg.cholesky, jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.qr):
    jax.jit(make).lower(jnp.eye(2))  # registers the LAPACK functions that the program calls
"""


def source(lowered: Any, name: str, target: Target, values: str, data: str, check: str = "") -> str:
    """Returns the file that compiles and runs a lowered program.

    Args:
        lowered: The `jax.stages.Lowered`, for one device.
        name: The program's name.
        target: The target.
        values: The lines that make its arguments.
        data: A sentence about them.
        check: The lines that check its results.

    Raises:
        UnsuitedError: An argument or result is no array.
    """
    operation = lowered.compiler_ir("stablehlo").operation
    text = operation.get_asm(enable_debug_info=False)
    sent = of_module(text)
    settings: Any = jax.config
    known = {key: settings.values[key] for key in _SETTINGS if key in settings.values}
    # These two may have another value in the block where the call is made.
    known["jax_enable_x64"] = bool(settings.jax_enable_x64)
    known["jax_default_matmul_precision"] = settings.jax_default_matmul_precision
    donated = [n for n, leaf in enumerate(jax.tree.leaves(sent.lowered.args_info)) if leaf.donated]
    libraries = _LAPACK if "lapack_" in text else ""
    return _FILE.substitute(
        name=name.replace("\\", "").replace('"', ""),
        jax=target.jax,
        jaxlib=target.jaxlib,
        jax_text=repr(target.jax),
        jaxlib_text=repr(target.jaxlib),
        device=target.kind or target.platform,
        data=data,
        flags=repr(" ".join(f"--{flag}" for flag in xla_flags())),
        platform=repr(target.platform),
        settings=_written(known),
        options=_written(dict(compat.options_of(lowered) or ())),
        arguments=_written([_pair(shape) for _, shape in sent.arguments]),
        donated=repr(tuple(donated)),
        results=_written([_pair(shape) for shape in sent.results]),
        module=_embedded(text),
        libraries=f"{libraries}\n" if libraries else "",
        values=values,
        check=check,
    )


def _pair(shape: Any) -> tuple[tuple[int, ...], str]:
    return tuple(shape.shape), shape.dtype.name


def _written(value: Any) -> str:
    return pformat(value, width=_WIDTH)


def _embedded(text: str) -> str:
    """Returns an expression for the text, line by line where Python can have it so."""
    plain = '"""' not in text and not text.endswith(("\\", '"'))
    return f'r"""\n{text.strip()}\n"""' if plain else repr(text)


def written_for(
    capture: Capture,
    path: str | os.PathLike[str],
    with_data: bool,
    right: Sequence[tuple[Any, float | None]] = (),
) -> Reproducer:
    """Writes a file that compiles and runs a program by itself; see `verbs.reproducer`.

    Args:
        capture: The program.
        path: The file; "" to write none.
        with_data: Whether it has the arguments' values.
        right: The results that it is to check, each with the relative error that rounding explains
            and None for none; () for no check. Few values are written into the file itself.

    Raises:
        UnavailableError: The program is not live, for several devices or an absent one, or calls
            Python.
        OptionError: The file cannot be written, or an argument has no data.
    """
    live: LiveDriver = capture.driver.live()
    live.stage("stablehlo")  # raises if this program has none
    with live.taken("a reproducer") as lowered:
        place = live.staging.place.target
        arrays = [np.asarray(value) for value in live.passed(lowered)] if with_data else []
        values, check = _DRAWN, ""
        data = "Its arguments are drawn with a fixed seed; integers are 0."
        results = [np.asarray(plain_array(value)) for value, _ in right]
        embedded = bool(right) and sum(x.size for x in (*arrays, *results)) <= _EMBEDDED
        if embedded:
            lists = [_written([x.tolist() for x in each]) for each in (arrays, results)]
            values = Template(_WRITTEN).substitute(arguments=lists[0], right=lists[1])
            data = "Ends with an error while a result is wrong."
        elif with_data:
            values, data = _SAVED, "Its arguments are in the .npz file beside it."
        if right:
            check = Template(_CHECK).substitute(limits=_written([limit for _, limit in right]))
            if not embedded:
                values += _SAVED_RIGHT
        text = source(lowered, capture.program.name, place, values, data, check)
    # NumPy saves no bfloat16: such arrays are saved as bytes.
    arrays = [a if a.dtype.kind in "biufc" else np.frombuffer(a.tobytes(), "u1") for a in arrays]
    beside = os.path.splitext(path)[0] + ".npz" if with_data and not embedded else ""
    if not path:
        return Reproducer("", text, beside)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if beside:
            saved = {f"argument{n}": array for n, array in enumerate(arrays)}
            saved |= {f"right{n}": _savable(array) for n, array in enumerate(results)}
            np.savez_compressed(beside, **saved)  # type: ignore[arg-type]
    except OSError as error:
        raise OptionError(
            f"expected the name of a file that can be written, got {os.fspath(path)!r} "
            f"({error.strerror}): jaxlens.reproducer(cap, 'repro.py')"
        ) from None
    return Reproducer(os.fspath(path), text, beside)


def _savable(array: Any) -> Any:
    """Returns the values of an array in a type of NumPy's own."""
    return array if array.dtype.kind in "biufc" else array.astype(np.float64)
