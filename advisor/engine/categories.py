"""Texts of a frame looked at once each: what a condition asks of a text of few values is asked of the values, not of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from advisor.columns import Columns, Series
from advisor.regex import regex

LEAST_ROWS = 300
_TEXT = r"'(?:[^']|'')*'"
_COLUMN = r'"(?P<column{}>\w+)"'
_CALL = regex(
    r"(?:regexp_matches|starts_with|ends_with|contains)\((?:"
    + "|".join(
        form.format(_COLUMN.format(number))
        for number, form in enumerate(("{}", r"lower\({}\)", r"coalesce\({}, ''\)", r"lower\(coalesce\({}, ''\)\)"))
    )
    + rf"), {_TEXT}\)"
)
Ask = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]


def answered(
    frame: Columns, questions: Sequence[tuple[str, tuple[str, ...]]], ask: Ask
) -> tuple[list[tuple[str, tuple[str, ...]]], dict[str, Series]]:
    """Return the *questions*, each SQL and its columns, with what they ask of texts as columns of yes and no; and these columns.

    *ask* runs a query with parameters.
    """
    if len(frame) < LEAST_ROWS:
        return list(questions), {}
    calls: dict[str, dict[str, None]] = {}
    for sql, _ in questions:
        for match in _CALL.finditer(sql):
            column = match[str(match.lastgroup)]
            if column in frame and frame[column].is_text:
                calls.setdefault(column, {})[match[0]] = None
    names: dict[str, str] = {}
    columns: dict[str, Series] = {}
    for column, asked in calls.items():
        texts = [*(frame[column].words or ()), None]  # the code of a missing value is -1, the last
        if len(texts) * 4 > len(frame):
            continue
        answers = ask(f'SELECT {", ".join(asked)} FROM (SELECT unnest(CAST(? AS VARCHAR[])) AS "{column}")', [texts])
        for call, told in zip(asked, zip(*answers, strict=True), strict=True):
            names[call] = f"asked_{len(names)}"
            columns[names[call]] = _column(told, frame[column].values)
    replaced = [
        _CALL.sub(lambda match: f'"{names[match[0]]}"' if match[0] in names else match[0], sql) for sql, _ in questions
    ]
    return [
        (new, tuple(column for column in used if f'"{column}"' in new))
        for new, (_, used) in zip(replaced, questions, strict=True)
    ], columns


def _column(told: Sequence[bool | None], codes: Any) -> Series:
    unknown = np.array([answer is None for answer in told], np.bool_)
    holds = np.array([bool(answer) for answer in told], np.bool_)[codes]
    missing = unknown[codes]
    return Series(holds, missing if missing.any() else None)
