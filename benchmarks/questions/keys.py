"""Keys of the questions, worked out from the raw JSON of each trace; imports nothing of the advisor.

    ADVISOR_TRACES=/path/to/traces python benchmarks/questions/keys.py          # writes keys.json

A key is a number, a text, or None: the trace does not hold the answer. Every function below is one kind of question; its
docstring is the definition.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import statistics
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
SETS = {"own": "own.toml", "public": "public.toml", "blind": "blind/questions.toml"}
Key = float | int | str | None
Event = dict[str, Any]
NAMES = {"operator": "cpu_op", "runtime": "cuda_runtime", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")


def questions() -> list[dict[str, Any]]:
    """Return all questions, each with the set that it is of."""
    found = []
    for name, file in SETS.items():
        document = tomllib.loads((HERE / file).read_text(encoding="utf-8"))
        found += [question | {"set": name} for question in document["question"]]
    return found


def path_of(trace: str) -> Path:
    """Return where a trace lies: a file or a folder below ADVISOR_TRACES, or in the folder ``audited`` beside that."""
    folder = Path(os.environ["ADVISOR_TRACES"])
    for place in (folder, folder.parent / "audited"):
        for candidate in (place / f"{trace}.json.gz", place / trace):
            if candidate.exists():
                return candidate
    raise FileNotFoundError(f"{trace}: not below {folder}")


class Raw:
    """The complete events of a trace by category, and its root."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path) as file:
            document = json.load(file)
        self.root: dict[str, Any] = document if isinstance(document, dict) else {}
        self.events: list[Event] = document["traceEvents"] if isinstance(document, dict) else document
        self.by: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.get("ph") == "X":
                category = str(event.get("cat", "")).lower()
                self.by[NAMES.get(category, category)].append(event)

    @property
    def work(self) -> list[Event]:
        """Kernels, copies and memsets."""
        return [event for category in GPU for event in self.by[category]]

    @property
    def calls(self) -> list[Event]:
        """Calls of the runtime and the driver."""
        return [event for category in CALLS for event in self.by[category]]

    def named(self, name: str, *categories: str) -> list[Event]:
        """Events of this name."""
        return [event for category in categories for event in self.by[category] if event["name"] == name]


@lru_cache(maxsize=2)
def raw(path: Path) -> Raw:
    """Read a trace, and keep it for the next question."""
    return Raw(path)


def end(event: Event) -> float:
    """Return the end of an event, in us."""
    return float(event["ts"]) + float(event["dur"])


def total(events: list[Event]) -> float:
    """Return the sum of durations, in us."""
    return sum(float(event["dur"]) for event in events)


def union(events: list[Event]) -> list[tuple[float, float]]:
    """Return the disjoint stretches that some events cover."""
    spans: list[tuple[float, float]] = []
    for start, stop in sorted((float(event["ts"]), end(event)) for event in events):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], stop))
        else:
            spans.append((start, stop))
    return spans


def by_name(events: list[Event]) -> Counter[str]:
    """Return the us of each name."""
    times: Counter[str] = Counter()
    for event in events:
        times[event["name"]] += float(event["dur"])  # type: ignore[assignment]
    return times


def is_collective(kernel: Event) -> bool:
    """Tell whether a kernel is one of NCCL's or RCCL's."""
    return bool(re.match(r"(nccl|rccl)", kernel["name"], re.IGNORECASE))


# ---- kinds


def kernel_count(trace: Raw, _: str) -> Key:
    """Count complete events of the category kernel."""
    return len(trace.by["kernel"]) or None


def kernel_ms(trace: Raw, _: str) -> Key:
    """Sum the durations of kernels; None without any."""
    return total(trace.by["kernel"]) / 1e3 if trace.by["kernel"] else None


def top_kernel(trace: Raw, _: str) -> Key:
    """Name the kernel whose durations sum to the most."""
    times = by_name(trace.by["kernel"])
    return max(times, key=lambda name: times[name]) if times else None


def top_kernel_share(trace: Raw, _: str) -> Key:
    """Return its share of the sum of all kernels' durations, in percent."""
    times = by_name(trace.by["kernel"])
    return 100 * max(times.values()) / sum(times.values()) if times else None


def longest_kernel_us(trace: Raw, _: str) -> Key:
    """Return the longest duration of a kernel."""
    return max((float(event["dur"]) for event in trace.by["kernel"]), default=None)


def short_kernels(trace: Raw, most_us: str) -> Key:
    """Count kernels that are shorter than so many us."""
    return sum(float(event["dur"]) < float(most_us) for event in trace.by["kernel"]) if trace.by["kernel"] else None


def name_share(trace: Raw, part: str) -> Key:
    """Return the share of kernel time that is of kernels with this in their name, in percent."""
    kernels = trace.by["kernel"]
    return 100 * total([event for event in kernels if part.lower() in event["name"].lower()]) / total(kernels)


def stream_count(trace: Raw, _: str) -> Key:
    """Count the streams of kernels, of all devices."""
    return len({(event["args"]["device"], event["args"]["stream"]) for event in trace.by["kernel"]}) or None


def unlinked_kernels(trace: Raw, _: str) -> Key:
    """Count kernels whose correlation is that of no call in the trace."""
    known = {event["args"].get("correlation") for event in trace.calls}
    return sum(event["args"].get("correlation") not in known for event in trace.by["kernel"])


def launch_delay_us(trace: Raw, _: str) -> Key:
    """Return the median of a kernel's start less its call's start, where correlation ties them."""
    starts = {event["args"].get("correlation"): float(event["ts"]) for event in trace.calls}
    delays = [
        float(event["ts"]) - starts[event["args"]["correlation"]]
        for event in trace.by["kernel"]
        if event["args"].get("correlation") in starts
    ]
    return statistics.median(delays) if delays else None


def busy_share(trace: Raw, _: str) -> Key:
    """Return the union of kernels, copies and memsets over the time from the first's start to the last's end, in percent."""
    spans = union(trace.work)
    return 100 * sum(b - a for a, b in spans) / (spans[-1][1] - spans[0][0]) if spans else None


def longest_idle_ms(trace: Raw, _: str) -> Key:
    """Return the longest stretch between these."""
    spans = union(trace.work)
    gaps = [after[0] - before[1] for before, after in pairwise(spans)]
    return max(gaps) / 1e3 if gaps else None


def collective_count(trace: Raw, _: str) -> Key:
    """Count NCCL kernels."""
    return sum(map(is_collective, trace.by["kernel"])) or None


def collective_share(trace: Raw, _: str) -> Key:
    """Return the share of kernel time that is of NCCL kernels, in percent."""
    kernels = trace.by["kernel"]
    return 100 * total([event for event in kernels if is_collective(event)]) / total(kernels)


def overlap_share(trace: Raw, _: str) -> Key:
    """Return the share of the union of NCCL kernels in which another kernel runs, in percent."""
    collectives = union([event for event in trace.by["kernel"] if is_collective(event)])
    others = union([event for event in trace.by["kernel"] if not is_collective(event)])
    both, at = 0.0, 0
    for start, stop in collectives:
        while at < len(others) and others[at][1] <= start:
            at += 1
        look = at
        while look < len(others) and others[look][0] < stop:
            both += min(stop, others[look][1]) - max(start, others[look][0])
            look += 1
    whole = sum(b - a for a, b in collectives)
    return 100 * both / whole if whole else None


def collective_bytes(trace: Raw, _: str) -> Key:
    """Sum the sizes of the messages, in MB, where kernels or their host events say them; None where none does."""
    sizes = [
        value
        for event in [*trace.by["kernel"], *trace.by["cpu_op"], *trace.by["user_annotation"]]
        for name, value in event.get("args", {}).items()
        if name in ("In msg nelems", "Out msg nelems", "In msg size", "Out msg size")
    ]
    return sum(sizes) / 1e6 if sizes else None


def op_calls(trace: Raw, name: str) -> Key:
    """Count operators of this name."""
    return len(trace.named(name, "cpu_op"))


def op_total_ms(trace: Raw, name: str) -> Key:
    """Sum the durations of operators of this name on the host."""
    return total(trace.named(name, "cpu_op")) / 1e3


def most_called_op(trace: Raw, _: str) -> Key:
    """Name the operator that was called most often."""
    counts = Counter(event["name"] for event in trace.by["cpu_op"])
    return counts.most_common(1)[0][0] if counts else None


def op_shapes(trace: Raw, name: str) -> Key:
    """Count distinct operand shapes of the operator's calls; None where no call has them."""
    shapes = [
        json.dumps(value)
        for event in trace.named(name, "cpu_op")
        for key, value in event.get("args", {}).items()
        if key in ("Input Dims", "Input dims")
    ]
    return len(set(shapes)) or None


_FRAME = re.compile(r"(.+)\((\d+)\): (.+)$")
_LIBRARY = re.compile(r"site-packages|dist-packages|lib/python3|^torch/|^<")


def op_place(trace: Raw, name: str) -> Key:
    """Name FILE:LINE of the innermost frame outside of libraries that most calls have in "Call stack"; None without stacks."""
    places: Counter[str] = Counter()
    for event in trace.named(name, "cpu_op"):
        stack = event.get("args", {}).get("Call stack", "")
        for frame in stack.split(";"):
            found = _FRAME.match(frame.strip())
            if found and not _LIBRARY.search(found[1]):
                places[f"{found[1].rpartition('/')[2]}:{found[2]}"] += 1
                break
    return places.most_common(1)[0][0] if places else None


def runtime_calls(trace: Raw, name: str) -> Key:
    """Count calls of this function of the runtime."""
    return len(trace.named(name, *CALLS))


def longest_runtime_ms(trace: Raw, name: str) -> Key:
    """Return the longest call of it."""
    return max((float(event["dur"]) for event in trace.named(name, *CALLS)), default=0.0) / 1e3 or None


def _copies(trace: Raw, direction: str) -> list[Event]:
    return [event for event in trace.by["gpu_memcpy"] if f" {direction} " in event["name"]]


def copies_count(trace: Raw, direction: str) -> Key:
    """Count copies in this direction."""
    return len(_copies(trace, direction))


def copies_bytes(trace: Raw, direction: str) -> Key:
    """Sum their bytes, in MB."""
    return sum(event["args"]["bytes"] for event in _copies(trace, direction)) / 1e6


def copies_gbps(trace: Raw, direction: str) -> Key:
    """Return their bytes over their durations, in GB/s."""
    copies = _copies(trace, direction)
    return sum(event["args"]["bytes"] for event in copies) / total(copies) / 1e3


def copies_memory(trace: Raw, direction: str) -> Key:
    """Name the kind of host memory that most bytes come from: pageable or pinned."""
    sums: Counter[str] = Counter()
    for event in _copies(trace, direction):
        sums["pinned" if "Pinned" in event["name"] else "pageable"] += event["args"]["bytes"]
    return sums.most_common(1)[0][0] if sums else None


def _steps(trace: Raw) -> list[Event]:
    marks = [event for events in trace.by.values() for event in events if event["name"].startswith("ProfilerStep#")]
    host = [event for event in marks if str(event.get("cat", "")).lower() != "gpu_user_annotation"]
    distinct = {event["name"]: event for event in host}
    return sorted(distinct.values(), key=lambda event: float(event["ts"]))


def step_count(trace: Raw, _: str) -> Key:
    """Count ProfilerStep annotations on the host."""
    return len(_steps(trace))


def step_host_ms(trace: Raw, _: str) -> Key:
    """Return the median of their durations, without the first."""
    durations = [float(event["dur"]) for event in _steps(trace)][1:]
    return statistics.median(durations) / 1e3 if durations else None


def loader_ms(trace: Raw, _: str) -> Key:
    """Sum the durations of enumerate(DataLoader)#... on the host."""
    waits = [
        event for events in trace.by.values() for event in events if event["name"].startswith("enumerate(DataLoader)#")
    ]
    return total(waits) / 1e3 if waits else None


def single_process_loader(trace: Raw, _: str) -> Key:
    """Tell by the class of the iterator: _SingleProcessDataLoaderIter or _MultiProcessingDataLoaderIter."""
    names = {event["name"] for events in trace.by.values() for event in events if "DataLoader" in event["name"]}
    if any("_SingleProcess" in name for name in names):
        return "yes"
    return "no" if any("_MultiProcess" in name for name in names) else None


def loader_workers(trace: Raw, _: str) -> Key:
    """No event of torch.profiler holds the number of workers: None, but for an iterator that has none."""
    return 0 if single_process_loader(trace, "") == "yes" else None


def device_name(trace: Raw, _: str) -> Key:
    """Name the device with kernels, by deviceProperties; the one name there is where all are alike."""
    used = Counter(event["args"]["device"] for event in trace.by["kernel"])
    names = {entry.get("id"): entry.get("name") for entry in trace.root.get("deviceProperties", [])}
    if len(set(names.values())) == 1:
        return next(iter(names.values())) or None
    return names.get(used.most_common(1)[0][0]) or None


def peak_memory(trace: Raw, _: str) -> Key:
    """Return the largest "Total Allocated" of a GPU's memory events, in MiB; None where none says it."""
    totals = [
        event["args"]["Total Allocated"]
        for event in trace.events
        if event.get("name") == "[memory]"
        and event["args"].get("Device Type") == 1
        and "Total Allocated" in event["args"]
    ]
    return max(totals) / 2**20 if totals else None


def main_cause(trace: Raw, _: str) -> Key:
    """Name the largest of: waits for batches (of the host's steps), copies, exposed communication, the longest gap where that is
    over two fifths (start-up), kernels that compute; host where the GPU is busy for under two fifths and nothing else is that
    much. All but the first are of the time from the first GPU work to the last.
    """
    spans = union(trace.work)
    whole = spans[-1][1] - spans[0][0]
    computing = [event for event in trace.by["kernel"] if not is_collective(event)]
    compute = sum(b - a for a, b in union(computing))
    communication = sum(b - a for a, b in union(trace.by["kernel"])) - compute
    copy = sum(b - a for a, b in spans) - compute - communication
    waits = float(loader_ms(trace, "") or 0.0) * 1e3
    gap = float(longest_idle_ms(trace, "") or 0.0) * 1e3
    found = {"compute": compute, "communication": communication, "copy": copy, "loader": waits}
    shares = {name: us / whole for name, us in found.items()} | {"startup": gap / whole if gap > 0.4 * whole else 0.0}
    if waits:  # a gap behind a wait is the loader's
        shares.pop("startup")
    name = max(shares, key=lambda name: shares[name])
    return name if shares[name] >= 0.4 else "host"


def rank(trace: Raw, _: str) -> Key:
    """Return distributedInfo's rank."""
    value = trace.root.get("distributedInfo", {}).get("rank")
    return value if value is None else int(value)


def world_size(trace: Raw, _: str) -> Key:
    """Return distributedInfo's world_size."""
    value = trace.root.get("distributedInfo", {}).get("world_size")
    return value if value is None else int(value)


def top_launching_op(trace: Raw, _: str) -> Key:
    """None where no operator was recorded; traces with operators are not asked this."""
    if trace.by["cpu_op"]:
        raise NotImplementedError("asked only of traces without operators")
    return None


def figure(_trace: Raw, _: str) -> Key:
    """No field of torch.profiler's format holds such a figure (loss, power)."""
    return None


def least_communication_rank(folder: Path) -> Key:
    """Return the rank whose NCCL kernels sum to the least."""
    times = {
        int(Raw(path).root["distributedInfo"]["rank"]): total([e for e in Raw(path).by["kernel"] if is_collective(e)])
        for path in sorted(folder.glob("*.json.gz"))
    }
    return min(times, key=lambda number: times[number])


KINDS: dict[str, Callable[[Raw, str], Key]] = {
    function.__name__: function
    for function in (
        kernel_count, kernel_ms, top_kernel, top_kernel_share, longest_kernel_us, short_kernels, name_share, stream_count,
        unlinked_kernels, launch_delay_us, busy_share, longest_idle_ms, collective_count, collective_share, overlap_share,
        collective_bytes, op_calls, op_total_ms, most_called_op, op_shapes, op_place, runtime_calls, longest_runtime_ms,
        copies_count, copies_bytes, copies_gbps, copies_memory, step_count, step_host_ms, loader_ms, single_process_loader,
        loader_workers, device_name, peak_memory, main_cause, rank, world_size, top_launching_op, figure,
    )
}  # fmt: skip


@cache
def blind() -> ModuleType:
    """Load the keys of the blind questions, whose author knew neither this file nor the tools."""
    spec = importlib.util.spec_from_file_location("blind_keys", HERE / "blind" / "keys.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def key_of(question: dict[str, Any]) -> Key:
    """Work out the key of a question."""
    if question["set"] == "blind":
        found: Key = blind().key_of(question)
        return found
    path = path_of(question["trace"])
    if question["kind"] == least_communication_rank.__name__:
        return least_communication_rank(path)
    return KINDS[question["kind"]](raw(path), question.get("argument", ""))


def all_keys() -> Iterator[tuple[str, Key]]:
    """Yield the id and the key of each question, those of a trace one after the other."""
    for question in sorted(questions(), key=lambda question: question["trace"]):
        yield question["id"], key_of(question)


if __name__ == "__main__":
    text = json.dumps(dict(sorted(all_keys())), indent=1, ensure_ascii=False)
    (HERE / "keys.json").write_text(text + "\n", encoding="utf-8")
    print(text)
