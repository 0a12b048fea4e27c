"""The work of an operator: its arithmetic, and the bytes that it must move at the least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from advisor.roofline.signature import Shape, Signature, Tensor
from advisor.roofline.types import SIZES


class Sizes(NamedTuple):
    """The sizes of sums of products: *batch* independent ones of *rows* by *inner* times *inner* by *columns*.

    A convolution is the product that it is computed as: a row an output position, a column an output channel of its group.
    Of attention the rows are queries, the columns keys, and the products are of each sequence and head.
    """

    batch: int
    rows: int
    columns: int
    inner: int
    traits: tuple[str, ...] = ()
    """Properties of the call that kernels are known to suffer from, by :mod:`advisor.roofline.reasons`."""


class Work(NamedTuple):
    """The work of one call. What cannot be told from its operands is None, never 0."""

    kind: str
    """The family: matmul, convolution, attention, recurrent, normalization, softmax, pointwise, reduction, copy …"""
    flops: int | None
    """Operations on numbers: a multiply–add counts two, any other operation on an element one."""
    bytes: int | None
    """Bytes that have to move at the least: each input read once, each output written once."""
    arithmetic: str | None = None
    """The number format of the operands that are computed with; None where it was not recorded."""
    exact: bool = True
    """False where ``flops`` or ``bytes`` is only known not to be less."""
    missing: str | None = None
    """Facts that were not recorded, in words; None where nothing is missing."""
    sizes: Sizes | None = None
    """The sizes of its sums of products; None for other work, and where they do not follow."""

    @property
    def known(self) -> bool:
        """True where arithmetic or bytes are known."""
        return self.flops is not None or self.bytes is not None

    @property
    def matrix(self) -> bool:
        """True where the arithmetic is sums of products, which matrix units do."""
        return self.kind in MATRIX


MATRIX = frozenset({"matmul", "convolution", "attention", "recurrent", "moe"})
"""Families that matrix units (Tensor Cores, Matrix Cores, XMX) compute."""

UNTYPED = "the operands' types"
UNSIZED = "the output's size"
UNLISTED = "the sizes of the tensors in its lists"


class Hints(NamedTuple):
    """Facts that an operator's own operands do not hold, from what was recorded beside it."""

    near: tuple[Shape, ...] = ()
    """Shapes that its output may have, the likeliest first: of its gradient, of an operand of the next or the outer operator."""
    type: str | None = None
    """The type of tensors whose own was not recorded, as that of lists never is."""


NO_HINTS = Hints()
Formula = Callable[[Signature, Hints], Work | None]


def size_of(tensor: Tensor, hints: Hints = NO_HINTS) -> int | None:
    """The bytes of a tensor; None where its type is known neither from it nor from the hints."""
    kind = tensor.type or hints.type
    return None if kind is None else tensor.stored * SIZES[kind]


def total(tensors: Iterable[Tensor | None], hints: Hints = NO_HINTS) -> int | None:
    """The bytes of some tensors together; those that are None do not count, and one without a type makes it None."""
    sizes = [size_of(tensor, hints) for tensor in tensors if tensor is not None]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def dense(shape: Sequence[int], kind: str | None) -> Tensor:
    """A tensor as an operator writes it: without gaps."""
    return Tensor(tuple(shape), kind)


def finish(
    kind: str,
    flops: int | None,
    tensors: Iterable[Tensor | None],
    hints: Hints = NO_HINTS,
    *,
    arithmetic: str | None = None,
    exact: bool = True,
    missing: str | None = None,
) -> Work:
    """The work of an operator that reads or writes each of *tensors* once."""
    moved = total(tensors, hints)
    if moved is None and missing is None:
        missing = UNTYPED
    return Work(kind, flops, moved, arithmetic, exact and missing is None, missing)
