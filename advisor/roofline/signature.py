"""A signature: an operator's name with the shapes, types, strides and values of its operands, read from the trace's texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from advisor.roofline.types import SIZES, parse_scalar_type, parse_type

Shape = tuple[int, ...]
# A tensor of more elements fits no machine: its shape is damage.
_MOST_ELEMENTS = 1 << 50
_MOST_TENSORS = 100_000
_LISTS = frozenset({"ScalarList", "TensorList", "GenericList"})
_NO_TENSOR = _LISTS | {"", "Scalar", "Int", "Bool", "Double", "Device", "Generator", "String", "None"}


class Tensor(NamedTuple):
    """A tensor among the operands. ``type`` and ``strides`` are None where they were not recorded."""

    shape: Shape
    type: str | None
    strides: Shape | None = None

    @property
    def elements(self) -> int:
        """Elements, those of expanded dimensions as often as they are repeated."""
        return math.prod(self.shape)

    @property
    def stored(self) -> int:
        """Elements that lie in memory: an expanded dimension (stride 0) counts once, and windows that overlap once."""
        if self.strides is None or len(self.strides) != len(self.shape) or not self.elements:
            return self.elements
        pairs = [(size, abs(stride)) for size, stride in zip(self.shape, self.strides, strict=True) if size > 1]
        reach = 1 + sum((size - 1) * stride for size, stride in pairs)
        return min(math.prod(size for size, stride in pairs if stride), reach)

    @property
    def bytes(self) -> int | None:
        """Bytes that lie in memory; None where the type is not known."""
        return None if self.type is None else self.stored * SIZES[self.type]


class Operand(NamedTuple):
    """One operand: a tensor, a list of tensors, or a value."""

    tensor: Tensor | None = None
    tensors: tuple[Tensor, ...] | None = None
    """The list's tensors; None where it is no list, or its shapes were not recorded."""
    type: str = ""
    """The type as written: of a tensor's elements, or a word for another kind of operand."""
    value: str = ""
    """The value as written (``Concrete Inputs``); '' where it was not recorded, and for None."""

    @property
    def numbers(self) -> Shape | None:
        """Its value as whole numbers, such as ``[1, 2]`` or ``3``; None where it is none or was not recorded."""
        text = self.value.strip("[]() ")
        if not text:
            return () if self.value.strip().startswith("[") else None
        try:
            return tuple(int(part) for part in text.split(","))
        except ValueError:
            return None

    @property
    def number(self) -> float | None:
        """Its value as one number; None where it is none or was not recorded."""
        try:
            return float(self.value)
        except ValueError:
            return None

    @property
    def flag(self) -> bool | None:
        """Its value as a truth value; None where it is none or was not recorded."""
        return {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}.get(self.value)

    @property
    def flags(self) -> tuple[bool, ...] | None:
        """Its value as a list of truth values, such as ``[True, False, True]``; None where it is none."""
        words = [word.strip() for word in self.value.strip("[] ").split(",")]
        known = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
        return tuple(known[word] for word in words) if words and all(word in known for word in words) else None


class Signature(NamedTuple):
    """An operator as called: its name and its operands in the order of its schema."""

    name: str
    operands: tuple[Operand, ...]

    def operand(self, index: int) -> Operand:
        """The operand at a place; an empty one beyond the end."""
        return self.operands[index] if 0 <= index < len(self.operands) else Operand()

    def tensor(self, index: int) -> Tensor | None:
        """The tensor at a place; None where something else or nothing stands there."""
        return self.operand(index).tensor

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, those in lists too."""
        return [
            tensor
            for operand in self.operands
            for tensor in ((operand.tensor,) if operand.tensor else operand.tensors or ())
        ]

    @property
    def has_values(self) -> bool:
        """True where any value was recorded."""
        return any(operand.value for operand in self.operands)


def read(name: str, dims: bytes, types: bytes = b"", strides: bytes = b"", values: bytes = b"") -> Signature | None:
    """The signature of an operator from the texts of the trace: JSON lists; None without shapes or where they are damaged."""
    shapes = _decode(dims)
    if not isinstance(shapes, list) or len(shapes) > _MOST_TENSORS:
        return None
    kinds, steps = (_aligned(_decode(raw), len(shapes)) for raw in (types, strides))
    texts, beyond = _texts(_decode(values), len(shapes))
    operands = []
    for shape, kind, step, text in zip(shapes, kinds, steps, texts, strict=True):
        written = kind if isinstance(kind, str) else ""
        operands.append(_operand(shape, written, step, _text(text), typed=bool(types) and types.strip() != b"[]"))
    operands += [Operand(value=_text(text)) for text in beyond]
    if any(
        tensor.elements > _MOST_ELEMENTS for operand in operands for tensor in operand.tensors or _some(operand.tensor)
    ):
        return None
    return Signature(name, tuple(operands))


def _some(tensor: Tensor | None) -> tuple[Tensor, ...]:
    return () if tensor is None else (tensor,)


def _operand(shape: object, written: str, strides: object, value: str, *, typed: bool) -> Operand:
    sizes = _sizes(shape)
    kind = parse_type(written) or (parse_scalar_type(written) if sizes else None)
    if sizes is not None:
        # A tensor without dimensions and a value look alike but for their types.
        if kind is not None or (sizes and (not typed or written not in _NO_TENSOR)):
            return Operand(Tensor(sizes, kind, _strides(sizes, strides)), None, written, value)
        return Operand(None, None, written, value)
    if isinstance(shape, list):
        shapes = [_sizes(item) for item in shape]
        steps = _aligned(strides, len(shape))
        if all(item is not None for item in shapes):
            tensors = tuple(
                Tensor(item, kind, _strides(item, step))
                for item, step in zip(shapes, steps, strict=True)
                if item is not None
            )
            return Operand(None, tensors, written, value)
    return Operand(None, None, written, value)


def _sizes(value: object) -> Shape | None:
    """Return a list of whole numbers as a tuple; None for anything else."""
    if not isinstance(value, list) or not all(type(size) is int and size >= 0 for size in value):
        return None
    return tuple(value)


def _strides(sizes: Shape, value: object) -> Shape | None:
    """Return a tensor's strides; None where three dimensions have one stride, which is a placeholder: no view is like that."""
    strides = _sizes(value)
    if strides is not None and len(strides) == len(sizes):
        wide = [stride for size, stride in zip(sizes, strides, strict=True) if size > 1 and stride]
        if len(wide) > len(set(wide)) + 1:
            return None
    return strides


def _decode(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _texts(value: object, size: int) -> tuple[Sequence[object], Sequence[object]]:
    """The values of operands with shapes, and those of operands behind them, to which some writers of traces give none."""
    if isinstance(value, list) and 0 < size < len(value) <= _MOST_TENSORS:
        return value[:size], value[size:]
    return _aligned(value, size), ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _aligned(value: object, size: int) -> Sequence[object]:
    """Return a list that is as long as the shapes; blanks where it is not."""
    return value if isinstance(value, list) and len(value) == size else [None] * size
