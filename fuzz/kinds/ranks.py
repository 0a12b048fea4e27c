"""Folders with the traces of two to four ranks of a run, of which some are damaged, or not of one run at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from advisor.errors import TraceError
from advisor.execution import inputs as finding
from advisor.execution.run import Workers, run_many
from advisor.execution.task import Settings
from advisor.results.several import Several
from advisor.testing.workloads import ranks
from fuzz import checks, structure
from fuzz.documents import SECRETS
from fuzz.inputs import edited, encode
from fuzz.seeds import Root
from fuzz.values import ATTACKS, NUMBERS, ODD
from fuzz.world import Files, World

_FOLDER = "run"
_COMMANDED, _ALL_RULES, _VIEWS = 0.03, 0.25, 0.3
_FEW = ("distributed/*", "profile/*")
_LAST_RANK = 2**31 - 1
_GROUP = [
    "Process Group Name", "Process Group Ranks", "Group size", "Collective name", "In msg nelems", "Out msg nelems", "dtype", "Seq",
]  # fmt: skip
_NAMES = [
    "rank{}.json",
    "rank{}.json",
    "rank{}.json",
    "trace.{}.json",
    "host_{}.170000000{}.pt.trace.json",
    "r{}.json",
    "rank99999999{}.json",
]
_SOUND: list[list[Root]] = []


def sound() -> list[list[Root]]:
    """Runs of four ranks of which none, one or two are late; made once."""
    if not _SOUND:
        runs = [ranks({}), ranks({2: 9_000}), ranks({0: 3_000, 3: 20_000})]
        _SOUND.extend([json.loads(builder.to_json()) for builder in run] for run in runs)
    return _SOUND


def make(rng: Random, world: World) -> tuple[str, Files]:
    """Two to four ranks, of which at least one is damaged: as bytes, in its events, in its rank, its clock or its groups."""
    run = rng.choice(sound())[: rng.choice([2, 3, 4])]
    hurt = set(rng.sample(range(len(run)), rng.choice([1, 1, 1, 2, len(run)])))
    pattern = rng.choice(_NAMES)
    damage, files = rng.choice(list(DAMAGES)), dict[str, bytes]()
    for place, root in enumerate(run):
        changed: Any = root
        if place in hurt and damage != "bytes":
            changed = {**root, "traceEvents": [structure.copied(event) for event in root["traceEvents"]]}
            changed = DAMAGES[damage](rng, changed, run, world) or changed
        text = encode(changed, rng)
        if place in hurt and damage == "bytes":
            text = edited(rng, text)
        number = rng.randrange(4) if rng.random() < 0.05 else place
        files[f"{_FOLDER}/" + pattern.format(number, place)] = text
    return f"{damage}: {len(run)} ranks", files


def _events(root: Root) -> list[dict[str, Any]]:
    return [event for event in root["traceEvents"] if isinstance(event, dict)]


def _structure(rng: Random, root: Root, run: list[Root], world: World) -> Any:
    return structure.damaged(rng, root, rng.choice([rng.choice(run), rng.choice(world.seeds)[1]]))


def _rank(rng: Random, root: Root, _run: list[Root], _world: World) -> None:
    """Ranks twice, of another run, or beyond any run; worlds of no size, or of more than there are machines."""
    info = root.get("distributedInfo")
    info = dict(info) if isinstance(info, dict) else {}
    for key in rng.choice([["rank"], ["world_size"], ["rank", "world_size"], ["rank", "world_size", "backend"]]):
        info[key] = rng.choice(
            [0, 1, 2, 3, 0, 1, _LAST_RANK, 2**63, -1, rng.choice([*NUMBERS, *ODD, *ATTACKS, *SECRETS])]
        )
    root["distributedInfo"] = rng.choice([info, info, [info], None])


def _clock(rng: Random, root: Root, _run: list[Root], _world: World) -> None:
    """Clocks that are apart, drift, jump, or go backwards."""
    if rng.random() < 0.4:
        root["baseTimeNanoseconds"] = rng.choice([0, 1, 10**9, 10**15, 2**62, 2**63 - 1, -(2**63), 1.5e18, "x", None])
        return
    events = [event for event in _events(root) if isinstance(event.get("ts"), int | float)]
    drift, shift = rng.choice([1, 1, 1.001, 2, 0.5, -1]), rng.choice([0, 1000, -5e4, 6e7, 1e9, 3e12, 1e15])
    jump = rng.randrange(len(events)) if rng.random() < 0.5 else 0
    for event in events[jump:]:
        event["ts"] = event["ts"] * drift + shift


def _groups(rng: Random, root: Root, _run: list[Root], _world: World) -> None:
    """Groups that contradict those of the other ranks."""
    key, same = rng.choice(_GROUP), rng.random() < 0.5
    pool = rng.choice(
        [NUMBERS, ODD, ATTACKS, SECRETS, ["0", "1", "[0, 1]", "[2, 3]", "[0, 0]", 1, 2, 10**6, "broadcast", "send"]]
    )
    value = rng.choice(pool)
    for event in _events(root):
        args = event.get("args")
        if isinstance(args, dict) and key in args and (same or rng.random() < 0.3):
            args[key] = value if same else rng.choice(pool)


def _collectives(rng: Random, root: Root, _run: list[Root], _world: World) -> None:
    """Collectives that are missing, twice, or in another order."""
    share, action = rng.choice([0.05, 0.3, 1.0]), rng.choice(["drop", "double", "times"])
    comms = [event for event in _events(root) if "nccl" in str(event.get("name", "")) and rng.random() < share]
    if action == "times":
        times = [event.get("ts") for event in comms]
        rng.shuffle(times)
        for event, ts in zip(comms, times, strict=True):
            event["ts"] = ts
        return
    gone = {id(event) for event in comms}
    events = root["traceEvents"]
    root["traceEvents"] = [event for event in events if id(event) not in gone] if action == "drop" else events + comms


def _foreign(rng: Random, root: Root, _run: list[Root], world: World) -> Root:
    """The trace of another program, that says it is this rank."""
    return {**rng.choice(world.seeds)[1], "distributedInfo": root.get("distributedInfo")}


def _no_rank(rng: Random, _root: Root, _run: list[Root], _world: World) -> Any:
    """A file that is sound, and no trace."""
    return rng.choice([{}, [], {"traceEvents": []}, {"a": 1}, "x", 5, None, {"traceEvents": {}}])


DAMAGES: dict[str, Callable[[Random, Root, list[Root], World], Any]] = {
    "bytes": _structure,
    "structure": _structure,
    "rank": _rank,
    "clock": _clock,
    "groups": _groups,
    "collectives": _collectives,
    "foreign": _foreign,
    "no trace": _no_rank,
}


def tried(folder: Path, rng: Random, world: World) -> str:
    """Analyze the folder as `advisor analyze` does, in this process; what was refused is said, the others are reported."""
    if rng.random() < _COMMANDED:
        checks.commanded(folder, "analyze", _FOLDER, "--jobs", "1", "-v", "-f", rng.choice(["text", "json"]))
        return "analyzed"
    try:
        found = finding.find([str(folder / _FOLDER)])
    except TraceError as error:
        checks.complaint(error, folder / _FOLDER)
        return "refused"
    only = () if rng.random() < _ALL_RULES else _FEW
    settings = Settings(rules=world.book.rules, only=only, views=rng.random() < _VIEWS)
    results = run_many(found, settings, Workers(1, None, lambda _text: None))
    for text in (*results.failed, *results.foreign):
        path = next((Path(name) for name in found.addresses if text.startswith(f"{name}: ")), folder)
        checks.refusal(text, path)
    if not results.analyses:
        return "refused"
    checks.together(Several(traces=results.analyses, across=results.across))
    return "analyzed"
