"""For tests of reading: events as the profiler writes them, in us, and the trace that they make."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import advisor.trace
from advisor.frames import SCHEMAS
from advisor.trace import Trace

Event = dict[str, Any]
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"


def host(cat: str, name: str, start: float, dur: float, thread: Any = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": thread, "ts": start, "dur": dur, "args": args}


def op(name: str, start: float, dur: float, thread: Any = 1, **args: Any) -> Event:
    return host("cpu_op", name, start, dur, thread, **args)


def step(number: int, start: float, dur: float) -> Event:
    return host("user_annotation", f"ProfilerStep#{number}", start, dur)


def launch(correlation: int, start: float, dur: float = 2, name: str = "cudaLaunchKernel", thread: Any = 1) -> Event:
    return host("cuda_runtime", name, start, dur, thread, correlation=correlation)


def gpu(
    cat: str, name: str, start: float, dur: float, correlation: int, stream: int = 7, device: int = 0, **args: Any
) -> Event:
    args = {"device": device, "stream": stream, "correlation": correlation, **args}
    return {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": start, "dur": dur, "args": args}


def kernel(
    start: float, dur: float, correlation: int = 1, name: str = "sgemm", stream: int = 7, device: int = 0
) -> Event:
    return gpu("kernel", name, start, dur, correlation, stream, device)


def copy(start: float, dur: float, correlation: int, name: str = PAGEABLE, size: Any = 1000) -> Event:
    return gpu("gpu_memcpy", name, start, dur, correlation, bytes=size)


def memory(start: float, size: int, kind: int, device: int, **args: Any) -> Event:
    args = {"Bytes": size, "Device Type": kind, "Device Id": device, **args}
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 100,
        "tid": 1,
        "ts": start,
        "args": args,
    }


def read(events: list[Event], *, shift: int = 0, **root: Any) -> Trace:
    """The trace of these events, *shift* us later; every frame of it can be built."""
    text = json.dumps({"schemaVersion": 1, **root, "traceEvents": events})
    if shift:
        # In the text: a double has no room for sixteen digits and three decimals.
        text = re.sub(r'(?<="ts": )[\d.]+', lambda match: str(shift + Decimal(match[0])), text)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(text)
        trace = advisor.trace.read(str(path))
    for name in SCHEMAS:
        assert list(trace.frame(name).columns) == [column.name for column in SCHEMAS[name].columns]
    return trace


def facts(trace: Trace) -> Any:
    return trace.frame("trace").iloc[0]
