"""Timing, and a log of one line a measurement: what fails or comes too late loses its own figure only."""

from __future__ import annotations

import gc
import gzip
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

Call = Callable[[], Any]
DEAD = 3  # exit status: the device context is lost; the parent starts the part again behind what failed


class Bench:
    """A part's log file, its deadline, its device, and how calls are timed on it."""

    def __init__(self, path: Path, deadline: float, device: str) -> None:
        warnings.filterwarnings("ignore")
        self.path, self.deadline, self.gpu = path, deadline, device == "cuda"
        self.device = torch.device(device)
        self.begun = time.time()
        lines = path.read_text().splitlines() if path.exists() else []
        self.done = {json.loads(line)["figure"] for line in lines}
        self.cycles_per_ms = 1.8e6
        self.l2 = 1 << 20
        torch.manual_seed(0)
        if not self.gpu:
            torch.set_num_threads(1)  # small sizes: waiting for other threads would be most of the time
        precision("fp32")
        if self.gpu:
            self.l2 = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)) or 50 << 20
            for _ in range(20):  # clocks are low when nothing ran before
                torch.cuda._sleep(4_000_000)
            spun = self.between(lambda: torch.cuda._sleep(4_000_000))
            self.cycles_per_ms = 4_000_000 / spun

    def pick(self, gpu: Any, cpu: Any) -> Any:
        """*gpu* where there is one, *cpu* elsewhere."""
        return gpu if self.gpu else cpu

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Append one line to the log, at once."""
        with self.path.open("a") as file:
            file.write(json.dumps({"figure": name, **value}) + "\n")

    def measure(self, name: str, job: Callable[[], dict[str, Any]]) -> None:
        """Run *job* and log what it returns, its error, or that the time was up; nothing where the log has *name*."""
        if name in self.done:
            return
        self.done.add(name)
        start = time.time()
        if start > self.deadline:
            self.write(name, {"skipped": "no time left"})
            return
        self.write(name, {"begun": True})  # a process that dies in it does not begin it again
        lost = False
        try:
            value = job()
        except Exception as error:  # noqa: BLE001
            text = f"{type(error).__name__}: {error}"
            value = {"error": text[:600]}
            lost = not self.alive()
        value["took_s"] = round(time.time() - start, 3)
        self.write(name, value)
        left_out = {"flops", "bytes", "shape", "min_ms", "max_ms", "samples", "batch", "kind", "took_s"}
        shown = {
            key: short(item)
            for key, item in value.items()
            if key not in left_out and not isinstance(item, (list, dict))
        }
        print(f"{time.time() - self.begun:7.1f} s  {name}: {shown}", flush=True)
        precision("fp32")
        if lost:
            os._exit(DEAD)
        if self.gpu and torch.cuda.memory_reserved() > 16 << 30:
            gc.collect()
            torch.cuda.empty_cache()

    def alive(self) -> bool:
        """Tell a call that was refused from an error that every later call will meet as well."""
        try:
            self.sync()
            return float(torch.ones(2, device=self.device).sum()) == 2.0
        except Exception:  # noqa: BLE001
            return False

    def sync(self) -> None:
        """Wait for the device."""
        if self.gpu:
            torch.cuda.synchronize()

    def between(self, call: Call) -> float:
        """ms between two events around one call."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last))

    def copies(self, size: int) -> int:
        """Number of sets of inputs of *size* bytes that are more than twice the L2 cache, so that none is found in it."""
        return max(2, min(64, -(-2 * self.l2 // max(size, 1)))) if self.gpu else 1

    def timed(self, call: Call, spend_ms: float = 40.0) -> dict[str, Any]:
        """Device time of a call: the median over batches between events, with the queue full behind a spinning kernel.

        The spinning kernel holds the device until the host has launched the whole batch, so that the host's own time does
        not count; ``host_us`` is that time. Without a GPU, the median of wall times.
        """
        call()
        if not self.gpu:
            times = []
            for _ in range(5):
                start = time.perf_counter()
                call()
                times.append((time.perf_counter() - start) * 1e3)
            return {"ms": median(times), "min_ms": min(times), "max_ms": max(times), "samples": 5}
        call()
        self.sync()
        estimate = self.between(lambda: [call() for _ in range(3)]) / 3
        start = time.perf_counter()
        for _ in range(3):
            call()
        host = (time.perf_counter() - start) / 3 * 1e3
        self.sync()
        batch = max(1, min(50, int(1.0 / max(estimate, 1e-3)), int(3.0 / max(host, 1e-3))))
        rounds = max(5, min(25, int(spend_ms / max(estimate * batch, 1e-3))))
        hold = int(min(host * batch * 1.5 + 0.1, 30.0) * self.cycles_per_ms) if estimate < 3.0 else 0
        times = []
        for _ in range(rounds):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if hold:
                torch.cuda._sleep(hold)
            first.record()
            for _ in range(batch):
                call()
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last) / batch)
        return {
            "ms": median(times),
            "min_ms": min(times),
            "max_ms": max(times),
            "samples": rounds,
            "batch": batch,
            "host_us": host * 1e3,
        }

    def walled(self, call: Call, count: int = 0, spend_s: float = 0.15) -> float:
        """Wall ms per call of a loop that waits for the device at its end only."""
        call()
        self.sync()
        start = time.perf_counter()
        call()
        self.sync()
        once = time.perf_counter() - start
        count = count or max(3, min(200, int(spend_s / 3 / max(once, 1e-6))))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(count):
                call()
            self.sync()
            times.append((time.perf_counter() - start) / count * 1e3)
        return median(times)

    def rotated(self, build: Callable[[], Call], size: int) -> Call:
        """A call that goes through as many sets of inputs as overflow the L2 cache, one a call; *size* 0: one set."""
        calls = [build() for _ in range(self.copies(size) if size else 1)]
        state = [0]

        def call() -> Any:
            state[0] = (state[0] + 1) % len(calls)
            return calls[state[0]]()

        return call

    def kernels(self, call: Call, count: int = 3) -> list[dict[str, Any]]:
        """Kernels, copies and fills that *count* calls ran, as torch.profiler has them: name, start and duration in µs."""
        activities = torch.profiler.ProfilerActivity
        kinds = [activities.CPU, activities.CUDA] if self.gpu else [activities.CPU]
        self.sync()
        with torch.profiler.profile(activities=kinds) as profiler:
            for _ in range(count):
                call()
            self.sync()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            events = json.loads(path.read_text())["traceEvents"]
        wanted = {"kernel", "gpu_memcpy", "gpu_memset"} if self.gpu else {"cpu_op"}
        found = [event for event in events if event.get("cat") in wanted and event.get("ph") == "X"]
        found.sort(key=lambda event: float(event["ts"]))
        return [{"name": event["name"], "ts": float(event["ts"]), "dur": float(event["dur"])} for event in found]

    def profiled(self, call: Call, count: int = 3) -> dict[str, Any]:
        """Time in kernels per call, and the kernels by name with number and µs per call."""
        found = self.kernels(call, count)
        names: dict[str, list[float]] = {}
        for event in found:
            names.setdefault(event["name"], []).append(event["dur"])
        rows = [[name[:240], len(each) / count, sum(each) / count] for name, each in names.items()]
        rows.sort(key=lambda row: -float(row[2]))
        if not self.gpu:
            return {"kernels": rows[:12]}
        return {"kernel_ms": sum(event["dur"] for event in found) / count / 1e3, "kernels": rows[:12]}


def precision(kind: str) -> None:
    """Allow TF32 for matmul and convolution, or not. The old switches only: torch refuses a mixture with the new ones."""
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    torch.backends.cudnn.allow_tf32 = kind == "tf32"


def short(value: Any) -> Any:
    """Floats with four digits, texts cut."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value[:160] if isinstance(value, str) else value


def total(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes of *tensors*."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def read_log(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each name; one that was begun and not ended carries an error."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        name = row.pop("figure")
        found[name] = {"error": "the process ended in it"} if row == {"begun": True} else row
    return found


def gz_size(path: Path) -> tuple[int, int]:
    """Compressed and uncompressed bytes of a gzip file."""
    with gzip.open(path) as file:
        return path.stat().st_size, len(file.read())
