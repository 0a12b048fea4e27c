"""Prompts that all begin with the same tokens: the call of a decoder that computes their keys and values again for each row.

Which tokens are the same no trace holds: `advisor record` looked at what the first calls were given. How wide the prompts of a
step are, and how many, tells the lookup of their tokens; that no token looks ahead, its attention or its cache.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import keys
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.intervals import Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.ledger import OWNED

Shape = tuple[int, ...]
Operands = tuple[Shape, ...]
_LOOKUP, _JOIN, _PLACE = "aten::embedding", "aten::cat", "aten::index_copy_"
# Operators of attention, to the position of the tokens in the shape of its queries and keys. In both causality comes sixth.
_FUSED = {"aten::scaled_dot_product_attention": -2, "flash_attn::_flash_attn_forward": -3}
_MASK, _CAUSAL = 3, 5
_ATTENTION = regex(
    r"^(?:aten::_?(?:scaled_dot_product|flash_attention|efficient_attention|cudnn_attention)|flash_attn::)"
)
_SOFTMAX = frozenset({"aten::_softmax", "aten::_safe_softmax"})
_PUT_IN = regex(r"^aten::(?:masked_scatter|index_put|_index_put_impl)_?$")
"""Operators by which features of an image take the place of tokens."""
_ROWS_AT = {"aten::linear": 0, "aten::matmul": 0, "aten::mm": 0, "aten::addmm": 1}
_FEWEST = {True: 8, False: 64}
"""Rows of a product that take as long as one, on a CPU and on a GPU: then the weights' bytes count."""
_NARROW = 8
"""Tokens of a row in the call behind that of a prompt: the next one, or some that are guessed."""
_MOST_LOOKUPS, _MOST_KINDS = 20_000, 200_000


class _Batch(Struct, frozen=True):
    """Batch that a model is called with: *rows* of *width* tokens, looked up in a table with *hidden* columns."""

    rows: int
    width: int
    hidden: int


class _Facts(Struct):
    """Facts of a call's operators, as pairs of lengths.

    *spans* are those of queries and keys in attention, *causal* and *plain* those where it is known to be causal, or to have no
    mask. *joined* are those of keys or values that are put behind one another (0: an empty cache), *placed* of buffers, and of
    what is written into them.
    """

    spans: set[tuple[int, int]] = field(default_factory=set)
    causal: set[tuple[int, int]] = field(default_factory=set)
    plain: set[tuple[int, int]] = field(default_factory=set)
    joined: set[tuple[int, int]] = field(default_factory=set)
    placed: set[tuple[int, int]] = field(default_factory=set)


def uncached_prefixes(tree: Tree) -> Occurrences | None:
    """One row per call of a decoder with prompts that begin with the tokens that all earlier ones began with.

    It owns the operators on the places of the prompts; ``part`` is what of their time is for these tokens: their share of the
    width, and of attention that squared. ``repeats`` are the rows, ``length`` the tokens and ``seq_len`` the width.
    """
    recorded = tree.context.metadata.recorded
    seen = recorded.prompts if recorded is not None else None
    if seen is None or not seen.tokens or tree.context.training():
        return None
    calls = _Calls(tree, seen.entries)
    chosen = [at for at, batch in enumerate(calls.batches) if batch.width > seen.tokens and calls.decodes(at)]
    return _occurrences(tree, calls, chosen, seen.tokens) if chosen else None


class _Calls:
    """Calls of a model, each from a lookup in its table of tokens to the next one in its thread and step."""

    def __init__(self, tree: Tree, entries: int) -> None:
        self.tree = tree
        nodes = tree.ops(tree.codes_of(_LOOKUP.__eq__))
        nodes = nodes if len(nodes) <= _MOST_LOOKUPS else nodes[:0]
        batches = [_batch(tree.shapes.operands(code), entries) for code in tree.dims(nodes).tolist()]
        self.nodes = nodes[np.array([batch is not None for batch in batches], np.bool_)]
        self.batches = [batch for batch in batches if batch is not None]
        self._step = self._steps(self.nodes)
        ops = np.flatnonzero(tree.host.group == OP)
        call = self.at(ops)
        self.ops, self.call = ops[call >= 0], call[call >= 0]
        self.kinds, self.kind = keys(tree, self.ops, "dims", "concrete")
        if len(self.kinds) > _MOST_KINDS:
            self.batches = []
        self._facts: dict[bytes, _Facts] = {}

    def _steps(self, nodes: Ints) -> Ints:
        recording, start = self.tree.context.recording, self.tree.host.start[nodes]
        return recording.host_step_of(start) if recording.steps else np.zeros(len(nodes), np.int64)

    def at(self, nodes: Ints) -> Ints:
        """The call that each node is in; -1 outside."""
        if not len(self.nodes):
            return np.full(len(nodes), -1, np.int64)
        thread, call = self.tree.host.thread, np.searchsorted(self.nodes, nodes, side="right") - 1
        inside = (call >= 0) & (thread[self.nodes[call]] == thread[nodes]) & (self._step[call] == self._steps(nodes))
        return np.where(inside, call, -1)

    def range_of(self, at: int) -> slice:
        """Places in ``ops`` of those of a call."""
        low, high = np.searchsorted(self.call, (at, at + 1))
        return slice(int(low), int(high))

    def name(self, kind: int) -> str:
        """Name of a kind of operators."""
        return self.tree.context.names[self.kinds[kind][0]]

    def operands(self, kind: int) -> Operands:
        """Shapes of its operands."""
        return self.tree.shapes.operands(self.kinds[kind][1])

    def decodes(self, at: int) -> bool:
        """Tell whether a call is of a decoder, whose first tokens no later one changes: what a cache of them must hold.

        Its attention is causal, or its keys and values are kept and those of the next token put behind them.
        """
        batch, facts = self.batches[at], self._of(at)
        width = batch.width
        keyed = {key for query, key in facts.spans if query == width}
        # Other keys than of these tokens are of an image or of another text, on which the tokens' own depend.
        if len(keyed) > 1 or any(key < width for key in keyed) or (width, width) in facts.plain:
            return False
        if self._replaced(at) or self._conditioned(at):
            return False
        if keyed == {width} and (width, width) in facts.causal:
            return True
        return bool(self._kept(at, batch, facts))

    def _kept(self, at: int, batch: _Batch, facts: _Facts) -> bool:
        """Tell whether keys and values of a call are kept for the next one."""
        width = batch.width
        if (0, width) in facts.joined or any(new == width < buffer for buffer, new in facts.placed):
            return True
        if (
            at + 1 >= len(self.batches)
            or self.tree.host.thread[self.nodes[at]] != self.tree.host.thread[self.nodes[at + 1]]
        ):
            return False
        new, then = self.batches[at + 1], self._of(at + 1)
        if new.width > _NARROW or self._step[at] != self._step[at + 1] or (new.width, width) in then.spans:
            return False  # the last: the prompt was an encoder's, and the decoder looks at what it returned
        return (width, new.width) in then.joined or any(query == new.width and key > width for query, key in then.spans)

    def _replaced(self, at: int) -> bool:
        """Tell whether something else than tokens is put in between the lookup and the first attention."""
        batch, part = self.batches[at], self.range_of(at)
        for kind in self.kind[part].tolist():
            name, operands = self.name(kind), self.operands(kind)
            if name in _FUSED or name in _SOFTMAX:
                return False
            if _PUT_IN.match(name) and operands[:1] in (
                ((batch.rows, batch.width, batch.hidden),),
                ((batch.rows * batch.width, batch.hidden),),
            ):
                return True
        return False

    def _conditioned(self, at: int) -> bool:
        """Tell whether each row's tokens are computed with numbers of that row: of a speaker, a class or an image."""
        batch = self.batches[at]
        tokens, row = (batch.rows, batch.width, batch.hidden), (batch.rows, 1, batch.hidden)
        kinds = distinct(self.kind[self.range_of(at)]).tolist() if batch.rows > 1 else []
        return any({tokens, row} == set(self.operands(kind)[:2]) for kind in kinds)

    def _of(self, at: int) -> _Facts:
        kinds = distinct(self.kind[self.range_of(at)])
        key = kinds.tobytes()
        if key not in self._facts:
            self._facts[key] = facts = _Facts()
            for kind in kinds.tolist():
                self._note(facts, kind)
        return self._facts[key]

    def _note(self, facts: _Facts, kind: int) -> None:
        name, operands = self.name(kind), self.operands(kind)
        if name in _FUSED:
            self._note_attention(facts, kind)
        elif name in _SOFTMAX and operands and len(operands[0]) == 4:
            facts.spans.add(operands[0][-2:])
        elif name == _JOIN and len(operands) > 1 and (lengths := _joined(*operands[:2])) is not None:
            facts.joined.add(lengths)
        elif name == _PLACE and operands and (lengths := _placed(operands[0], operands[-1])) is not None:
            facts.placed.add(lengths)

    def _note_attention(self, facts: _Facts, kind: int) -> None:
        place, operands = _FUSED[self.name(kind)], self.operands(kind)
        if len(operands) < 2 or min(len(operands[0]), len(operands[1])) < -place:
            return
        span = operands[0][place], operands[1][place]
        facts.spans.add(span)
        told = self.tree.texts(self.kinds[kind][2])
        if told is None or len(told) <= _CAUSAL:
            return
        if told[_CAUSAL] == "True":
            facts.causal.add(span)
        elif place == -3 or (len(operands) > _MASK and not operands[_MASK]):
            facts.plain.add(span)


def _batch(operands: Operands, entries: int) -> _Batch | None:
    """Return what a lookup is given; None where it is in another table, or of no rows."""
    if len(operands) < 2 or len(operands[0]) != 2 or operands[0][0] != entries or len(operands[1]) != 2:
        return None
    return _Batch(*operands[1], operands[0][1]) if all(operands[1]) else None


def _joined(old: Shape, new: Shape) -> tuple[int, int] | None:
    """Return the lengths of a cache and of what is put behind it; None of other tensors."""
    if old == (0,) and len(new) == 4:
        return 0, new[-2]
    if len(old) != len(new) or len(old) not in (3, 4):
        return None
    differ = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
    return differ[0] if len(differ) == 1 else None


def _placed(buffer: Shape, new: Shape) -> tuple[int, int] | None:
    """Return the lengths of a cache and of what is written into it; None of other tensors."""
    return _joined(buffer, new) if len(buffer) == 4 == len(new) else None


def _power(name: str, operands: Operands, batch: _Batch) -> int:
    """Power of the width that an operator works on by its shapes; 0 where it does not.

    A cache is put together again whatever it holds, and its heads are repeated.
    """
    if name == _JOIN and operands[:1] == ((0,),):
        return 0
    width = batch.width
    if _squared(operands, width):
        return 2
    rows = operands[_ROWS_AT[name] :][:1] if name in _ROWS_AT else operands
    if not any(_of_places(shape, batch) for shape in rows):
        return 0
    return 2 if _ATTENTION.match(name) and all(width in shape for shape in operands[:2]) else 1


def _of_places(shape: Shape, batch: _Batch) -> bool:
    """Tell whether a tensor has a number, or several, for each token of the prompts."""
    if len(shape) in (1, 2) and (shape[0] == batch.rows * batch.width or shape == (batch.rows, batch.width)):
        return True
    if len(shape) not in (3, 4) or (shape[0] != 1 and shape[0] % batch.rows):
        return False
    # The last dimension is that of keys, where there are heads before it; else it is what a token has.
    return batch.width in (shape[1:] if len(shape) == 4 or shape[0] > batch.rows else shape[1:-1])


def _squared(operands: Operands, width: int) -> bool:
    """Tell whether an operator works on each token for each other one: scores of attention, and their products."""
    if any(len(each) > 2 and each[-2:] == (width, width) for each in operands):
        return True
    if len(operands) < 2 or len(operands[0]) != len(operands[1]) or len(operands[0]) < 3:
        return False
    one, other = operands[:2]
    return one[-1] == other[-2] and (one[-2], one[-1], other[-1]).count(width) > 1


def _occurrences(tree: Tree, calls: _Calls, chosen: list[int], tokens: int) -> Occurrences | None:
    host, context, work = tree.host, tree.context, tree.work
    fewest = _FEWEST[context.cpu_program]
    # Marks of nodes are places in a list of shares, so that they flow to what runs inside.
    shares, own = [0.0], np.full(host.size, -1, np.int64)
    powers: dict[tuple[_Batch, int], int] = {}
    first: dict[_Batch, int] = {}
    for at in chosen:
        batch, part = calls.batches[at], calls.range_of(at)
        if batch not in first:
            first[batch] = len(shares)
            kept = max(batch.rows * (batch.width - tokens), fewest) / (batch.rows * batch.width)
            shares += [max(1 - kept, 0.0), min(max(1 - kept, 0.0), (tokens / batch.width) ** 2)]
        for node, kind in zip(calls.ops[part].tolist(), calls.kind[part].tolist(), strict=True):
            key = batch, kind
            if key not in powers:
                powers[key] = _power(calls.name(kind), calls.operands(kind), batch)
            if powers[key]:
                own[node] = first[batch] + powers[key] - 1
    marks = host.flow(own)
    if context.cpu_program:
        index = np.flatnonzero(marks[context.op_rows] >= 0)
        node, time = context.op_rows[index], context.ledger.cost(len(context.op_rows), *OWNED)[index]
    else:
        index = np.flatnonzero(fetch(marks, work.launch) >= 0)
        node, time = work.launch[index], (work.end - work.start)[index]
    row_of = np.full(len(calls.nodes), -1, np.int64)
    row_of[chosen] = np.arange(len(chosen))
    row = row_of[calls.at(node)]
    whole, spared = (
        np.bincount(row, weights=time * part, minlength=len(chosen)) for part in (1, np.array(shares)[marks[node]])
    )
    order = np.argsort(row, kind="stable")
    pairs = Pairs(row[order], index[order])
    nodes, batches = calls.nodes[chosen], [calls.batches[at] for at in chosen]
    end = np.zeros(len(chosen), np.int64)
    np.maximum.at(end, row, host.end[node])
    return Occurrences(
        kind="uncached-prefix",
        node=nodes,
        begin=host.start[nodes],
        end=np.maximum(end, host.end[nodes]),
        inside=NOTHING if context.cpu_program else pairs,
        own=NOTHING if context.cpu_program else pairs,
        ops=pairs if context.cpu_program else NOTHING,
        figures={
            "repeats": np.array([batch.rows for batch in batches], np.int64),
            "length": np.full(len(chosen), tokens, np.int64),
            "seq_len": np.array([batch.width for batch in batches], np.int64),
            "part": np.rint(spared / np.maximum(whole, 1) * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
    )
