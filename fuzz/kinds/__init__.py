"""The kinds of inputs. A number is of one kind, whatever else is tried: three of four are traces.

Each kind is a module with ``make(rng, world)``, which returns the damage and the files, and ``tried(folder, rng, world)``,
which returns ``analyzed`` where the input went through its reports, or ``refused``, and raises what is wrong.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

OTHERS = ("baseline", "rule", "settings", "recorded", "ranks", "pftrace", "nsys", "rocprof", "snapshot", "capture")
KINDS = ("trace", *OTHERS)
_PERIOD = 4 * len(OTHERS)


def kind_of(number: int) -> str:
    """The kind of the input of this number."""
    place = number % _PERIOD
    return OTHERS[place // 4] if place % 4 == 3 else "trace"


def chosen(text: str) -> tuple[str, ...]:
    """The kinds in a list with commas. Raises ``ValueError`` for one that there is not."""
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not kinds or (unknown := [kind for kind in kinds if kind not in KINDS]):
        raise ValueError(f"kinds are {', '.join(KINDS)}" + (f", not {', '.join(unknown)}" if kinds else ""))
    return kinds


def numbers(start: int, count: int, kinds: Sequence[str]) -> range:
    """The numbers from *start* on that hold *count* inputs of these kinds."""
    each = sum(kind_of(number) in kinds for number in range(_PERIOD))
    stop = start + count // each * _PERIOD
    left = count % each
    while left:
        left -= kind_of(stop) in kinds
        stop += 1
    return range(start, stop)


def of(kinds: Sequence[str], among: range) -> Iterator[int]:
    """Those of the numbers that are of these kinds."""
    return (number for number in among if kind_of(number) in kinds)


def module(kind: str) -> Any:
    """The module of a kind."""
    return importlib.import_module(f"fuzz.kinds.{kind}")
