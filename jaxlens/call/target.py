"""Resolves a target: a device of this process, or a described one that is not present.

`tpu:v5e:2x2` describes four TPU chips; libtpu compiles for them on any machine: a call that is
sharded over four devices for all of them, one without shardings for the first. `gpu:h100`
describes an NVIDIA GPU; JAX's CUDA plugin compiles for it on a machine without a GPU.
"""

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import jax
import jaxlib

from jaxlens import compat
from jaxlens.call.gpu_targets import GPUS, config
from jaxlens.errors import TargetError, first_line
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.facts import Target
from jaxlens.ir.lazy import lazy

_SYNONYMS = {"cuda": "gpu", "rocm": "gpu"}
_CALLBACK = "a callback (jax.debug.print, jax.pure_callback) needs the device itself"


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """A target that JAX can trace and lower for.

    Attributes:
        target: Its description, which captures store.
        name: Its name; "" for where JAX would run the call.
        devices: All devices of its grid, or of its platform; () for those of the call.
        platforms: The platforms to lower for; None for that of the devices.
    """

    target: Target
    name: str = ""
    devices: tuple[Any, ...] = ()
    platforms: tuple[str, ...] | None = None

    def spread(self, count: int) -> tuple[Any, ...]:
        """Returns the devices for a program over `count` devices, in the order of its mesh.

        Raises:
            TargetError: It has another number of devices.
        """
        whole = self.target.absent and count > 1
        devices = self.devices if whole else self.devices[:count]
        if len(devices) != count:
            raise TargetError(
                f"the call is sharded over {count} devices, and target {self.name!r} has "
                f"{len(devices)}: name one with {count} (tpu:v5e:2x2 has 4), or look at the call "
                "without its mesh"
            )
        return devices

    def meshed(self, traced: Callable[[], Any]) -> "ResolvedTarget":
        """Returns it with the devices of a mesh within the function, known once it is traced.

        Args:
            traced: Returns the `jax.stages.Traced`; called when they are first read.
        """

        @cache
        def target() -> Target:
            with suppress(Exception):  # of the user's function: its stages raise it
                devices = _of(compat.shardings_within(traced()))
                own = self.spread(len(devices)) if self.devices else devices
                return _target(own, self.target.absent) if own else self.target
            return self.target

        own = {f.name: getattr(self.target, f.name) for f in fields(Target)}
        del own["devices"], own["processes"]
        makers = {"devices": lambda _: target().devices, "processes": lambda _: target().processes}
        return replace(self, target=lazy(Target, makers, **own))

    def trace(self, traceable: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Traces a jitted function."""
        with self.device_context():
            return traceable.trace(*args, **kwargs)

    def lower(self, traced: Any, count: int = 1) -> Any:
        """Lowers a traced function for the target, with shardings and meshes moved to its devices.

        Args:
            traced: The `jax.stages.Traced`.
            count: The number of devices of a program that names none.

        Raises:
            TargetError: The program is for another number of devices, or needs the device.
        """
        try:
            with self.device_context():
                if not self.devices:
                    return traced.lower(lowering_platforms=None)
                lowered = compat.lower_for(
                    lambda own: self.spread(max(own, count)),
                    lambda: traced.lower(lowering_platforms=self.platforms),
                )
        except NotImplementedError:  # a RuntimeError, and true of the device wherever it is
            raise
        except RuntimeError as error:
            if not self.target.absent:
                raise
            reason = _CALLBACK if "Unknown backend" in str(error) else first_line(error)
            kind = self.target.kind
            raise TargetError(f"it cannot be compiled where no {kind} is: {reason}") from None
        if lowered is None:
            version = jax.__version__
            raise TargetError(f"jaxlens does not compile for {self.name} with jax {version}")
        return lowered

    def device_context(self) -> AbstractContextManager[Any]:
        """Names the absent device to Pallas while a function is traced and lowered."""
        cores = "num_cores" if self.target.platform == "tpu" else "core_count"
        if not self.devices or not self.target.absent:
            return nullcontext()
        device = self.devices[0]
        try:
            described = jax.sharding.AbstractDevice(
                device.device_kind, getattr(device, cores, None), device.platform
            )
            around: Any = jax.sharding.get_abstract_mesh()
            mesh = around.update(abstract_device=described)
            return jax.sharding.use_abstract_mesh(mesh)
        except (AttributeError, TypeError):  # another version of JAX
            return nullcontext()


def resolve(name: str | None, leaves: Sequence[Any] = (), settings: Any = None) -> ResolvedTarget:
    """Returns the target of that name.

    Args:
        name: "cpu", "gpu", "tpu", a device that is not present ("tpu:v5e:2x2", "gpu:h100"),
            or None for where JAX would run the call.
        leaves: The call's array leaves, whose devices are used if name is None.
        settings: The jitted function's settings, likewise.

    Raises:
        TargetError: The process has no such device, and there is no description of it.
    """
    if name is None:
        return ResolvedTarget(target_of(_devices(leaves, settings)))
    place = _resolve(name)
    used = _devices(leaves, settings)
    if all(device.client is place.devices[0].client for device in used):
        return ResolvedTarget(target_of(used))  # where JAX would run it anyway
    return replace(place, target=_target(place.spread(len(used)), place.target.absent))


def _resolve(name: str) -> ResolvedTarget:
    if not isinstance(name, str):
        raise TargetError(
            f"target is one name, got {name!r}; for several: "
            "jaxlens.side_by_side(*(jaxlens.capture(f, x, target=t) for t in targets))"
        )
    platform, _, rest = name.strip().lower().partition(":")
    platform = _SYNONYMS.get(platform, platform)
    if not rest:
        device = _process_devices().get(platform)
        if device is None:
            raise TargetError(f"no target {name!r} here; {_choices()}{_hint(platform)}")
        devices = tuple(d for d in device.client.local_devices() if d.platform == device.platform)
        return ResolvedTarget(_target([device]), name, devices)
    if platform == "tpu":
        return _tpu(name, rest)
    if platform == "gpu":
        return _gpu(name, rest)
    raise TargetError(f"no target {name!r} here; {_choices()}{_hint(platform)}")


def target_of(devices: Sequence[Any]) -> Target:
    """Returns the target of these devices; the first determines platform and kind."""
    # JAX can compile for the devices of a topology description, and not run on them.
    runtime = getattr(devices[0].client, "runtime_type", "")
    return _target(devices, absent=runtime == "compile_only_runtime")


def names() -> tuple[str, ...]:
    """Returns the names of this process's targets, the default first."""
    return tuple(_process_devices())


def _process_devices() -> dict[str, Any]:
    """Returns one device per platform in this process, the default platform first."""
    first = jax.devices()[0]
    devices = {first.platform: first}
    for client in compat.extend("backend", "backends")().values():
        for device in client.local_devices():
            devices.setdefault(_SYNONYMS.get(device.platform, device.platform), device)
    return devices


def _devices(leaves: Sequence[Any], settings: Any) -> list[Any]:
    """Returns the devices that JAX would use: jit's own, the committed arrays', or the default."""
    if getattr(settings, "device", None) is not None:
        return [settings.device]
    if getattr(settings, "backend", None) is not None:
        return [jax.devices(settings.backend)[0]]
    shardings = [
        *getattr(settings, "in_shardings_leaves", ()),
        *getattr(settings, "out_shardings_leaves", ()),
    ]
    # Those of committed arrays, and of shapes with a sharding.
    shardings += [
        getattr(leaf, "sharding", None) for leaf in leaves if getattr(leaf, "committed", True)
    ]
    if devices := _of(shardings):
        return devices
    with suppress(ValueError):  # it is called while a function is traced
        if not (mesh := jax.sharding.get_mesh()).empty:  # of `jax.set_mesh`
            return list(mesh.devices.flat)
    config: Any = jax.config
    default = config.jax_default_device
    if isinstance(default, str):
        return [jax.devices(default)[0]]
    return [default or jax.devices()[0]]


def _of(shardings: Iterable[Any]) -> list[Any]:
    """Returns the devices of the sharding over most; [] if none of them has devices."""
    with_devices = filter(_has_devices, shardings)
    largest = max(with_devices, key=lambda s: len(s.device_set), default=None)
    if largest is None:
        return []
    # A mesh has the devices in the program's order, which the collectives number.
    meshed = getattr(getattr(largest, "mesh", None), "devices", None)
    return list(getattr(meshed, "flat", sorted(largest.device_set, key=lambda d: d.id)))


def _has_devices(sharding: Any) -> bool:
    try:
        return bool(sharding.device_set)
    except (AttributeError, ValueError, TypeError):  # none, or a mesh without devices
        return False


def _target(devices: Sequence[Any], absent: bool = False) -> Target:
    first = devices[0]
    processes = tuple(device.process_index for device in devices)
    return Target(
        _SYNONYMS.get(first.platform, first.platform),
        first.device_kind,
        len(devices),
        absent,
        jax.__version__,
        jaxlib.__version__,
        processes if len(set(processes)) > 1 else (),
    )


def _tpu(name: str, rest: str) -> ResolvedTarget:
    if importlib.util.find_spec("libtpu") is None:
        raise TargetError(
            f"target {name!r} needs libtpu, which is not installed: pip install 'jaxlens[tpu]'; "
            f"{_choices()}"
        )
    from jax.experimental import topologies

    try:
        # Without the first, libtpu queries a cloud machine's metadata server, and waits for the
        # answer; without the second, it refuses a second process, even one that only compiles.
        with _variable("TPU_SKIP_MDS_QUERY"), _variable("ALLOW_MULTIPLE_LIBTPU_LOAD"):
            described = topologies.get_topology_desc(platform="tpu", topology_name=rest)
    except Exception as error:  # libtpu's own, of many types
        # Of a name in another form libtpu says only the regular expression for it.
        reason = "" if "regex" in str(error) else f" ({_line(error)})"
        raise TargetError(
            f"libtpu knows no topology {rest!r}{reason}; write a version and a grid: tpu:v5e:2x2"
        ) from None
    devices = tuple(described.devices)
    return ResolvedTarget(_target(devices[:1], absent=True), name, devices, ("tpu",))


def _gpu(name: str, rest: str) -> ResolvedTarget:
    gpu = GPUS.get(rest)
    if gpu is None:
        described = ", ".join(f"gpu:{key}" for key in GPUS)
        raise TargetError(f"no description of {name!r}; there is {described}; {_choices()}")
    if not compat.has_cuda_plugin():
        raise TargetError(
            f"target {name!r} needs JAX's CUDA plugin, which is not installed: "
            f"pip install 'jaxlens[gpu]'; {_choices()}"
        )
    version = compat.cuda_plugin_version()
    if version and version.split(".")[:3] != jaxlib.__version__.split(".")[:3]:
        raise TargetError(
            f"target {name!r} needs JAX's CUDA plugin of jaxlib's version {jaxlib.__version__}, "
            f"got {version}: pip install jax-cuda13-plugin=={jaxlib.__version__}"
        )
    from jax.experimental import topologies

    jax.devices()  # initialises the backends as the user's environment configures them
    try:
        # Without it, the plugin requires CUDA libraries that only running programs need.
        with _variable("JAX_SKIP_CUDA_CONSTRAINTS_CHECK"):
            compat.register_cuda()
            compat.load_pallas_runtime()
        topology = topologies.get_topology_desc(
            platform="cuda", topology_name="", target_config=config(gpu), topology="1x1x1"
        )
    except Exception as error:  # the plugin's own, of many types
        raise TargetError(
            f"JAX's CUDA plugin cannot compile for {name!r} here ({_line(error)}); is all of "
            "'jaxlens[gpu]' installed?"
        ) from None
    devices = tuple(topology.devices)
    return ResolvedTarget(_target(devices, absent=True), name, devices, ("cuda",))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


@uninterrupted
def _variable(name: str) -> Iterator[None]:
    """Sets an environment variable to "1" during the `with` block, unless the user has set it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def _choices() -> str:
    return "this process has " + ", ".join(_process_devices())


def _hint(name: str) -> str:
    """What to write instead of a name without a device."""
    if "," in name:
        return "; give each target an option of its own: --target cpu --target gpu:h100"
    return "; a device that is not here is a TPU (tpu:v5e:2x2) or an NVIDIA GPU (gpu:h100)"
