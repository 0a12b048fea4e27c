"""Questions to texts, asked of each text once: the answers are those that rows would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pytest

from advisor.columns import Columns, Series
from advisor.engine import categories

TEXTS = ["gemm_nchw", "NCHW gemm", "it's 'quoted'", "", "layer_norm", 'say "name"', "\u00e9t\u00e9", "a\nb"]
ASKED = [
    "regexp_matches(\"name\", 'nchw|norm$')",
    '(regexp_matches(lower("name"), \'nchw\') AND ("us" > 3))',
    "(NOT contains(coalesce(\"op\", ''), 'norm'))",
    "contains(lower(coalesce(\"op\", '')), 'gemm')",
    "starts_with(\"name\", 'it''s ''q')",
    "(ends_with(\"op\", 'gemm') OR starts_with(\"name\", 'NCHW'))",
    "((regexp_matches(\"name\", 'a')) IS NULL)",
    "regexp_matches(\"plain\", 'nchw')",
    "(\"name\" = 'regexp_matches(\"\"name\"\", ''nchw'')')",
    '("us" > 3)',
]


def frame(rows: int) -> Columns:
    draw = np.random.default_rng(3)
    names, ops = draw.integers(0, len(TEXTS), rows), draw.integers(-1, len(TEXTS), rows)
    return Columns(
        {
            "name": Series(np.where(names == 5, -1, names), words=tuple(TEXTS)),
            "op": Series(ops, words=tuple(TEXTS)),
            "plain": Series(names, words=tuple(TEXTS)),
            "us": draw.integers(0, 9, rows),
        }
    )


def ask(query: str, values: Sequence[Any] = (), table: Columns | None = None) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        if table is not None:
            casts = [f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in ("name", "op", "plain") if name in table]
            rest = [f'"{name}"' for name in table if name not in ("name", "op", "plain")]
            connection.register("rows", table.pandas())
            query = f"SELECT {query} FROM (SELECT {', '.join(casts + rest)} FROM rows)"
        return connection.execute(query, list(values)).fetchall()


@pytest.mark.parametrize("sql", ASKED)
def test_the_answer_is_that_of_the_rows(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing texts included, of which nothing is known where the row would not know it."""
    monkeypatch.setattr(categories, "LEAST_ROWS", 1)
    table = frame(200)
    columns = tuple(name for name in table if f'"{name}"' in sql)
    (short,), found = categories.answered(table, [(sql, columns)], ask)
    assert ask(short[0], table=table.with_columns(found)) == ask(sql, table=table)
    hoisted = ("(" in sql.strip("()")) and "= 'regexp" not in sql
    assert bool(found) == hoisted
    assert set(short[1]) == {name for name in columns if f'"{name}"' in short[0]}


def test_each_call_is_asked_once_for_all_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(categories, "LEAST_ROWS", 1)
    queries: list[str] = []

    def counted(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        queries.append(query)
        assert len(values[0]) == len(TEXTS) + 1
        return ask(query, values)

    one = "regexp_matches(\"name\", 'gemm')"
    questions = [(one, ("name",)), (f'({one} AND ("us" > 3))', ("name", "us")), ("contains(\"name\", 'x')", ("name",))]
    short, found = categories.answered(frame(100), questions, counted)
    assert [sql for sql, _ in short] == ['"asked_0"', '("asked_0" AND ("us" > 3))', '"asked_1"']
    assert [used for _, used in short] == [(), ("us",), ()]
    assert (len(queries), list(found)) == (1, ["asked_0", "asked_1"])


def test_few_rows_and_texts_that_are_all_different_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [(ASKED[0], ("name",))]
    assert categories.answered(frame(50), questions, ask) == (questions, {})
    monkeypatch.setattr(categories, "LEAST_ROWS", 1)
    table = Columns({"name": [f"k{at}" for at in range(30)]})
    assert categories.answered(table, questions, ask) == (questions, {})
