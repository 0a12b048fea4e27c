"""Large tensors that are computed whole though only a small part is taken: converted, scaled or normalized, and then indexed.

What works on each element, or on each row, gives the same for the part alone: pick first, then compute.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.lives import DOUBTFUL, GONE, KEPT, Life, judge
from advisor.frames.patterns.operands import beyond, launched, numbers, worked
from advisor.frames.patterns.picked_products import Listed, columns, is_product, parts_left, rows_behind
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, alike, distinct
from advisor.regex import regex
from advisor.roofline.types import SIZES, parse_type
from advisor.timeline.calls import FORWARD
from advisor.timeline.context import Context
from advisor.timeline.memory import instants
from advisor.timeline.operator_names import is_view

_ELEMENTS = regex(
    r"^aten::(?:to|_to_copy|clone|contiguous|add|sub|rsub|mul|div|true_divide|floor_divide|remainder|pow|square|sqrt|rsqrt|exp|expm1|log"
    r"|log1p|log2|log10|sigmoid|tanh|relu6?|gelu|silu|elu|leaky_relu|softplus|hardtanh|sin|cos|neg|abs|reciprocal|round|floor|ceil|sign"
    r"|clamp|clamp_min|clamp_max|clip|where|masked_fill|maximum|minimum|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|nan_to_num|lerp"
    r"|addcmul|addcdiv|lookup|erf|logit|flip|randn?_like|grid_sampler)_?$"
)
_ROWS = regex(
    r"^aten::(?:softmax|log_softmax|layer_norm|rms_norm|normalize|cumsum|sort|argsort|linear|addmm|mm|matmul)$"
)
_NORM = regex(r"^aten::(?:linalg_vector_norm|norm)$")
"""Reductions by which F.normalize divides rows."""
_LAYER = frozenset({"aten::linear", "aten::addmm", "aten::mm", "aten::matmul"})
_PICKS = frozenset(
    f"aten::{name}" for name in ("index", "index_select", "gather", "slice", "narrow", "select", "take", "embedding")
)
_PARTED = regex(r"^aten::(?:unbind|\w*split\w*|chunk|unfold|as_strided|diagonal|expand)$")
"""Views of another number of elements: what becomes of them is not followed."""
_CUTS = frozenset({"aten::slice", "aten::narrow", "aten::select"})
"""Picks that are views: of an image, one for each dimension that is cut."""
_SILENT = regex(r"^(?:aten::)?(?:lift_fresh|detach_?|alias|empty_like|expand_as|is_\w+|result_type|item)$")
_READ = frozenset({"aten::resolve_neg", "aten::resolve_conj"})
"""Views that Python asks for before it reads numbers: numpy(), tolist()."""
_REDUCES = regex(r"^aten::(?:mean|sum|amax|amin|prod|std|var|unbind)$")
"""Reductions over dimensions that are named, and their parts one by one: of channels, they work on each place by itself."""
NONE, ELEMENTS, ROWS, PICK, USE, CHANNELS = range(6)
_LEAST = 1 << 18
"""Elements of a tensor from which the operators on it are looked at: 1 MB of single precision."""
_LEAST_SAMPLE = 1 << 16
"""The same of a sample that a DataLoader makes: many of them are waited for in a step. An operator on so many takes ten times as
long as the call of it."""
_WIDEST = 4
_MOST, _MOST_SIZES, _LONGEST = 2_000_000, 60, 40
_NEAR = 12
"""Operators before a warp among which its grid is made."""


class _Found(Struct, eq=False):
    """Operators over a whole tensor, and what is picked of their result."""

    chain: list[int]
    picks: list[int]
    share: float
    size: int
    life: Life
    becomes: int = GONE


class _Picked(Struct, eq=False):
    """Late picks of a recording in the order of time, and the operators that Python calls in it by thread and time; *shaped*: their
    shapes were recorded."""

    found: list[_Found]
    nodes: Ints
    shaped: bool


def late_picks(tree: Tree) -> Occurrences | None:
    """One row per large tensor that operators on elements or rows make, and of which a quarter is taken at most.

    ``part`` is what is not taken. A tensor whose size appears among the operands of any other operator of the step counts as
    used whole.
    """
    return _picks(tree, "late-pick", GONE)


def doubtful_picks(tree: Tree) -> Occurrences | None:
    """The same of tensors that the next turn may go on with, or Python may read: nothing shows that they are thrown away."""
    return _picks(tree, "doubtful-pick", DOUBTFUL)


def _picks(tree: Tree, kind: str, becomes: int) -> Occurrences | None:
    picked = tree.context.once(picked_late)
    found = [one for one in picked.found if one.size >= _LEAST and one.becomes == becomes]
    return _occurrences(tree, kind, found, picked.nodes) if found else None


def picked_late(context: Context) -> _Picked:
    """Search a recording for what is picked late."""
    if not context.recording.host.size:
        return _Picked([], np.zeros(0, np.int64), shaped=False)
    tree = Tree(context)
    shaped = bool((tree.dims(tree.outermost) >= 0).any())
    found, nodes = _search(tree)
    for one, becomes in zip(found, judge(tree, [one.life for one in found]) if found else (), strict=True):
        one.becomes = becomes
    tree.close()
    return _Picked([one for one in found if one.becomes != KEPT], nodes, shaped)


def _search(tree: Tree) -> tuple[list[_Found], Ints]:
    """Return what is picked late, in the order of time, and the operators that Python calls, by thread and time."""
    host = tree.host
    nodes = tree.outermost
    nodes = nodes[host.attributes.phase[nodes] == FORWARD]
    picks = nodes[tree.codes_of(_PICKS.__contains__)[host.name[nodes]]]
    if not len(picks) or len(nodes) > _MOST:
        return [], nodes
    large = tree.shapes.column(tree.dims(picks), lambda shapes: size_of(shapes[0]) if shapes else -1)
    sizes = distinct(large[large >= _LEAST_SAMPLE]).tolist()
    if len(sizes) > _MOST_SIZES:
        sizes = [size for size in sizes if size >= _LEAST]
    if not 0 < len(sizes) <= _MOST_SIZES:
        return [], nodes
    nodes = nodes[np.lexsort((host.start[nodes], host.thread[nodes]))]
    calls = _Calls(tree, nodes)
    found = [one for size in sizes for one in calls.of_size(size)]
    found.sort(key=lambda one: host.start[one.chain[0]])
    return found, nodes


def spent_in(context: Context, begin: Ints, end: Ints, thread: Ints) -> tuple[Ints, Ints]:
    """Return the ns that operators on what is not taken spend in each of some stretches of threads, and the place of the longest.

    The stretches do not overlap. Their time is the host's: a sample in the making is on the CPU. -1 is no place, and the time
    where no shapes were recorded.
    """
    spent, user, longest = np.zeros(len(begin), np.int64), np.full(len(begin), -1, np.int64), np.zeros(len(begin))
    host, picked = context.recording.host, context.once(picked_late) if len(begin) else None
    if picked is None or not picked.shaped:
        return spent - 1, user
    for one in picked.found:
        for node in one.chain:
            at = int(np.searchsorted(begin, host.start[node], side="right")) - 1
            if at < 0 or host.thread[node] != thread[at] or host.end[node] > end[at]:
                continue
            took = int(host.end[node] - host.start[node])
            spent[at] += round(took * (1 - one.share))
            if took > longest[at]:
                longest[at], user[at] = took, host.attributes.user[node]
    return spent, user


def _occurrences(tree: Tree, kind: str, found: list[_Found], nodes: Ints) -> Occurrences:
    host, on_cpu = tree.host, tree.context.cpu_program
    chain = Pairs(
        np.repeat(np.arange(len(found)), [len(one.chain) for one in found]),
        np.array([node for one in found for node in one.chain], np.int64),
    )
    took = host.end[chain.index] - host.start[chain.index] if on_cpu else _on_gpu(tree, chain.index)
    order = np.lexsort((took, chain.row))
    last = np.append(np.diff(chain.row[order]) > 0, True)
    told = chain.index[order][last]
    first = np.array([one.chain[0] for one in found], np.int64)
    picks, late = [one.picks for one in found], np.ones(len(found), np.bool_)
    work = NOTHING if on_cpu else launched(tree, chain, backward=late)
    part = np.array([1 - one.share for one in found])
    return Occurrences(
        kind=kind,
        node=told,
        begin=host.start[first],
        end=np.array([host.end[one[-1]] for one in picks], np.int64),
        inside=work,
        own=work,
        ops=worked(tree, chain, backward=late) if on_cpu else NOTHING,
        python=_freed(tree, picks, nodes) if on_cpu else NOTHING,
        freed=True,
        figures={
            "part": np.rint((part if on_cpu else beyond(tree, work, part)) * MILLION).astype(np.int64),
            "dims": tree.dims(told),
        },
        details=[tree.context.names[host.name[one[0]]].removeprefix("aten::") for one in picks],
    )


def _on_gpu(tree: Tree, nodes: Ints) -> Ints:
    """ns of each operator's work on the GPU."""
    return tree.launched_below(nodes).total(tree.work.end - tree.work.start, len(nodes))


def _freed(tree: Tree, picks: list[list[int]], nodes: Ints) -> Pairs:
    """Segments of the ledger between a pick and the next operator in which the large tensor is given back to the system."""
    host, ledger = tree.host, tree.context.ledger
    events = tree.context.once(instants)
    freed = np.flatnonzero(events["bytes"] <= -_LEAST)
    row = np.repeat(np.arange(len(picks)), [len(one) for one in picks])
    begin = host.end[np.array([node for one in picks for node in one], np.int64)]
    place = np.searchsorted(host.start[nodes], begin)
    end = np.where(place < len(nodes), host.start[nodes][np.minimum(place, len(nodes) - 1)], begin)
    when = events["start_ns"][freed]
    # The event is written before the memory is unmapped, which takes the time.
    hit = np.searchsorted(when, end) > np.searchsorted(when, begin)
    low, high = np.searchsorted(ledger.start_ns, begin[hit]), np.searchsorted(ledger.end_ns, end[hit], side="right")
    meanwhile = spread(low, np.maximum(low, high))
    host_idle = ledger.through("host")
    pairs = Pairs(row[hit][meanwhile.row], meanwhile.index)
    return pairs.where(host_idle[pairs.index])


class _Flow(Struct, eq=False):
    """Places of operators on tensors of one size and type, and of each how many it takes and makes; *picks* are the places
    in these lists of those that pick."""

    at: Ints
    taken: Ints
    made: Ints
    picks: Ints


class _Calls:
    """Operators that Python calls outside of backward passes, and what each does to a tensor of some size."""

    def __init__(self, tree: Tree, nodes: Ints) -> None:
        self.tree, self.nodes, self.host = tree, nodes, tree.host
        columns = [
            tree.host.name[nodes],
            *(tree.context.op_column(nodes, name) for name in ("dims", "types", "concrete")),
        ]
        first, self.of = alike(*columns)
        self.kinds = np.stack([column[first] for column in columns], axis=1).tolist()
        self.names = [tree.context.names[name] for name, *_ in self.kinds]
        self.operands = [tree.shapes.operands(dims) for _, dims, *_ in self.kinds]
        self.sizes = [[size_of(shape) for shape in operands] for operands in self.operands]
        self.made = [_made(name, operands) for name, operands in zip(self.names, self.operands, strict=True)]
        self.step = tree.context.recording.step_of(tree.host.start[nodes])
        events = tree.context.once(instants)
        grown = np.flatnonzero(events["bytes"] > 0)
        self.when, self.bytes = events["start_ns"][grown], events["bytes"][grown]
        self._flows: dict[tuple[int, str], _Flow] = {}

    def of_size(self, size: int) -> list[_Found]:
        """Find what is picked late of tensors of so many elements."""
        words: dict[str, list[int]] = {}
        for kind, (name, sizes) in enumerate(zip(self.names, self.sizes, strict=True)):
            if name in _PICKS and sizes and sizes[0] == size:
                words.setdefault((self.tree.words(self.kinds[kind][2]) or ["?"])[0], []).append(kind)
        return [one for word in words for one in self._of_type(size, word)]

    def _of_type(self, size: int, word: str) -> list[_Found]:
        role_of = np.array([self._role(kind, size, word) for kind in range(len(self.kinds))], np.int64)
        at = np.flatnonzero(role_of[self.of] != NONE)
        role = role_of[self.of[at]]
        same = np.diff(self.step[at]) == 0
        same &= np.diff(self.host.thread[self.nodes[at]]) == 0
        made = (role == ELEMENTS) | (role == ROWS)
        begins = np.flatnonzero((role[1:] == PICK) & made[:-1] & same) + 1
        found = []
        for place in begins.tolist():
            found += self._one(at, role, place, size, word)
        return found

    def _one(self, at: Ints, role: Ints, place: int, size: int, word: str) -> list[_Found]:
        nodes, step = self.nodes, self.step[at]
        low, high = self._extent(at, role, place, step)
        if low == place:
            return []
        if high < len(at) and step[high] == step[place] and self.of[at[high]] != self.of[at[low]]:
            return []
        chain, picks = at[low:place], at[place:high]
        taken = [self._taken(int(one), word) for one in picks.tolist()]
        share = sum(count for count, _ in taken) / size
        if share * _WIDEST > 1:
            return []
        life = self._life(chain, picks, size, word)
        if (role[low:place] == ROWS).any() and not all(rows for _, rows in taken):
            first_alone = role[low] == ROWS and (role[low + 1 : place] == ELEMENTS).all()
            return self._product(chain, picks, share, life) if first_alone and self.tree.context.cpu_program else []
        if not all(self._by_place(int(one), int(at[place])) for one in chain[role[low:place] == CHANNELS]):
            return []
        grids = [grid for one in chain.tolist() if (grid := self._grid(int(one))) is not None]
        return [_Found(sorted({*nodes[chain].tolist(), *grids}), nodes[picks].tolist(), share, size, life)]

    def _product(self, chain: Ints, picks: Ints, share: float, life: Life) -> list[_Found]:
        """Find what is picked late of a product's columns, and what makes the rows that become these columns."""
        at, nodes, size = int(chain[0]), self.nodes, life.size
        name, operands = self.names[self.of[at]], self.operands[self.of[at]]
        by = [self.names[self.of[one]] for one in picks.tolist()]
        if not is_product(name) or _CUTS.intersection(by):
            return []
        count, width = columns(name, operands)
        left, needed = parts_left(by, share, size, count)
        if left * _WIDEST > 1:
            return []
        found = [
            _Found(sorted({*nodes[chain].tolist(), *nodes[picks].tolist()}), nodes[picks].tolist(), left, size, life)
        ]
        if needed < 1 and (behind := rows_behind(self._listed, at, {*chain.tolist(), *picks.tolist()})):
            rows = self._life(np.array(sorted(behind), np.int64), chain[:1], count * width, life.word)
            found.append(_Found(sorted(nodes[behind].tolist()), [int(nodes[at])], needed, count * width, rows))
        return found

    def _life(self, chain: Ints, picks: Ints, size: int, word: str) -> Life:
        """Return what is to be known of the last result of a chain."""
        made = [int(self.nodes[at]) for at in chain.tolist() if not self.names[self.of[at]].endswith("_")]
        behind = self._taken_behind(int(picks[-1]), size, word)
        last = int(self.of[picks[-1]])
        return Life(
            made=made,
            size=size,
            word=word,
            picked=int(self.host.end[self.nodes[picks[-1]]]),
            view=self.names[last] in _CUTS,
            taken=-1 if behind < 0 else int(self.host.start[self.nodes[behind]]),
            alike=tuple(self.of[np.append(chain, picks)].tolist()),
        )

    def _taken_behind(self, pick: int, size: int, word: str) -> int:
        """Return the first operator behind a pick that takes more such tensors than were made behind it; -1 for none.

        Each is made to be taken once. Up to the next pick of one, in the next turn.
        """
        flow = self._flow(size, word)
        first = int(np.searchsorted(flow.at, pick, side="right"))
        following = int(np.searchsorted(flow.picks, first))
        last = int(flow.picks[following]) + 1 if following < len(flow.picks) else len(flow.at)
        made = flow.made[first:last]
        more = np.flatnonzero(np.cumsum(flow.taken[first:last]) > np.cumsum(made) - made)
        behind = int(flow.at[first + more[0]]) if len(more) else pick
        return (
            behind
            if behind > pick and self.host.thread[self.nodes[behind]] == self.host.thread[self.nodes[pick]]
            else -1
        )

    def _flow(self, size: int, word: str) -> _Flow:
        """Return the operators on tensors of a size and type, with how many each takes and makes."""
        if (size, word) not in self._flows:
            kinds = range(len(self.kinds))
            role = np.array([self._role(kind, size, word) for kind in kinds], np.int64)
            taken = np.array([self._takes(kind, size, word) for kind in kinds], np.int64)
            made = np.array([self._makes(kind, size) for kind in kinds], np.int64)
            taken[role == NONE] = 0
            at = np.flatnonzero((taken > 0)[self.of] | (made > 0)[self.of])
            of = self.of[at]
            self._flows[size, word] = _Flow(at, taken[of], made[of], np.flatnonzero(role[of] == PICK))
        return self._flows[size, word]

    def _takes(self, kind: int, size: int, word: str) -> int:
        """Count the operands of that size and type; a table that rows are looked up in is a parameter."""
        words, sizes = self.tree.words(self.kinds[kind][2]), self.sizes[kind]
        if words is None or len(words) != len(sizes):
            words = [word] * len(sizes)
        first = int(self.names[kind] == "aten::embedding")
        return sum(own == size and one == word for one, own in zip(words[first:], sizes[first:], strict=True))

    def _makes(self, kind: int, size: int) -> int:
        """Tell whether an operator gives a tensor of that size, or shows a smaller one as if it had that size."""
        shape = self.made[kind]
        shown = self.names[kind] == "aten::expand_as" and self.sizes[kind][1:] == [size]
        return int(shown or (shape is not None and size_of(shape) == size))

    @cached_property
    def _listed(self) -> Listed:
        views = [is_view(name) or _SILENT.match(name) is not None for name in self.names]
        turn = alike(self.host.thread[self.nodes], self.step)[1]
        return Listed(of=self.of, turn=turn, names=self.names, operands=self.operands, made=self.made, views=views)

    def _extent(self, at: Ints, role: Ints, place: int, step: Ints) -> tuple[int, int]:
        """Return where the operators begin that make what is picked at *place*, and where its picks end."""
        low = high = place
        made = (ELEMENTS, ROWS, CHANNELS)
        while low > 0 and place - low < _LONGEST and role[low - 1] in made and step[low - 1] == step[place]:
            low -= 1
        # What is written in place was there before.
        while low < place and self.names[self.of[at[low]]].endswith("_"):
            low += 1
        while high < len(at) and role[high] == PICK and step[high] == step[place]:
            high += 1
        return low, high

    def _grid(self, at: int) -> int | None:
        """Return the node that makes the grid of a warp, one place of it for each of the result's; None without one."""
        kind = int(self.of[at])
        if self.names[kind] != "aten::grid_sampler":
            return None
        places = self.operands[kind][1][1:-1]
        for before in range(at - 1, max(at - _NEAR, 0) - 1, -1):
            made = int(self.of[before])
            if self.names[made] == "aten::affine_grid_generator":
                size = numbers(self.tree.texts(self.kinds[made][3]), 1) or ()
                return int(self.nodes[before]) if size[2:] == places else None
        return None

    def _role(self, kind: int, size: int, word: str) -> int:
        """Tell what an operator does with a tensor of that size and type."""
        name, sizes, shape = self.names[kind], self.sizes[kind], self.made[kind]
        if shape is not None and size_of(shape) == size:
            return ELEMENTS if _ELEMENTS.match(name) else ROWS
        if size not in sizes:
            return NONE
        if name in _CUTS and size_of(self._left(kind) or ()) == size:
            return NONE  # all of it
        if name in _PICKS:
            return PICK if sizes[0] == size and self._is_of(kind, size, word) else NONE
        if _NORM.match(name) and self._of_rows(kind):
            return ROWS
        if sizes[0] == size and self._reduced(kind):
            return CHANNELS
        silent = name not in _READ and ((is_view(name) and not _PARTED.match(name)) or _SILENT.match(name))
        return NONE if silent or not self._is_of(kind, size, word) else USE

    def _is_of(self, kind: int, size: int, word: str) -> bool:
        """Tell whether an operand of that size can be of that type."""
        words, sizes = self.tree.words(self.kinds[kind][2]), self.sizes[kind]
        if words is None or len(words) != len(sizes) or "TensorList" in words:
            return True
        return any(one == word for one, own in zip(words, sizes, strict=True) if own == size)

    def _of_rows(self, kind: int) -> bool:
        """Tell whether a reduction is over the last dimension, and keeps the others."""
        texts, width = self.tree.texts(self.kinds[kind][3]), len(self.operands[kind][0])
        dim = numbers(texts, 2)
        return texts is not None and dim in ((-1,), (width - 1,)) and texts[3:4] == ["True"]

    def _reduced(self, kind: int) -> frozenset[int]:
        """Return the dimensions of its operand that a reduction is over; none for others, and where none are named."""
        width = len(self.operands[kind][0])
        dims = numbers(self.tree.texts(self.kinds[kind][3]), 1) if _REDUCES.match(self.names[kind]) else None
        return frozenset(dim % width for dim in dims or () if -width <= dim < width)

    def _by_place(self, at: int, pick: int) -> bool:
        """Tell whether a reduction is over dimensions that are not cut, and what takes its result works on each place as well."""
        kind = int(self.of[at])
        shape, dims = self.operands[kind][0], self._reduced(kind)
        cut = self._cut_dims(pick)
        if not cut or cut & dims:
            return False
        left = math.prod(length for dim, length in enumerate(shape) if dim not in dims)
        for behind in range(at + 1, min(pick + _LONGEST, len(self.nodes))):
            other = int(self.of[behind])
            name = self.names[other]
            if left in self.sizes[other] and not (_ELEMENTS.match(name) or is_view(name) or _SILENT.match(name)):
                return False
        return True

    def _cut_dims(self, at: int) -> frozenset[int]:
        """Return the dimensions that views cut, one behind the other; none where one of them takes a dimension away."""
        shape, dims = self.operands[int(self.of[at])][0], set()
        while at < len(self.nodes):
            kind = int(self.of[at])
            left = self._left(kind) if self.operands[kind][:1] == (shape,) else None
            if left is None:
                break
            if len(left) < len(shape):
                return frozenset()
            if left != shape:
                dims.add(self._along(kind))
            shape = left
            at += 1
        return frozenset(dims)

    def _taken(self, at: int, word: str) -> tuple[int, bool]:
        """Elements that a pick takes, and whether they are whole rows (of the last dimension); all of them where unknown."""
        kind = int(self.of[at])
        name, operands, texts = self.names[kind], self.operands[kind], self.tree.texts(self.kinds[kind][3])
        shape = operands[0]
        size = size_of(shape)
        if name == "aten::gather":
            index, dim = (operands[2] if len(operands) > 2 else shape), numbers(texts, 1)
            return max(size_of(index), 1), dim is not None and dim != () and dim[0] % len(shape) != len(shape) - 1
        if name == "aten::embedding":
            return max(size_of(operands[1]), 1) * shape[-1] if len(operands) > 1 else size, True
        if name in ("aten::index", "aten::take"):
            return self._indexed(at, shape, word)
        if name == "aten::index_select":
            dim = numbers(texts, 1)
            if not dim or len(operands) < 3 or not -len(shape) <= dim[0] < len(shape):
                return size, False
            along = dim[0] % len(shape)
            return size // max(shape[along], 1) * max(size_of(operands[2]), 1), along != len(shape) - 1
        return self._cut(at)

    def _cut(self, at: int) -> tuple[int, bool]:
        """Elements that a view takes, and whether they are whole rows: of a view of a view, the last one's."""
        first = shape = self.operands[int(self.of[at])][0]
        rows = True
        while at < len(self.nodes):
            kind = int(self.of[at])
            left = self._left(kind) if self.operands[kind][:1] == (shape,) else None
            if left is None:
                break
            rows &= left[-1:] == shape[-1:] and self._along(kind) != len(shape) - 1
            shape = left
            at += 1
        return max(size_of(shape), 1), rows and shape is not first

    def _along(self, kind: int) -> int:
        """Return the dimension that a view is along; -1 where it is not known."""
        dim = numbers(self.tree.texts(self.kinds[kind][3]), 1)
        width = len(self.operands[kind][0])
        return dim[0] % width if dim and -width <= dim[0] < width else -1

    def _left(self, kind: int) -> Shape | None:
        """Return the shape of what a view takes; None for another operator, and where it is not known."""
        name, along = self.names[kind], self._along(kind) if self.names[kind] in _CUTS else -1
        if along < 0:
            return None
        shape = self.operands[kind][0]
        if name == "aten::select":
            return shape[:along] + shape[along + 1 :]
        length = _length(name, shape[along], self.tree.texts(self.kinds[kind][3]))
        return (*shape[:along], length, *shape[along + 1 :])

    def _indexed(self, at: int, shape: Shape, word: str) -> tuple[int, bool]:
        """Tell what an index takes: by the memory that it asks for, else by the shape of what follows."""
        node = self.nodes[at]
        low, high = np.searchsorted(self.when, [self.host.start[node], self.host.end[node]])
        inside = self.bytes[low:high]
        count = int(inside.max()) // SIZES.get(parse_type(word) or "", 4) if len(inside) else -1
        row = math.prod(shape[1:])
        for behind in range(at + 1, min(at + 7, len(self.nodes))):
            for other in self.operands[self.of[behind]]:
                full = len(other) > 1 and other[-1] == shape[-1]
                if full and (
                    size_of(other) == count or (count < 0 and size_of(other) % row == 0 and other[1:] == shape[1:])
                ):
                    return size_of(other), True
        return (count if count > 0 else size_of(shape)), len(shape) > 1 and count == row


def _length(name: str, whole: int, texts: list[str] | None) -> int:
    """Return the positions that a slice takes of a dimension that has *whole*; all of them where its ends are unknown."""
    first, last, step = (
        (found or (default,))[0]
        for found, default in zip((numbers(texts, place) for place in (2, 3, 4)), (0, whole, 1), strict=True)
    )
    if name == "aten::narrow":
        return max(last, 0)
    first, last = (max(one + whole if one < 0 else min(one, whole), 0) for one in (first, last))
    return max(last - first, 0) // max(step, 1)


def _made(name: str, operands: tuple[Shape, ...]) -> Shape | None:
    """The shape of what an operator on elements or on rows makes; None for others."""
    if name in _LAYER:
        first = int(name == "aten::addmm")
        if len(operands) < first + 2:
            return None
        rows, weight = operands[first : first + 2]
        if not rows or len(weight) != 2:
            return None
        return (*rows[:-1], weight[0 if name == "aten::linear" else 1])
    if _ROWS.match(name):
        return operands[0] if operands else None
    if not _ELEMENTS.match(name):
        return None
    if name == "aten::grid_sampler":  # a place of the grid is one of the result, in each channel
        return (*operands[0][:2], *operands[1][1:-1]) if len(operands) > 1 and len(operands[0]) > 2 else None
    shapes = [shape for shape in operands if shape]
    if not shapes:
        return None
    width = max(map(len, shapes))
    return tuple(max(shape[at] for shape in shapes if -at <= len(shape)) for at in range(-width, 0))
