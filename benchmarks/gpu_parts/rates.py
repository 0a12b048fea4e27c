"""Reachable rates of a device: matmul by type and size, memory, copies to and from the host, launches, waits, the profiler."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from gpu_parts.bench import Bench, Call, precision

MIB = 1 << 20
TYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
# Types of a scaled or integer product: bytes of an element of the inputs.
SMALL = ("fp8", "fp8_slow_accumulate", "fp8_rowwise", "int8")


def device(bench: Bench) -> dict[str, Any]:
    """Name, multiprocessors, cache, memory, clocks, driver, versions; nothing is set."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    if bench.gpu:
        properties = torch.cuda.get_device_properties(0)
        found["properties"] = str(properties)
        found["name"] = properties.name
        found["sms"] = properties.multi_processor_count
        found["memory"] = properties.total_memory
        found["l2"] = int(getattr(properties, "L2_cache_size", 0))
        found["capability"] = list(torch.cuda.get_device_capability())
        found["cudnn"] = torch.backends.cudnn.version()
        found["cycles_per_ms_under_sleep"] = bench.cycles_per_ms
        found["nvidia_smi"] = nvidia_smi()
    return found


def nvidia_smi() -> dict[str, str]:
    """Clocks, power and temperature now, and their limits: read only."""
    if not shutil.which("nvidia-smi"):
        return {"error": "no nvidia-smi"}
    fields = (
        "name driver_version vbios_version pstate clocks.sm clocks.mem clocks.max.sm clocks.max.mem power.draw power.limit "
        "temperature.gpu memory.total pcie.link.gen.current pcie.link.gen.max pcie.link.width.current "
        "clocks_event_reasons.active compute_mode persistence_mode ecc.mode.current"
    )
    found = {}
    for field in fields.split():  # one at a time: a driver that does not know one refuses the whole query
        command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", "--id=0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        found[field] = (done.stdout or done.stderr).strip()[:120]
    return found


def product(bench: Bench, kind: str, m: int, k: int, n: int) -> Call:
    """A matrix product of *kind* with inputs of its own, random."""
    if kind in TYPES:
        a = torch.randn(m, k, device=bench.device).to(TYPES[kind])
        b = torch.randn(k, n, device=bench.device).to(TYPES[kind])
        out = torch.empty(m, n, device=bench.device, dtype=TYPES[kind])
        return lambda: torch.mm(a, b, out=out)
    if kind == "int8":
        x = torch.randint(-128, 128, (m, k), device=bench.device, dtype=torch.int8)
        y = torch.randint(-128, 128, (n, k), device=bench.device, dtype=torch.int8).t()
        return lambda: torch._int_mm(x, y)
    x = torch.randn(m, k, device=bench.device).to(torch.float8_e4m3fn)
    y = torch.randn(n, k, device=bench.device).to(torch.float8_e4m3fn).t()
    rowwise = kind == "fp8_rowwise"
    scale_a = torch.ones((m, 1) if rowwise else (), device=bench.device)
    scale_b = torch.ones((1, n) if rowwise else (), device=bench.device)
    fast = kind != "fp8_slow_accumulate"
    return lambda: torch._scaled_mm(x, y, scale_a, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)


def width(kind: str) -> tuple[int, int]:
    """Bytes of an element of the inputs and of the result."""
    if kind in TYPES:
        size = torch.empty((), dtype=TYPES[kind]).element_size()
        return size, size
    return (1, 4) if kind == "int8" else (1, 2)


def matmul(bench: Bench, kind: str, m: int, k: int, n: int) -> Callable[[], dict[str, Any]]:
    """A job that times one product over inputs that overflow the cache."""

    def job() -> dict[str, Any]:
        precision(kind)
        size, out = width(kind)
        moved = size * (m * k + k * n) + out * m * n
        call = bench.rotated(lambda: product(bench, kind, m, k, n), moved)
        found = bench.timed(call, 60.0)
        seconds = found["ms"] / 1e3
        return {
            "kind": kind,
            "m": m,
            "k": k,
            "n": n,
            "tflops": 2 * m * k * n / seconds / 1e12,
            "gbs": moved / seconds / 1e9,
            **found,
        }

    return job


def memory(bench: Bench, kind: str, dtype: torch.dtype, size: int, cold: bool) -> Callable[[], dict[str, Any]]:
    """A job for the bandwidth of copy, read, write or triad on tensors of *size* bytes: the same again, or ever others."""

    def job() -> dict[str, Any]:
        count = size // torch.empty((), dtype=dtype).element_size()
        tensors = {"copy": 2, "read": 1, "write": 1, "triad": 3}[kind]
        sets = 1
        if cold and bench.gpu:
            sets = max(2, min(256, -(-2 * bench.l2 // (size * tensors)) + 1))
        arenas = [torch.ones(sets, count, device=bench.device, dtype=dtype) for _ in range(tensors)]
        state = [0]

        def call() -> Any:
            state[0] = (state[0] + 1) % sets
            rows = [arena[state[0]] for arena in arenas]
            if kind == "copy":
                return rows[0].copy_(rows[1])
            if kind == "read":
                return rows[0].sum()
            if kind == "write":
                return rows[0].fill_(1.5)
            return torch.add(rows[1], rows[2], alpha=0.5, out=rows[0])

        found = bench.timed(call, 25.0)
        gbs = size * tensors / found["ms"] / 1e6
        return {"kind": kind, "dtype": str(dtype)[6:], "size": size, "cold": cold, "gbs": gbs, **found}

    return job


def transfer(bench: Bench, size: int, pinned: bool, to_device: bool) -> Callable[[], dict[str, Any]]:
    """A job for copies between host and device: wall time of one that waits, event time, and time until the call returns."""

    def job() -> dict[str, Any]:
        host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
        there = torch.ones(size, dtype=torch.uint8, device=bench.device)
        target, source = (there, host) if to_device else (host, there)
        walls, events, returns = [], [], []
        rounds = 20 if size <= 64 * MIB else 5
        for number in range(rounds + 2):
            bench.sync()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start = time.perf_counter()
            first.record()
            target.copy_(source, non_blocking=True)
            last.record()
            returned = time.perf_counter()
            torch.cuda.synchronize()
            if number > 1:
                walls.append((time.perf_counter() - start) * 1e3)
                returns.append((returned - start) * 1e3)
                events.append(first.elapsed_time(last))
        wall, event = median(walls), median(events)
        return {
            "size": size,
            "pinned": pinned,
            "direction": "h2d" if to_device else "d2h",
            "wall_ms": wall,
            "event_ms": event,
            "returned_ms": median(returns),
            "gbs": size / event / 1e6,
            "wall_gbs": size / wall / 1e6,
        }

    return job


def loop_us(bench: Bench, call: Call, count: int, hold_ms: float = 0.0) -> float:
    """Host µs per call of a loop; with *hold_ms*, the device is kept spinning so that the queue never empties."""
    times = []
    for _ in range(7):
        bench.sync()
        if hold_ms and bench.gpu:
            torch.cuda._sleep(int(hold_ms * bench.cycles_per_ms))
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count * 1e6)
        bench.sync()
    return median(times[1:])


def launches(bench: Bench) -> dict[str, Any]:
    """Host µs per call of tiny operators with the queue filling (500 calls, under the queue's depth)."""
    x = torch.ones(64, device=bench.device)
    a = torch.ones(64, 64, device=bench.device)
    gradient = torch.ones(64, device=bench.device, requires_grad=True)
    calls: dict[str, Call] = {
        "add_": lambda: x.add_(1.0),
        "add": lambda: x + 1.0,
        "mul_out": lambda: torch.mul(x, x, out=x),
        "mm": lambda: torch.mm(a, a),
        "linear": lambda: torch.nn.functional.linear(a, a, x),
        "layer_norm": lambda: torch.nn.functional.layer_norm(a, (64,)),
        "sum": x.sum,
        "empty": lambda: torch.empty(64, device=bench.device),
        "view": lambda: a.view(-1),
        "add_with_gradient": lambda: gradient + 1.0,
    }
    return {f"{name}_us": loop_us(bench, call, 500, 20.0) for name, call in calls.items()}


def unqueued(bench: Bench) -> dict[str, Any]:
    """Device time between starts of tiny kernels that are all in the queue, by events around 400 of them."""
    x = torch.ones(64, device=bench.device)

    def many() -> None:
        for _ in range(400):
            x.add_(1.0)

    many()
    bench.sync()
    times = []
    for _ in range(7):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(int(30 * bench.cycles_per_ms))
        first.record()
        many()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / 400 * 1e3)
    return {"start_to_start_us": median(times), "min_us": min(times)}


def start_to_start(bench: Bench) -> dict[str, Any]:
    """The same from the profiler's kernel times: start to start, duration, and gap of queued tiny kernels; and not queued."""
    x = torch.ones(64, device=bench.device)

    def queued() -> None:
        torch.cuda._sleep(int(20 * bench.cycles_per_ms))
        for _ in range(400):
            x.add_(1.0)

    def loose() -> None:
        for _ in range(400):
            x.add_(1.0)

    found: dict[str, Any] = {}
    for name, call in (("queued", queued), ("loose", loose)):
        call()
        rows = bench.kernels(call, 1)[-400:]
        starts = [after["ts"] - before["ts"] for before, after in pairwise(rows)]
        gaps = [after["ts"] - before["ts"] - before["dur"] for before, after in pairwise(rows)]
        found |= {
            f"{name}_start_us": median(starts),
            f"{name}_start_min_us": min(starts),
            f"{name}_gap_us": median(gaps),
        }
        found[f"{name}_gap_min_us"] = min(gaps)
        found[f"{name}_duration_us"] = median(row["dur"] for row in rows)
    return found


def graph(bench: Bench) -> dict[str, Any]:
    """µs per kernel of a replayed CUDA graph, for 1, 10, 100 and 1000 kernels, and host µs of a replay call."""
    x = torch.ones(64, device=bench.device)
    x.add_(1.0)
    found: dict[str, Any] = {}
    for count in (1, 10, 100, 1000):
        captured = torch.cuda.CUDAGraph()
        bench.sync()
        with torch.cuda.graph(captured):
            for _ in range(count):
                x.add_(1.0)
        result = bench.timed(captured.replay, 30.0)
        found[f"replay_{count}_us"] = result["ms"] * 1e3
        found[f"per_kernel_{count}_us"] = result["ms"] * 1e3 / count
        found[f"host_{count}_us"] = loop_us(bench, captured.replay, 20)
    return found


def waits(bench: Bench) -> dict[str, Any]:
    """µs of waits and of memory calls with nothing to wait for."""
    x = torch.ones((), device=bench.device)
    event = torch.cuda.Event()
    stream = torch.cuda.Stream()
    found = {
        "synchronize_us": loop_us(bench, torch.cuda.synchronize, 200),
        "stream_synchronize_us": loop_us(bench, torch.cuda.current_stream().synchronize, 200),
        "event_record_us": loop_us(bench, event.record, 200),
        "event_query_us": loop_us(bench, event.query, 200),
        "item_us": loop_us(bench, x.item, 200),
        "cpu_us": loop_us(bench, x.cpu, 200),
        "tensor_from_list_us": loop_us(bench, lambda: torch.tensor([1.0], device=bench.device), 200),
        "bool_us": loop_us(bench, lambda: bool(x > 0), 200),
        "wait_stream_us": loop_us(bench, lambda: torch.cuda.current_stream().wait_stream(stream), 200),
    }
    mask = torch.ones(1024, device=bench.device) > 0
    found["nonzero_us"] = loop_us(bench, mask.nonzero, 100)
    return found


def allocations(bench: Bench) -> dict[str, Any]:
    """ms of cudaMalloc and cudaFree (through the allocator, emptied each time), and µs of a cached allocation."""
    found: dict[str, Any] = {}
    for size in (2 * MIB, 32 * MIB, 512 * MIB, 4096 * MIB):
        made, freed = [], []
        for _ in range(6):
            torch.cuda.empty_cache()
            bench.sync()
            start = time.perf_counter()
            tensor = torch.empty(size, dtype=torch.uint8, device=bench.device)
            bench.sync()
            made.append((time.perf_counter() - start) * 1e3)
            del tensor
            start = time.perf_counter()
            torch.cuda.empty_cache()
            freed.append((time.perf_counter() - start) * 1e3)
        found[f"malloc_{size // MIB}_mib_ms"] = median(made[1:])
        found[f"free_{size // MIB}_mib_ms"] = median(freed[1:])
    found["cached_us"] = loop_us(bench, lambda: torch.empty(2 * MIB, dtype=torch.uint8, device=bench.device), 500)
    for size in (MIB, 64 * MIB):
        start = time.perf_counter()
        torch.empty(size, dtype=torch.uint8, pin_memory=True)
        found[f"pin_{size // MIB}_mib_ms"] = (time.perf_counter() - start) * 1e3
    return found


def profiler_overhead(bench: Bench) -> dict[str, Any]:
    """µs per operator of a loop of small operators and of one of large ones, without the profiler and with its variations."""
    x = torch.ones(256, device=bench.device)
    side = bench.pick(4096, 256)
    a = torch.randn(side, side, device=bench.device).to(bench.pick(torch.bfloat16, torch.float32))
    layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(20)]).to(bench.device)
    batch = torch.randn(32, 256, device=bench.device)

    def small() -> int:
        for _ in range(1000):
            x.add_(1.0)
        return 1000

    def large() -> int:
        for _ in range(30):
            torch.mm(a, a)
        return 30

    def training() -> int:  # 20 layers forward and backward: an operator is a layer here
        layers(batch).sum().backward()
        return 20

    cpu, cuda = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    both = [cpu, cuda] if bench.gpu else [cpu]
    variants: dict[str, dict[str, Any] | None] = {
        "none_before": None,
        "plain": {"activities": both},
        "cpu_only": {"activities": [cpu]},
        "shapes": {"activities": both, "record_shapes": True},
        "stack": {"activities": both, "with_stack": True},
        "memory": {"activities": both, "profile_memory": True},
        "all": {"activities": both, "record_shapes": True, "profile_memory": True, "with_stack": True},
        "none_after": None,
    }
    if bench.gpu:
        variants["cuda_only"] = {"activities": [cuda]}
    found: dict[str, Any] = {}
    for name, options in variants.items():
        for label, loop in (("small", small), ("large", large), ("training", training)):
            loop()
            bench.sync()
            times, started, stopped = [], 0.0, 0.0
            profiler = torch.profiler.profile(**options) if options else None
            start = time.perf_counter()
            if profiler:
                profiler.start()
                started = time.perf_counter() - start
            for _ in range(bench.pick(5, 2)):
                bench.sync()
                start = time.perf_counter()
                count = loop()
                bench.sync()
                times.append((time.perf_counter() - start) / count * 1e6)
            start = time.perf_counter()
            if profiler:
                profiler.stop()
                stopped = time.perf_counter() - start
            found[f"{name}_{label}_us"] = median(times)
            if profiler:
                found[f"{name}_{label}_start_ms"], found[f"{name}_{label}_stop_ms"] = started * 1e3, stopped * 1e3
    return found


def run(bench: Bench) -> None:
    """All rates; what needs no profiler first, as tracing slows launches and may stay on."""
    bench.measure("device", lambda: device(bench))
    if bench.gpu:
        for name, job in (("unqueued", unqueued), ("graph", graph), ("waits", waits), ("allocations", allocations)):
            bench.measure(f"launch/{name}", lambda job=job: job(bench))
    bench.measure("launch/host", lambda: launches(bench))
    sides = bench.pick((8192, 4096, 2048, 1024, 512, 16384), (128, 256))
    kinds = [*TYPES, *SMALL] if bench.gpu else ["fp64", "fp32", "bf16", "int8"]
    for side in sides:
        for kind in kinds:
            bench.measure(f"matmul/{kind}/{side}", matmul(bench, kind, side, side, side))
    for size in bench.pick((1024, 256, 64, 16, 4, 1, 32, 4096), (1,)):
        for dtype in (torch.float32, torch.bfloat16):
            for kind in ("copy", "read", "write", "triad"):
                for cold in bench.pick((True, False), (False,)):
                    if size < 1024 or cold:
                        name = f"memory/{kind}/{str(dtype)[6:]}/{size}MiB/{'cold' if cold else 'again'}"
                        bench.measure(name, memory(bench, kind, dtype, size * MIB, cold))
    if bench.gpu:
        for size in (4096, 65536, MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB):
            for pinned in (True, False):
                for to_device in (True, False):
                    name = f"transfer/{'pinned' if pinned else 'pageable'}/{'h2d' if to_device else 'd2h'}/{size}"
                    bench.measure(name, transfer(bench, size, pinned, to_device))
    for side in bench.pick((4096, 8192), (128,)):
        for m in bench.pick((1, 8, 16, 64, 256), (1, 16)):
            for kind in bench.pick(("bf16", "fp16", "tf32", "fp8", "fp8_rowwise", "int8"), ("fp32",)):
                bench.measure(f"skinny/{kind}/{m}x{side}", matmul(bench, kind, m, side, side))
    if bench.gpu:
        bench.measure("launch/profiled", lambda: start_to_start(bench))
    bench.measure("profiler", lambda: profiler_overhead(bench))
    if bench.gpu:
        bench.measure("device_after", lambda: {"nvidia_smi": nvidia_smi()})
