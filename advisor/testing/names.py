"""Names that CUDA, HIP and NCCL write into a trace."""

from __future__ import annotations

from typing import Any

# Callback ids that CUPTI gives the calls.
CBID = {
    "cudaLaunchKernel": 211,
    "cuLaunchKernel": 307,
    "cudaGraphLaunch": 311,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaEventSynchronize": 137,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaMalloc": 20,
    "cudaFree": 22,
}
# Pageable memory up to this size is staged before the call returns, without waiting for the stream.
STAGED_BYTES = 64 << 10
COLLECTIVES = {
    "all_reduce": ("allreduce", "AllReduce_Sum"),
    "all_gather": ("all_gather", "AllGather"),
    "reduce_scatter": ("reduce_scatter", "ReduceScatter_Sum"),
    "broadcast": ("broadcast", "Broadcast"),
    "all_to_all": ("all_to_all", "SendRecv"),
}
ELEMENTS = {"Float": (4, "f32"), "Half": (2, "f16"), "BFloat16": (2, "bf16"), "Double": (8, "f64"), "Long": (8, "i64")}
ELEMENTS |= {"Byte": (1, "u8")}


def copy_name(direction: str, pinned: bool) -> str:
    """Name a copy of that direction."""
    host = "Pinned" if pinned else "Pageable"
    kinds = {"HtoD": f"{host} -> Device", "DtoH": f"Device -> {host}"}
    return f"Memcpy {direction} ({kinds.get(direction, 'Device -> Device')})"


def bandwidth(nbytes: int, length_ns: int) -> dict[str, Any]:
    """Return the rate in GB/s, left out where the time is 0, as Kineto does."""
    return {"memory bandwidth (GB/s)": nbytes / length_ns} if length_ns else {}


def distributed(backend: str, rank: int, world_size: int) -> dict[str, Any]:
    """Return the root's ``distributedInfo``."""
    group = {
        "pg_name": "0",
        "pg_desc": "default_pg",
        "backend_config": f"cuda:{backend}",
        "pg_size": world_size,
        "ranks": list(range(world_size)),
    }
    info: dict[str, Any] = {
        "backend": backend,
        "rank": rank,
        "world_size": world_size,
        "pg_count": 1,
        "pg_config": [group],
    }
    return info | {"nccl_version": "2.18.1"}
