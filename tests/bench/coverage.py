"""How much of real programs is linked: `python -m tests.bench.coverage [--json] [NAME ...]`.

One row a program: the share of the optimised program's instructions that reach a line of Python,
and of the equations, nested ones too, whose fate is known; under the table why the rest is not.
Eight CPU devices are set up first, for the sharded program; the others use one of them.
"""

import argparse
import collections
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import jaxlens
from tests.support import programs

Row = dict[str, Any]


def sharded_matmul() -> programs.Program:
    """A matrix product over eight devices, and the sum of its squares: an all-reduce."""
    auto = jax.sharding.AxisType.Auto  # XLA decides, and puts the communication in
    mesh = jax.make_mesh((8,), ("devices",), axis_types=(auto,))
    spec = jax.sharding.PartitionSpec
    rows = jax.sharding.NamedSharding(mesh, spec("devices", None))
    columns = jax.sharding.NamedSharding(mesh, spec(None, "devices"))

    def f(x, w):
        y = jnp.tanh(x @ w)
        return y, (y * y).sum()

    x, w = jnp.ones((64, 32)), jnp.ones((32, 64))
    return f, (jax.device_put(x, rows), jax.device_put(w, columns))


PROGRAMS: dict[str, Callable[[], programs.Program]] = {
    **programs.SMALL,
    "sharded_matmul": sharded_matmul,
    **programs.MODELS,
    "gpt_step": programs.gpt_step,  # twelve layers: half a minute of compiling
}


def measure(name: str) -> Row:
    """Compiles one program, with dumps of its passes where it is small."""
    f, args = PROGRAMS[name]()
    capture = jaxlens.capture(f, *args)
    if name != "gpt_step":
        _ = capture.passes
    coverage = capture.links.coverage()
    fates = capture.links.fates().values()
    return {
        "program": name,
        "instructions": coverage.instructions,
        "equations": coverage.equations,
        "counted": coverage.counted,
        "inferred": coverage.inferred,
        "fates": collections.Counter(fate.name for fate in fates),
        "missing": [f"{missing.id}: {missing.why}" for missing in coverage.missing],
    }


def table(rows: Sequence[Row]) -> str:
    """The rows as text, and the reasons under them."""
    lines = [f"{'program':18} {'instructions':>20} {'equations':>16}  inferred  fates"]
    for row in rows:
        instructions, equations = row["counted"]
        shares = f"{row['instructions']:7.1%} of {instructions:6,}  {row['equations']:7.1%} of "
        fates = ", ".join(f"{n} {name}" for name, n in row["fates"].most_common())
        lines.append(f"{row['program']:18}  {shares}{equations:5,}  {row['inferred']:8}  {fates}")
    for row in rows:
        for why in row["missing"]:
            lines.append(f"{row['program']}: {why}")
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], metavar="NAME")
    parser.add_argument("--json", action="store_true", help="one list of rows, for programs")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 8)
    names = options.names or list(PROGRAMS)
    rows = [measure(name) for name in names]
    print(json.dumps(rows) if options.json else table(rows))


if __name__ == "__main__":
    main()
