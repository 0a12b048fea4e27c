"""Damage to what a trace says: its JSON is right, and its events cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from fuzz.values import ARGS, ATTACKS, CATEGORIES, DEVICE_KEYS, FIELDS, NAMES, NUMBERS, ODD, ROOT_KEYS, SECRET, TIMES

Root = dict[str, Any]
Event = dict[str, Any]
Damage = Callable[[Random, Root, Root], None]

_DIALECT = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
}


def damaged(rng: Random, root: Root, donor: Root) -> Any:
    """A copy of *root* with one to six kinds of damage; *donor* is a trace to take events from."""
    document: Root = {**root, "traceEvents": [copied(event) for event in root["traceEvents"]]}
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        rng.choice(DAMAGES)(rng, document, donor)
    if rng.random() < 0.03:
        return document["traceEvents"]
    return document


def copied(event: Any) -> Any:
    """A copy of an event that can be damaged beside it."""
    if not isinstance(event, dict):
        return event
    args = event.get("args")
    return {**event, "args": dict(args)} if isinstance(args, dict) else dict(event)


def _sample(rng: Random, root: Root) -> list[Event]:
    """Some of the events: one, a few, or all of a category."""
    events = [event for event in root["traceEvents"] if isinstance(event, dict)]
    if not events:
        return []
    draw = rng.random()
    if draw < 0.4:
        return [rng.choice(events)]
    if draw < 0.7:
        return rng.sample(events, min(len(events), rng.randint(2, 30)))
    category = rng.choice(events).get("cat")
    return [event for event in events if event.get("cat") == category]


def _args(event: Event) -> dict[str, Any]:
    if not isinstance(event.get("args"), dict):
        event["args"] = {}
    args: dict[str, Any] = event["args"]
    return args


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


# ---- keys and values


def drop_keys(rng: Random, root: Root, _: Root) -> None:
    """Keys that are not there."""
    key = rng.choice(FIELDS + ARGS)
    for event in _sample(rng, root):
        (event if key in FIELDS else _args(event)).pop(key, None)


def set_values(rng: Random, root: Root, _: Root) -> None:
    """Values of another type, or beyond all bounds."""
    for event in _sample(rng, root):
        key = rng.choice(FIELDS + ARGS)
        value = rng.choice(rng.choice([NUMBERS, ODD, NAMES, ATTACKS]))
        (event if key in FIELDS else _args(event))[key] = value


def set_numbers(rng: Random, root: Root, _: Root) -> None:
    """One field of many events at an edge of what a number holds."""
    key = rng.choice([*TIMES, *ARGS[:14], *ARGS[17:23], *ARGS[25:28]])
    for event in _sample(rng, root):
        (event if key in FIELDS else _args(event))[key] = rng.choice(NUMBERS)


def set_names(rng: Random, root: Root, _: Root) -> None:
    """Names that attack, or that mean something elsewhere."""
    for event in _sample(rng, root):
        event["name"] = rng.choice(rng.choice([ATTACKS, NAMES]))


def lengthen(rng: Random, root: Root, _: Root) -> None:
    """A name of a hundred thousand characters."""
    for event in _sample(rng, root)[:2]:
        text = rng.choice(ATTACKS + NAMES) or "x"
        event["name"] = (text * (100_000 // len(text) + 1))[:100_000]


def nest_values(rng: Random, root: Root, _: Root) -> None:
    """Arguments nested deeply."""
    deep: Any = 1
    for _step in range(rng.choice([3, 50, 400])):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    for event in _sample(rng, root)[:3]:
        _args(event)[rng.choice([*ARGS, "x"])] = deep


# ---- times


def swap_times(rng: Random, root: Root, _: Root) -> None:
    """Start and duration take each other's place."""
    for event in _sample(rng, root):
        event["ts"], event["dur"] = event.get("dur"), event.get("ts")


def scale_times(rng: Random, root: Root, _: Root) -> None:
    """Clocks of two units, or two zeros, in one file."""
    factor, shift = rng.choice([1, 1e-3, 1e3, 1e6, -1, 0]), rng.choice([0, 1, -1e6, 1e9, 1.7e15, -1e15, 1e17])
    for event in _sample(rng, root):
        if _is_number(event.get("ts")):
            event["ts"] = event["ts"] * factor + shift


def stretch(rng: Random, root: Root, _: Root) -> None:
    """Durations that reach into what follows, or nowhere."""
    factor = rng.choice([0, -1, 1.5, 10, 1000, 1e9])
    for event in _sample(rng, root):
        if _is_number(event.get("dur")):
            event["dur"] = event["dur"] * factor


def one_moment(rng: Random, root: Root, _: Root) -> None:
    """Many events at once."""
    events = _sample(rng, root)
    ts = events[0].get("ts") if events else 0
    for event in events:
        event["ts"] = ts


# ---- links and places


def tangle(rng: Random, root: Root, _: Root) -> None:
    """Correlations, sequences and parents that all are one, or each other's."""
    key = rng.choice(
        ["correlation", "Sequence number", "External id", "Python id", "Python parent id", "Fwd thread id"]
    )
    events = _sample(rng, root)
    ids = [_args(event).get(key) for event in events]
    rng.shuffle(ids)
    value = rng.choice([*NUMBERS, *ids])
    same = rng.random() < 0.5
    for event, number in zip(events, ids, strict=True):
        _args(event)[key] = value if same else number


def scatter(rng: Random, root: Root, _: Root) -> None:
    """Each event on a thread, a stream or a device of its own."""
    key = rng.choice(["tid", "pid", "stream", "device"])
    base = rng.choice([0, 1000, -5, 2**31, 2**40])
    for index, event in enumerate(_sample(rng, root)):
        (event if key in FIELDS else _args(event))[key] = base + index


def gather(rng: Random, root: Root, _: Root) -> None:
    """All on one thread, one stream, one device."""
    key = rng.choice(["tid", "pid", "stream", "device"])
    value = rng.choice([0, 7, -1, None, "7", "stream 7"])
    for event in _sample(rng, root):
        (event if key in FIELDS else _args(event))[key] = value


def steps(rng: Random, root: Root, _: Root) -> None:
    """Steps twice, inside one another, without length, by the hundred."""
    events = root["traceEvents"]
    timed = [event for event in events if isinstance(event, dict) and _is_number(event.get("ts"))]
    if not timed:
        return
    first = rng.choice(timed)
    start, count = first["ts"], rng.choice([1, 2, 5, 300])
    length = rng.choice([0, 1, 50, 1e4, 1e7])
    gap = rng.choice([0, 1, length, length / 2, 1e5])
    for number in range(count):
        name = f"ProfilerStep#{rng.choice([number, 1, -number, 10**20])}"
        place = {"tid": first.get("tid"), "pid": first.get("pid")}
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": name, "ts": start + gap * number, "dur": length, **place}
        )


def nest_calls(rng: Random, root: Root, _: Root) -> None:
    """Calls in calls in calls."""
    depth = rng.choice([5, 200, 1500])
    category, name = rng.choice(CATEGORIES), rng.choice(NAMES + ATTACKS)
    events: list[Event] = [
        {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": index,
            "dur": 2 * depth - 2 * index,
            "args": {},
        }
        for index in range(depth)
    ]
    root["traceEvents"] += events


# ---- the list


def repeat(rng: Random, root: Root, _: Root) -> None:
    """Events twice, or a hundred times."""
    events = _sample(rng, root)[:20]
    root["traceEvents"] += [copied(event) for event in events for _ in range(rng.choice([1, 2, 20]))]


def leave_out(rng: Random, root: Root, _: Root) -> None:
    """Whole categories gone."""
    events = root["traceEvents"]
    categories = sorted({str(event.get("cat")) for event in events if isinstance(event, dict)})
    if categories:
        dropped_categories = set(rng.sample(categories, rng.randint(1, max(1, len(categories) - 1))))
        root["traceEvents"] = [
            e for e in events if not isinstance(e, dict) or str(e.get("cat")) not in dropped_categories
        ]


def thin(rng: Random, root: Root, _: Root) -> None:
    """Most events gone."""
    share = rng.choice([0.5, 0.1, 0.02, 0])
    root["traceEvents"] = [event for event in root["traceEvents"] if rng.random() < share]


def shuffle(rng: Random, root: Root, _: Root) -> None:
    """In any order."""
    rng.shuffle(root["traceEvents"])


def mix(rng: Random, root: Root, donor: Root) -> None:
    """Events of another trace: another clock, another maker, another year."""
    events = donor["traceEvents"]
    index = rng.randrange(len(events) + 1)
    root["traceEvents"] += [copied(event) for event in events[index : index + 120]]


def no_events(rng: Random, root: Root, _: Root) -> None:
    """Put values among the events that are no events."""
    for _step in range(rng.randint(1, 5)):
        index = rng.randrange(len(root["traceEvents"]) + 1)
        root["traceEvents"].insert(index, rng.choice([*ODD, *ATTACKS, *NUMBERS[:10]]))


def recategorize(rng: Random, root: Root, _: Root) -> None:
    """Events that claim to be of another kind, or of 2021."""
    if rng.random() < 0.3:
        for event in root["traceEvents"]:
            if isinstance(event, dict):
                event["cat"] = _DIALECT.get(str(event.get("cat")), event.get("cat"))
        return
    category, phase = rng.choice(CATEGORIES), rng.choice(["X", "X", "X", "B", "E", "i", "C", "M", "", "XX"])
    for event in _sample(rng, root):
        event["cat"], event["ph"] = category, phase


# ---- the root


def root_values(rng: Random, root: Root, _: Root) -> None:
    """Devices, ranks, versions and clocks that no machine has."""
    for _step in range(rng.randint(1, 4)):
        root[rng.choice(ROOT_KEYS)] = rng.choice(rng.choice([NUMBERS, ODD, ATTACKS]))
    if rng.random() < 0.5:
        values = rng.choice([NUMBERS, ODD, ATTACKS])
        root["deviceProperties"] = [
            {key: rng.choice(values) if rng.random() < 0.4 else 1 for key in DEVICE_KEYS} for _ in range(rng.choice([1, 3, 50]))
        ]  # fmt: skip
    if rng.random() < 0.5:
        info = {key: rng.choice([*NUMBERS, *ODD]) for key in ("rank", "world_size", "backend", "pg_count")}
        root["distributedInfo"] = rng.choice([info, [info]])


def secrets(rng: Random, root: Root, _: Root) -> None:
    """Plant data that no report may show: the environment, hosts, users, homes."""
    for key in ("env", "environment", "hostname", "host_name", "username", "user", "cmdline", "trace_id"):
        root[key] = rng.choice([SECRET, {"TOKEN": SECRET}, [SECRET]])
    for event in _sample(rng, root):
        _args(event)["env"] = {"HOME": SECRET}
        if event.get("cat") == "python_function":
            event["name"] = f"/home/{SECRET}/site-packages/x/train.py({rng.randint(0, 99)}): step"
        if "Call stack" in _args(event):
            _args(event)["Call stack"] = f"/home/{SECRET}/train.py(12): step;/Users/{SECRET}/b.py(3): f"


def memory(rng: Random, root: Root, _: Root) -> None:
    """Allocations that come to nothing, or to more than there is."""
    for index in range(rng.choice([1, 10, 100])):
        numbers = {
            key: rng.choice([*NUMBERS, 512 * index]) for key in ("Bytes", "Addr", "Total Allocated", "Total Reserved")
        }
        place = {"Device Type": rng.choice([0, 1, 6, -1]), "Device Id": rng.choice([0, -1, 3, 2**40])}
        event = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
        root["traceEvents"].append({**event, "ts": index, "args": {**numbers, **place}})


DAMAGES: list[Damage] = [
    *[drop_keys, set_values, set_values, set_numbers, set_numbers, set_names, set_names, lengthen, nest_values],
    *[
        swap_times,
        scale_times,
        stretch,
        one_moment,
        tangle,
        scatter,
        gather,
        steps,
        nest_calls,
        repeat,
        leave_out,
        thin,
    ],
    *[shuffle, mix, no_events, recategorize, root_values, secrets, memory],
]
