"""Shapes of operands, as a recording writes them."""

from __future__ import annotations

from functools import lru_cache

from advisor.regex import regex

_FIRST = regex(r"^\[\[(\d{1,12}(?:,\d{1,12}){0,15})\]")
MOST_ELEMENTS = 1 << 62


@lru_cache(maxsize=4096)
def first_shape(shapes: str) -> tuple[int, ...]:
    """Return the sizes of the first operand; empty where they are not known, of a number, and of a list of tensors."""
    found = _FIRST.match(shapes)
    return tuple(int(size) for size in found[1].split(",")) if found is not None else ()
