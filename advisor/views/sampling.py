"""Rows of frames summed by step: what metrics are sampled from, and what they are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.columns import Columns
from advisor.intervals import alike
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.intervals import Bools, Ints
    from advisor.trace import Trace

Floats = npt.NDArray[np.float64]
MS = 1e6
MB = 1e6
LEAST = 1e-3
"""Of a part, in ms, MB or calls a step: less is never what made a figure grow."""
_MOST = 30
_NAME = 120
_FOLDERS = regex(r"^.*[\\/]", re.DOTALL)


class Sampling:
    """The steps of one trace, for the metrics to fill: every array of figures has one entry a step, in ms, MB or calls."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.steps = trace.columns("steps")
        self.count = len(self.steps)
        self.sampled: Bools = self.steps["sampled"].to_numpy(np.bool_)

    def causes_ms(self, causes: Iterable[str]) -> Floats:
        """Sum the time of some causes."""
        total = sum((self.steps[f"{cause}_ns"].to_numpy(np.float64) for cause in causes), np.zeros(self.count))
        return np.asarray(total, np.float64) / MS

    @cached_property
    def _starts(self) -> tuple[Ints, int]:
        """When each step begins on the host, and when the last ends, in ns."""
        starts = self.steps["host_start_ns"].to_numpy(np.int64)
        return starts, int((starts + self.steps["host_dur_ns"].to_numpy(np.int64)).max())

    def host_step(self, frame: Columns) -> Ints:
        """Find the step in which the host asked for each row, by its start; -1 outside. Without steps there is one window.

        By the device's clock a kernel that runs late would count for the step behind, and counts that repeat would not.
        """
        start = frame["start_ns"].to_numpy(np.int64)
        if not self.trace.step_count:
            return np.zeros(len(start), np.int64)
        starts, last = self._starts
        return np.where(start < last, np.searchsorted(starts, start, side="right") - 1, -1)


def all_rows(_trace: Trace, rows: Columns) -> Bools:
    """Choose all rows."""
    return np.ones(len(rows), np.bool_)


class Rows(Struct, frozen=True):
    """Rows of a frame, summed by step: a metric's samples, and by their columns *by* its parts.

    *chosen* is a mask of the rows, or None where the trace cannot tell which; *amount* is a column and its divisor, else each
    row counts 1. A row belongs to the step in which the host asked for it, with *device_step* to the one in which it ran.
    """

    frame: str
    by: tuple[str, ...]
    chosen: Callable[[Trace, Columns], Bools | None] = all_rows
    amount: tuple[str, float] | None = None
    device_step: bool = False

    def samples(self, sampling: Sampling) -> Floats | None:
        """Sum the amounts in each step; None where rows or amounts are unknown."""
        rows = self._rows(sampling.trace)
        if rows is None or (self.amount is not None and rows[self.amount[0]].isna().any()):
            return None
        _, step, amounts = self._inside(sampling, rows)
        return np.bincount(step, weights=amounts, minlength=sampling.count).astype(np.float64)

    def _rows(self, trace: Trace) -> Columns | None:
        rows = trace.columns(self.frame)
        chosen = self.chosen(trace, rows)
        return None if chosen is None else rows.rows(chosen)

    def _inside(self, sampling: Sampling, rows: Columns) -> tuple[Columns, Ints, Floats]:
        """Take those of *rows* that lie inside the steps, with the step and the amount of each."""
        known = "step" if self.device_step else "launched_step" if "launched_step" in rows else ""
        step = rows[known].to_numpy() if known and sampling.trace.step_count else sampling.host_step(rows)
        inside = (step >= 0) & (step < sampling.count)
        rows = rows.rows(inside)
        column, unit = self.amount or ("", 1.0)
        amounts = rows[column].to_numpy(np.float64) / unit if column else np.ones(len(rows))
        return rows, step[inside], amounts

    def parts(self, sampling: Sampling) -> dict[str, float]:
        """Sum by name, the heaviest first, a step on average over the sampled steps; none where the rows are unknown."""
        chosen = self._rows(sampling.trace)
        if chosen is None:
            return {}
        rows, step, amounts = self._inside(sampling, chosen)
        counted = sampling.sampled[step]
        by = list(self.by)
        keys = rows.rows(counted, by)
        first, group = alike(*(keys[name].values for name in by))
        sums = np.bincount(group, weights=amounts[counted], minlength=len(first)) / max(1, int(sampling.sampled.sum()))
        heaviest = np.argsort(-sums, kind="stable")[:_MOST]
        parts: dict[str, float] = {}
        for key, value in zip(keys.rows(first[heaviest]).records(), sums[heaviest].tolist(), strict=True):
            if value >= LEAST:
                label = _label(key)
                parts[label] = round(parts.get(label, 0.0) + value, 6)
        return parts


def _label(key: dict[str, Any]) -> str:
    """``cudaStreamSynchronize in aten::item at train.py:54 train``; what is unknown is left out."""
    known = {name: value for name, value in key.items() if isinstance(value, str | int) and value != -1}
    name = str(known.get("name", ""))
    if "op" in known:
        name = f"{name} in {known['op']}" if name else str(known["op"])
    if "file" in known:
        name += f" at {_FOLDERS.sub('', str(known['file']))}"
        name += f":{known['line']}" if "line" in known else ""
        name += f" {known['function']}" if "function" in known else ""
    return name.strip()[:_NAME] or "no operator"
