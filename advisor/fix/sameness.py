"""The same computation: first losses, else outputs, of two runs with the same seeds, within the tolerance of their types."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.record.measured import Figure, Measured

FIRST = 6
"""Losses, or outputs of a program that learns, that are compared: rounding grows from step to step."""
_SINGLE = 2
"""Numbers of a figure that holds a single one: their count, and it."""
_WHOLE = 2
"""Updates that have to be whole where the losses of each are compared as their sum."""
_TOLERANCE = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}
"""Relative difference of losses that another order of sums may make in some steps, by the type that is computed in."""
_LEAST = 1e-6
"""Absolute difference that is none, as a share of the tolerance of 1."""


def compared(before: Measured, after: Measured) -> tuple[Sequence[Figure], Sequence[Figure]]:
    """Return the figures to compare: losses where there are any, else outputs.

    Gradients add up: where the same update has several backward passes in one run and fewer in the other, the losses of an
    update are compared as their sum.
    """
    if not before.losses and not after.losses:
        return _outputs(before.outputs, after.outputs)
    left, right = _sums(before.losses), _sums(after.losses)
    if left and right and left[0][1] != right[0][1]:
        count = min(len(left), len(right), FIRST)
        return [one for one, _ in left[:count]], [one for one, _ in right[:count]]
    return before.losses[:FIRST], after.losses[:FIRST]


def _outputs(before: Sequence[Figure], after: Sequence[Figure]) -> tuple[Sequence[Figure], Sequence[Figure]]:
    """Return the first outputs; where nothing is learned, all that both runs kept, as the first may be of preparations."""
    count = min(len(before), len(after))
    if count < FIRST or any(figure.updates for figure in (*before, *after)):
        count = FIRST
    return before[:count], after[:count]


def _sums(figures: Sequence[Figure]) -> list[tuple[Figure, int]]:
    """Return the sum of the losses of each update, and of how many; none unless each is one number, and two updates are whole."""
    if any(len(figure.numbers) != _SINGLE for figure in figures):
        return []
    out = []
    for updates in sorted({figure.updates for figure in figures})[:-1]:  # the last may have been ended in its midst
        one = [figure for figure in figures if figure.updates == updates]
        total = math.fsum(figure.numbers[1] for figure in one)
        out.append((Figure((1.0, total), one[0].dtypes, updates), len(one)))
    return out if len(out) >= _WHOLE else []


def difference(before: Measured, after: Measured) -> str:
    """Say in which way two runs differ; empty where they compute the same."""
    left, right = compared(before, after)
    word = "loss" if before.losses or after.losses else "output"
    if not left and not right:
        return "neither losses nor outputs were seen, so it is not known whether it computes the same"
    if len(left) != len(right):
        return f"{len(right)} {word}{'es' if word == 'loss' else 's'} instead of {len(left)}"
    tolerance = max(_tolerance(before), _tolerance(after))
    for number, (one, other) in enumerate(zip(left, right, strict=True), 1):
        if len(one.numbers) != len(other.numbers):
            return f"{word} {number} has another form"
        for first, second in zip(one.numbers, other.numbers, strict=True):
            if not _close(first, second, tolerance, one.numbers):
                return f"{word} {number} is {second:.6g} instead of {first:.6g}"
    return ""


def losses(before: Measured, after: Measured) -> list[tuple[float, float]] | None:
    """Return the first losses of both runs, one beside the other; None where there are none."""
    if not before.losses or not after.losses:
        return None
    pairs = zip(*compared(before, after), strict=False)
    return [(one.numbers[1], other.numbers[1]) for one, other in pairs if len(one.numbers) > 1 < len(other.numbers)]


def _tolerance(run: Measured) -> float:
    types = {name for figure in (*run.losses, *run.outputs) for name in figure.dtypes} | set(run.autocast)
    return max((_TOLERANCE[name] for name in types if name in _TOLERANCE), default=0.0)


def _close(first: float, second: float, tolerance: float, all_of_it: Sequence[float]) -> bool:
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    if math.isinf(first) or math.isinf(second):
        return first == second
    # Small numbers of a large output are as exact as the large ones.
    size = max((abs(number) for number in all_of_it[1:] if math.isfinite(number)), default=0.0)
    scale = max(abs(first), abs(second), size if len(all_of_it) > 2 else 0.0)
    return abs(first - second) <= tolerance * scale + tolerance * _LEAST
