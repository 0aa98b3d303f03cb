"""Reads the key of a program in JAX's persistent cache, part by part, and compares it.

JAX hashes the parts of the key one after the other and logs each hash at debug level. A hash does
not show what was hashed, so the compile options, the devices and XLA's flags are read as well, and
a difference can be named.
"""

import contextlib
import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens.ir.compile_log import DiskKey, KeyChange
from jaxlens.keys.changes import differing, nearest

_LINE = re.compile(r"^(\w+): (.*)$", re.MULTILINE)
_DEVICES = re.compile(r"Computation\d++\{([^{}]*)\}")
_NAMES = {
    "computation": "the program",
    "jax_lib version": "jaxlib's version",
    "backend version": "the backend's version",
    "XLA flags": "XLA_FLAGS",
    "compile_options": "the compile options",
    "accelerator_config": "the devices",
    "compression": "the compression",
    "custom_hook": "JAX's custom hook",
}
# Options that are not part of the key, such as the folder of dumps.
_LEFT_OUT = ("xla_dump_", "xla_force_host_platform_device_count", "xla_gpu_cuda_data_dir")


@dataclass(frozen=True, slots=True)
class DiskPart:
    """One part of a key.

    Attributes:
        digest: Its hash.
        values: The hashed values by name, as far as they can be read.
    """

    digest: str
    values: Mapping[str, str]


Parts = Mapping[str, DiskPart]


def part(name: str, digest: str, variables: Mapping[str, Any]) -> DiskPart:
    """Returns a part with the values that were hashed.

    Args:
        name: JAX's name of the part.
        digest: Its hash.
        variables: The variables of JAX's function that makes the key, and the flags that it read.
    """
    try:
        return DiskPart(digest, dict(_values(name, variables)))
    except (AttributeError, TypeError, ValueError):
        return DiskPart(digest, {})


def _values(name: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if name == "XLA flags":
        for flag in variables.get("flags", ()):
            option, _, value = flag.partition("=")
            yield option, value or "set"
    elif name == "accelerator_config" and "devices" in variables:
        kinds = [device.device_kind for device in variables["devices"].flat]
        yield "devices", f"{len(kinds)} of {', '.join(sorted(set(kinds)))}"
    elif name == "compile_options" and "compile_options" in variables:
        options = variables["compile_options"]
        yield from _plain_options(options.executable_build_options)
        yield from _LINE.findall(str(options.executable_build_options.debug_options))
        yield from ((option, str(value)) for option, value in options.env_option_overrides)
        yield "number of replicas", str(options.num_replicas)
        yield "number of partitions", str(options.num_partitions)
        yield "devices", ", ".join(_DEVICES.findall(str(options.device_assignment)))


def _plain_options(options: Any) -> Iterator[tuple[str, str]]:
    """Yields the options that are numbers, strings or enums."""
    for name in dir(options):
        if not name.startswith("_"):
            with contextlib.suppress(AttributeError, RuntimeError, TypeError, ValueError):
                value = getattr(options, name)
                if isinstance(value, bool | int | float | str | enum.Enum):
                    yield name, str(value)


def key(new: Parts, earlier: Sequence[Parts]) -> DiskKey:
    """Returns a key, compared with the nearest earlier one of a program of the same name.

    Args:
        new: Its parts.
        earlier: Those of earlier programs of this process, oldest first.
    """
    changes = nearest(_changes(new, old) for old in reversed(earlier))
    digests = tuple((_NAMES.get(name, name), part.digest) for name, part in new.items())
    return DiskKey(digests, changes, len(earlier))


def unkept(seconds: float) -> str:
    """Returns why JAX did not write a program to the persistent cache.

    Args:
        seconds: The seconds of its compile.
    """
    config: Any = jax.config
    least = config.jax_persistent_cache_min_compile_time_secs
    if seconds < least:
        return f"it took less than jax_persistent_cache_min_compile_time_secs ({least:g})"
    return "JAX did not write it, as one that calls back into Python or that another process writes"


def is_used() -> bool:
    """Whether a persistent cache is used; JAX makes keys even if not."""
    config: Any = jax.config
    return config.jax_compilation_cache_dir is not None and config.jax_enable_compilation_cache


def _changes(new: Parts, old: Parts) -> Iterator[KeyChange]:
    for name, now in new.items():
        was = old.get(name)
        if was is None or was.digest == now.digest:
            continue
        values = (
            (option, now.values.get(option, "not set"), was.values.get(option, "not set"))
            for option in dict.fromkeys((*now.values, *was.values))
            if not option.removeprefix("--").startswith(_LEFT_OUT)
        )
        named = list(differing("disk", values, str))
        yield from named or [KeyChange("disk", _NAMES.get(name, name), "another", "")]
