"""Takes fusions of an optimised program apart, so that their instructions run one by one."""

import re
from collections.abc import Collection, Iterator

from jaxlens.ir.graph import Region
from jaxlens.ir.hlo import reader as hlo
from jaxlens.stages.programs.extract import VIEWS, defined, split, written

_FUSION = re.compile(
    r"^(\s*(?:ROOT )?%(\S+) = .*?) fusion\((.*?)\), kind=k(?:Loop|Input|Output), calls=%([^\s,]+)"
)


def fusions(text: str) -> list[str]:
    """Returns the names of the fusions that `unfused` takes apart, in printed order."""
    found = map(_FUSION.match, text.splitlines())
    return [match[2] for match in found if match is not None]


def unfused(text: str, names: Collection[str]) -> str:
    """Returns optimised HLO with some fusions as calls of one kernel for each instruction.

    Args:
        text: Optimised HLO with constants in full.
        names: Names of the fusions.
    """
    module = hlo.read(text, stage="optimized")
    bodies = dict(split(text))
    parts = [text.lstrip().partition("\n")[0]]
    for lines in bodies.values():
        changed = []
        for line in lines:
            match = _FUSION.match(line)
            if match is None or match[2] not in names:
                changed.append(line)
                continue
            apart = f"{match[2]}.apart"
            parts += _apart(apart, module.regions[match[4]], bodies[match[4]])
            changed.append(f"{match[1]} call({match[3]}), to_apply=%{apart}")
        parts.append("\n".join(changed))
    return "\n\n".join(parts) + "\n"


def _apart(name: str, region: Region, lines: list[str]) -> Iterator[str]:
    """Yields a computation for each instruction of a fusion, and the one that calls them."""
    types = {node.id: node.type for node in region.nodes}
    plain, body = defined(lines), []
    for node in region.nodes:
        root = "ROOT " if node.id in region.results else ""
        line = plain[node.id].strip()
        if node.opcode not in VIEWS:
            operands = [one for one in dict.fromkeys(node.operands) if one in types]
            given = [
                f"  %{one} = {written(types[one])} parameter({number})"
                for number, one in enumerate(operands)
            ]
            alone = f"{name}.{node.id}"
            yield "\n".join([f"%{alone} {{", *given, f"  ROOT {line}", "}"])
            listed = ", ".join(f"%{one}" for one in operands)
            line = f"%{node.id} = {written(node.type)} fusion({listed}), kind=kLoop, calls=%{alone}"
        body.append(f"  {root}{line}")
    yield "\n".join([f"%{name} {{", *body, "}"])
