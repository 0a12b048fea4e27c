"""Collectives and work of a rank that runs on the CPU, for its digest: gloo, MPI and UCC exchange on threads of their own.

On the CPU several collectives may be in flight at once, and a rank goes on meanwhile. So what it did before one of them is
counted from the last collective in which all ranks have met, which only the traces of all ranks tell: a digest holds what had
passed at the start and at the end of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.ledger import CAUSES, CODE

if TYPE_CHECKING:
    from advisor.trace import Trace

_TENSOR = regex(r"\[(\d{1,9}(?:,\d{1,9})*)\]")
_PAIRS = ("send", "recv")
OPERATORS = ("step", "name", "count", "ns")
"""Columns of the table of operators, a row for each step's number and name: calls, and ns of the thread that sets the pace."""
OPERANDS = ("step", "name", "shape", "count")
"""Columns of the table of their operands, a row for each shape: how many tensors have it."""


class HostWork(NamedTuple):
    """ns of each cause that have passed at the start and at the end of each collective, 1 where the rank ``waits``
    for its end, and the ns of each step; and the operators of each step, with their operands. All empty for a rank on a GPU."""

    begun: Ints
    left: Ints
    waits: Ints
    steps: Ints
    operators: pd.DataFrame
    operands: pd.DataFrame

    @property
    def fits(self) -> bool:
        """True where its parts fit together."""
        return (
            self.begun.shape == self.left.shape
            and list(self.operators) == list(OPERATORS)
            and list(self.operands) == list(OPERANDS)
        )


def nothing() -> HostWork:
    """Return what a rank on a GPU has of this."""
    none = np.zeros((0, len(CAUSES)), np.int64)
    blank = {"name": pd.Categorical([]), "shape": pd.Categorical([])}
    tables = (
        pd.DataFrame({name: blank.get(name, np.zeros(0, np.int64)) for name in columns})
        for columns in (OPERATORS, OPERANDS)
    )
    return HostWork(none, none.copy(), np.zeros(0, np.int64), none.copy(), *tables)


def collectives(trace: Trace) -> pd.DataFrame:
    """Return the collectives of a trace, with the columns of those on a GPU; a backend's group and sizes are not recorded."""
    frame = trace.frame("cpu_collectives")
    frame = frame.loc[~frame["kind"].isin(_PAIRS).to_numpy()]
    none, unknown = pd.Categorical([None] * len(frame)), pd.array([pd.NA] * len(frame), dtype="Int64")
    return frame.assign(
        bytes=unknown,
        group_name=none,
        group_ranks=none,
        group_size=unknown,
        seq=unknown,
        across_stages=np.zeros(len(frame), np.bool_),
    )


def host_work(trace: Trace, collectives: pd.DataFrame) -> HostWork:
    """Sum up what passed before each of the *collectives*, and in each step."""
    ledger = trace.ledger
    if not len(ledger.start_ns):
        return nothing()
    start = collectives["start_ns"].to_numpy(np.int64)
    end = start + collectives["dur_ns"].to_numpy(np.int64)
    edges = np.append(ledger.start_ns, ledger.end_ns[-1])
    begun, left = (np.zeros((len(start), len(CAUSES)), np.int64) for _ in range(2))
    for code in range(len(CAUSES)):
        passed = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(ledger.cause == code, ledger.dur_ns, 0))])
        begun[:, code] = np.rint(np.interp(start, edges, passed))
        left[:, code] = np.rint(np.interp(end, edges, passed))
    count = trace.step_count
    steps = np.zeros((count, len(CAUSES)), np.int64)
    inside = (ledger.step >= 0) & (ledger.step < count)
    np.add.at(steps, (ledger.step[inside], ledger.cause[inside]), ledger.dur_ns[inside])
    at = np.clip(np.searchsorted(ledger.start_ns, end, side="left") - 1, 0, None)
    waits = (ledger.cause[at] == CODE["communication"]).astype(np.int64)
    return HostWork(begun, left, waits, steps, *_operators(trace))


def _operators(trace: Trace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The operators of the thread that sets the pace, by step and name; and the shapes of their operands."""
    numbers = trace.frame("steps")["number"].to_numpy().astype(np.int64)
    frame = trace.frame("ops")
    step = frame["step"].to_numpy(np.int64)
    inside = (step >= 0) & (step < len(numbers)) & (frame["cost_ns"].to_numpy(np.int64) > 0)
    if not inside.any():
        return nothing().operators, nothing().operands
    frame = frame.loc[inside, ["name", "shapes", "cost_ns"]].assign(step=numbers[step[inside]])
    by_name = frame.groupby(["step", "name"], observed=True)["cost_ns"]
    operators = by_name.agg(count="size", ns="sum").reset_index()
    calls = frame.groupby(["step", "name", "shapes"], observed=True).size().rename("count").reset_index()
    tensors = {text: _TENSOR.findall(text) for text in calls["shapes"].cat.categories}
    shapes = pd.Series([tensors[text] for text in calls["shapes"].tolist()], index=calls.index, dtype=object)
    each = calls.assign(shape=shapes).explode("shape").dropna(subset="shape")
    operands = each.groupby(["step", "name", "shape"], observed=True)["count"].sum().reset_index()
    operands = operands.astype({"shape": "category"})
    return operators[list(OPERATORS)], operands[list(OPERANDS)]
