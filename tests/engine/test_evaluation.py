"""Conditions on a frame of one row: asked once for the same figures, and never answered by others."""

from __future__ import annotations

import itertools
import math
import threading
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.columns import Columns
from advisor.engine import evaluation
from advisor.engine.evaluation import Evaluator, Question
from advisor.errors import AdvisorError
from advisor.frames.schema import Schema, flag, integer, real, text
from advisor.rulebook.conditions import Request, compile_all

QUESTION = Question('(typeof("x") = \'BIGINT\' AND "x" > 5)', ("x",))
WHOLE, FRACTION = (Schema("trace", "", (column("x", "", "x"),)) for column in (integer, real))


class World:
    """Frames of which each is the same table."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    def columns(self, _: str, columns: object = None) -> Columns:
        return Columns.of_pandas(self.table)


def answer(
    value: float | None, schema: Schema = WHOLE, column: str = "x", question: Question = QUESTION
) -> bool | Exception | None:
    table = pd.DataFrame({column: pd.array([value], "Int64" if schema is WHOLE else "Float64")})
    with Evaluator(World(table), {"trace": schema}) as evaluator:
        return evaluator.truths("trace", {"it": question})["it"]


def test_an_answer_goes_with_its_figures_and_their_type() -> None:
    for _ in range(2):
        assert (answer(7), answer(3), answer(None)) == (True, False, None)
        assert answer(7, FRACTION) is False
        assert answer(7, question=Question("(1 > 0)", ())) is True
        missing = answer(7, column="y")
        assert isinstance(missing, AdvisorError)
        assert "lacks x" in str(missing)


THREE = Schema("trace", "", (flag("a", "a"), flag("b", "b"), text("word", "word")))


@pytest.mark.parametrize("a", [True, False, None])
@pytest.mark.parametrize("b", [True, False, None])
@pytest.mark.parametrize("word", ["x", "false", "0", "true", None])
def test_what_and_joins_comes_to_the_same_asked_part_by_part(
    a: bool | None, b: bool | None, word: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_ANSWERS", {})
    table = pd.DataFrame({"a": pd.array([a], "boolean"), "b": pd.array([b], "boolean"), "word": [word]})
    texts = [
        "a AND b",
        "a AND b AND word = 'x'",
        "a AND word",
        "a OR b",
        "NOT a AND (b OR word = 'x')",
        "word IS NULL AND a",
    ]
    columns = {"a": "BOOLEAN", "b": "BOOLEAN", "word": "VARCHAR"}
    wanted = dict(zip(texts, compile_all([Request(one, "trace", columns) for one in texts]), strict=True))
    with Evaluator(World(table), {"trace": THREE}) as evaluator:
        whole = evaluator.truths("trace", {said: Question(one.sql, one.columns) for said, one in wanted.items()})
        parts = evaluator.conditions("trace", wanted)
    for said in texts:
        if isinstance(whole[said], Exception):  # what one part makes false cannot fail for another
            assert isinstance(parts[said], Exception) or parts[said] is False
        else:
            assert parts[said] is whole[said]


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="this system has no clock of a thread")
def test_what_other_threads_work_meanwhile_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that a second thread builds take minutes of the processor between any two looks at the process's clock."""
    monkeypatch.setattr(evaluation, "_ANSWERS", {})
    minutes = itertools.count(step=100)
    monkeypatch.setattr(time, "process_time", lambda: float(next(minutes)))
    table = pd.DataFrame({"x": pd.array([7], "Int64")})
    with Evaluator(World(table), {"trace": WHOLE}) as evaluator:
        for least in range(5, 8):
            question = Question(f'(typeof("x") = \'BIGINT\' AND "x" > {least})', ("x",))
            assert evaluator.truths("trace", {"it": question}) == {"it": least < 7}


def test_the_same_figures_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_ANSWERS", {})
    monkeypatch.setattr(evaluation, "_ANSWERS_MOST", 2)
    asked = []
    ask = Evaluator._ask
    monkeypatch.setattr(Evaluator, "_ask", lambda self, *words, **more: asked.append(1) or ask(self, *words, **more))
    assert (answer(7), answer(7), answer(8), answer(7)) == (True, True, True, True)
    assert len(asked) == 2
    assert answer(9) is True  # one more than are kept: all are forgotten
    assert answer(7) is True
    assert len(asked) == 4


def test_without_a_query_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_ANSWERS", {})
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self) or start(self))
    for threads in (1, 1):  # the second is answered from what the first asked
        assert answer(7) is True
        assert len(started) == threads


COLUMNS = {
    "n": "Int64",
    "size": "int64",
    "x": "float64",
    "y": "Float64",
    "word": "category",
    "label": "object",
    "sure": "boolean",
}
ROWS = Schema(
    "kernels", "", (integer("n", "", ""), integer("size", "", ""), real("x", "", ""), real("y", "", ""), text("word", ""),
    text("label", ""), flag("sure", "")),
)  # fmt: skip
ASKED = {
    "whole": Question('("n" > 0 AND "size" % 2 = 0)', ("n", "size")),
    "missing": Question('("x" IS NULL)', ("x",)),
    "infinite": Question('isinf("x" + "y")', ("x", "y")),
    "text": Question("(\"word\" LIKE '%a%' OR \"label\" = 'b')", ("word", "label")),
    "sure": Question('("sure" AND "y" < 0.5)', ("sure", "y")),
}
some = st.sampled_from
row = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9), some([None, 0.0, -0.0, 0.1, math.inf, -math.inf, 1e308]),
    st.none() | st.floats(allow_nan=False), some([None, "", "a", "b'", "é\0", "NULL"]), some([None, "b", "x"]),
    some([None, True, False]),
)  # fmt: skip


def test_the_last_of_128_words_is_one_of_them() -> None:
    """pandas numbers so many in a signed byte, the last by 127: SQL counts from one."""
    table = pd.DataFrame({"word": pd.Categorical([f"w{number:03}" for number in range(128)] * 30)})
    question = Question("count(*) FILTER (WHERE \"word\" = 'w127') = 30", ("word",))
    with Evaluator(World(table), {"trace": THREE}) as evaluator:
        assert evaluator.truths("trace", {"it": question}) == {"it": True}


@settings(max_examples=40, deadline=None)
@given(st.lists(row, max_size=6), st.data())
def test_a_small_frame_has_the_answers_of_a_large_one(rows: list[tuple[object, ...]], data: st.DataObject) -> None:
    """Values go to the database as parameters where they are few, as arrays where they are many."""
    values = dict(zip(COLUMNS, zip(*rows, strict=True) if rows else [()] * len(COLUMNS), strict=True))
    table = pd.DataFrame({name: pd.Series(list(values[name]), dtype=dtype) for name, dtype in COLUMNS.items()})
    columns = Columns.of_pandas(table)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)
    numbers = {name: f'count(*) FILTER (WHERE "told" AND {question.sql}) > 1' for name, question in ASKED.items()}
    counted = {name: Question(sql, ASKED[name].columns) for name, sql in numbers.items()}
    found = []
    for few in (-1, 3_000):
        with pytest.MonkeyPatch.context() as patch, Evaluator(World(table), {"kernels": ROWS}) as evaluator:
            patch.setattr(evaluation, "_FEW", few)
            patch.setattr(evaluator, "row", lambda _: None)  # a frame of one row is asked otherwise
            plain = evaluator._query("kernels", columns, list(ASKED.values()))
            texts = evaluator._query("kernels", columns, [Question(f'"{name}"', (name,)) for name in COLUMNS])
            found.append((plain, texts, evaluator.truths("kernels", counted, {"told": mask})))
    assert repr(found[0]) == repr(found[1])
    if rows:
        assert not [answer for answer in found[0][2].values() if isinstance(answer, Exception)]
