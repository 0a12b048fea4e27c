"""Marks of steps that another process made: they say nothing of the program that was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from advisor.reading.columns import Table

_MARK = "ProfilerStep#"


def of_others(tables: dict[str, Table], names: list[str], programs: set[int]) -> list[tuple[str, str]]:
    """Return notes on steps of processes that run no operator and make no call.

    They stay what the window is measured by, as other tools measure it. *programs* are the processes that do; the column that
    says whose each annotation is goes.
    """
    table = tables.get("annotation")
    if table is None:
        return []
    process = table.pop("process")
    marks = np.array([name.startswith(_MARK) for name in names], np.bool_)[table["name"]]
    count = int((marks & ~np.isin(process, sorted(programs))).sum()) if programs else 0
    if not count:
        return []
    what = "1 step is" if count == 1 else f"{count:,} steps are"
    return [("other-process", f"{what} of another process, which runs no operator here and makes no call")]
