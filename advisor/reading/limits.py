"""Limits of one file: what no profiler writes, and no machine could keep, ends early and says which limit it met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from advisor.errors import TraceError
from advisor.intervals import distinct
from advisor.reading import machine
from advisor.threads import both

if TYPE_CHECKING:
    from advisor.reading.columns import Columns, Table

# Traces shrink to a fifteenth or a fortieth; a bomb, to a thousandth. Under so much text nothing is asked.
MOST_RATIO = 200
SMALL_TEXT = 256 << 20
MOST_EVENTS = 500_000_000
MOST_CHARACTERS = 1 << 30  # of names, stacks and shapes, each counted once
# Work on a thread or a device looks at every event; a process of thousands of them has never been seen.
MOST_THREADS = 4096
MOST_DEVICES = 256
MOST_NESTED = 20_000  # calls open at once, on all threads; Python itself stops at a thousand on each
_HOST = ("op", "annotation", "python")
_DEVICE = ("kernel", "copy", "memset")
_AGAIN = "No profiler writes such a file; record the trace again."


def check_ratio(path: str, packed: int, size: int) -> None:
    """Raise TraceError where *packed* bytes have come to *size* bytes of text, and no trace compresses so well."""
    if size > SMALL_TEXT and size > MOST_RATIO * packed:
        raise TraceError(
            f"{path}: {packed:,} compressed bytes hold more than {size >> 20:,} MB, over the limit of {MOST_RATIO} to 1 that "
            "keeps a small file from filling the memory. If it is a trace, unpack it first, and pass the .json."
        )


def check_size(path: str, columns: Columns) -> None:
    """Raise TraceError where what has been read so far is more than is kept of any trace."""
    if columns.events > MOST_EVENTS:
        raise TraceError(f"{path}: more than {MOST_EVENTS:,} events, the limit for one file. Record fewer steps.")
    characters = sum(
        codes.characters for codes in (columns.names, columns.stacks, columns.raws, columns.inputs, columns.texts)
    )
    if characters > MOST_CHARACTERS:
        raise TraceError(
            f"{path}: names and shapes of more than {MOST_CHARACTERS >> 20:,} MB that are all different, the limit for one "
            f"file. {_AGAIN}"
        )
    if len(columns.threads) > MOST_THREADS:
        raise TraceError(f"{path}: more than {MOST_THREADS:,} threads and streams, the limit for one file. {_AGAIN}")


def check_tables(path: str, tables: Mapping[str, Table]) -> None:
    """Raise TraceError where the events of a file have more devices, or nest deeper, than any program's."""
    devices = [distinct(tables[group]["device"]) for group in _DEVICE if group in tables]
    if devices and len(distinct(np.concatenate(devices))) > MOST_DEVICES:
        raise TraceError(f"{path}: more than {MOST_DEVICES} devices, the limit for one file. {_AGAIN}")
    host = [tables[group] for group in _HOST if group in tables]
    if (rows := sum(len(table["ts"]) for table in host)) <= MOST_NESTED:
        return
    # Nearly in order already, which a stable sort makes use of.
    starts, ends = both(
        lambda: np.sort(np.concatenate([table["ts"] for table in host]), kind="stable"),
        lambda: np.sort(np.concatenate([table["ts"] + np.maximum(table["dur"], 0) for table in host]), kind="stable"),
        beside=machine.has_room_for_threads(rows),
    )
    # Open at the start of an event: those that began before it, less those that ended by then. One event in many is asked.
    sample = np.arange(0, len(starts), 64)
    open_count = sample - np.searchsorted(ends, starts[sample], side="right")
    if int(open_count.max()) > MOST_NESTED:
        raise TraceError(f"{path}: more than {MOST_NESTED:,} calls open at one time, the limit for one file. {_AGAIN}")
