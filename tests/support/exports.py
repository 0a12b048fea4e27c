"""Built files of other profilers: an export of Nsight Systems, JSON of rocprofv3, a memory snapshot of torch."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

# Columns as Nsight Systems 2024 and later export them, those that the reader asks for and some that it does not.
NSYS_SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
  registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
  staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER,
  graphExecId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
  contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
  color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, totalMemory INTEGER, smCount INTEGER,
  computeMajor INTEGER, computeMinor INTEGER);
"""
NSYS_DEVICES = "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT)"
_THREAD = (1 << 56) | (77 << 24) | 78
STEPS = 20


def nsys(path: Path, steps: int = STEPS) -> Path:
    """An export of *steps* steps of 100 us: a copy of 10 us, a kernel of 20 us, a memset of 1 us, and a wait for the stream."""
    with sqlite3.connect(path) as db:
        db.executescript(NSYS_SCHEMA)
        names = (
            "cudaLaunchKernel_v7000",
            "sgemm",
            "void sgemm<float>()",
            "cudaMemcpyAsync_v3020",
            "train step",
            "cuLaunchKernel",
        )
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names, 1))
        db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA A100-SXM4-80GB', '0:1', 85899345920, 108, 8, 0)")
        for index in range(steps):
            at, corr = index * 100_000, 10 * index
            db.execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, textId, globalTid) VALUES (?,?,59,5,?)",
                (at, at + 90_000, _THREAD),
            )
            mm = (at + 100, at + 30_000, "aten::mm, seq = 3, op_id = 9", _THREAD)
            db.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?,?,59,?,?)", mm)
            db.execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?,NULL,34,'mark',?)",
                (at, _THREAD),
            )
            calls = [
                (at + 200, at + 5_000, corr + 1, 1),
                (at + 40_000, at + 41_000, corr + 2, 4),
                (at + 60_000, at + 61_000, corr + 3, 6),
            ]
            for start, end, correlation, name in calls:
                row = (start, end, _THREAD, correlation, name)
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0,NULL)", row)
            kernel = (at + 6_000, at + 26_000, corr + 1, 77 << 24)
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,NULL,7,?,?,3,2,NULL,0,0,32,108,2,1,256,1,1,48,1024,NULL)",
                kernel,
            )
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,0,1,7,?,?,4096,1,1,3)",
                (at + 42_000, at + 52_000, corr + 2, 77 << 24),
            )
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?,?,0,1,7,?,?,0,512,3)",
                (at + 62_000, at + 63_000, corr + 3, 77 << 24),
            )
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?,?,0,1,7,0,?,3,0)",
                (at + 63_000, at + 64_000, 77 << 24),
            )
    db.close()
    return path


def served(path: Path, *, nodes: bool, ranks: int = 1, batches: int = 20) -> Path:
    """An export of an engine that decodes: a graph of 8 ms for each batch of 10 ms, as a whole or (*nodes*) 40 kernels of 200 us.

    Each of the *ranks* is a process of its own, which sees one GPU and calls it 0; their calls have the same numbers. The
    graphs of the last take a tenth of a ms longer.
    """
    with sqlite3.connect(path) as db:
        db.executescript(f"{NSYS_SCHEMA}{NSYS_DEVICES};")
        texts = ("cudaGraphLaunch_v10000", "cudaStreamSynchronize_v3020", *(f"kernel_{at}" for at in range(40)))
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts, 1))
        for rank in range(ranks):
            process, last = (77 + rank) << 24, rank == ranks - 1
            name = "NVIDIA H100 80GB HBM3" if last else "NVIDIA L4"
            db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?, ?, '0:1', 85899345920, 132, 9, 0)", (rank, name))
            db.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, 0, ?, '')", (rank, 77 + rank))
            for index in range(batches):
                at, corr = index * 10_000_000 + rank * 300_000, 10 * index
                step = (at, at + 250_000, f"[Executor] _forward_step {index}: 0 ctx reqs, 64 gen reqs", process + 78)
                db.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?,?,59,?,?)", step)
                for start, end, correlation, call in (
                    (at + 100_000, at + 200_000, corr + 1, 1),
                    (at + 300_000, at + 8_310_000, corr + 2, 2),
                ):
                    row = (start, end, process + 78, correlation, call)
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0,NULL)", row)
                begin, us = at + 300_000, 202_500 if last and ranks > 1 else 200_000
                if not nodes:
                    whole = (begin, begin + 40 * us, corr + 1, process)
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?,?,0,1,NULL,7,?,?,9,11)", whole)
                for node in range(40 if nodes else 0):
                    start = begin + node * us
                    kernel = (start, start + us, corr + 1, process, node + 3, node + 3, (9 << 32) + node)
                    db.execute(
                        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,NULL,7,?,?,?,?,NULL,0,0,32,132,1,1,256,1,1,0,0,?)",
                        kernel,
                    )
    db.close()
    return path


def rocprof(steps: int = STEPS) -> dict[str, Any]:
    """JSON of rocprofv3: *steps* dispatches of 30 us, as many copies of 10 us, and the calls that launched them."""
    records: dict[str, list[Any]] = {
        "kernel_dispatch": [],
        "memory_copy": [],
        "hip_api": [],
        "hsa_api": [],
        "marker_api": [],
    }
    messages = []
    for index in range(steps):
        at, corr = 1_000_000 + index * 100_000, 10 * index
        ids = [{"internal": corr + more, "external": 0} for more in range(4)]
        call = {"kind": 1, "thread_id": 78}
        records["hip_api"] += [
            call | {"operation": 1, "correlation_id": ids[1], "start_timestamp": at, "end_timestamp": at + 5_000},
            call
            | {"operation": 0, "correlation_id": ids[2], "start_timestamp": at + 40_000, "end_timestamp": at + 41_000},
        ]
        info = {
            "agent_id": {"handle": 42}, "queue_id": {"handle": 1}, "kernel_id": 9, "dispatch_id": index, "group_segment_size": 512,
            "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 25_600, "y": 4, "z": 1},
        }  # fmt: skip
        dispatch = {
            "kind": 2,
            "operation": 1,
            "thread_id": 78,
            "correlation_id": ids[1],
            "dispatch_info": info,
            "stream_id": {"handle": 3},
        }
        records["kernel_dispatch"].append(dispatch | {"start_timestamp": at + 6_000, "end_timestamp": at + 36_000})
        ends = {"src_agent_id": {"handle": 1}, "dst_agent_id": {"handle": 42}, "bytes": 4096}
        copy = {"kind": 3, "operation": 1, "thread_id": 78, "correlation_id": ids[2], "stream_id": {"handle": 3}} | ends
        records["memory_copy"].append(copy | {"start_timestamp": at + 42_000, "end_timestamp": at + 52_000})
        messages.append({"key": corr + 3, "value": "train step"})
        mark = {"kind": 4, "operation": 0, "correlation_id": ids[3], "thread_id": 78}
        records["marker_api"].append(mark | {"start_timestamp": at, "end_timestamp": at + 90_000})
    kinds = [
        {"kind": "NONE", "operations": []},
        {"kind": "HIP_RUNTIME_API", "operations": ["hipMemcpyAsync", "hipLaunchKernel"]},
        {"kind": "KERNEL_DISPATCH", "operations": ["KERNEL_DISPATCH_NONE", "KERNEL_DISPATCH_COMPLETE"]},
        {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    ]
    agents = [
        {"id": {"handle": 1}, "type": 1, "node_id": 0, "name": "AMD EPYC"},
        {"id": {"handle": 42}, "type": 2, "node_id": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304},
    ]  # fmt: skip
    tool = {
        "metadata": {"pid": 77, "init_time": 0, "fini_time": 9},
        "agents": agents,
        "strings": {"buffer_records": kinds, "marker_api": messages},
        "kernel_symbols": [
            {"kernel_id": 9, "formatted_kernel_name": "Cijk_Ailk_Bljk_HHS_BH", "kernel_name": "Cijk.kd"}
        ],
        "buffer_records": records,
    }
    return {"rocprofiler-sdk-tool": [tool]}


def frames(*places: tuple[str, int, str]) -> list[dict[str, Any]]:
    """A stack, the innermost frame first."""
    return [{"filename": file, "line": line, "name": name} for file, line, name in places]


WEIGHTS = frames(
    ("/x/site-packages/torch/nn/modules/linear.py", 99, "__init__"), ("/home/u/proj/model.py", 12, "build")
)
OUTPUTS = frames(
    ("??", 0, "at::empty"),
    ("/x/site-packages/torch/nn/functional.py", 9, "gelu"),
    ("/home/u/proj/model.py", 31, "forward"),
)
MIB = 1 << 20


def snapshot(start_us: int = 1_700_000_000_000_000) -> dict[str, Any]:
    """A snapshot: 4 MiB of weights, and of outputs 4, 8 and then 12 MiB, each freed; 500 bytes from before the history."""
    events: list[dict[str, Any]] = []

    def event(action: str, address: int, size: int, at: int, stack: list[dict[str, Any]]) -> None:
        events.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": start_us + at, "frames": stack}
        )

    event("free_requested", 900, 1000, 1, [])
    event("free_completed", 900, 1000, 2, [])
    for index in range(4):
        event("alloc", 1000 + index, MIB, 10 + index, WEIGHTS)
    for turn in range(3):
        for index in range(8):
            event("alloc", 5000 + index, MIB // 2 * (turn + 1), 100 * turn + 100 + index, OUTPUTS)
        for index in range(8):
            event("free_requested", 5000 + index, MIB // 2 * (turn + 1), 100 * turn + 150 + index, [])
            event("free_completed", 5000 + index, MIB // 2 * (turn + 1), 100 * turn + 151 + index, [])
    state = {"state": "active_allocated"}
    blocks = [
        {"address": 1000 + index, "size": MIB, "requested_size": MIB, "frames": WEIGHTS} | state for index in range(4)
    ]
    blocks.append({"address": 77, "size": 512, "requested_size": 500, "frames": []} | state)
    blocks.append({"address": 99, "size": 4096, "requested_size": 4096, "frames": [], "state": "inactive"})
    segments = [{"device": 0, "address": 77, "total_size": 1 << 24, "blocks": blocks}]
    return {"segments": segments, "device_traces": [events], "allocator_settings": {}, "external_annotations": []}
