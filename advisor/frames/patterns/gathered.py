"""Layers on gathered rows: each row of a source is looked up several times, and a layer computes each of its copies.

A Linear, and what works on elements or rows behind it, gives equal rows for equal rows. Where an index takes every row of its
source twice or more (the edges of a graph, tokens of a small vocabulary), the layer belongs on the source, and the index on what
it gives.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import keys, numbers
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, join, size_of
from advisor.frames.patterns.updates import Shape
from advisor.frames.patterns.uses import COPIES, PRODUCTS, Uses, backward_of, chosen_of, pairs_of, time_of
from advisor.regex import regex
from advisor.roofline.types import SIZES, parse_type
from advisor.timeline.memory import instants
from advisor.timeline.operator_names import is_view

GATHERS = frozenset({"aten::index_select", "aten::index", "aten::embedding"})
_AROUND = frozenset({*GATHERS, "aten::repeat_interleave"})
_ELEMENTS = regex(
    r"^aten::(?:relu6?|gelu|silu|elu|selu|leaky_relu|softplus|sigmoid|tanh|mish|hardtanh|hardswish|exp|square|neg|abs|add|sub|mul|div"
    r"|clamp|clamp_min|layer_norm|rms_norm|to|_to_copy|contiguous|clone)_?$"
)
"""Operators on elements, or on rows."""
_IN_EVALUATION = {"aten::dropout": 2, "aten::batch_norm": 5}
"""Those that are so in evaluation, and the place of the argument that says it."""
_PARTS = regex(r"^aten::(?:slice|select|narrow|unbind|\w*split\w*|chunk|unfold|as_strided|diagonal)$")
"""Views of fewer elements."""
_SAME = frozenset({*COPIES, "aten::dropout"})
"""Operators that give what they take, where they allocate nothing."""
JOINS = "aten::cat"
"""Operator that joins tensors; several of them may be of one size."""
_Call = tuple[int, str, tuple[Shape, ...]]
"""A node, its name and its operands."""
_LEAST = 1 << 16
"""Numbers that are gathered: a layer on fewer takes microseconds."""
_TIMES = 2
"""Rows gathered for each of the source from which on the layer is looked at."""
_MOST, _REACH, _LONGEST, _NEXT, _MOST_EVENTS = 20_000, 40, 12, 4, 200
_NEVER = int(np.iinfo(np.int64).max)
_LARGEST_BLOCK = 1 << 20
"""Bytes by which an allocator of a GPU gives more than it was asked for."""
_GRADIENT = 2.0
"""Time of a gather's gradient to that of the gather: one where the source had no gradient, and what the layer gives has one."""


class Gather(Struct, eq=False):
    """A gather, rows of its source and of what it gives, and the operators that could run on the source."""

    call: int
    source: int
    rows: int
    width: int
    before: Shape = ()
    """Of a source that is indexed its shape, but for the rows' width."""
    chain: list[int] = field(default_factory=list)
    outputs: int = 0
    kept: bool = False
    product: int = -1


def gathered_layers(tree: Tree) -> Occurrences | None:
    """One row per layer that runs on gathered rows, with what follows it on these rows alone, the gather, and backward passes.

    ``repeats`` are the rows that are gathered, ``length`` those of the source, ``part`` is what goes where the layer runs on these.
    """
    found = _followed(tree)
    if not found:
        return None
    host, count = tree.host, len(found)
    calls = np.array([one.call for one in found], np.int64)
    last = tree.after(np.array([one.chain[-1] for one in found], np.int64))
    once = np.array([one.source / one.rows for one in found])
    wide = np.array([one.outputs / one.width for one in found])
    kept = np.array([one.kept for one in found], np.float64)
    chain, gather = pairs_of([one.chain for one in found]), pairs_of([[one.call] for one in found])
    late, of_gather = (backward_of(tree, pairs, calls, last) for pairs in (chain, gather))
    forward = time_of(tree, gather, count)
    # A source of data has no gradient, but what a layer makes of it has one.
    new = (np.bincount(late.row, minlength=count) > 0) & (np.bincount(of_gather.row, minlength=count) == 0)
    chain, gather = join(chain, late), join(gather, of_gather)
    of_chain, of_gather_ns = time_of(tree, chain, count), time_of(tree, gather, count)
    left = of_chain * once + of_gather_ns * (wide + kept) + forward * new * _GRADIENT * wide
    time = of_chain + of_gather_ns
    # One gather's memory is slow to come by, another's is not: equal ones are taken together.
    products = np.array([one.product for one in found], np.int64)
    _, of = np.unique(np.stack([tree.dims(calls), tree.dims(products)], axis=1), axis=0, return_inverse=True)
    of = of.ravel()
    part = 1 - (np.bincount(of, left) / np.maximum(np.bincount(of, time), 1))[of]
    chosen = np.flatnonzero((part > 0) & (time > 0))
    if not len(chosen):
        return None
    inside, ops = chosen_of(tree, join(chain, gather), chosen, count)
    at = products[chosen]
    return Occurrences(
        kind="gathered",
        node=at,
        begin=host.start[at],
        end=host.end[at],
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": np.array([found[one].rows for one in chosen.tolist()], np.int64),
            "length": np.array([found[one].source for one in chosen.tolist()], np.int64),
            "part": np.rint(part[chosen] * MILLION).astype(np.int64),
            "dims": tree.dims(at),
        },
        details=[tree.context.names[host.name[found[one].call]].removeprefix("aten::") for one in chosen.tolist()],
    )


class Gathers(Struct, frozen=True, eq=False):
    """Gathers outside of the backward pass of twice the rows of a source or more, by call; shape and type of what each gives."""

    given: dict[int, tuple[Gather, Shape, str]]
    memory: Memory


def gathers(tree: Tree) -> Gathers | None:
    """Find the gathers of a recording; None without any."""
    uses, names = tree.once(Uses), tree.context.names
    nodes = tree.ops(tree.codes_of(GATHERS.__contains__))
    around = uses.nodes[tree.codes_of(_AROUND.__contains__)[tree.host.name[uses.nodes]]]
    nodes = nodes[np.isin(tree.calls[nodes], around)]
    if not 0 < len(nodes) <= _MOST:
        return None
    memory = Memory(tree)
    kinds, of = keys(tree, nodes, "dims", "concrete", "types")
    given: dict[int, tuple[Gather, Shape, str]] = {}
    for call, which in zip(tree.calls[nodes].tolist(), of.tolist(), strict=True):
        name, dims, values, types = kinds[which]
        operands = tree.shapes.operands(dims)
        if call in given or not operands or len(operands[0]) < 2:
            continue
        source = operands[0]
        word = (tree.words(types) or [""])[0]
        by_index = names[name] == "aten::index"
        shape = (
            memory.indexed(call, source, word) if by_index else shape_given(names[name], operands, tree.texts(values))
        )
        if size_of(shape) < max(_LEAST, _TIMES * size_of(source)) or shape[-1] != source[-1]:
            continue
        width = source[-1]
        before = source[:-1] if by_index else ()
        given[call] = Gather(call, size_of(source) // width, size_of(shape) // width, width, before), shape, word
    memory.made = Counter(size_of(shape) for _, shape, _ in given.values())
    return Gathers(given, memory)


def _followed(tree: Tree) -> list[Gather]:
    """The gathers which a layer takes."""
    found = tree.once(gathers)
    if found is None:
        return []
    for gather, _, word in found.given.values():
        _follow(tree, tree.once(Uses), found.memory, gather, word)
    return [found.given[call][0] for call in sorted(found.given) if found.given[call][0].product >= 0]


def shape_given(name: str, operands: tuple[Shape, ...], texts: list[str] | None) -> Shape:
    """The shape of what a gather gives; empty where the recording does not say it."""
    source = operands[0]
    if name == "aten::embedding":
        return (*operands[1], source[-1]) if len(operands) > 1 and operands[1] else ()
    along = numbers(texts, 1)
    if name != "aten::index_select" or len(operands) < 3 or not along or not -len(source) <= along[0] < len(source):
        return ()
    at = along[0] % len(source)
    return (*source[:at], size_of(operands[2]), *source[at + 1 :]) if at < len(source) - 1 else ()


def _follow(tree: Tree, uses: Uses, memory: Memory, gather: Gather, word: str) -> None:
    """Find the operators that could run on the source: each takes what the one before gave, and nothing else of that size."""
    call, width, chain, pointwise = gather.call, gather.width, list[int](), list[int]()
    for _ in range(_LONGEST):
        taker = memory.taker(uses, call, gather.rows * width, word)
        if taker is None:
            break
        node, name, operands = taker
        if gather.before and not chain and not pointwise and _of_columns(gather, operands):
            break
        outputs = outputs_of(name, operands, gather.rows, width)
        if outputs:
            chain = [*chain, *pointwise, node]
            pointwise = []
            gather.product = node if gather.product < 0 else gather.product
            gather.outputs = width = outputs
        elif _on_rows(tree, node, name, operands, width):
            pointwise.append(node)
        else:
            break
        call = node
        word = memory.word_of(node, word)
    if gather.product < 0:
        return
    gather.chain = [*chain, *pointwise]
    gather.kept = _taken_again(uses, gather, gather.chain[0])


def _of_columns(gather: Gather, operands: tuple[Shape, ...]) -> bool:
    """Tell whether an index may have taken columns of each row (x[:, columns]): which dimensions it takes is not recorded."""
    taken = next((shape for shape in operands if size_of(shape) == gather.rows * gather.width), ())
    return len(taken) > len(gather.before) + 1 and taken[: len(gather.before)] == gather.before


def _taken_again(uses: Uses, gather: Gather, first: int) -> bool:
    """Tell whether anything besides takes what was gathered, before something else as large is made."""
    size = gather.rows * gather.width
    if gather.outputs == gather.width:
        return False
    seen = False
    for node, name, operands in uses.behind(gather.call, size, _REACH):
        if is_view(name):
            continue
        if node == first:
            seen = True
        elif not any(size_of(shape) == size for shape in operands) or name in _AROUND:
            return False
        elif seen or node < first:
            return True
    return False


def outputs_of(name: str, operands: tuple[Shape, ...], rows: int, width: int) -> int:
    """Width of what a layer with one weight gives for each row; 0 for other operators."""
    if name not in PRODUCTS or name in ("aten::bmm", "aten::baddbmm"):
        return 0
    pair = [shape for shape in operands[PRODUCTS[name] :] if shape][:2]
    if name == "aten::einsum":
        pair.sort(key=lambda shape: size_of(shape) != rows * width)
    if len(pair) < 2 or pair[0][-1] != width or size_of(pair[0]) != rows * width:
        return 0
    weight = pair[1]
    if size_of(weight) == rows * width or rows in weight or width not in weight or len(weight) > 2:
        return 0
    along = 0
    if name == "aten::linear":
        along = -1
    elif name == "aten::einsum":
        if len(weight) < 2:
            return 0  # it may scale columns
        along = weight.index(width)
    return size_of(weight) // width if weight[along] == width else 0


def _on_rows(tree: Tree, node: int, name: str, operands: tuple[Shape, ...], width: int) -> bool:
    """Tell whether an operator gives equal rows for equal rows: nothing that it takes besides has a number for each row."""
    texts = tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0]))
    if name in _IN_EVALUATION:
        place = _IN_EVALUATION[name]
        if texts is None or texts[place : place + 1] != ["False"] or len(operands[0]) != 2:
            return False
    elif not _ELEMENTS.match(name):
        return False
    if not operands or operands[0][-1:] != (width,):
        return False
    if name.endswith("_norm") and name not in _IN_EVALUATION and numbers(texts, 1) != (width,):
        return False
    return all(not shape or shape in ((1,), (width,)) for shape in operands[1:])


def taken(call: _Call, size: int) -> int:
    """Count the operands of *size* numbers of what computes with them, or takes a part of them."""
    _, name, operands = call
    whole = is_view(name) and not _PARTS.match(name)
    return 0 if whole else sum(size_of(shape) == size for shape in operands)


def _only(takers: list[_Call]) -> _Call | None:
    """Return the one taker of a tensor, or of several of its size what joins them; None for more."""
    joins = len(takers) > 1 and takers[0][1] == JOINS and len({node for node, _, _ in takers}) == 1
    return takers[0] if joins or len(takers) == 1 else None


class Memory:
    """Tensors that operators allocate: their sizes, and when they are freed."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.host = tree, tree.host
        events = tree.context.once(instants)
        self.when, self.bytes, self.address = events["start_ns"], events["bytes"], events["address"]
        order = np.lexsort((np.arange(len(self.address)), self.address))
        again = np.append(self.address[order][1:] == self.address[order][:-1], False) if len(order) else order
        self.next = np.full(len(order), -1, np.int64)
        self.next[order] = np.where(again, np.append(order[1:], -1) if len(order) else order, -1)
        """Place of the next event of the same memory; -1 where there is none."""
        self.made: Counter[int] = Counter()
        self._takers: dict[int, list[_Call]] = {}
        self.more = 1 if tree.context.cpu_program else _LARGEST_BLOCK

    def word_of(self, node: int, word: str) -> str:
        """The type of an operator's first tensor; *word* where it was not recorded."""
        words = self.tree.words(int(self.tree.context.op_column(np.array([node]), "types")[0]))
        return next((one for one in words or [] if parse_type(one)), word)

    def _kept(self, call: int) -> list[tuple[int, int]]:
        """Bytes and places of what a call allocated and did not free itself."""
        low, high = np.searchsorted(self.when, [self.host.start[call], self.host.end[call]])
        if high - low > _MOST_EVENTS:
            return []
        kept: dict[int, int] = {}
        for place in range(low, high):
            if self.bytes[place] > 0:
                kept[int(self.address[place])] = place
            else:
                kept.pop(int(self.address[place]), None)
        return [(int(self.bytes[place]), place) for place in kept.values()]

    def freed(self, call: int, size: int, word: str) -> int | None:
        """Time at which the tensor of *size* numbers that a call gave is freed; None where that was not recorded."""
        each = SIZES.get(parse_type(word) or "", 0)
        for count, place in self._kept(call):
            # Under autocast what it gives has half the bytes of what it takes.
            if any(one and 0 <= count - size * one < self.more for one in {each, 2, 4}):
                later = int(self.next[place])
                return int(self.when[later]) if later >= 0 else _NEVER
        return None

    def indexed(self, call: int, source: Shape, word: str) -> Shape:
        """The shape of what an index gives, by the memory that it asks for; empty where that is not told."""
        each = SIZES.get(parse_type(word) or "", 0)
        width = source[-1]
        if not each or not width:
            return ()
        for count, _ in self._kept(call):
            rows = count // (each * width)
            if rows * width >= _TIMES * size_of(source) and (self.more > 1 or rows * each * width == count):
                return (rows, width)
        return ()

    def taker(self, uses: Uses, call: int, size: int, word: str) -> _Call | None:
        """The one operator that takes what a call gave: by when it is freed; None where another could be.

        It is freed before a second takes as many numbers, but for those that must take what others gave meanwhile, or as its
        gradient has been computed, for which it was kept.
        """
        if not len(self.when):
            return self._counted(uses, size, call)
        freed = self.freed(call, size, word)
        if freed is None:
            return None
        following = list(uses.behind(call, size, _REACH))
        # What lives on behind the last of them may be taken there.
        end = int(self.host.start[following[-1][0]]) if len(following) == _REACH else _NEVER
        behind = [one for one in following if taken(one, size) and not (one[1] in _SAME and not self._kept(one[0]))]
        inside = [one for one in behind if self.host.start[one[0]] < freed]
        known = len(inside) <= _LONGEST and (freed <= end or end == _NEVER)
        left = self._left(behind, inside, size, word, end) if known else []
        if (only := _only(left)) is not None:
            return only
        for one in inside[:_NEXT]:
            if taken(one, size) == 1 and self._released(one[0], freed):
                return one
        return None

    def _left(self, behind: list[_Call], inside: list[_Call], size: int, word: str, end: int) -> list[_Call]:
        """Operands of those *inside* a tensor's life that need not be what one of them gave: each is computed to be taken."""
        slots = [one for one in behind for _ in range(taken(one, size))]
        for node, _, _ in reversed(inside):
            freed = self.freed(node, size, word)
            if freed is None or (end < freed and end < _NEVER):
                continue
            takers = [one for one in slots if one[0] > node and self.host.start[one[0]] < freed]
            if len(takers) == 1:
                slots.remove(takers[0])
        last = max((one[0] for one in inside), default=-1)
        return [one for one in slots if one[0] <= last]

    def _counted(self, uses: Uses, size: int, call: int) -> _Call | None:
        """The operator behind a gather where memory was not recorded: all gathers together are as often taken as they are made."""
        if size not in self._takers:
            at = uses.nodes[uses.taking(size)]
            dims = [self.tree.shapes.operands(code) for code in self.tree.dims(at).tolist()]
            names = [self.tree.context.names[code] for code in self.host.name[at].tolist()]
            calls = list(zip(at.tolist(), names, dims, strict=True))
            self._takers[size] = [one for one in calls for _ in range(taken(one, size))]
        takers = self._takers[size]
        if len(takers) != self.made[size]:
            return None
        return next(
            (one for one in takers if one[0] > call and self.host.thread[one[0]] == self.host.thread[call]), None
        )

    def _released(self, node: int, freed: int) -> bool:
        """Tell whether a tensor is freed in an operator's own backward pass."""
        own = Pairs(np.zeros(1, np.int64), np.array([node]))
        high = self.tree.after(np.array([node]))
        late = backward_of(self.tree, own, np.array([node]), high).index
        host = self.host
        return bool(((host.start[late] <= freed) & (freed <= host.end[late])).any())
