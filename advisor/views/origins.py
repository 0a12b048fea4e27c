"""Origins of events: the operator, the shapes, the module and the lines of the source that they come from, each combination once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import Ints, fetch
from advisor.results.views import Launch, Origin
from advisor.timeline.calls import OP
from advisor.views.grid import short

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.views.lanes import Lanes

_MOST_PLACES = 4
_LONGEST = 200
_MODULES = 2


class Origins:
    """Origins of forest nodes, and the texts that they point into; ``index`` is each node's, -1 where nothing is known."""

    def __init__(self, context: Context, node: Ints) -> None:
        self._texts: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self.found: list[Origin] = []
        self.index = np.full(len(node), -1, np.int64)
        if not (node >= 0).any():
            return
        host = context.recording.host
        wanted, back = np.unique(node, return_inverse=True)
        op = fetch(host.attributes.op, wanted)
        keys = [
            fetch(host.name, np.where((op >= 0) & (host.group[np.maximum(op, 0)] == OP), op, -1)),
            context.op_column(wanted, "dims"),
            fetch(host.attributes.module, wanted),
            *_places(context, wanted),
        ]
        rows, code = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
        index = np.full(len(rows), -1, np.int64)
        shapes, paths, places = context.shape_texts, host.module_paths, host.places
        for at, (name, dims, module, *lines) in enumerate(rows.tolist()):
            origin = Origin(
                self._text(context.names[name] if name >= 0 else ""),
                self._text(shapes[dims] if dims >= 0 else ""),
                self._text("/".join(paths[module].split("/")[-_MODULES:]) if module >= 0 else ""),
                [_number(self._lines, places[line].text) for line in lines if line >= 0],
            )
            if max(origin.operator, origin.shapes, origin.module) >= 0 or origin.stack:
                index[at] = len(self.found)
                self.found.append(origin)
        self.index = index[code.ravel()][back.ravel()]

    @property
    def texts(self) -> list[str]:
        """Operators, shapes and modules."""
        return list(self._texts)

    @property
    def lines(self) -> list[str]:
        """Lines of the source."""
        return list(self._lines)

    def _text(self, text: str) -> int:
        return _number(self._texts, text) if text else -1


def _number(known: dict[str, int], text: str) -> int:
    return known.setdefault(short(text, _LONGEST), len(known))


def _places(context: Context, node: Ints) -> list[Ints]:
    """The user's lines around each node, innermost first, each once: codes, -1 behind the last."""
    host = context.recording.host
    columns = [fetch(host.attributes.user, node)]
    above = node
    while len(columns) < _MOST_PLACES:
        before, here = columns[-1], np.full(len(node), -1, np.int64)
        open_ = np.flatnonzero(before >= 0)
        above = above.copy()
        while len(open_):
            above[open_] = fetch(host.parent, above[open_])
            open_ = open_[above[open_] >= 0]
            line = host.attributes.user[above[open_]]
            differs = line != before[open_]
            here[open_[differs]] = line[differs]
            open_ = open_[~differs]
        if not (here >= 0).any():
            break
        columns.append(here)
    return columns


def launches(context: Context, lanes: Lanes, launch: Ints, low: int) -> list[Launch]:
    """Launches of items, given the forest node that launched each, -1 for none, and the start of the step."""
    host = context.recording.host
    items = np.flatnonzero(launch >= 0)
    start = host.start[launch[items]] - low
    shown = lanes.shown(launch[items], host.parent)
    columns = (items, start, fetch(lanes.track, shown), fetch(lanes.row, shown))
    return [Launch(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
