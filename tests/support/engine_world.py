"""For tests of the engine: a trace made by hand, small enough to work out its costs, and rules over it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor import rulebook
from advisor.columns import Columns
from advisor.engine import run as engine
from advisor.engine.run import Outcome
from advisor.frames import SCHEMAS
from advisor.intervals import EMPTY
from advisor.results.analysis import Finding

MS = 1_000_000


# ---- a trace made by hand


def frame(name: str, rows: int = 1, /, **columns: Any) -> pd.DataFrame:
    """A frame with every column of its schema: those given, the others unknown."""
    series: dict[str, Any] = {}
    blank = {"VARCHAR": None, "BOOLEAN": None, "DOUBLE": np.nan, "BIGINT": 0}
    for column in SCHEMAS[name].columns:
        values = columns.pop(column.name, blank[column.type])
        values = list(values) if isinstance(values, list | np.ndarray) else [values] * rows
        kind = {"VARCHAR": "category", "BOOLEAN": "boolean", "DOUBLE": "float64", "BIGINT": "Int64"}[column.type]
        series[column.name] = pd.Series(values, dtype=kind)
    assert not columns, f"no such columns: {columns}"
    return pd.DataFrame(series)


@dataclass
class Ledger:
    dur_ns: Any
    step: Any
    counted: Any

    @property
    def counted_ns(self) -> int:
        return int(self.dur_ns[self.counted].sum())

    def spans(self, cause: str) -> Any:
        return EMPTY


@dataclass
class Trace:
    """Segments of 1 ms, ten a step, three steps; the first is not counted. ``owns`` lists the segments of each row."""

    frames: dict[str, Any] = field(default_factory=dict)
    owns: dict[str, list[list[int]]] = field(default_factory=dict)
    features: frozenset[str] = frozenset({"gpu", "host", "steps", "shapes", "idle"})
    gpu_expected: bool = True
    step_ms: float | None = 10.0

    @property
    def unprofiled(self) -> None:
        """Steps without the profiler: none."""
        return None

    @property
    def whole_ms(self) -> float:
        return self.step_ms or self.window_ns / 1e6

    step_count: int = 2
    window_ns: int = 30 * MS
    warm_ns: Any = None
    lacking: dict[str, dict[str, Exception]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        step = np.repeat([0, 1, 2], 10)
        self.ledger = Ledger(np.full(30, MS, np.int64), step, step > 0)
        self.frames.setdefault("trace", frame("trace", vendor="nvidia", capability=8.0, busy_share=0.5))

    def columns(self, name: str, columns: object = None) -> Columns:
        frame_data = self.frames.get(name, frame(name, 0))
        if isinstance(frame_data, Exception):
            raise frame_data
        return Columns.of_pandas(frame_data)

    def claims(self, name: str, mask: Any) -> Any:
        owned = self.owns.get(name, [])
        return np.array(sorted({s for row, segments in enumerate(owned) if mask[row] for s in segments}), np.int64)

    def lacks_events(self, segments: Any) -> bool:
        return False

    def failed(self, name: str) -> dict[str, Exception]:
        return self.lacking.get(name, {})

    def harness(self, name: str) -> Any:
        return np.zeros(len(self.columns(name)), np.bool_)

    def held(self, name: str, mask: Any, weights: Any) -> list[tuple[str, float]]:
        return []

    def around(self, name: str, mask: Any, weights: Any, op: str) -> Any:
        return None

    def returns(self, name: str, mask: Any) -> Any:
        return 1.0, 1.0

    def behind(self, name: str, mask: Any) -> Any:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def costs(self, name: str, mask: Any, segments: Any) -> Any:
        return None


def kernels(*steps: int, owns: Sequence[Sequence[int]] = (), **columns: Any) -> Trace:
    """A trace of kernels, one a step named, each owning the segments listed for it."""
    owned = [list(segments) for segments in owns] or [[10 * step] for step in steps]
    cost = [MS * len(segments) for segments in owned]
    table = frame("kernels", len(steps), **{"step": list(steps), "cost_ns": cost, "dur_ns": cost, **columns})
    return Trace(frames={"kernels": table}, owns={"kernels": owned})


# ---- rules made by hand


def write(folder: Path, name: str, **changes: Any) -> None:
    """A rule over kernels: all of them matter, from 1 % of the time on. ``match_where`` stands for match.where."""
    parts: dict[str, Any] = {
        "id": name,
        "since": "0.1",
        "title": f"About {name}",
        "why": "because",
        "needs": [],
        "given": "",
        "confidence": "certain",
        "yields_to": [],
        "match": {"frame": "kernels"},
        "levels": {"low": 0.01, "medium": 0.2, "high": 0.4},
        "fix": {"title": "Do it", "effort": "a line", "before": "x", "after": "y", "caveat": "", "verify": "it is so"},
        "replay": {"action": "remove", "low": 0.5, "high": 1.0, "basis": "by hand"},
    }
    for key, value in changes.items():
        head, _, tail = key.partition("_")
        if head in ("match", "fix", "replay") and tail:
            parts[head][tail] = value
        elif value is None:
            parts.pop(key)
        else:
            parts[key] = value
    path = folder / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in parts.items()))


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


RISK: dict[str, Any] = {"levels": None, "replay": None, "severity": "medium"}

Run = Callable[..., Outcome]


def runner(folder: Path) -> Run:
    """``run(trace, {"a/b": {...}})`` writes those rules into *folder*, and runs all that lie there."""

    def go(frames_or_path: Any, rules: Mapping[str, Mapping[str, Any]] | None = None, **options: Any) -> Outcome:
        for name, changes in (rules or {"kernels/rule": {}}).items():
            write(folder, name, **changes)
        return engine.run(frames_or_path, rulebook.load([folder]), **options)

    return go


def verdict(outcome: Outcome, rule: str = "kernels/rule") -> str:
    """Return the rule's verdict: exactly one."""
    verdicts = outcome.verdicts
    by_verdict = {
        "fires": rule in [finding.rule for finding in outcome.findings],
        "passes": rule in verdicts.passes,
        "not_applicable": rule in [entry.rule for entry in verdicts.not_applicable],
        "not_run": rule in [entry.rule for entry in verdicts.not_run],
        "error": rule in [entry.rule for entry in verdicts.error],
        "noted": rule in verdicts.noted,
    }
    (name,) = [name for name, so in by_verdict.items() if so]
    return name


def finding(outcome: Outcome, rule: str = "kernels/rule") -> Finding:
    (finding,) = [finding for finding in outcome.findings if finding.rule == rule]
    return finding
