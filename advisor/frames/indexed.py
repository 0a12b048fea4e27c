"""Dimension that an index by one list of places reads, as the view tells that ``x[:, places]`` makes of x before it reads."""

from __future__ import annotations

import json

import numpy as np

from advisor.intervals import Ints, distinct
from advisor.timeline.context import Context

_INDEX, _VIEW, _MASK = "aten::index", "aten::as_strided", "aten::nonzero"


def index_dims(context: Context, rows: Ints) -> Ints:
    """Return for each row that is an index the dimension whose places are listed; -1 for others, and where several are, or none.

    Its view of the tensor stands still along that dimension: a stride of 0. Lists of one place each for several dimensions have
    other views, and so has a list of several dimensions. Of a mask the places are searched for first, and where a dimension
    before is that of the memory, as of a transposed tensor, whole rows are read: both are none.
    """
    host, found = context.recording.host, np.full(len(rows), -1, np.int64)
    codes = {name: code for code, name in enumerate(context.names) if name in (_INDEX, _VIEW, _MASK)}
    if _INDEX not in codes or _VIEW not in codes:
        return found
    views = rows[host.name[rows] == codes[_VIEW]]
    views = views[(host.parent[views] >= 0) & (host.name[host.parent[views]] == codes[_INDEX])]
    concrete = context.op_column(views, "concrete")
    inputs = context.recording.recorded.inputs
    dims = {code: _still(bytes(inputs[code])) for code in distinct(concrete).tolist() if 0 <= code < len(inputs)}
    of = np.full(host.size, -1, np.int64)
    of[host.parent[views]] = [dims.get(code, -1) for code in concrete.tolist()]
    masks = rows[host.name[rows] == codes.get(_MASK, -1)]
    of[host.parent[masks[host.parent[masks] >= 0]]] = -1
    here = host.name[rows] == codes[_INDEX]
    found[here] = of[rows[here]]
    return found


def _still(text: bytes) -> int:
    """Return the dimension with a stride of 0 in the recorded arguments of a view; -1 where there is none, or more than one, and
    where numbers lie side by side along a dimension before."""
    try:
        sizes, strides = (json.loads(each) for each in json.loads(text)[1:3])
        still = [at for at, (size, stride) in enumerate(zip(sizes, strides, strict=True)) if stride == 0 and size > 1]
    except (ValueError, TypeError, RecursionError):
        return -1
    if len(still) != 1 or 1 in strides[: still[0]]:
        return -1
    return int(still[0])
