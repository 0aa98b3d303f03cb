"""Why the persistent cache, which one run filled, did not have a program of the next run."""

from collections.abc import Iterator, Mapping

from jaxlens.ir.record import ProcessRecord, RecordedCompile
from jaxlens.jobs.record.facts import CompileRow, JobFacts
from jaxlens.jobs.record.program_difference import StageOf, differences

# What a part of the key depends on, by the settings of a process.
_SETTINGS = {"jaxlib": ("jaxlib",), "flags": ("XLA_FLAGS", "LIBTPU_INIT_ARGS")}
_NAMES = {
    "jaxlib": "jaxlib is another",
    "backend": "the backend is of another version",
    "flags": "XLA has other flags on the command line",
    "options": "the compile options differ",
    "devices": "the devices differ",
    "compression": "the cache is compressed otherwise (the package zstandard)",
    "hook": "jax's custom_hook of the key differs",
}
_METADATA = (
    "only names and lines differ, which jax_compilation_cache_include_metadata_in_key or a kernel "
    "puts into the key"
)


def disk_misses(before: JobFacts, after: JobFacts, stage_of: StageOf) -> Mapping[str, list[str]]:
    """Returns the functions that the cache did not have for the second run, by the cause.

    Args:
        before: The run that filled the cache.
        after: The run that asked it.
        stage_of: Gives a stage of a program of either.
    """
    causes: dict[str, list[str]] = {}
    for row in after.rows:
        key, step = row.compile.call.disk_key, row.compile.call.step("compile")
        if not key or step is None or step.served:
            continue
        same = [r for r in before.rows if r.function == row.function and r.compile.call.disk_key]
        if same:
            names = before.job.name, after.job.name
            cause = _cause(min(same, key=lambda r: _apart(r, row)), row, names, stage_of)
            causes.setdefault(cause, []).append(row.function)
    return causes


def _apart(one: CompileRow, two: CompileRow) -> tuple[int, bool]:
    return len(_other(one, two)), one.compile.call.parts != two.compile.call.parts


def _other(one: CompileRow, two: CompileRow) -> list[str]:
    """Returns the parts in which two keys differ."""
    left, right = one.compile.call.disk_key, two.compile.call.disk_key
    return [name for name in right if left.get(name) != right[name]]


def _cause(one: CompileRow, two: CompileRow, names: tuple[str, str], stage_of: StageOf) -> str:
    parts = _other(one, two)
    if not parts:
        step = one.compile.call.step("compile")
        if step is not None and step.unkept:
            return f"{names[0]} did not write it: {step.unkept}"
        return "its key is the same: the cache lies in another folder, or was emptied"
    if "flags" in parts and "options" in parts:
        parts.remove("options")  # XLA reads its flags into the options
    return "; ".join(
        _of_program(one.compile, two.compile, names, stage_of)
        if part == "program"
        else ", ".join(_of_settings(part, one.process, two.process, names)) or _NAMES[part]
        for part in parts
    )


def _of_settings(
    part: str, one: ProcessRecord, two: ProcessRecord, names: tuple[str, str]
) -> Iterator[str]:
    for name in _SETTINGS.get(part, ()):
        was, now = (record.process.settings.get(name, "") for record in (one, two))
        if was != now:
            yield f"{name} is {was or 'unset'} in {names[0]}, {now or 'unset'} in {names[1]}"


def _of_program(
    one: RecordedCompile, two: RecordedCompile, names: tuple[str, str], stage_of: StageOf
) -> str:
    if one.call.program and one.call.program == two.call.program:
        return _METADATA
    found = next(differences(one, two, names, stage_of), "")
    return f"its program differs ({found})" if found else "its program differs"
