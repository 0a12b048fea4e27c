"""A part of a recording: some steps, or a stretch of the window. What crosses its edges is cut there, what lies outside goes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from advisor.intervals import distinct
from advisor.reading.columns import Array, Table

HOST = ("python", "annotation", "op", "runtime", "overhead", "span", "instant")
DEVICE = ("kernel", "copy", "memset", "gpu_annotation", "device_sync")
_LAUNCHED = ("kernel", "copy", "memset")
_AROUND = ("python", "annotation", "op")


class Part(Struct, frozen=True):
    """Bounds of a part. Times are ns since the first event of the whole, and stay so: a part's times are those of the whole."""

    zero_ns: int
    """Clock reading of the first event of the whole."""
    edges: tuple[int, ...]
    """Edges of the steps, as the whole recording has them; of a stretch without steps, its two ends."""
    host: tuple[int, int]
    """From when to when the host's side is kept: the steps by its own clock as well as by the edges."""
    steps: tuple[tuple[str, int, int, int], ...] = ()
    """Name, number, start and end of each ProfilerStep."""
    later: tuple[int, ...] = ()
    """Starts of the steps that follow, so that what the host did in them counts for none of these."""
    goes_on: bool = False
    """True where GPU work follows, so that the device is known to idle up to the last edge where nothing runs before it."""
    note: str = ""
    """The part in words."""


def cut(tables: Mapping[str, Table], part: Part) -> dict[str, Table]:
    """The rows of *part*: what overlaps it, cut at its edges, and what was called before on its behalf."""
    low, high = part.edges[0] + part.zero_ns, part.edges[-1] + part.zero_ns
    first, last = (edge + part.zero_ns for edge in part.host)
    cut_tables = {group: _within(tables[group], low, high) for group in DEVICE if group in tables}
    cut_tables |= {group: _within(tables[group], first, last) for group in HOST if group in tables}
    for group, rows in _before(tables, cut_tables, first).items():
        early = {key: column[rows] for key, column in tables[group].items()}
        cut_tables[group] = {key: np.concatenate([early[key], column]) for key, column in cut_tables[group].items()}
    return {group: table for group in tables if len((table := cut_tables[group])["ts"])}


def _within(table: Table, low: int, high: int) -> Table:
    """Rows that overlap [low, high), cut to it."""
    start = table["ts"]
    if "dur" not in table:
        keep = (start >= low) & (start < high)
        return {key: column[keep] for key, column in table.items()}
    end = _end(table)
    keep = (start < high) & ((end > low) | (start >= low))
    part = {key: column[keep] for key, column in table.items()}
    crossing = (part["ts"] < low) | (end[keep] > high)
    cut_start = np.maximum(part["ts"], low)
    part["dur"] = np.where(crossing, np.minimum(end[keep], high) - cut_start, part["dur"])
    part["ts"] = cut_start
    return part


def _before(tables: Mapping[str, Table], cut_tables: Mapping[str, Table], first: int) -> dict[str, Array]:
    """Rows that ended before the part and belong to it: calls that launched its GPU work, forward operators of its
    backward ones, and the host's spans around these."""
    rows: dict[str, Array] = {}
    over = {group: _end(tables[group]) <= first for group in (*_AROUND, "runtime") if group in tables}
    threads, times = np.zeros(0, np.int64), np.zeros(0, np.int64)
    work = [cut_tables[group]["correlation"] for group in _LAUNCHED if group in cut_tables]
    if "runtime" in tables and work:
        calls = tables["runtime"]
        rows["runtime"] = np.flatnonzero(
            over["runtime"] & (calls["correlation"] > 0) & np.isin(calls["correlation"], np.concatenate(work))
        )
        threads, times = calls["thread"][rows["runtime"]], calls["ts"][rows["runtime"]]
    if "op" in tables:
        ops = tables["op"]
        launching = _around(ops, threads, times) & over["op"]
        wanted = np.union1d(cut_tables["op"]["sequence"], ops["sequence"][launching])
        forward = over["op"] & np.isin(ops["sequence"], wanted[wanted >= 0])
        threads = np.concatenate([threads, ops["thread"][forward]])
        times = np.concatenate([times, ops["ts"][forward]])
    for group in _AROUND:
        if group in tables:
            rows[group] = np.flatnonzero(_around(tables[group], threads, times) & over[group])
    return rows


def _around(table: Table, threads: Array, times: Array) -> Array:
    """Flag the rows that were open on any of the *threads* at the time given for it."""
    start, end = table["ts"], _end(table)
    around = np.zeros(len(start), np.bool_)
    for thread in distinct(threads).tolist():
        own_times = np.sort(times[threads == thread])
        open_then = np.searchsorted(own_times, end, "right") > np.searchsorted(own_times, start, "left")
        around |= open_then & (table["thread"] == thread)
    return around


def _end(table: Table) -> Array:
    end: Array = table["ts"] + np.maximum(table["dur"], 0)
    return end
