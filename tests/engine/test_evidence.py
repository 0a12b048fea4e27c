"""Where a finding is and what it shows: places, evidence, its figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.engine_world import MS, RISK, Run, Trace, finding, frame, kernels, runner

from advisor.engine import evaluation


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


def test_places_are_lines_with_what_their_cost_has_in_common(run: Run) -> None:
    """Of 26 ms: 12 at line 7, 8 of them in one operator; 5 at line 9; 6 with no place; 2 and 1 without a line."""
    owns = [range(0, 8), range(8, 12), range(12, 17), [17], [18], range(19, 25), [25]]
    made = kernels(
        *[1] * 7,
        owns=owns,
        file=["a.py", "a.py", "a.py", None, None, None, None],
        line=[7, 7, 9, -1, -1, -1, -1],
        function=["f", "f", "f", None, None, None, None],
        op=["mm", "add", None, "mul", "mul", None, "relu"],
        module=["A", "A", "B", "C", "C", None, None],
    )
    places = finding(run(made)).where
    assert [(p.file, p.line, p.function, p.op, p.module, round(26 * p.share, 6)) for p in places] == [
        ("a.py", 7, "f", None, "A", 12),
        ("a.py", 9, "f", None, "B", 5),
        (None, None, None, "mul", "C", 2),
    ]


def test_an_operator_with_less_than_half_of_a_line_is_not_named(run: Run) -> None:
    made = kernels(*[1] * 3, owns=[[10], [11], [12]], file=["a.py"] * 3, line=[7] * 3, op=["mm", "add", "mul"])
    (place,) = finding(run(made)).where
    assert (place.op, place.share) == (None, 1.0)


def test_where_almost_nothing_has_a_place_none_is_shown(run: Run) -> None:
    made = kernels(1, 1, owns=[range(10, 20), [20]], cost_ns=[1000, 1], file=[None, "a.py"], line=[-1, 7])
    assert finding(run(made)).where == []


def test_what_costs_nothing_is_weighed_by_its_length(run: Run) -> None:
    made = kernels(1, 1, cost_ns=[0, 0], dur_ns=[1, 3], op=["mm", "add"], file=[None, None])
    made.owns = {}
    places = finding(run(made, {"kernels/rule": RISK})).where
    assert [(place.op, place.share) for place in places] == [("add", 0.75), ("mm", 0.25)]


def test_evidence_is_grouped_heaviest_first_and_short(run: Run) -> None:
    """Twelve names; number k has k kernels of 1 ms, and the first kernel of each costs nothing."""
    names = [f"k{index:02}" for index in range(1, 13) for _ in range(index)]
    first = [position == 0 or names[position - 1] != name for position, name in enumerate(names)]
    made = Trace(
        frames={
            "kernels": frame(
                "kernels",
                step=[1] * len(names),
                name=names,
                dur_ns=[MS] * len(names),
                cost_ns=[0 if is_first else MS for is_first in first],
            )
        },
        owns={"kernels": [[10]] * len(names)},
    )
    items = ["name", "count(*) AS n", "sum(dur_ns) / 1e6 AS dur_ms", "max(occupancy) AS occupancy"]
    evidence = finding(run(made, {"kernels/rule": {"match_evidence": items}})).evidence
    assert evidence.columns == ["name", "n", "dur_ms", "occupancy"]
    assert evidence.rows == [[f"k{index:02}", index, float(index), None] for index in range(12, 4, -1)]


def test_evidence_is_ordered_by_cost_before_count(run: Run) -> None:
    made = kernels(*[1] * 4, owns=[[10], [11], [12], range(13, 20)], name=["often", "often", "often", "once"])
    evidence = finding(run(made, {"kernels/rule": {"match_evidence": ["name"]}})).evidence
    assert evidence.rows == [["once"], ["often"]]


def test_evidence_of_uncounted_steps_is_left_out(run: Run) -> None:
    evidence = finding(run(kernels(0, 1, 2), {"kernels/rule": {"match_evidence": ["step", "count(*) AS n"]}})).evidence
    assert evidence.rows == [[1, 1], [2, 1]]


def test_default_evidence_has_units(run: Run) -> None:
    evidence = finding(
        run(kernels(1, name=["sgemm"], **{"class": ["gemm"]}, dtype=["fp32"], dur_ns=[1_234_567]))
    ).evidence
    assert evidence.columns == ["name", "class", "dtype", "count", "time_ms", "cost_ms"]
    assert evidence.rows == [["sgemm", "gemm", "fp32", 1, 1.235, 1.0]]


def test_totals_are_evidence_too(run: Run) -> None:
    items = ["count(*) AS n", "avg(dur_ns) AS mean_ns"]
    evidence = finding(run(kernels(1, 2, dur_ns=[1, 2]), {"kernels/rule": {"match_evidence": items}})).evidence
    assert evidence.rows == [[2, 1.5]]


def test_numbers_are_cut_to_six_digits_and_infinities_left_out() -> None:
    assert evaluation.cell(0.1 + 0.2) == 0.3
    assert evaluation.cell(1234567.8) == 1234570.0
    assert evaluation.cell(float("inf")) is None
    assert evaluation.cell(10**15) == 10**15
    assert evaluation.cell("a") == "a"
