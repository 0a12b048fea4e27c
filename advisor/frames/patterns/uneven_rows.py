"""Batches of rows of differing length: operators that work on every place up to the end of the longest row, or beyond it.

How much of a batch is padding no trace holds: `advisor record` looked at the first batches. How wide each batch is the shapes of
its step's operators tell: those of the lookup of its words, or of what first takes its features.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import made_by_convolution
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.intervals import Bools, Ints, coded, fetch
from advisor.reading.program_settings import Recorded, Uneven
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP, OPTIMIZER, ZERO_GRAD
from advisor.timeline.ledger import OWNED

Shape = tuple[int, ...]
Operands = tuple[Shape, ...]
Widths = dict[int, set[int]]
"""Of each number of rows the widths that batches of so many have in a step."""
_EMBEDDING, _TABLE = "aten::embedding", "aten::embedding_dense_backward"
_STRIDED = regex(r"^aten::(?:conv[12]d|convolution)$")
_ATTENTION = regex(r"^aten::_?(?:scaled_dot_product|flash_attention|efficient_attention|cudnn_attention)")
_RECURRENT = regex(r"^aten::(?:lstm|gru|rnn_tanh|rnn_relu)$")
_FIXED = 0.9
"""Part of a fixed width below which no row of a batch is longer: that is padding to a length, which rows in order keep."""
_FAR = 2
"""Batches of the steps that were recorded are as wide as the first ones, but for this factor."""
_FEWEST = 2
_MULTIPLES, _COARSEST, _FINEST = 8, 64, 8
"""Widths that batches are rounded up to: at most so many, multiples of so much."""
_MOST_WIDTHS, _MOST_KINDS = 16, 100_000


def uneven_rows(tree: Tree) -> Occurrences | None:
    """One row per step: the operators that work on the places of its batch, with their backward pass.

    ``part`` is what of their time is for padding: the share of places, and for scores of attention of places times places.
    ``padding`` is the share of places alone, ``repeats`` the rows of the batch and ``length`` its width.
    """
    recorded = tree.context.metadata.recorded
    if recorded is None:
        return None
    beyond = _beyond(recorded)
    known = [(one, one.padding) for one in _told(recorded) if beyond.keys().isdisjoint(one.widths)]
    return _found(tree, "uneven-rows", known)


def padded_rows(tree: Tree) -> Occurrences | None:
    """The same of rows that are padded to a width far beyond them, of a program on a GPU.

    ``padding`` is the share of the width that a batch's longest row does not reach, on average. ``part`` is of the time what
    goes where batches are as wide as that row, rounded up to a few widths: half of a multiple wider, on average.
    """
    recorded = tree.context.metadata.recorded
    if recorded is None or tree.context.cpu_program:
        return None
    beyond, known = _beyond(recorded), []
    for one in _told(recorded):
        width, others = one.widths[0], set(one.widths[1:])
        if width in beyond and others <= {width}:
            multiple = min(max(width // _MULTIPLES, _FINEST), _COARSEST)
            kept = min((beyond[width] + multiple // 2) / width, 1.0)
            known.append(
                (structs.replace(one, padding=1 - kept, squares=1 - kept**2), 1 - beyond[width] / width),
            )
    return _found(tree, "padded-rows", known)


def _beyond(recorded: Recorded) -> dict[int, int]:
    """Return widths that batches are padded to far beyond their longest row, and the length of that."""
    fixed = ((recorded.batch_width, recorded.batch_longest), (recorded.feature_width, recorded.feature_longest))
    return {width: longest for width, longest in fixed if width and longest is not None and longest < _FIXED * width}


def _told(recorded: Recorded) -> list[Uneven]:
    """Return what was seen of rows that are padded."""
    return [one for one in recorded.uneven if one.padding > 0 and one.rows >= _FEWEST]


def _found(tree: Tree, kind: str, known: list[tuple[Uneven, float]]) -> Occurrences | None:
    """Find what works on rows of some kinds; each with the share of its places that is padding."""
    if not known:
        return None
    steps = tree.once(_Steps)
    found = [one for uneven, padding in known if (one := steps.of(uneven, padding)) is not None]
    return _occurrences(tree, kind, steps, found) if found else None


class _Found(Struct, eq=False):
    """Powers of the width (0: none) that operators work on by their own shapes, with the rows and width of each step's batch."""

    uneven: Uneven
    padding: float
    power: npt.NDArray[np.int8]
    rows: Ints
    width: Ints


class _Steps:
    """Operators of each step, and their shapes."""

    def __init__(self, tree: Tree) -> None:
        self.tree, host = tree, tree.host
        phase = host.attributes.phase
        nodes = np.flatnonzero((host.group == OP) & (phase != OPTIMIZER) & (phase != ZERO_GRAD))
        step = self.at(nodes)
        self.nodes, self.step = nodes[step >= 0], step[step >= 0]
        dims, name = tree.dims(self.nodes), host.name[self.nodes].astype(np.int64)
        concrete = tree.context.op_column(self.nodes, "concrete")
        keys = self.step
        first = np.zeros(0, np.int64)
        for column in (dims, name, np.where(tree.codes_of(_is_strided)[name], concrete, -1)):
            packed = keys * (int(column.max(initial=0)) + 2) + column + 1
            _, first, keys = np.unique(packed, return_index=True, return_inverse=True)
        self.kind = keys
        self.kinds = np.stack([self.step, name, dims, concrete], axis=1)[first]

    def at(self, nodes: Ints) -> Ints:
        """Step of each node, -1 before the first; without steps all are one."""
        return self.of_times(self.tree.host.start[nodes])

    def of_times(self, times: Ints) -> Ints:
        """Step that the host was in at each time, likewise."""
        recording = self.tree.context.recording
        return recording.host_step_of(times) if recording.steps else np.zeros(len(times), np.int64)

    def of_step(self) -> list[tuple[int, list[int]]]:
        """Steps, and the numbers of their kinds of operators."""
        if not len(self.kinds) or len(self.kinds) > _MOST_KINDS:
            return []
        order = np.argsort(self.kinds[:, 0], kind="stable")
        step = self.kinds[order, 0]
        edges = np.flatnonzero(np.diff(step)) + 1
        return [(int(self.kinds[part[0], 0]), part.tolist()) for part in np.split(order, edges)]

    def of(self, uneven: Uneven, padding: float) -> _Found | None:
        """Find what works on rows of that kind; None where nothing takes them."""
        steps = int(self.step.max(initial=-1)) + 1
        power = np.zeros(len(self.kinds), np.int8)
        rows, width = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
        for step, numbers in self.of_step():
            fed = self._fed(uneven, numbers)
            if not fed:
                continue
            # Of batches that a step takes one after the other the widest is told.
            rows[step], width[step] = max(
                ((most, max(widths)) for most, widths in fed.items()), key=lambda pair: pair[1]
            )
            self._shorten(fed, numbers)
            for number in numbers:
                power[number] = self._power(number, fed)
        return _Found(uneven, padding, power, rows, width) if power.any() else None

    def _operands(self, number: int) -> Operands:
        return self.tree.shapes.operands(int(self.kinds[number, 2]))

    def _name(self, number: int) -> str:
        return self.tree.context.names[int(self.kinds[number, 1])]

    def _fed(self, uneven: Uneven, numbers: list[int]) -> Widths:
        """Rows and widths of the batches that a step takes."""
        low, high = min(uneven.widths) // _FAR, max(uneven.widths) * _FAR
        if len(set(uneven.widths)) == 1 and len(uneven.widths) > 1:
            low, high = uneven.widths[0] - 1, uneven.widths[0]  # a language model leaves out the last word
        fed: Widths = {}
        for number in numbers:
            for rows, width in self._batches(uneven, number):
                if rows >= _FEWEST and low <= width <= high:
                    fed.setdefault(rows, set()).add(width)
        return fed

    def _batches(self, uneven: Uneven, number: int) -> list[tuple[int, int]]:
        """Rows and width of what an operator takes, where it may be of the batch."""
        operands, time = self._operands(number), uneven.time
        if not uneven.size:  # words
            looked_up = operands[1] if self._name(number) == _EMBEDDING and len(operands) > 1 else ()
            return [(looked_up[1 - time], looked_up[time])] if len(looked_up) == 2 else []
        shape = operands[0] if operands else ()
        if len(shape) == 2 and uneven.size == 1:
            return [(shape[1 - time], shape[time])]
        features = 3 - time if time else 2
        if len(shape) != 3 or shape[features] != uneven.size:
            return []
        return [(shape[1 if time == 0 else 0], shape[time])]

    def _shorten(self, fed: Widths, numbers: list[int]) -> None:
        """Add the widths that convolutions with a stride make of those of a step."""
        chosen = [number for number in numbers if _is_strided(self._name(number))]
        values = self.tree.strides
        for widths in fed.values():
            new = set(widths)
            while new and chosen and len(widths) < _MOST_WIDTHS:
                made: set[int] = set()
                for number in chosen:
                    told = values.operands(int(self.kinds[number, 3]))
                    made |= made_by_convolution(self._operands(number), told, new)
                new = made - widths
                widths |= new

    def _power(self, number: int, fed: Widths) -> int:
        """Power of the width that an operator works on by its shapes; 0 where it does not, -1 where nothing inside it does.

        The gradient of an embedding is as large as its table: most of what it takes is to fill that with zeros.
        """
        operands, power = self._operands(number), 0
        for rows, widths in fed.items():
            if any(_squared(operands, rows, width) for width in widths):
                return 2
            if any(_of_places(each, rows, width) for each in operands for width in widths):
                power = 1
        if power and self._name(number) == _TABLE:
            return -1
        return 2 if power and _ATTENTION.match(self._name(number)) else power


def _is_strided(name: str) -> bool:
    return _STRIDED.match(name) is not None


def _near(number: int, width: int) -> bool:
    """Tell whether a number is a width: a word may be put before the others, and the last one left out."""
    return abs(number - width) <= 1


def _of_places(shape: Shape, rows: int, width: int) -> bool:
    """Tell whether a tensor has a number, or several, for each place of a batch."""
    if len(shape) > 2:
        return any(_near(number, width) and _by_rows(shape, at, rows) for at, number in enumerate(shape))
    if len(shape) == 2 and rows in shape and _near(shape[1 if shape[0] == rows else 0], width):
        return True
    return any(number % rows == 0 and _near(number // rows, width) for number in shape)


def _by_rows(shape: Shape, at: int, rows: int) -> bool:
    """Tell whether another dimension is the rows of a batch, or these times the heads of attention."""
    return any(number and number % rows == 0 for other, number in enumerate(shape) if other != at)


def _squared(operands: Operands, rows: int, width: int) -> bool:
    """Tell whether an operator works on each place for each other one: scores of attention, and their products.

    In three dimensions that begin with the rows of the batch they are as likely places times features.
    """
    for each in operands:
        square = len(each) > 2 and _near(each[-1], width) and each[-1] == each[-2]
        if square and (len(each) > 3 or each[0] != rows):
            return True
    if len(operands) < 2 or len(operands[0]) != len(operands[1]) or len(operands[0]) < 3:
        return False
    one, other = operands[:2]
    if one[-1] != other[-2] or (len(one) == 3 and one[0] == rows):
        return False
    return sum(_near(number, width) for number in (one[-2], one[-1], other[-1])) > 1


def _occurrences(tree: Tree, kind: str, steps: _Steps, found: list[_Found]) -> Occurrences | None:
    """Rows of the pattern: of each step what works on any of the kinds of rows, at the share of the first that it works on."""
    host, context, work = tree.host, tree.context, tree.work
    # Marks of nodes are places in a list of shares, so that they flow to what runs inside, and to the backward pass.
    shares = np.array([0.0] + [share for one in found for share in (one.uneven.padding, one.uneven.squares)])
    own = np.full(host.size, -1, np.int64)
    for place, one in reversed(list(enumerate(found))):
        power = one.power[steps.kind].astype(np.int64)
        own[steps.nodes[power > 0]] = 2 * place + power[power > 0]
        own[steps.nodes[power < 0]] = 0
    marks = host.with_backward(own)
    marks[np.isin(host.attributes.phase, (OPTIMIZER, ZERO_GRAD))] = -1
    between = np.zeros(0, np.int64)
    if context.cpu_program:
        between = _with_turns(tree, own, marks)
        index = np.flatnonzero(marks[context.op_rows] >= 0)
        node, time = context.op_rows[index], context.ledger.cost(len(context.op_rows), *OWNED)[index]
    else:
        index = np.flatnonzero(fetch(marks, work.launch) >= 0)
        node, time = work.launch[index], (work.end - work.start)[index]
    step = steps.at(node)
    index, node, time, step = (column[step >= 0] for column in (index, node, time, step))
    told, row = coded(step)
    if not len(told):
        return None
    whole, padded = (np.bincount(row, weights=time * part, minlength=len(told)) for part in (1, shares[marks[node]]))
    ledger = context.ledger
    of_turns = Pairs(np.searchsorted(told, steps.of_times(ledger.start_ns[between])), between)
    of_turns = of_turns.where(np.isin(steps.of_times(ledger.start_ns[between]), told))
    engine = of_turns.total(ledger.dur_ns, len(told))
    whole, padded = whole + engine, padded + engine * shares[1]
    first = node[np.lexsort((host.start[node], row))][np.searchsorted(np.sort(row), np.arange(len(told)))]
    pairs = Pairs(row, index)
    main = found[0]
    return Occurrences(
        kind=kind,
        node=first,
        begin=host.start[first],
        end=_last(host.end[node], row, len(told)),
        inside=NOTHING if context.cpu_program else pairs,
        own=NOTHING if context.cpu_program else pairs,
        ops=pairs if context.cpu_program else NOTHING,
        python=of_turns,
        figures={
            "repeats": main.rows[told],
            "length": main.width[told],
            "part": np.rint(padded / np.maximum(whole, 1) * MILLION).astype(np.int64),
            "padding": np.full(len(told), round(main.padding * MILLION), np.int64),
            "dims": tree.dims(first),
        },
    )


def _with_turns(tree: Tree, own: Ints, marks: Ints) -> Ints:
    """Mark the operators between the turns of recurrent layers; return the segments of the ledger between operators there.

    The backward pass of such a layer is a turn of the engine for each place: what sums up the gradients of its weights from turn
    to turn, and the engine's own time, is of no operator that the layer called.
    """
    host, context, ledger = tree.host, tree.context, tree.context.ledger
    named = tree.codes_of(lambda name: _RECURRENT.match(name) is not None)
    layers = np.where((host.group == OP) & named[host.name] & (own > 0), own, -1)
    if not (layers > 0).any():
        return np.zeros(0, np.int64)
    turned = host.with_backward(layers) > 0
    nodes = context.op_rows[marks[context.op_rows] >= 0]
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    begun, flags = host.start[nodes], np.append(turned[nodes], False)

    def inside(times: Ints) -> Bools:
        at = np.searchsorted(begun, times, side="right") - 1
        found: Bools = (at >= 0) & flags[at] & flags[at + 1]
        return found

    others = context.op_rows[(marks[context.op_rows] < 0) & (host.attributes.phase[context.op_rows] == BACKWARD)]
    marks[others[inside(host.start[others])]] = layers[layers > 0][0]
    segments = np.flatnonzero(ledger.through("host"))
    return segments[inside(ledger.start_ns[segments])]


def _last(end: Ints, row: Ints, count: int) -> Ints:
    """Latest end of each row."""
    out = np.zeros(count, np.int64)
    np.maximum.at(out, row, end)
    return out
