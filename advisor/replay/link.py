"""The link between host and device: no fix makes a copy faster than its bytes take over it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor import hardware
from advisor.frames.copies import parse, transfers
from advisor.frames.devices import facts as devices
from advisor.intervals import Ints, coded
from advisor.timeline.context import Context

_BYTES = 1 << 20
"""Copies from this size on show what the link can do; smaller ones what starting them costs."""
Floats = npt.NDArray[np.float64]


def least_ns(context: Context, works: Ints) -> Floats:
    """Return the ns that copies take at least, in pinned memory; 0 where the link or the size is not known, or it is no copy.

    The link does what pinned copies of some size reach in the trace, in the same direction; where there are none, what the
    device's generation of PCI Express does.
    """
    rates = context.once(_rates)
    work = context.recording.work
    directions = _directions(context, works)
    least = np.zeros(len(works))
    copies = np.flatnonzero(directions >= 0)
    size = np.maximum(context.work_column("copy", "bytes", works[copies]), 0)
    rate = rates[directions[copies]]
    with np.errstate(divide="ignore", invalid="ignore"):
        least[copies] = np.where(rate > 0, size / rate, 0.0)
    shorter: Floats = np.minimum(least, work.end[works] - work.start[works])
    return shorter


def _directions(context: Context, works: Ints) -> Ints:
    """For each piece of work, 0 for a copy to the device, 1 for one to the host, -1 for all else."""
    return _coded(context, works, {"HtoD": 0, "DtoH": 1})


def _coded(context: Context, works: Ints, codes: dict[str, int], part: int = 0) -> Ints:
    copies = transfers(context)
    names, inverse = coded(context.recording.work.name[works])
    of_name = np.array([codes.get(parse(context.names[name])[part], -1) for name in names.tolist()], np.int64)
    found = of_name[inverse] if len(names) else np.zeros(0, np.int64)
    return np.where(np.isin(works, copies), found, -1)


def _rates(context: Context) -> Floats:
    """Bytes per ns to the device and to the host; 0 where not known."""
    rows = transfers(context)
    work = context.recording.work
    first = next(iter(context.once(devices)), {})
    known = hardware.link_gbps(first.get("name")) or 0.0
    rates = np.full(2, known)
    size, dur = context.work_column("copy", "bytes", rows), work.end[rows] - work.start[rows]
    pinned = (_coded(context, rows, {"pinned": 1}, 3) == 1) & (size >= _BYTES) & (dur > 0)
    directions = _directions(context, rows)
    for direction in (0, 1):
        chosen = pinned & (directions == direction)
        if chosen.any():
            rates[direction] = float((size[chosen] / dur[chosen]).max())
    return rates
