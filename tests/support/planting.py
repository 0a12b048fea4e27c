"""Traces edited as JSON: a half of the steps cut out, or a regression of known size planted into every step."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

Event = dict[str, Any]
Document = dict[str, Any]

_GPU = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "gpu_user_annotation"}
_RUNTIME = {"runtime", "cuda_runtime", "cuda_driver"}
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def read(path: str | Path) -> Document:
    """A trace as JSON, its times in µs since the first event: small enough for a float to hold whole ns."""
    raw = Path(path).read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    document = json.loads(text, parse_float=Decimal)
    document = {"traceEvents": document} if isinstance(document, list) else document
    events = [event for event in document["traceEvents"] if event.get("ph") == "X" and "dur" in event]
    zero = min(Decimal(event["ts"]) for event in events)
    for event in document["traceEvents"]:
        if "ts" in event:
            event["ts"] = float(Decimal(event["ts"]) - zero)
        if "dur" in event:
            event["dur"] = float(event["dur"])
    document.pop("baseTimeNanoseconds", None)
    return document


def write(document: Document, path: Path) -> Path:
    """Write it where the advisor can read it."""
    path.write_bytes(_ENCODER.encode(document))
    return path


def category(event: Event) -> str:
    return str(event.get("cat", "")).lower()


def on_gpu(event: Event) -> bool:
    return category(event) in _GPU


def complete(document: Document) -> list[Event]:
    return [event for event in document["traceEvents"] if event.get("ph") == "X" and "dur" in event]


def steps(document: Document) -> list[Event]:
    """The ProfilerStep annotations of the host, in order."""
    steps = [e for e in complete(document) if str(e.get("name", "")).startswith("ProfilerStep#") and not on_gpu(e)]
    return sorted(steps, key=lambda event: event["ts"])


def correlation(event: Event) -> int:
    args = event.get("args", {})
    for key in ("correlation", "Correlation ID", "correlation id"):
        if key in args:
            return int(args[key])
    return -1


def half(document: Document, first: int, last: int) -> Document:
    """The steps from *first* to before *last*: what the host did in them, and the GPU work that it launched."""
    marks = steps(document)
    low = marks[first]["ts"]
    high = marks[last]["ts"] if last < len(marks) else float("inf")
    events: list[Event] = []
    launched: set[int] = set()
    elsewhere: set[int] = set()
    for event in document["traceEvents"]:
        if category(event) in _RUNTIME:
            (launched if low <= event["ts"] < high else elsewhere).add(correlation(event))
    known = launched | elsewhere
    for event in document["traceEvents"]:
        if "ts" not in event or event.get("ph") == "M":
            events.append(event)
        elif on_gpu(event) and correlation(event) in known:
            if correlation(event) in launched:
                events.append(event)
        elif low <= event["ts"] < high:
            events.append(event)
    return {**document, "traceEvents": events}


# ---- planting


def delayed(document: Document, delays: Iterable[tuple[float, float]], extra: Iterable[Event] = ()) -> Document:
    """Everything from each time on comes so much later; what the host was in the middle of lasts longer by it."""
    points = sorted(delays)
    times = np.array([time for time, _ in points])
    total = np.concatenate([[0.0], np.cumsum([much for _, much in points])])

    def moved(time: float, side: str) -> float:
        return time + float(total[np.searchsorted(times, time, side=side)])

    events = []
    for event in document["traceEvents"]:
        if "ts" not in event or event.get("ph") == "M":
            events.append(event)
            continue
        # A step begins before what is planted at its start; all other work behind it.
        is_step = str(event.get("name", "")).startswith("ProfilerStep#")
        start = moved(event["ts"], "left" if is_step else "right")
        changed = {**event, "ts": start}
        if "dur" in event and not on_gpu(event):
            changed["dur"] = moved(event["ts"] + event["dur"], "left") - start
        events.append(changed)
    return {**document, "traceEvents": events + [{**event, "ts": moved(event["ts"], "left")} for event in extra]}


def _new(like: Event, name: str, cat: str, ts: float, dur: float, args: dict[str, Any] | None = None) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": like["pid"], "tid": like["tid"], "ts": ts, "dur": dur,
            "args": args or {}}  # fmt: skip


def _legacy(document: Document) -> bool:
    return any(event.get("cat") == "Operator" for event in document["traceEvents"])


def median_step(document: Document) -> float:
    """In µs, between starts."""
    starts = [event["ts"] for event in steps(document)]
    return float(np.median(np.diff(starts)))


def loader_wait(document: Document, share: float = 0.10) -> Document | None:
    """A wait of the loop for its batch in every step, *share* of the step long, where the device has nothing queued."""
    long = share * median_step(document)
    loader_names = {
        str(e.get("name", "")) for e in complete(document) if str(e.get("name", "")).startswith("enumerate(Data")
    }
    name = min(loader_names, default="enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
    cat = "Operator" if _legacy(document) else "user_annotation"
    waits = [_new(mark, name, cat, time, long) for mark, (time, *_) in _drained(document, [0.0])]
    return _planted(document, waits, waits)


def synchronization(document: Document, share: float = 0.03) -> Document | None:
    """A call of torch.cuda.synchronize() in the middle of every step, while which the device idles *share* of the step."""
    long = share * median_step(document)
    cat = "Runtime" if _legacy(document) else "cuda_runtime"
    calls = [
        _new(mark, "cudaDeviceSynchronize", cat, time, long, {"cbid": 165, "correlation": 2_000_000_000 + number})
        for number, (mark, (time, *_)) in enumerate(_drained(document, [0.5]))
    ]
    return _planted(document, calls, calls)


def readbacks(document: Document, count: int = 3, share: float = 0.015) -> Document | None:
    """Up to *count* calls of .item() in every step, while each of which the device idles *share* of the step."""
    long = share * median_step(document)
    op, call = ("Operator", "Runtime") if _legacy(document) else ("cpu_op", "cuda_runtime")
    rows, items = [], []
    for mark, times in _drained(document, [(1 + part) / (1 + count) for part in range(count)]):
        for time in times:
            args = {"cbid": 131, "correlation": 2_000_000_000 + len(items)}
            items.append(_new(mark, "aten::item", op, time, long))
            rows.append(_new(mark, "aten::_local_scalar_dense", op, time + 1, long - 2))
            rows.append(_new(mark, "cudaStreamSynchronize", call, time + 2, long - 4, args))
    return _planted(document, items, [*items, *rows])


def _planted(document: Document, delaying: list[Event], events: list[Event]) -> Document | None:
    """*events* in their places; None where a step has no place for them."""
    if len(delaying) < len(steps(document)):
        return None
    return delayed(document, [(event["ts"], event["dur"]) for event in delaying], events)


def _drained(document: Document, shares: list[float]) -> list[tuple[Event, list[float]]]:
    """For every step: the times nearest to *shares* of it at which its thread has no operator and no call open, and the
    device nothing left of what was launched before. Only there does a wait of the host make the device wait as long."""
    launched = {correlation(e): e["ts"] for e in complete(document) if category(e) in _RUNTIME}
    work = sorted(
        (launched.get(correlation(e), e["ts"]), e["ts"] + e["dur"]) for e in complete(document) if on_gpu(e)
        and category(e) != "gpu_user_annotation"
    )  # fmt: skip
    begun = np.array([time for time, _ in work])
    ends = np.maximum.accumulate(np.array([end for _, end in work])) if work else np.zeros(0)
    rows = []
    for mark in steps(document):
        free = [mark["ts"] + 0.5]
        high = 0.0
        for start, end in sorted(_inside(document, mark)):
            if start > high and high > mark["ts"]:
                free.append(high)
            high = max(high, end)
        count = np.searchsorted(begun, free, side="left")
        quiet = [time for time, n in zip(free, count.tolist(), strict=True) if n == 0 or ends[n - 1] <= time]
        if quiet:
            targets = [mark["ts"] + share * mark["dur"] for share in shares]
            rows.append((mark, sorted({min(quiet, key=lambda time: abs(time - near)) for near in targets})))
    return rows


def _inside(document: Document, mark: Event) -> list[tuple[float, float]]:
    """List the events of the thread of *mark* within it: operators, calls and waits."""
    return [
        (event["ts"], event["ts"] + event["dur"])
        for event in complete(document)
        if event.get("tid") == mark["tid"] and event.get("pid") == mark["pid"] and not on_gpu(event)
        and event["ts"] >= mark["ts"] and event["ts"] + event["dur"] <= mark["ts"] + mark["dur"] and event is not mark
        and category(event) != "python_function" and (category(event) != "user_annotation" or "DataLoader" in event["name"])
    ]  # fmt: skip


def pageable(document: Document) -> Document | None:
    """Every copy between host and device from and to pageable memory; no slower, which is the hardest to notice."""
    events, count = [], 0
    for event in document["traceEvents"]:
        if on_gpu(event) and "Pinned" in str(event.get("name", "")) and "dur" in event:
            event = {**event, "name": event["name"].replace("Pinned", "Pageable")}
            count += 1
        events.append(event)
    return {**document, "traceEvents": events} if count else None


def slower_kernels(document: Document, share: float = 0.08) -> Document | None:
    """Every kernel takes *share* longer, and everything else waits for it."""
    kernels = sorted(
        (event["ts"], event["ts"] + event["dur"]) for event in complete(document) if category(event) == "kernel"
    )
    if not kernels:
        return None
    starts, ends = [], []
    for start, end in kernels:
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    first, last = np.array(starts), np.array(ends)
    before = np.concatenate([[0.0], np.cumsum(last - first)])

    def warped(time: float) -> float:
        index = int(np.searchsorted(first, time, side="right"))
        inside = min(time, last[index - 1]) - first[index - 1] if index else 0.0
        return float(time + share * (before[max(index - 1, 0)] + inside))

    events = []
    for event in document["traceEvents"]:
        if "ts" not in event or event.get("ph") == "M":
            events.append(event)
            continue
        changed = {**event, "ts": warped(event["ts"])}
        if "dur" in event:
            changed["dur"] = warped(event["ts"] + event["dur"]) - changed["ts"]
        events.append(changed)
    return {**document, "traceEvents": events}


PLANTS: dict[str, Callable[[Document], Document | None]] = {
    "loader wait +10 % of the step": loader_wait,
    "a synchronization a step": synchronization,
    "copies turned pageable": pageable,
    "kernels 8 % slower": slower_kernels,
    "a rule newly fires (.item() in the loop)": readbacks,
}
