"""Describes NVIDIA GPUs to XLA, which can then compile for them on a machine without a GPU.

The figures are those that the devices report: of h100 and h200 in XLA's dumps of their programs
(jax 0.11.2), of others by NVIDIA's data sheets and CUDA's table of compute capabilities (XLA's
repository has the same for most). XLA's cost model, and so its fusion decisions, depend on them.
Boards of one name differ slightly; the figures are close enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_KIB = 2**10


@dataclass(frozen=True, slots=True)
class Gpu:
    """Properties of a GPU that XLA does not derive from the compute capability.

    Attributes:
        name: The driver's name of the device.
        capability: Compute capability, (major, minor).
        accelerated: Whether code may use architecture-specific features ("sm_90a").
        fields: Its figures by field of XLA's `gpu_device_info`.
    """

    name: str
    capability: tuple[int, int]
    accelerated: bool
    fields: Mapping[str, str]


_FIELDS = (
    "core_count",  # streaming multiprocessors (SMs)
    "fpus_per_core",  # single-precision units per SM
    "threads_per_core_limit",
    "shared_memory_per_core",  # bytes per SM; a block gets at most 1 KiB less
    "clock_rate_ghz",
    "memory_bandwidth",  # bytes per second
    "l2_cache_size",  # bytes
    "device_memory_size",  # bytes
)
# Key, capability, whether it is accelerated, `_FIELDS`, name.
_ROWS = """
a100 8.0 no 108 64 2048 167936 1.41 2039040000000 41943040 85100068864 NVIDIA A100-SXM4-80GB
b200 10.0 yes 148 128 2048 233472 1.965 7672320000000 132644864 191514411008 NVIDIA B200
h100 9.0 yes 132 128 2048 233472 1.98 3352320000000 52428800 85017493504 NVIDIA H100 80GB HBM3
h200 9.0 yes 132 128 2048 233472 1.98 4814304000000 62914560 150109880320 NVIDIA H200
l4 8.9 no 58 128 1536 102400 2.04 300096000000 50331648 24152899584 NVIDIA L4
"""


def _gpu(capability: str, accelerated: str, *row: str) -> Gpu:
    major, minor = map(int, capability.split("."))
    *figures, name = row
    fields = dict(zip(_FIELDS, figures, strict=True))
    return Gpu(name, (major, minor), accelerated == "yes", fields)


GPUS = {
    key: _gpu(*row)
    for key, *row in (line.split(maxsplit=11) for line in _ROWS.strip().splitlines())
}

# Fields of `gpu_device_info` with the same value on all these GPUs.
_COMMON = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 48 * _KIB,
    "block_dim_limit_x": 2**31 - 1,
    "block_dim_limit_y": 65_535,
    "block_dim_limit_z": 65_535,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
    "registers_per_core_limit": 65_536,
    "registers_per_block_limit": 65_536,
}
_CUDNN = (9, 10)  # assumed to be installed beside the GPU


def config(gpu: Gpu) -> str:
    """Returns the text form of XLA's `GpuTargetConfigProto` for a GPU."""
    block_memory = int(gpu.fields["shared_memory_per_core"]) - _KIB
    fields = {**_COMMON, **gpu.fields, "shared_memory_per_block_optin": block_memory}
    info = "\n".join(f"  {name}: {value}" for name, value in fields.items())
    major, minor = gpu.capability
    features = "ACCELERATED_FEATURES" if gpu.accelerated else "NONE"
    return f"""gpu_device_info {{
{info}
  cuda_compute_capability {{
    major: {major} minor: {minor} feature_extension: {features}
  }}
  name: "{gpu.name}"
}}
platform_name: "CUDA"
dnn_version_info {{ major: {_CUDNN[0]} minor: {_CUDNN[1]} }}
device_description_str: "{gpu.name}\""""
