"""Keys of the twenty blind questions, computed from the raw trace JSON with nothing but the standard library.

Run `ADVISOR_TRACES=/path/to/traces python benchmarks/questions/blind/keys.py` to print id and key of each question of
questions.toml, which lies beside this file. They were written without knowledge of the tools; first_try.json is what the
scripted agent answered before anything was mended.
"""

from __future__ import annotations

import gzip
import heapq
import json
import os
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Spans = list[tuple[float, float]]
Key = float | int | str | None

_TRACES = Path(os.environ["ADVISOR_TRACES"])
FOLDERS = (_TRACES, _TRACES.parent / "audited")
DTYPE_BYTES = {"Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Char": 1}


class Raw:
    """One trace as stored: its path, the document without its events, and its events (none for a folder)."""

    def __init__(self, path: Path) -> None:
        """Read the trace at path; a folder of ranks gives no events of its own."""
        self.path = path
        self.root: dict[str, Any] = {}
        self.events: list[Event] = []
        if path.is_dir():
            return
        with gzip.open(path, "rt", encoding="utf-8") as file:
            document = json.load(file)
        if isinstance(document, list):
            self.events = document
        else:
            self.events = document.pop("traceEvents")
            self.root = document


def find_trace(name: str) -> Path:
    """Return the file or the folder of ranks that a question's trace name stands for."""
    candidates = [folder / (name + end) for folder in FOLDERS for end in (".json.gz", "")]
    return next(path for path in candidates if path.exists())


def spans_of_category(raw: Raw, *categories: str) -> list[Event]:
    """Return the complete events (ph X) whose category, in lower case, is one of those given."""
    return [e for e in raw.events if e.get("ph") == "X" and str(e.get("cat", "")).lower() in categories]


def kernels(raw: Raw) -> list[Event]:
    """Return the GPU kernel events."""
    return spans_of_category(raw, "kernel")


def operators(raw: Raw) -> list[Event]:
    """Return the host operator events (cpu_op, or Operator in older files)."""
    return spans_of_category(raw, "cpu_op", "operator")


def host_annotations(raw: Raw, prefix: str) -> list[Event]:
    """Return the host annotations whose name begins with the prefix (older files keep them as Operator)."""
    events = spans_of_category(raw, "user_annotation", "operator")
    return [e for e in events if e["name"].startswith(prefix)]


def end(event: Event) -> float:
    """Return when an event ends, in us."""
    return float(event["ts"] + event["dur"])


def thread(event: Event) -> tuple[str, str]:
    """Return process and thread of an event."""
    return str(event["pid"]), str(event["tid"])


def launches(raw: Raw) -> dict[int, Event]:
    """Return the host runtime or driver call of each correlation id."""
    calls = spans_of_category(raw, "cuda_runtime", "cuda_driver", "runtime")
    return {e["args"]["correlation"]: e for e in calls if e.get("args", {}).get("correlation") is not None}


def launched_kernels(raw: Raw) -> list[tuple[Event, Event]]:
    """Return each kernel whose launch was recorded, as pairs of the launching call and the kernel."""
    calls = launches(raw)
    return [(calls[k["args"]["correlation"]], k) for k in kernels(raw) if k["args"]["correlation"] in calls]


def merged(events: Iterable[Event]) -> Spans:
    """Return the union of the events' times as disjoint spans in order."""
    spans: Spans = []
    for start, stop in sorted((float(e["ts"]), end(e)) for e in events):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
    return spans


def covered(spans: Spans, start: float, stop: float) -> float:
    """Return how many us between start and stop the disjoint spans cover."""
    return sum(max(0.0, min(b, stop) - max(a, start)) for a, b in spans)


def total(spans: Spans) -> float:
    """Return the summed length of disjoint spans, in us."""
    return sum(b - a for a, b in spans)


def innermost(frames: list[Event], queries: Iterable[Event]) -> dict[int, Event]:
    """Return, by id() of each query event, the latest-started frame on its thread that is open when it starts."""
    by_thread: dict[tuple[str, str], list[tuple[float, int, float, Event]]] = defaultdict(list)
    for frame in frames:
        by_thread[thread(frame)].append((float(frame["ts"]), 0, -float(frame["dur"]), frame))
    for query in queries:
        by_thread[thread(query)].append((float(query["ts"]), 1, 0.0, query))
    found: dict[int, Event] = {}
    for items in by_thread.values():
        stack: list[Event] = []
        for start, is_query, _, event in sorted(items, key=lambda item: item[:3]):
            while stack and end(stack[-1]) <= start:
                stack.pop()
            if not is_query:
                stack.append(event)
            elif stack:
                found[id(event)] = stack[-1]
    return found


def kernel_time_by_frame(raw: Raw, frames: list[Event]) -> dict[int, float]:
    """Return, by id() of each frame, the us of the kernels whose launch has it as its innermost frame."""
    pairs = launched_kernels(raw)
    frame_of = innermost(frames, [call for call, _ in pairs])
    times: dict[int, float] = defaultdict(float)
    for call, kernel in pairs:
        if id(call) in frame_of:
            times[id(frame_of[id(call)])] += kernel["dur"]
    return times


def top_name(raw: Raw, frames: list[Event], label: Callable[[Event], str]) -> str | None:
    """Return the label with the most kernel time when each kernel is charged to its innermost frame."""
    times: dict[str, float] = defaultdict(float)
    time_of = kernel_time_by_frame(raw, frames)
    for frame in frames:
        times[label(frame)] += time_of.get(id(frame), 0.0)
    return max(times, key=lambda name: times[name]) if any(times.values()) else None


def slowest_step_excess_ms(raw: Raw, argument: str) -> float | None:
    """Return the longest duration minus the median duration of the host annotations named argument..., in ms."""
    durations = [e["dur"] for e in host_annotations(raw, argument)]
    return (max(durations) - statistics.median(durations)) / 1e3 if durations else None


def costliest_addmm_shapes(raw: Raw, argument: str) -> str | None:
    """Return mat1 and mat2 ('MxK @ KxN') of the calls of the operator argument with the most kernel time in total."""

    def label(event: Event) -> str:
        dims = event["args"]["Input Dims"]
        return " @ ".join("x".join(str(size) for size in shape) for shape in dims[1:3])

    calls = [e for e in operators(raw) if e["name"] == argument and "Input Dims" in e["args"]]
    return top_name(raw, calls, label)


def longest_launch_delay_ms(raw: Raw, argument: str) -> float | None:
    """Return the longest time from the start of a launching host call to the start of its kernel, in ms."""
    delays = [kernel["ts"] - call["ts"] for call, kernel in launched_kernels(raw)]
    return max(delays) / 1e3 if delays else None


def exposed_time_ms(raw: Raw, argument: str) -> float | None:
    """Return the ms with a kernel named argument... running and no other kernel running."""
    named = [k for k in kernels(raw) if k["name"].startswith(argument)]
    others = [k for k in kernels(raw) if not k["name"].startswith(argument)]
    if not named:
        return None
    return (total(merged(named + others)) - total(merged(others))) / 1e3


def top_module_class(raw: Raw, argument: str) -> str | None:
    """Return the nn.Module class with the most time of kernels whose innermost module frame is one of its own."""
    frames = [e for e in spans_of_category(raw, "python_function") if e["name"].startswith("nn.Module: ")]
    return top_name(raw, frames, lambda frame: frame["name"].removeprefix("nn.Module: ").rsplit("_", 1)[0])


def matmul_tflops(raw: Raw, argument: str) -> float | None:
    """Return 2*M*N*K over kernel time, in TFLOP/s, of all calls of operator|[[M, K], [K, N]] together."""
    name, shapes = argument.split("|")
    first, second = json.loads(shapes)
    calls = [e for e in operators(raw) if e["name"] == name and e["args"].get("Input Dims", [])[:2] == [first, second]]
    time_us = sum(kernel_time_by_frame(raw, calls).values())
    operations = 2 * first[0] * first[1] * second[1] * len(calls)
    return operations / time_us / 1e6 if time_us else None


def copied_bytes(raw: Raw, argument: str) -> int | None:
    """Return the sum of the bytes of all GPU copies whose name holds argument."""
    copies = [e for e in spans_of_category(raw, "gpu_memcpy", "memcpy") if argument in e["name"]]
    return sum(int(e["args"]["bytes"]) for e in copies) if copies else None


def rank_with_least_kernel_time(raw: Raw, argument: str) -> int | None:
    """Return the rank of the folder whose kernels named argument... have the smallest summed duration."""
    times: dict[int, float] = {}
    for path in sorted(raw.path.glob("rank*.json.gz")):
        one = Raw(path)
        rank = one.root["distributedInfo"]["rank"]
        times[rank] = sum(k["dur"] for k in kernels(one) if k["name"].startswith(argument))
    return min(times, key=lambda rank: times[rank]) if times else None


def collective_bytes_per_step(raw: Raw, argument: str) -> float | None:
    """Return input elements times element size of all collectives named argument, over the count of ProfilerStep#N."""
    records = [e for e in operators(raw) if e.get("args", {}).get("Collective name") == argument]
    steps = host_annotations(raw, "ProfilerStep#")
    if not records or not steps:
        return None
    sizes: list[int] = [e["args"]["In msg nelems"] * DTYPE_BYTES[e["args"]["dtype"]] for e in records]
    return sum(sizes) / len(steps)


def busy_percent_in_annotation(raw: Raw, argument: str) -> float | None:
    """Return the percentage of the host annotation named argument during which at least one kernel runs."""
    windows = [e for e in host_annotations(raw, argument) if e["name"] == argument]
    if not windows or not kernels(raw):
        return None
    window = windows[0]
    return 100 * covered(merged(kernels(raw)), window["ts"], end(window)) / float(window["dur"])


def top_self_time(raw: Raw, argument: str) -> str | None:
    """Return the name with the largest summed self time: duration minus that of the calls nested directly in it."""
    calls = [e for e in raw.events if e.get("ph") == "X"]
    times: dict[str, float] = defaultdict(float)
    stack: list[Event] = []
    for call in sorted(calls, key=lambda e: (thread(e), e["ts"], -e["dur"])):
        while stack and (thread(stack[-1]) != thread(call) or end(stack[-1]) <= call["ts"]):
            stack.pop()
        times[call["name"]] += call["dur"]
        if stack:
            times[stack[-1]["name"]] -= call["dur"]
        stack.append(call)
    return max(times, key=lambda name: times[name]) if times else None


def time_to_first_gpu_work_ms(raw: Raw, argument: str) -> float | None:
    """Return the ms from the start of the host annotation argument to the first kernel, memcpy or memset."""
    work = spans_of_category(raw, "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
    steps = [e for e in host_annotations(raw, argument) if e["name"] == argument]
    return (min(e["ts"] for e in work) - steps[0]["ts"]) / 1e3 if work and steps else None


def graph_launch_delay_us(raw: Raw, argument: str) -> float | None:
    """Return the us from the start of the host call named argument to the earliest start of a kernel it launched."""
    delays = [kernel["ts"] - call["ts"] for call, kernel in launched_kernels(raw) if call["name"] == argument]
    return min(delays) if delays else None


def top_backward_node(raw: Raw, argument: str) -> str | None:
    """Return the autograd node ending in Backward0 during whose evaluate_function kernels of most time launched."""
    prefix = "autograd::engine::evaluate_function: "
    frames = [e for e in operators(raw) if e["name"].startswith(prefix) and e["name"].endswith("Backward0")]
    return top_name(raw, frames, lambda frame: frame["name"].removeprefix(prefix))


def concurrent_kernel_us(raw: Raw, argument: str) -> float | None:
    """Return the us during which two or more kernels run at the same time."""
    running: list[float] = []
    shared: list[Event] = []
    for kernel in sorted(kernels(raw), key=lambda k: k["ts"]):
        while running and running[0] <= kernel["ts"]:
            heapq.heappop(running)
        if running:
            shared.append({"ts": kernel["ts"], "dur": min(max(running), end(kernel)) - kernel["ts"]})
        heapq.heappush(running, end(kernel))
    return total(merged(shared)) if kernels(raw) else None


def peak_allocated_mib(raw: Raw, argument: str) -> float | None:
    """Return the highest Total Allocated of the memory events of GPUs (Device Type 1), in MiB."""
    memory = [e["args"] for e in raw.events if "Total Allocated" in (e.get("args") or {})]
    totals = [args["Total Allocated"] for args in memory if args.get("Device Type") == 1]
    return max(totals) / 2**20 if totals else None


def top_operator(raw: Raw, argument: str) -> str | None:
    """Return the operator with the most time of kernels whose innermost operator it is; None without operators."""
    return top_name(raw, operators(raw), lambda frame: str(frame["name"]))


def gpu_busy_ms(raw: Raw, argument: str) -> float | None:
    """Return the ms during which at least one kernel runs; None where the trace holds no kernel at all."""
    return total(merged(kernels(raw))) / 1e3 if kernels(raw) else None


def mean_occupancy_percent(raw: Raw, argument: str) -> float | None:
    """Return the duration-weighted mean of 'est. achieved occupancy %' of the kernels named argument."""
    field = "est. achieved occupancy %"
    found = [k for k in kernels(raw) if k["name"] == argument and field in k["args"]]
    time_us = sum(k["dur"] for k in found)
    return sum(k["dur"] * k["args"][field] for k in found) / time_us if time_us else None


def key_of(question: dict[str, Any]) -> Key:
    """Return the key of one question of questions.toml."""
    function: Callable[[Raw, str], Key] = globals()[question["kind"]]
    return function(Raw(find_trace(question["trace"])), question.get("argument", ""))


def main() -> None:
    """Print the id and the key of each question."""
    text = Path(__file__).with_name("questions.toml").read_text(encoding="utf-8")
    for question in tomllib.loads(text)["question"]:
        print(question["id"], repr(key_of(question)), question.get("unit", ""), flush=True)


if __name__ == "__main__":
    main()
