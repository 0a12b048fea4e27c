"""Origins of events: operator, shapes, module and lines of the source that they come from, each combination once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import Ints, coded, fetch
from advisor.results.views import Launches, Origins
from advisor.timeline.calls import OP
from advisor.views.grid import short

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.views.lanes import Lanes

_MOST_PLACES = 4
_LONGEST = 200
_MODULES = 2


def origins(context: Context, node: Ints) -> tuple[Origins, Ints]:
    """Origins of forest nodes, and the index of each node's; -1 for a negative node, and where nothing is known."""
    found, index = Origins(), np.full(len(node), -1, np.int64)
    if not (node >= 0).any():
        return found, index
    host = context.recording.host
    wanted, back = coded(node)
    op = fetch(host.attributes.op, wanted)
    keys = [
        fetch(host.name, np.where((op >= 0) & (host.group[np.maximum(op, 0)] == OP), op, -1)),
        context.op_column(wanted, "dims"),
        fetch(host.attributes.module, wanted),
        *_places(context, wanted),
    ]
    rows, code = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    place = np.full(len(rows), -1, np.int64)
    shapes, paths, places = context.shape_texts, host.module_paths, host.places
    texts: dict[str, int] = {"": -1}
    lines: dict[str, int] = {}
    for at, (name, dims, module, *around) in enumerate(rows.tolist()):
        told = (
            _number(texts, context.names[name] if name >= 0 else ""),
            _number(texts, shapes[dims] if dims >= 0 else ""),
            _number(texts, "/".join(paths[module].split("/")[-_MODULES:]) if module >= 0 else ""),
        )
        stack = [_number(lines, places[line].text) for line in around if line >= 0]
        if max(told) < 0 and not stack:
            continue
        place[at] = len(found.stack)
        for column, value in zip((found.operator, found.shapes, found.module), told, strict=True):
            column.append(value)
        found.stack.append(stack)
    del texts[""]
    found.texts.extend(texts)
    found.lines.extend(lines)
    return found, place[code.ravel()][back.ravel()]


def _number(known: dict[str, int], text: str) -> int:
    """The number of a text, given at its first use; *known* may hold one that has a number of its own."""
    return known.setdefault(short(text, _LONGEST), len(known) - ("" in known))


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


def launches(context: Context, lanes: Lanes, launch: Ints, low: int) -> Launches:
    """Launches of items, given the forest node that launched each, -1 for none, and the start of the step."""
    host = context.recording.host
    items = np.flatnonzero(launch >= 0)
    shown = lanes.shown(launch[items], host.parent)
    return Launches(
        item=items.tolist(),
        start=(fetch(host.start, launch[items]) - low).tolist(),
        track=fetch(lanes.track, shown).tolist(),
        row=fetch(lanes.row, shown).tolist(),
    )
