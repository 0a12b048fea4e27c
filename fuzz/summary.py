"""Outcomes of a run so far, kept in a file from which the next piece of it goes on."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from fuzz import kinds

SOUND = ("analyzed", "read", "refused")
"""Outcomes that are no failures."""
_MOST_FAILURES = 200


class Summary:
    """Outcomes of the inputs so far, and the numbers that are left, in a part for each job."""

    def __init__(self, seed: int, share: float, parts: list[range] | None = None, path: Path | None = None) -> None:
        self.lock = threading.Lock()
        self.settings: dict[str, Any] = {"seed": seed, "whole": share}
        self.parts = [[part.start, part.stop] for part in parts or []]
        self.path = path
        self.kinds: dict[str, Counter[str]] = {}
        self.sources: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []
        self.failed = 0
        self.seconds = self.earlier = 0.0
        self.slowest: dict[str, Any] = {"seconds": 0.0}
        self.begin = time.monotonic()
        self.end = math.inf

    @classmethod
    def of(cls, path: Path, asked: dict[str, Any], numbers: range, jobs: int, resume: bool) -> Summary:
        """The summary of a run that begins; with *resume* of the one that was kept at *path*, where there is one.

        Raises ``ValueError`` where that is of another run.
        """
        jobs = max(1, jobs)
        bounds = [numbers.start + len(numbers) * job // jobs for job in range(jobs + 1)]
        summary = cls(asked["seed"], asked["whole"], [range(low, high) for low, high in pairwise(bounds)], path)
        summary.settings = {**asked, "numbers": [numbers.start, numbers.stop]}
        if resume and path.exists():
            state = json.loads(path.read_text())
            if state["settings"] != summary.settings:
                raise ValueError(f"{path} is of another run: {state['settings']}")
            summary.parts = state["parts"]
            summary.kinds = {kind: Counter(outcomes) for kind, outcomes in state["kinds"].items()}
            summary.sources = Counter(state["sources"])
            for name in ("failures", "failed", "seconds", "earlier", "slowest"):
                setattr(summary, name, state[name])
        return summary

    def end_after(self, seconds: float) -> None:
        """End this piece of the run after so long."""
        self.end = self.begin + seconds

    def ended(self) -> bool:
        """True once this piece is to end."""
        return time.monotonic() >= self.end

    @property
    def left(self) -> list[range]:
        """The numbers that are left of each part."""
        return [range(low, high) for low, high in self.parts if low < high]

    @property
    def count(self) -> int:
        """The inputs so far."""
        return sum(sum(outcomes.values()) for outcomes in self.kinds.values())

    def add(self, number: int, result: dict[str, Any]) -> None:
        """Count one input, with which its part goes on."""
        with self.lock:
            self.kinds.setdefault(kinds.kind_of(number), Counter())[result["outcome"]] += 1
            self.sources[result.get("input", "?").partition(":")[0]] += 1
            seconds = result.get("seconds", 0.0)
            self.seconds += seconds
            if seconds > self.slowest["seconds"]:
                self.slowest = {"number": number, "seconds": seconds, "input": result.get("input")}
            if result["outcome"] not in SOUND:
                self.failed += 1
                if len(self.failures) < _MOST_FAILURES:
                    self.failures.append({"number": number, **result})
            for part in self.parts:
                if part[0] <= number < part[1]:
                    part[0] = number + 1

    def done(self, numbers: range) -> None:
        """Take a stretch of numbers for tried: behind its last input there is none of the chosen kinds."""
        with self.lock:
            for part in self.parts:
                if part[0] < numbers.stop <= part[1] and numbers.start <= part[0]:
                    part[0] = numbers.stop

    def save(self, output: str | None = None) -> None:
        """Keep the state, and the summary at *output*: each whole, or as it was."""
        with self.lock:
            names = ("settings", "parts", "kinds", "sources", "failures", "failed", "seconds", "slowest")
            state = {name: getattr(self, name) for name in names} | {"earlier": self._wall()}
            text = json.dumps(state)
        if self.path is not None:
            _replace(self.path, text)
        if output:
            _replace(Path(output), json.dumps(self.as_dict(), indent=1))

    def _wall(self) -> float:
        return self.earlier + time.monotonic() - self.begin

    def as_dict(self) -> dict[str, Any]:
        """The summary as it goes to JSON."""
        with self.lock:
            count = self.count
            outcomes: Counter[str] = sum(self.kinds.values(), Counter())
            return {
                **self.settings,
                "inputs": count,
                "outcomes": dict(outcomes),
                "by_kind": {kind: dict(self.kinds[kind]) for kind in kinds.KINDS if kind in self.kinds},
                "damage": dict(self.sources),
                "failed": self.failed,
                "failures": self.failures,
                "left": sum(len(part) for part in self.left),
                "cpu_seconds": round(self.seconds, 1),
                "cpu_ms_an_input": round(1000 * self.seconds / count, 2) if count else None,
                "slowest": self.slowest,
                "wall_seconds": round(self._wall(), 1),
            }


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f"{path.name}.part")
    beside.write_text(text)
    os.replace(beside, path)
