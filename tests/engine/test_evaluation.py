"""Conditions on a frame of one row: asked once for the same figures, and never answered by others."""

from __future__ import annotations

import threading

import pandas as pd
import pytest

from advisor.engine import evaluation
from advisor.engine.evaluation import Evaluator, Question
from advisor.errors import AdvisorError
from advisor.frames.schema import Schema, integer, real

QUESTION = Question('(typeof("x") = \'BIGINT\' AND "x" > 5)', ("x",))
WHOLE, FRACTION = (Schema("trace", "", (column("x", "", "x"),)) for column in (integer, real))


class World:
    """Frames of which each is the same table."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    def frame(self, _: str) -> pd.DataFrame:
        return self.table


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
