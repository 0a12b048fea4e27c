"""Grades of answers, and what came of a run in words; imports nothing of the advisor."""

from __future__ import annotations

import statistics
from typing import Any

Key = float | int | str | None
Result = dict[str, Any]
# Absolute, beside the relative tolerance: a share of 0 % is right at 0.04 %.
FLOOR = {"%": 0.05}


def right(key: Key, answer: object, tolerance: float = 0.0, floor: float = 0.0) -> bool:
    """Grade an answer: None only for None, numbers within the tolerance (or the floor, absolute), texts but for case."""
    if key is None or answer is None:
        return key is None and answer is None
    if isinstance(key, str):
        return str(answer).strip().lower() == key.strip().lower()
    try:
        value = float(answer)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return abs(value - key) <= max(tolerance * abs(key), floor, 1e-9)


def graded(questions: list[Result], results: list[Result], known: dict[str, Key]) -> list[Result]:
    """Add key and grade to each result."""
    by_id = {question["id"]: question for question in questions}
    for result in results:
        question = by_id[result["id"]]
        key, floor = known[result["id"]], FLOOR.get(question.get("unit", ""), 0.0)
        result |= {"key": key, "right": right(key, result["answer"], question.get("tolerance", 0.0), floor)}
    return results


def summary(results: list[Result]) -> str:
    """Write what came of it in lines."""
    unknown = [result for result in results if result["key"] is None]
    sizes = [size for result in results for size in result["bytes"]]
    lines = [
        f"right: {sum(r['right'] for r in results)} of {len(results)}",
        f"cannot answer: {sum(r['right'] for r in unknown)} of {len(unknown)}",
    ]
    if sizes:
        lines.append(f"answers of tools: {len(sizes)}, median {statistics.median(sizes):.0f} bytes, most {max(sizes)}")
    wrong = [result for result in results if not result["right"]]
    lines += [f"wrong: {r['id']}: answered {r['answer']!r}, the key is {r['key']!r}" for r in wrong]
    return "\n".join(lines)
