"""Describes NVIDIA GPUs to XLA, which can then compile for them on a machine without a GPU.

The figures are those that the devices report (sources: NVIDIA's data sheets and CUDA's table of
compute capabilities; XLA's repository has the same for most). XLA's cost model, and so its fusion
decisions, depend on them. Boards of one name differ slightly; the figures are close enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_KIB = 2**10


@dataclass(frozen=True, slots=True)
class Gpu:
    """Properties of a GPU that XLA does not derive from the compute capability.

    Attributes:
        name: The driver's name of the device.
        capability: Compute capability, (major, minor).
        accelerated: Whether code may use architecture-specific features ("sm_90a").
        cores: Number of streaming multiprocessors (SMs).
        fpus: Single-precision units per SM.
        threads: Maximum threads per SM.
        shared: Shared memory per SM in bytes; a block gets at most 1 KiB less.
        clock: Clock rate in GHz.
        bandwidth: Memory bandwidth in bytes per second.
        l2: Size of the L2 cache in bytes.
        memory: Size of the device memory in bytes.
    """

    name: str
    capability: tuple[int, int]
    accelerated: bool
    cores: int
    fpus: int
    threads: int
    shared: int
    clock: float
    bandwidth: int
    l2: int
    memory: int


# Key, capability, accelerated, cores, fpus, threads, shared, clock, bandwidth, l2, memory, name.
_ROWS = """
a100 8.0 no 108 64 2048 167936 1.41 2039040000000 41943040 85100068864 NVIDIA A100-SXM4-80GB
b200 10.0 yes 148 128 2048 233472 1.965 7672320000000 132644864 191514411008 NVIDIA B200
h100 9.0 yes 132 128 2048 233472 1.98 3352320000000 52428800 84942979072 NVIDIA H100 80GB HBM3
h200 9.0 yes 132 128 2048 233472 1.98 4800000000000 52428800 151397597184 NVIDIA H200
l4 8.9 no 58 128 1536 102400 2.04 300096000000 50331648 24152899584 NVIDIA L4
"""


def _gpu(capability: str, accelerated: str, *row: str) -> Gpu:
    major, minor = map(int, capability.split("."))
    *sizes, name = row
    cores, fpus, threads, shared = map(int, sizes[:4])
    bandwidth, l2, memory = map(int, sizes[5:])
    return Gpu(
        name=name,
        capability=(major, minor),
        accelerated=accelerated == "yes",
        cores=cores,
        fpus=fpus,
        threads=threads,
        shared=shared,
        clock=float(sizes[4]),
        bandwidth=bandwidth,
        l2=l2,
        memory=memory,
    )


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
    return "\n".join(_lines(gpu))


def _lines(gpu: Gpu) -> Iterator[str]:
    fields = _COMMON | {
        "core_count": gpu.cores,
        "fpus_per_core": gpu.fpus,
        "threads_per_core_limit": gpu.threads,
        "shared_memory_per_core": gpu.shared,
        "shared_memory_per_block_optin": gpu.shared - _KIB,
        "clock_rate_ghz": gpu.clock,
        "memory_bandwidth": gpu.bandwidth,
        "l2_cache_size": gpu.l2,
        "device_memory_size": gpu.memory,
    }
    major, minor = gpu.capability
    features = "ACCELERATED_FEATURES" if gpu.accelerated else "NONE"
    yield "gpu_device_info {"
    yield from (f"  {name}: {value}" for name, value in fields.items())
    yield "  cuda_compute_capability {"
    yield f"    major: {major} minor: {minor} feature_extension: {features}"
    yield "  }"
    yield f'  name: "{gpu.name}"'
    yield "}"
    yield 'platform_name: "CUDA"'
    yield "dnn_version_info {{ major: {} minor: {} }}".format(*_CUDNN)
    yield f'device_description_str: "{gpu.name}"'
