"""Damaged baselines of the gate: judged against a sound recording, shown in every format, and updated."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

from advisor.config import Gate
from advisor.errors import UsageError
from advisor.gating import baseline, judge
from advisor.gating.update import update
from fuzz import checks, documents
from fuzz.inputs import LAYOUTS, edited
from fuzz.values import SECRET
from fuzz.world import Files, World

NAME, TRACE = "baseline.json", "trace.json"
_UPDATED, _COMMANDED, _UNSIGNED = 0.25, 0.05, 0.9
_VALUES: list[Any] = [
    *[0, 1, 2, -1, 99, 1e15, 1.01e15, -1e15, 1e-300, 5e-324, [1.0], [1.0, 2.0], [[0.0] * 8], [[-5.0] * 8, []], [[], [], []]],
    *[[[1e15] * 8], [[1e15, -1e15] * 4], [[5e-324] * 8], "fires", "passes", "not_run", "error", "not_applicable", "ms", "MB"],
    *["step_ms", "gpu/x", "data-loading/loader-stall", "A100", "", "resnet50", ["steps", "shapes"], [[True] * 8], [["1"] * 8]],
]  # fmt: skip
_VERDICTS = ["fires", "passes", "not_run", "not_applicable", "error", "", "no such verdict"]
_GATES = [
    Gate(),
    Gate(),
    Gate(tolerance={"step_ms": 0.0}),
    Gate(tolerance={"step_ms": 1e300}),
    Gate(levels={"*": "warn"}),
]


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A baseline, damaged as bytes or in what it says."""
    document, damage, draw = rng.choice(world.baselines), "bytes", rng.random()
    if rng.random() < _UNSIGNED:  # else no figure of a damaged one would be looked at
        document = {key: value for key, value in document.items() if key != "digest"}
    if draw < 0.35:
        document, damage = figured(rng, document), "figures"
    elif draw < 0.75:
        document, damage = documents.damaged(rng, document, _VALUES), "structure"
    layout = rng.choice(LAYOUTS)
    text = json.dumps(document, **layout).encode()
    if damage == "bytes" or rng.random() < 0.1:
        text = edited(rng, text)
    text = text.replace(
        SECRET.encode(), b"FUZZ-WORD"
    )  # what a trace says is cleaned before; what is left is the project's own
    return f"{damage}: baseline", {NAME: text, TRACE: world.trace}


def figured(rng: Random, document: Any) -> Any:
    """A copy of a baseline that is one still, of figures and verdicts that no recording has."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 2, 5, 30])):
        table = document[rng.choice(["metrics", "metrics", "rules"])]
        record = table[rng.choice(sorted(table))]
        if "verdicts" in record and rng.random() < 0.6:
            record["verdicts"] = [rng.choice(_VERDICTS) for _ in record["verdicts"]][: rng.choice([0, 1, 9])]
        runs = record["runs"]
        factor, count = rng.choice([0, -1, 1e-12, 0.5, 1 + 1e-12, 2, 1e6]), rng.choice([0, 1, 2, 8, 8, 200])
        changed = [[rng.choice([figure * factor, figure]) for figure in (run * 30)[:count]] for run in runs]
        record["runs"] = rng.choice([changed, changed, changed * 3, [], runs[:1], [sorted(run) for run in changed]])
        if rng.random() < 0.3 and record["runs"] and record["runs"][0]:
            record["runs"][0][0] = rng.choice([1e15, -1e15, 5e-324, 0.0, 1e12])
        document["steps"] = rng.choice([document["steps"], document["steps"], [], [0], [-1], [2**62], [8] * 50])
    return document


def tried(folder: Path, rng: Random, world: World) -> str:
    """Load it, hold the sound recording against it, and make it anew."""
    path = folder / NAME
    if rng.random() < _COMMANDED:
        checks.commanded(folder, "gate", TRACE, "-b", NAME, "-f", rng.choice(["text", "json", "junit"]), "-v")
        updating = ("--update", "--reason", "x") if rng.random() < 0.8 else ("--force",)
        checks.commanded(folder, "baseline", TRACE, "-o", NAME, *updating)
        return "analyzed"
    try:
        base = baseline.load(path)
    except UsageError as error:
        checks.complaint(error, path)
        return "refused"
    runs = [world.analysis] * rng.choice([1, 1, 2])
    answer = judge.judge(
        runs, base, rng.choice(_GATES), baseline_name=str(path), today="2026-11-22", heirs=world.book.former
    )
    checks.judgement(answer, world.schemas.get("judgement") if rng.random() < _UPDATED else None)
    if rng.random() < _UPDATED:
        new = update(path, [world.analysis], "renewed")
        checks.need(baseline.load(path) == new, "the baseline does not come back from its file")
        checks.need(new.history[:-1] == base.history, "an update that loses the history")
    return "analyzed"
