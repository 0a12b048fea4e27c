"""Dense gradients of embeddings: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.testing import TraceBuilder

STORE = "torch::autograd::AccumulateGrad"
ENGINE = "autograd::engine::evaluate_function: "
TABLE = [100_000, 64]


def training(
    lookups: dict[str, int],
    *,
    optimizer: str = "Adam",
    begun_by: str | None = None,
    late: bool = False,
    slow_step: int = -1,
    lookup_us: float = 10,
    engine: bool = True,
) -> TraceBuilder:
    """Three steps of 500 us for each gradient, sum and operator of the optimizer, and *lookup_us* for each forward lookup.

    *lookups* are tables and the indices that they are given, one after the other; *begun_by*: the table whose gradient another
    node begins; *late*: the other node comes last. In *slow_step* operators of the optimizer take ten times as long.
    """
    b = TraceBuilder(None)
    tables = [name.rstrip("'") for name in lookups]
    for step in range(3):
        with b.step():
            for at, number in enumerate(lookups.values()):
                with b.op("aten::embedding", shapes=[TABLE, [number]], seq=100 * step + at, us=lookup_us):
                    pass
            _operator(b, "aten::mm", 5_000, [[512, 64], [64, 8]])
            begun = [begun_by] if begun_by and not late else []
            for at, number in reversed(list(enumerate(lookups.values()))):
                with b.op(f"{ENGINE if engine else 'Old'}EmbeddingBackward0", seq=100 * step + at, fwd_thread=1):
                    with b.op("EmbeddingBackward0", seq=100 * step + at, fwd_thread=1):
                        _operator(b, "aten::embedding_dense_backward", 500, [[number, 64], [number], [], [], []])
                    if tables[at] in begun:
                        _operator(b, "aten::add_", 500, [TABLE, TABLE, []])
                begun.append(tables[at])
                if tables[at] not in tables[:at] and not (late and tables[at] == begun_by):
                    _store(b)
            if late:
                with b.op(f"{ENGINE}TBackward0"):
                    _operator(b, "aten::add_", 500, [TABLE, TABLE, []])
                _store(b)
            with b.annotation(f"Optimizer.step#{optimizer}.step"):
                for _ in set(tables):
                    for name in ("lerp_", "mul_", "sqrt", "addcdiv_"):
                        _operator(b, f"aten::{name}", 5_000 if step == slow_step else 500, [TABLE, TABLE, []])
    return b


def _operator(b: TraceBuilder, name: str, us: float, shapes: list[object]) -> None:
    with b.op(name, shapes=shapes, us=us):
        pass


def _store(b: TraceBuilder) -> None:
    with b.op(f"{ENGINE}{STORE}"), b.op(STORE, shapes=[TABLE]):
        pass


def rows(b: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    frame = advisor.read(b.write(tmp_path / "trace.json")).patterns
    return [dict(row) for _, row in frame[frame.kind == "dense-embedding"].iterrows()]


def test_indices_of_several_lookups_in_one_table_are_summed(tmp_path: Path) -> None:
    found = rows(training({"a": 500, "a'": 700}), tmp_path)
    assert [(row["repeats"], row["length"]) for row in found] == [(1_200, 100_000)] * 6


def test_tables_of_one_shape_share_the_steps_operators(tmp_path: Path) -> None:
    """Each of them has 0.5 ms for its gradient and 2 ms of the step: what came last has no more than the other."""
    found = rows(training({"a": 500, "b": 700}), tmp_path)
    assert [row["cost_ns"] for row in found] == [2_500_000] * 6
    assert {row["repeats"] for row in found} == {600}


@pytest.mark.parametrize(
    ("optimizer", "left_us"),
    [("SGD", 2.5 * 10 + 100), ("Adagrad", 10 * 10 + 250), ("Adam", 16 * 10 + 300), ("Mine", 16 * 10 + 300)],
)
def test_what_is_left_is_counted_in_lookups_by_optimizer(tmp_path: Path, optimizer: str, left_us: float) -> None:
    found = rows(training({"a": 500}, optimizer=optimizer), tmp_path)
    assert found[0]["part"] == pytest.approx(1 - left_us / 2_500, abs=1e-5)


def test_a_lookup_that_waited_for_a_core_is_not_what_reading_takes(tmp_path: Path) -> None:
    """500 rows of 64 numbers take 84 us at most, and the call 20 us."""
    found = rows(training({"a": 500}, optimizer="SGD", lookup_us=8_000), tmp_path)
    assert found[0]["part"] == pytest.approx(1 - (2.5 * 104 + 100) / 2_500, abs=1e-5)


def test_threads_speed_lookups_up_more_than_what_sums_rows_up(tmp_path: Path) -> None:
    found = rows(training({"a": 500}).ran_with(cores=4, threads=4), tmp_path)
    assert found[0]["part"] == pytest.approx(1 - (16 * 10 * 4**0.35 + 300) / 2_500, abs=1e-5)


def test_a_step_that_was_held_up_does_not_set_the_part(tmp_path: Path) -> None:
    found = rows(training({"a": 500}, slow_step=1), tmp_path)
    assert {round(row["part"], 5) for row in found} == {round(1 - 460 / 2_500, 5)}


@pytest.mark.parametrize("late", [False, True])
def test_a_table_with_another_gradient_besides_has_a_dense_one_anyway(tmp_path: Path, late: bool) -> None:
    assert rows(training({"a": 500}, begun_by="a", late=late), tmp_path) == []


def test_where_the_engines_calls_are_not_recorded_products_tell_of_tied_weights(tmp_path: Path) -> None:
    assert len(rows(training({"a": 500}, engine=False), tmp_path)) == 3


def test_the_price_is_wider_the_more_is_left(tmp_path: Path) -> None:
    """460 us of 2,500 are left, or half of them more or less: between 80 % of 1,810 and 2,270 us."""
    analysis = advisor.analyze(training({"a": 500}).write(tmp_path / "trace.json"))
    (finding,) = [finding for finding in analysis.findings if finding.rule == "gradient/dense-embedding"]
    assert finding.saving is not None
    assert finding.saving.low_ms == pytest.approx(0.8 * 1.81, rel=0.02)
    assert finding.saving.high_ms == pytest.approx(2.27, rel=0.02)


def test_a_shape_of_which_a_damaged_trace_names_no_parameter() -> None:
    from advisor.frames.patterns.table_gradients import Group, Operator, _shared_out

    group = Group((100, 8), [], tables=1, parameters=0)
    assert _shared_out(group, [Operator(7, 0, 1.0, 0), Operator(8, 1, 0.5, 0)]) == [(7, 1.0), (8, 0.5)]
