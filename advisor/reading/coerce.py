"""Single values of the file's root, read leniently: what is not of the kind is nothing, and never an error."""

from __future__ import annotations

import math
from typing import Any

from advisor.privacy import scrub


def integer(value: Any) -> int | None:
    """A whole number in any spelling, of a size that arithmetic can take."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1 << 62 else None


def positive(value: Any) -> int | None:
    """A whole number over 0."""
    number = integer(value)
    return number if number is not None and number > 0 else None


def between(value: Any, least: int, most: int) -> int | None:
    """A whole number of a size that a real program has."""
    number = integer(value)
    return number if number is not None and least <= number <= most else None


def real(value: Any, most: float) -> float | None:
    """A finite number from 0 to *most*."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number <= most else None


def flag(value: Any) -> bool | None:
    """True or false, or a number that says so."""
    number = integer(value) if not isinstance(value, bool) else int(value)
    return None if number is None else bool(number)


def word(value: Any, most: int = 40) -> str | None:
    """Short printable text that may be shown, or nothing."""
    if not isinstance(value, str):
        return None
    clean = scrub("".join(char for char in value[: 20 * most] if char.isprintable()))[:most].strip()
    return clean or None
