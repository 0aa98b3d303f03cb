"""Why the persistent cache, which one run filled, did not have a program of the next run."""

from collections.abc import Iterator, Mapping

from jaxlens.ir.compile_log import DISK_PARTS
from jaxlens.ir.record import ProcessRecord
from jaxlens.jobs.record.facts import CompileRow, JobFacts

# What a part of the key depends on, by the settings of a process.
_SETTINGS = {"jaxlib": ("jaxlib",), "flags": ("XLA_FLAGS", "LIBTPU_INIT_ARGS")}
_METADATA = (
    "only names and lines differ, which jax_compilation_cache_include_metadata_in_key or a kernel "
    "puts into the key"
)


def disk_misses(before: JobFacts, after: JobFacts) -> Mapping[str, list[str]]:
    """Returns the functions that the cache did not have for the second run, by the cause.

    Args:
        before: The run that filled the cache.
        after: The run that asked it.
    """
    causes: dict[str, list[str]] = {}
    for row in after.rows:
        key, step = row.compile.call.disk_key, row.compile.call.step("compile")
        if not key or step is None or step.served:
            continue
        same = [r for r in before.rows if r.function == row.function and r.compile.call.disk_key]
        if same:
            names = before.job.name, after.job.name
            cause = _cause(min(same, key=lambda r: _apart(r, row)), row, names)
            causes.setdefault(cause, []).append(row.function)
    return causes


def _apart(one: CompileRow, two: CompileRow) -> tuple[int, bool]:
    return len(_other(one, two)), one.compile.call.parts != two.compile.call.parts


def _other(one: CompileRow, two: CompileRow) -> list[str]:
    """Returns the parts in which two keys differ."""
    left, right = one.compile.call.disk_key, two.compile.call.disk_key
    return [name for name in right if left.get(name) != right[name]]


def _cause(one: CompileRow, two: CompileRow, names: tuple[str, str]) -> str:
    parts = _other(one, two)
    if not parts:
        step = one.compile.call.step("compile")
        if step is not None and step.unkept:
            return f"in {names[0]} {step.unkept}"
        return "its key is the same: the cache lies in another folder, or was emptied"
    if "flags" in parts and "options" in parts:
        parts.remove("options")  # XLA reads its flags into the options
    programs = {row.compile.call.program for row in (one, two)}
    said = dict(DISK_PARTS) if len(programs) > 1 else {**DISK_PARTS, "program": _METADATA}
    texts = (", ".join(_of_settings(part, one.process, two.process, names)) for part in parts)
    return "; ".join(text or said[part] for text, part in zip(texts, parts, strict=True))


def _of_settings(
    part: str, one: ProcessRecord, two: ProcessRecord, names: tuple[str, str]
) -> Iterator[str]:
    for name in _SETTINGS.get(part, ()):
        was, now = (record.process.settings.get(name, "") for record in (one, two))
        if was != now:
            yield f"{name} is {was or 'unset'} in {names[0]}, {now or 'unset'} in {names[1]}"
