"""Waits for a device of which nothing was recorded: all that shows of them is how long an operator takes.

A scalar that is read back takes under a microsecond where it lies on the CPU, and a copy some ns an element. What takes far longer
waits until the device has done what was queued before it, in whichever direction it copies.
"""

from __future__ import annotations

import json
import re

import numpy as np

from advisor.intervals import EMPTY, Bools, Ints, Spans, distinct, union
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.recording import Recording

_READBACK = regex(r"^aten::_local_scalar_dense$")
_COPY = regex(r"^aten::copy_$")
_READBACK_NS = 100_000
# A copy of a few elements takes microseconds; one that is slow for its layout takes under so many ns an element.
_COPY_NS, _SLOW_NS = 500_000, 100
_DOUBTFUL_NS = 1_000_000


def readbacks(recording: Recording) -> Ints:
    """Forest nodes of the scalars read back that take longer than on the CPU."""
    return _longer(recording, _READBACK, _READBACK_NS)


def copies(recording: Recording) -> Ints:
    """Forest nodes of the copies that take far longer than their elements explain; none whose shapes are not known."""
    nodes = _longer(recording, _COPY, _COPY_NS)
    elements = _elements(recording, nodes)
    dur = recording.host.end[nodes] - recording.host.start[nodes]
    return nodes[(elements >= 0) & (dur > _SLOW_NS * elements)]


def unsized_copies(recording: Recording) -> Spans:
    """Time of long copies of unknown size: work of the CPU's, or waits for the device."""
    nodes, host = _longer(recording, _COPY, _DOUBTFUL_NS), recording.host
    if not len(nodes):
        return EMPTY
    nodes = nodes[_elements(recording, nodes) < 0]
    return union(host.start[nodes], host.end[nodes])


def _longer(recording: Recording, pattern: re.Pattern[str], least_ns: int) -> Ints:
    """Forest nodes of operators by name that take *least_ns* or more, where nothing of a device was recorded."""
    host = recording.host
    if len(recording.work) or not host.size:
        return np.zeros(0, np.int64)
    hit: Bools = np.array([pattern.search(name) is not None for name in recording.names], np.bool_)
    nodes: Ints = host.lasting(host.group == OP, least_ns)
    return nodes[hit[host.name[nodes]]]


def _elements(recording: Recording, nodes: Ints) -> Ints:
    """Elements of the largest tensor that each operator takes; -1 where its shapes were not recorded."""
    host, table = recording.host, recording.tables.get("op")
    out = np.full(len(nodes), -1, np.int64)
    if table is None or "dims" not in table or not len(nodes):
        return out
    codes = table["dims"][host.row[nodes]]
    for code in distinct(codes).tolist():
        out[codes == code] = _largest(recording.recorded.raws[code]) if code >= 0 else -1
    return out


def _largest(raw: bytes) -> int:
    """Elements of the largest of some shapes, as the profiler writes them; -1 where there is none."""
    try:
        shapes = json.loads(raw or b"[]")
    except ValueError:
        return -1
    tensors = [shape for shape in shapes if isinstance(shape, list) and all(isinstance(one, int) for one in shape)]
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in tensors if shape]
    return max(sizes, default=-1)
