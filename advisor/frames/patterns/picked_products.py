"""Products over all columns of which single numbers are picked, and the rows that become these columns.

Scores of a whole catalogue are computed, and then gathered for the few items that the batch asks for. A number of a product needs
one row of each operand: gather the rows, and multiply those.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints
from advisor.regex import regex

APART = 60
"""Numbers of a whole product in whose time one is computed by itself, of rows that are gathered for it, with both backward passes:
53 to 111 at six sizes on one thread under torch 2.13, the most where few numbers are picked and the table's gradient is dense."""
_SAME = frozenset(("aten::index_select",))
"""Picks of the same columns for all rows: what is left is a product as well."""
_SECOND = {"aten::mm": 1, "aten::matmul": 1, "aten::addmm": 2, "aten::linear": 1}
_EACH_ROW = regex(
    r"^aten::(?:linear|addmm|mm|matmul|add|sub|mul|div|relu|gelu|silu|sigmoid|tanh|leaky_relu|elu|softplus|layer_norm|rms_norm"
    r"|linalg_vector_norm|norm|clamp_min|normalize|dropout|to|_to_copy)_?$"
)
_LONGEST = 200
"""Operators between a product and what makes its rows."""


class Listed(Struct, eq=False):
    """Operators by thread and time: the kind of each (*of*), its thread's step (*turn*), and of each kind the name, the shapes of
    its operands and of its result, and whether it computes nothing (*views*)."""

    of: Ints
    turn: Ints
    names: list[str]
    operands: list[tuple[Shape, ...]]
    made: list[Shape | None]
    views: list[bool]


def is_product(name: str) -> bool:
    """Tell whether an operator multiplies matrices."""
    return name in _SECOND


def parts_left(picks: Iterable[str], share: float, size: int, count: int) -> tuple[float, float]:
    """Return the parts that are left of a product of *size* numbers in *count* columns, and of the rows behind its columns.

    The *picks*, by their names, take a *share* of it: the same columns of each row, or of each row others.
    """
    if all(name in _SAME for name in picks):
        return share, share
    return min(share * APART, 1.0), min(share * size / count, 1.0)


def columns(name: str, operands: tuple[Shape, ...]) -> tuple[int, int]:
    """Return the number of columns of a product, and of numbers that each is a sum of."""
    second = operands[_SECOND[name]]
    return (second[0], second[1]) if name == "aten::linear" else (second[1], second[0])


def rows_behind(calls: Listed, at: int, known: set[int]) -> list[int]:
    """Return the operators before the product *at*, of whose results each row becomes a column; none where others use them.

    They end at an embedding of as many rows, at a parameter, and at a table that was there before. *known* are operators on the
    product itself.
    """
    kind = int(calls.of[at])
    want: Shape = columns(calls.names[kind], calls.operands[kind])
    count, found, shapes = want[0], [], {want, want[::-1]}
    last = at
    while (before := _maker(calls, last, want)) is not None:
        found.append(before)
        last, kind = before, int(calls.of[before])
        name, operands = calls.names[kind], calls.operands[kind]
        if name == "aten::embedding":
            break
        want = operands[1] if name == "aten::addmm" else operands[0]
        if want[:1] != (count,):
            break
        shapes |= {want, want[::-1]}
    return found if found and not _used_elsewhere(calls, at, known.union(found), shapes) else []


def _maker(calls: Listed, before: int, want: Shape) -> int | None:
    """Return the last operator before another that makes rows of a shape, each from a row; None where another one does, or none."""
    for at in range(before - 1, max(before - _LONGEST, 0) - 1, -1):
        if calls.turn[at] != calls.turn[before]:
            return None
        kind = int(calls.of[at])
        name, operands = calls.names[kind], calls.operands[kind]
        if name == "aten::embedding" and len(operands) > 1 and (*operands[1], *operands[0][-1:]) == want:
            return at
        if not calls.views[kind] and calls.made[kind] == want:
            return at if _EACH_ROW.match(name) and operands and operands[0] else None
    return None


def _used_elsewhere(calls: Listed, at: int, own: set[int], shapes: set[Shape]) -> bool:
    """Tell whether an operator of the same step takes one of the shapes, beside the *own* and lookups in a table."""
    for direction in (-1, 1):
        place = at + direction
        while 0 <= place < len(calls.of) and calls.turn[place] == calls.turn[at]:
            kind = int(calls.of[place])
            passes = place in own or calls.views[kind] or calls.names[kind] == "aten::embedding"
            if not passes and shapes.intersection(calls.operands[kind]):
                return True
            place += direction
    return False
