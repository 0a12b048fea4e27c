"""Marks of steps that another process made: they divide nothing of the program that was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from advisor.reading.columns import Table

_MARK = "ProfilerStep#"


def leave_out_others(tables: dict[str, Table], names: list[str], programs: set[int]) -> list[tuple[str, str]]:
    """Take from the annotations the steps of processes that run no operator and make no call. Returns notes on them.

    *programs* are the processes that do; the column that says whose each annotation is goes.
    """
    table = tables.get("annotation")
    if table is None:
        return []
    process = table.pop("process")
    marks = np.array([name.startswith(_MARK) for name in names], np.bool_)[table["name"]]
    other = marks & ~np.isin(process, sorted(programs)) if programs else np.zeros(len(marks), np.bool_)
    count = int(other.sum())
    if not count:
        return []
    kept = {key: column[~other] for key, column in table.items()}
    if len(kept["ts"]):
        tables["annotation"] = kept
    else:
        del tables["annotation"]
    what = "1 step is" if count == 1 else f"{count:,} steps are"
    return [("other-process", f"{what} of another process, which runs no operator here and makes no call: left out")]
