"""Layers of one input, one after the other, in a program that only infers: queries, keys and values, or a gate and what it gates.

Their weights could stand in one matrix: one product with as many columns as all of them. A trace does not say which tensor an
operator takes. That a layer does not take what the one before it gave is told by its width, and, where the widths fit, by an
attention that follows: of its queries, keys and values each has to come from somewhere.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from advisor.frames.patterns.adapters import PRODUCT, Calls, calls_of
from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, size_of
from advisor.intervals import Bools, Ints, covered, union
from advisor.regex import regex
from advisor.roofline.limits import limits
from advisor.timeline.fused_names import operators

_ATTENTION = regex(r"scaled_dot_product|flash_attn|(?:flash|efficient|cudnn)_?attention|^aten::(?:baddbmm|bmm)$")
_PAIRED = frozenset({"aten::matmul", "aten::einsum"})
"""Products of two tensors that both have a batch, where they are no layer: scores, of queries and keys."""
_ACTIVATIONS = frozenset(
    {"aten::silu", "aten::gelu", "aten::relu", "aten::sigmoid", "aten::tanh", "aten::silu_", "aten::relu_"}
)
_BETWEEN = _ACTIVATIONS | {
    f"aten::{name}"
    for name in (
        "contiguous", "clone", "copy_", "to", "_to_copy", "pow", "square", "mean", "rsqrt", "add", "mul", "neg", "cat",
        "layer_norm", "rms_norm", "_fused_rms_norm",
    )
}  # fmt: skip
"""Operators on a layer's result before the next one runs: an activation, a norm of each head, a rotation."""
_MULTIPLIES = frozenset({"aten::mul", "aten::mul_"})
_GATES = frozenset({"mul", "silu", "gelu", "sigmoid", "relu", "tanh", "erf"})
_CROSS = regex(r"cross|enc(?:oder)?_?dec|encoder_?att", re.I)
_PARTS = frozenset({"aten::chunk", "aten::split", "aten::unbind", "aten::split_with_sizes"})
_MOST, _REACH, _OF_ATTENTION = 40_000, 60, 3
_TILE = 128
_HOST = 0.75
"""Part of the host's time for a layer that goes with it: the result has to be divided, which is an operator or two."""


class _Group(NamedTuple):
    """Places of the layers of one input among the calls, and what they are."""

    places: list[int]
    detail: str


def separate_projections(tree: Tree) -> Occurrences | None:
    """One row per group of layers that take one input one after the other, beside a GPU and where nothing is trained.

    ``repeats`` are its layers, ``length`` the rows that they multiply, and ``part`` what of all but the first goes where one
    product takes their place: on the GPU as far as they leave it idle, of the host's time most.
    """
    if tree.context.cpu_program or tree.context.device < 0:
        return None
    calls = tree.once(calls_of)
    groups = _groups(tree, calls) if calls is not None else []
    if calls is None or not groups:
        return None
    host = tree.host
    count = len(groups)
    row = np.repeat(np.arange(count), [len(group.places) for group in groups])
    nodes = calls.node[np.array([place for group in groups for place in group.places], np.int64)]
    first = np.append(True, row[1:] != row[:-1])
    work = tree.launched_below(nodes)
    inside = Pairs(row[work.row], work.index)
    own = inside.where(~first[work.row])
    begin, end = host.start[nodes[~first & np.roll(first, 1)]], host.end[nodes[np.append(first[1:], True)]]
    return Occurrences(
        kind="separate-projections",
        node=nodes[first],
        begin=begin,
        end=end,
        inside=inside.each_once(),
        own=own.each_once(),
        idle=True,
        figures={
            "repeats": np.bincount(row, minlength=count).astype(np.int64),
            "length": calls.rows[[group.places[0] for group in groups]],
            "part": _spared(tree, calls, groups, work, begin, end),
            "dims": tree.dims(nodes[first]),
        },
        details=[group.detail for group in groups],
    )


def _groups(tree: Tree, calls: Calls) -> list[_Group]:
    """Find the groups, in order of their calls."""
    products = np.flatnonzero((calls.role == PRODUCT) & (calls.kind == 0) & ~calls.added)
    if not 2 <= len(products) <= _MOST:
        return []
    linked = _linked(tree, calls, products)
    found = []
    at = 0
    while at < len(products):
        last = at
        while last < len(linked) and linked[last]:
            last += 1
        if last > at:
            group = _proven(tree, calls, products[at : last + 1].tolist())
            if group is not None:
                found.append(group)
        at = last + 1
    return found


def _linked(tree: Tree, calls: Calls, products: Ints) -> Bools:
    """Flag the products behind which another of as many rows and the same width comes that does not take what they gave."""
    host = tree.host
    one, two = products[:-1], products[1:]
    node = calls.node
    step = tree.context.recording.host_step_of(host.start[node[products]])
    linked: Bools = (calls.rows[one] == calls.rows[two]) & (calls.inner[one] == calls.inner[two])
    linked &= (host.thread[node[one]] == host.thread[node[two]]) & (step[:-1] == step[1:])
    names = tree.codes_of(_BETWEEN.__contains__)
    for at in np.flatnonzero(linked).tolist():
        before, behind = int(one[at]), int(two[at])
        between = slice(before + 1, behind)
        if calls.columns[before] == calls.inner[before]:
            linked[at] = behind == before + 1
            continue
        size = int(calls.rows[before] * calls.columns[before])
        wide = int(calls.rows[before] * calls.inner[before])
        linked[at] = (
            behind - before <= _REACH
            and bool(names[host.name[node[between]]].all())
            and bool(((calls.size[between] <= size) & (calls.size[between] != wide)).all())
        )
    return linked


def _proven(tree: Tree, calls: Calls, places: list[int]) -> _Group | None:
    """Return what of a run of layers takes one input, by what follows it; None where nothing tells."""
    if _of_one_weight(tree, calls, places[0]):
        return None  # nn.MultiheadAttention runs its one weight in parts where queries, keys and values have inputs of their own
    follows = _following(tree, calls, places)
    sizes = [int(calls.rows[at] * calls.columns[at]) for at in places]
    for name, operands, gates in follows:
        counts = [size_of(shape) for shape in operands if shape]
        if gates:
            return _Group(places[-2:], "gate and up")
        if _attends(name, operands):
            return _attended(tree, calls, places, set(sizes) & set(counts))
    return None


def _attends(name: str, operands: tuple[tuple[int, ...], ...]) -> bool:
    if name in _PAIRED:
        return sum(len(shape) > 2 for shape in operands) >= 2
    return _ATTENTION.search(name) is not None


def _attended(tree: Tree, calls: Calls, places: list[int], taken: set[int]) -> _Group | None:
    """Return those of some layers that feed the attention behind them: at most its queries, keys and values."""
    if not taken:
        return None
    # A layer whose result is as wide as its input could feed the next: not of the last three, each of which the attention takes.
    least = len(places) - _OF_ATTENTION
    while least > 0 and calls.columns[places[least - 1]] != calls.inner[places[least - 1]]:
        least -= 1
    chosen = places[max(least, 0) :]
    if _crosses(tree, calls, chosen[0]):
        # Queries are of another input, but for keys and values that are alone here.
        chosen = (
            chosen[-2:] if len(chosen) >= _OF_ATTENTION or calls.columns[chosen[0]] == calls.columns[chosen[-1]] else []
        )
        return _Group(chosen, "keys and values") if chosen else None
    detail = "queries, keys and values" if len(chosen) >= _OF_ATTENTION else "two of queries, keys and values"
    return _Group(chosen, detail) if len(chosen) > 1 else None


def _crosses(tree: Tree, calls: Calls, place: int) -> bool:
    """Tell whether modules around a layer are named as those of an attention to another input."""
    host = tree.host
    module = int(host.attributes.module[calls.node[place]])
    return module >= 0 and _CROSS.search(host.module_paths[module]) is not None


def _following(tree: Tree, calls: Calls, places: list[int]) -> list[tuple[str, tuple[tuple[int, ...], ...], bool]]:
    """Names and operands of what follows the last layer before another one, and whether it multiplies two tensors."""
    host, last = tree.host, places[-1]
    size = int(calls.rows[last] * calls.columns[last])
    found = []
    for at in range(last + 1, min(last + 1 + _REACH, len(calls.node))):
        node = int(calls.node[at])
        if calls.role[at] == PRODUCT or host.thread[node] != host.thread[calls.node[last]]:
            break
        name = tree.context.names[host.name[node]]
        operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
        gates = (
            name in _MULTIPLIES and calls.size[at] == size and sum(size_of(shape) == size for shape in operands) == 2
        )
        fused = set(operators(name)) if name.startswith("triton_") else set()
        gates = gates or (
            "mul" in fused and len(fused & _GATES) > 1 and sum(size_of(shape) == size for shape in operands) >= 2
        )
        found.append((name, operands, bool(gates) and _is_gate(calls, places)))  # else it is of a rotation
    return found


def _is_gate(calls: Calls, places: list[int]) -> bool:
    """Tell whether the last two layers are as wide as each other, and another width than their input."""
    one, two = places[-2:]
    return bool(calls.columns[one] == calls.columns[two] != calls.inner[one])


def _of_one_weight(tree: Tree, calls: Calls, place: int) -> bool:
    """Tell whether a matrix as wide as a layer's input was divided right before it: its weights are parts of one already."""
    outer = tree.outermost
    at = int(np.searchsorted(outer, calls.node[place]))
    before = calls.node[place - 1] if place else -1
    inner = int(calls.inner[place])
    for node in outer[max(at - 12, 0) : at].tolist():
        if node >= before and tree.context.names[tree.host.name[node]] in _PARTS:
            operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
            if operands and len(operands[0]) == 2 and operands[0][1] == inner and operands[0][0] > inner:
                return True
    return False


def _spared(tree: Tree, calls: Calls, groups: list[_Group], work: Pairs, begin: Ints, end: Ints) -> Ints:
    """Millionths of all layers' time but the first's that go, by the GPU's time and the idle time of each.

    A product over all columns takes as long as the longest of them at the least, and as what the device reaches; and no less
    than each took of a GPU that it filled.
    """
    context = tree.context
    layer = np.concatenate([np.arange(len(group.places)) for group in groups])
    row = np.repeat(np.arange(len(groups)), [len(group.places) for group in groups])
    time = tree.work.end[work.index] - tree.work.start[work.index]
    taken = np.bincount(work.row, time, len(row))
    reachable = np.full(len(tree.work), np.nan)
    reachable[context.kernel_rows] = context.once(limits).reachable_ns
    reached = np.bincount(
        work.row, np.fmin(np.where(np.isnan(reachable[work.index]), time, reachable[work.index]), time), len(row)
    )
    entry = context.recording.device_properties(context.device)
    units = entry.sms if entry and entry.sms else 0
    places = np.array([place for group in groups for place in group.places], np.int64)
    tiles = [
        math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
        for rows, columns in zip(calls.rows[places].tolist(), calls.columns[places].tolist(), strict=True)
    ]
    filled = taken * (np.minimum(np.array(tiles) / units, 1.0) if units else 1.0)
    count = len(groups)
    longest = np.zeros(count)
    np.maximum.at(longest, row, taken)
    least = np.fmax(longest, np.fmax(np.bincount(row, reached, count), np.bincount(row, filled, count)))
    others = np.bincount(row, np.where(layer > 0, taken, 0), count)
    gpu = np.clip(others + np.bincount(row, np.where(layer == 0, taken, 0), count) - least, 0, others)
    idle = _idle_between(tree, begin, end)
    part: Ints = np.rint((gpu + _HOST * idle) / np.maximum(others + idle, 1) * MILLION).astype(np.int64)
    return part


def _idle_between(tree: Tree, begin: Ints, end: Ints) -> Ints:
    """ns that the GPU waits for the host from each begin to each end: most of its gaps begin before or end behind these."""
    ledger = tree.context.ledger
    idle = np.flatnonzero(ledger.through("host")) if tree.context.idle_trusted else np.zeros(0, np.int64)
    return covered(union(ledger.start_ns[idle], ledger.end_ns[idle]), begin, end)
