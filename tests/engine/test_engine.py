"""Verdicts and costs, on traces small enough to work out by hand; errors stay with their rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from support.engine_world import MS, RISK, Run, Trace, finding, frame, kernels, runner, verdict
from support.traces import trace

from advisor import rulebook
from advisor.columns import Columns
from advisor.engine import evaluation
from advisor.engine import run as engine
from advisor.engine.places import places
from advisor.engine.state import HOW
from advisor.results.analysis import Finding, Fix, Verdicts
from advisor.rulebook.rule import NEEDS


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


# ---- verdicts


def test_a_rule_that_fires(run: Run) -> None:
    """Two of the twenty counted ms are 10 % of the time, so 1 of the 10 ms of a step; the kernel of step 0 is left out."""
    outcome = run(kernels(0, 1, 2))
    found = finding(outcome)
    assert outcome.quality == []
    assert (found.cost_share, found.cost_ms, found.occurrences) == (pytest.approx(0.1), pytest.approx(1.0), 2)
    assert (found.severity, found.confidence, found.category) == ("low", "certain", "kernels")
    assert found.saving is not None
    assert (found.saving.low_ms, found.saving.high_ms) == (pytest.approx(0.5), pytest.approx(1.0))
    assert (found.saving.low_share, found.saving.high_share) == (pytest.approx(0.05), pytest.approx(0.1))
    assert found.saving.basis == "bound: 50 to 100 % of the time it owns; by hand"
    assert found.fix == Fix(title="Do it", effort="a line", before="x", after="y", caveat="", verify="it is so")


def test_every_step_means_every_counted_one(run: Run) -> None:
    """Rows of the first of three steps are left out with it: two are all that there can be."""
    made = kernels(0, 1, 2)
    made.step_count = 3
    assert finding(run(made, {"kernels/rule": {"match_having": "count(DISTINCT step) >= $steps"}})).occurrences == 2


def test_without_steps_the_window_is_the_whole(run: Run) -> None:
    made = kernels(-1, -1)
    made.step_ms, made.step_count = None, 0
    made.ledger.counted[:] = True
    made.owns = {"kernels": [[0], [1, 2]]}
    found = finding(run(made))
    assert (found.cost_share, found.cost_ms, found.occurrences) == (pytest.approx(0.1), pytest.approx(3.0), 2)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "fires"),
        ({"needs": ["gpu", "shapes"]}, "fires"),
        ({"needs": ["memory"]}, "not_run"),
        ({"needs": ["distributed"]}, "not_applicable"),
        ({"needs": ["loader"]}, "not_applicable"),
        ({"needs": ["ranks"]}, "not_run"),
        ({"given": "vendor = 'amd'"}, "not_applicable"),
        ({"given": "vendor = 'amd'", "needs": ["memory"]}, "not_applicable"),
        ({"given": "rank = 1"}, "not_applicable"),
        ({"given": "vendor = 'nvidia' AND capability >= 8"}, "fires"),
        ({"match_when": "busy_share > 0.4"}, "fires"),
        ({"match_when": "busy_share > 0.6"}, "passes"),
        ({"match_when": "idle_share > 0.6"}, "not_run"),
        ({"match_where": "step > 0"}, "fires"),
        ({"match_where": "step = 7"}, "passes"),
        ({"match_where": "step = 0"}, "passes"),
        ({"match_where": "step = 0", "levels": None, "severity": "high"}, "passes"),
        ({"match_where": "occupancy > 0.5"}, "passes"),
        ({"match_having": "count(*) = 2 AND sum(dur_ns) = 2000000"}, "fires"),
        ({"match_having": "count(*) >= 2 * $steps"}, "passes"),
        ({"match_having": "sum(dur_ns) * 15 = $window_ns AND $steps = 2"}, "fires"),
        ({"match_having": "sum(occupancy) > 0"}, "not_applicable"),
        # 10 % of the time, of which the fix returns half to all: 7.5 % in the middle.
        ({"levels": {"high": 0.075}}, "fires"),
        ({"levels": {"low": 0.08}}, "passes"),
        ({"levels": {"note": 0.07, "low": 0.08}}, "fires"),
        # A row that returns twice as much returns no more than all of it: 7.5 % still. Half as much: 3.75 %.
        ({"replay_weight": "2", "levels": {"low": 0.08}}, "passes"),
        ({"replay_weight": "0.5", "levels": {"low": 0.037}}, "fires"),
        ({"replay_weight": "0.5", "levels": {"low": 0.038}}, "passes"),
        ({"replay_weight": "CAST(name AS DOUBLE)"}, "error"),
        ({"replay_launches": "step = 1"}, "fires"),
        ({"replay_launches": "CAST(name AS BIGINT) > 0"}, "error"),
        ({"match_frame": "copies"}, "passes"),
        ({"match_where": "CAST(name AS BIGINT) > 0"}, "error"),
    ],
)
def test_what_a_rule_comes_to(run: Run, changes: dict[str, Any], expected: str) -> None:
    assert verdict(run(kernels(0, 1, 2, name=["sgemm"] * 3), {"kernels/rule": changes})) == expected


@pytest.mark.parametrize(("segments", "severity"), [(5, "low"), (6, "medium"), (10, "medium"), (11, "high")])
def test_severity_follows_the_middle_of_the_saving(run: Run, segments: int, severity: str) -> None:
    """Levels at 1, 20 and 40 % of the step. Each segment is 5 % of it, of which the middle of half and all returns 3.75."""
    assert finding(run(kernels(1, owns=[range(10, 10 + segments)]))).severity == severity


def test_a_price_weighs_rows_by_what_they_cost(run: Run) -> None:
    """Of 4 ms one row has 3 and returns half, the other 1 and returns all: 2.5 ms at most, and 1.25 cautiously, of 20."""
    trace = kernels(1, 1, owns=[[10, 11, 12], [13]], name=["gemm", "copy"])
    saving = finding(
        run(trace, {"kernels/rule": {"replay_weight": "CASE WHEN name = 'gemm' THEN 0.5 ELSE 1 END"}})
    ).saving
    assert saving is not None
    assert (saving.low_share, saving.high_share) == pytest.approx((1.25 / 20, 2.5 / 20))


def test_a_price_weighs_the_rows_that_others_leave(run: Run) -> None:
    """Of 4 ms another rule takes the row of 1 ms, which returns all: the 3 ms that are left return half, and no more."""
    trace = kernels(1, 1, owns=[[10, 11, 12], [13]], name=["gemm", "copy"])
    weight = "CASE WHEN name = 'gemm' THEN 0.5 ELSE 1 END"
    rules = {
        "kernels/rule": {"replay_weight": weight, "yields_to": ["kernels/other"]},
        "kernels/other": {"match_where": "name = 'copy'"},
    }
    (saving,) = (found.saving for found in run(trace, rules).findings if found.rule == "kernels/rule")
    assert saving is not None
    assert (saving.low_share, saving.high_share) == pytest.approx((0.75 / 20, 1.5 / 20))


def test_what_is_not_recorded_is_said_with_how_to_record_it(run: Run) -> None:
    (missing,) = run(kernels(1), {"kernels/rule": {"needs": ["memory", "stacks", "gpu"]}}).verdicts.not_run
    assert missing.needs == ["memory", "stacks"]
    assert missing.how == "Record with profile_memory=True. Record with with_stack=True."


@pytest.mark.parametrize("need", HOW)
def test_every_need_says_what_to_record(need: str) -> None:
    assert HOW[need].endswith(".")
    assert set(HOW) == set(NEEDS)


@pytest.mark.parametrize("needs", [["gpu"], ["idle"], ["gpu", "memory"]])
@pytest.mark.parametrize(("expected", "answer"), [(True, "not_run"), (False, "not_applicable")])
def test_no_gpu_in_the_trace_or_none_in_the_machine(run: Run, needs: list[str], expected: bool, answer: str) -> None:
    """What `given` says of a GPU that was not recorded means nothing."""
    made = Trace(features=frozenset({"host"}), gpu_expected=expected)
    outcome = run(made, {"kernels/rule": {"needs": needs, "given": "vendor = 'amd'"}})
    assert verdict(outcome) == answer
    if expected:
        assert outcome.verdicts.not_run[0].needs == needs
        assert "ProfilerActivity.CUDA" in outcome.verdicts.not_run[0].how


def test_without_the_host_a_loader_may_have_been_missed(run: Run) -> None:
    made = Trace(features=frozenset({"gpu"}))
    assert verdict(run(made, {"kernels/rule": {"needs": ["loader", "host"]}})) == "not_run"


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ("vendor = 'amd'", "asks for vendor = 'amd'; here vendor is nvidia"),
        ("vendor = 'nvidia' AND capability >= 9", "asks for capability >= 9; here capability is 8"),
        ("busy_share > 0.75 AND kernel_count = 0", "asks for busy_share > 0.75; here busy_share is 50 %"),
        ("training AND vendor = 'amd'", "asks for vendor = 'amd'; here vendor is nvidia"),
    ],
)
def test_why_a_rule_does_not_apply(run: Run, given: str, because: str) -> None:
    made = kernels(1)
    made.frames["trace"] = frame("trace", vendor="nvidia", capability=8.0, busy_share=0.5, rank=pd.NA, world_size=pd.NA)
    (said,) = run(made, {"kernels/rule": {"given": given}}).verdicts.not_applicable
    assert said.because == because


@pytest.mark.parametrize(
    ("given", "unknown"),
    [("rank > 0 OR world_size > 1", ["rank", "world_size"]), ("vendor = 'nvidia' AND rank > 0", ["rank"])],
)
def test_what_the_trace_does_not_say_is_not_called_inapplicable(run: Run, given: str, unknown: list[str]) -> None:
    made = kernels(1)
    made.frames["trace"] = frame("trace", vendor="nvidia", rank=pd.NA, world_size=pd.NA)
    (said,) = run(made, {"kernels/rule": {"given": given}}).verdicts.not_run
    assert said.needs == unknown
    assert "does not say" in said.how


# ---- errors stay with their rule

FAILS = "CAST({} AS BIGINT) >= 0"  # on the data only, which no check without data can see


def test_an_error_in_one_rule_leaves_the_others_alone(run: Run) -> None:
    made = kernels(1, 2, name=["sgemm", "sgemm"])
    made.frames["trace"] = frame("trace", window_ns=9, vendor="nvidia")
    rules = {
        "kernels/bad-given": {"given": FAILS.format("vendor")},
        "kernels/bad-when": {"match_when": FAILS.format("vendor")},
        "kernels/bad-where": {"match_where": FAILS.format("name")},
        "kernels/bad-having": {"match_having": FAILS.format("max(name)")},
        "kernels/good": {"match_where": "dur_ns > 0", "match_having": "count(*) > 0", "match_when": "window_ns = 9"},
    }
    outcome = run(made, rules)
    assert [found.rule for found in outcome.findings] == ["kernels/good"]
    messages = {failure.rule: failure.message for failure in outcome.verdicts.error}
    for rule, key in (("given", "given"), *((name, f"match.{name}") for name in ("when", "where", "having"))):
        assert messages.pop(f"kernels/bad-{rule}").startswith(f"{key}: ")
    assert not messages


def test_a_frame_that_cannot_be_built_is_an_error_of_its_rules(run: Run) -> None:
    made = kernels(1, 2)
    made.frames["copies"] = ValueError("two\nlines")
    outcome = run(made, {"kernels/rule": {}, "copies/rule": {"match_frame": "copies", "match_where": "bytes > 0"}})
    assert verdict(outcome) == "fires"
    (failure,) = outcome.verdicts.error
    assert (failure.rule, failure.message) == ("copies/rule", "match.where: ValueError: two lines")


def test_rows_that_could_not_be_found_are_an_error_of_the_rules_that_ask_for_them(run: Run) -> None:
    made = kernels(1, 2, name=["sgemm", "sgemm"])
    made.lacking["kernels"] = {"softmax": IndexError("no such row")}
    outcome = run(
        made,
        {
            "kernels/rule": {"match_where": "name = 'sgemm'"},
            "kernels/asks": {"match_where": "name = 'softmax'"},
            "kernels/every": {"match_where": "dur_ns > 0"},
        },
    )
    assert verdict(outcome) == "fires"
    assert [(failure.rule, failure.message) for failure in outcome.verdicts.error] == [
        ("kernels/asks", "match.where: IndexError: no such row"),
        ("kernels/every", "match.where: IndexError: no such row"),
    ]


def test_without_the_frame_trace_only_rules_that_ask_it_fail(run: Run) -> None:
    made = kernels(1, 2)
    made.frames["trace"] = ValueError("broken")
    outcome = run(made, {"kernels/rule": {}, "kernels/asks": {"given": "window_ns > 0"}})
    assert (verdict(outcome), verdict(outcome, "kernels/asks")) == ("fires", "error")


def test_a_column_that_is_missing_is_named(run: Run) -> None:
    made = kernels(1, 2)
    made.frames["kernels"] = made.frames["kernels"].drop(columns="bytes", errors="ignore").drop(columns="registers")
    outcome = run(made, {"kernels/rule": {}, "kernels/asks": {"match_where": "registers > 0"}})
    assert verdict(outcome) == "fires"
    assert outcome.verdicts.error[0].message == "match.where: frame 'kernels' lacks registers"


def test_claims_that_fail_are_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernels(1, 2)
    monkeypatch.setattr(made, "claims", lambda *_: 1 / 0, raising=False)
    outcome = run(made)
    assert outcome.verdicts.error[0].message == "cost: ZeroDivisionError: division by zero"


def test_evidence_that_fails_leaves_the_finding(run: Run) -> None:
    item = FAILS.format("max(name)") + " AS x"
    outcome = run(kernels(1, name=["sgemm"]), {"kernels/rule": {"match_evidence": [item]}})
    assert finding(outcome).evidence.rows == []
    assert outcome.verdicts.error[0].message.startswith("match.evidence: ")


def test_time_runs_out_at_last(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "TOTAL_SECONDS", 0.0)
    outcome = run(kernels(1), {"kernels/rule": {"match_where": "dur_ns > 0"}})
    assert "ran out of time" in outcome.verdicts.error[0].message


def test_a_slow_condition_is_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand names of 400 letters take longer than 10 ms; the rule beside them is judged all the same."""
    monkeypatch.setattr(evaluation, "QUERY_SECONDS", 0.01)
    rows = 100_000
    table = frame("kernels", 1, step=1)
    made = Trace(frames={"kernels": table.loc[np.zeros(rows, np.int64)].reset_index(drop=True)})
    made.frames["kernels"]["name"] = ["ab" * 200 + str(index) for index in range(rows)]
    rules = {
        "kernels/slow": {"match_where": "regexp_matches(name, '(a|ab)*[cd](x|y){50}')", **RISK},
        "sync/rule": {"match_frame": "syncs", "match_where": "kind = 'scalar'"},
    }
    outcome = run(made, rules)
    assert [failure.rule for failure in outcome.verdicts.error] == ["kernels/slow"]
    assert "took longer than" in outcome.verdicts.error[0].message
    assert outcome.verdicts.passes == ["sync/rule"]


# ---- the quality of the profile

PROFILE: dict[str, Any] = {
    "match": {"frame": "trace", "where": "overhead_share > 0.05"},
    "levels": None,
    "replay": None,
    "fix": {"title": "Record less", "caveat": "Stacks cost most."},
}


@pytest.mark.parametrize(
    ("changes", "message", "advice"),
    [
        ({}, "About profile/rule (overhead 12 %)", "Record less. Stacks cost most."),
        ({"title": "{overhead_share:.1%} lost of {window_ns}"}, "12.3 % lost of 30 ms", None),
        ({"title": "Steps: {has_steps}, rank {rank}, on {vendor}"}, "Steps: no, rank unknown, on nvidia", None),
        ({"match_where": "NOT has_steps", "title": "No steps"}, "No steps", None),
        ({"match_when": "idle_ns > 1"}, "About profile/rule (idle 2 ms, overhead 12 %)", None),
        ({"fix": {"title": "Try again", "verify": "it is gone"}}, None, "Try again. Check that it is gone."),
    ],
)
def test_a_profile_rule_is_a_note_on_quality(
    run: Run, changes: dict[str, Any], message: str | None, advice: str | None
) -> None:
    facts = {"vendor": "nvidia", "overhead_share": 0.123, "window_ns": 30 * MS, "idle_ns": 2 * MS, "has_steps": False}
    made = Trace(frames={"trace": frame("trace", **facts, rank=pd.NA)})
    rule = json.loads(json.dumps(PROFILE)) | {"match": dict(PROFILE["match"])}
    outcome = run(made, {"profile/rule": rule | changes})
    assert (outcome.findings, verdict(outcome, "profile/rule")) == ([], "noted")
    (note,) = outcome.quality
    assert note.code == "rule"
    assert message is None or note.message == message
    assert advice is None or note.advice == advice


def test_a_profile_rule_that_sees_nothing_passes(run: Run) -> None:
    made = Trace(frames={"trace": frame("trace", overhead_share=0.01)})
    outcome = run(made, {"profile/rule": PROFILE})
    assert (outcome.quality, verdict(outcome, "profile/rule")) == ([], "passes")


# ---- the whole


def test_rules_are_chosen_by_glob(run: Run) -> None:
    rules: dict[str, dict[str, Any]] = {"kernels/a": {}, "kernels/b": {}, "sync/a": {}}
    outcome = run(kernels(1), rules, only=["kernels/*"], skip=["*/b"])
    assert [found.rule for found in outcome.findings] == ["kernels/a"]
    assert outcome.verdicts == Verdicts(passes=[], not_applicable=[], not_run=[], error=[])


def test_the_order_of_rows_changes_nothing(run: Run) -> None:
    generator = np.random.default_rng(1)
    costs = generator.permutation(40) * 1000
    steps = generator.integers(0, 3, 40)
    owns = [[int(10 * step + generator.integers(10))] for step in steps]
    names = [f"k{index % 7}" for index in range(40)]
    rules = {
        "kernels/a": {"match_where": "name IN ('k1', 'k2', 'k3')", "match_having": "count(*) > 3"},
        "kernels/b": {"yields_to": ["kernels/a"], "match_evidence": ["name", "count(*) AS n"]},
    }
    outcomes = []
    for order in (np.arange(40), generator.permutation(40)):
        made = kernels(
            *steps[order],
            owns=[owns[index] for index in order],
            name=[names[index] for index in order],
            cost_ns=costs[order],
            file=[f"f{index % 3}.py" for index in order],
            line=[index % 5 for index in order],
        )
        outcomes.append(run(made, rules))
    assert outcomes[0].findings == outcomes[1].findings
    assert len(outcomes[0].findings) == 2


def test_findings_go_to_json_and_back(run: Run) -> None:
    found = run(kernels(1, 2, file=["a.py"] * 2, line=[7, 8])).findings
    assert msgspec.json.decode(msgspec.json.encode(found), type=list[Finding]) == found


def test_matches_hold_the_rows_and_segments_of_each_finding(run: Run) -> None:
    outcome = run(kernels(0, 1, 2))
    match = outcome.matches["kernels/rule"]
    assert match.rows.tolist() == [False, True, True]
    assert match.segments.tolist() == [10, 20]


@pytest.mark.real
@pytest.mark.parametrize(
    "name",
    [
        "h100_bert_small",
        "v100_resnet50_workers0",
        "a100_host_only",
        "cpu_only",
        "mi210_gpu_only",
        "a100_copies_pageable",
    ],
)
def test_the_rules_that_ship_run_on_real_traces(name: str) -> None:
    made = trace(name)
    book = rulebook.load([rulebook.builtin_rules_dir()])
    outcome = engine.run(made, book)
    assert outcome.verdicts.error == []
    whole = made.step_ms or made.window_ns / 1e6
    assert sum(found.saving.high_ms for found in outcome.findings if found.saving) <= whole * (1 + 1e-12)
    assert all(found.evidence.rows for found in outcome.findings)
    counted = len(outcome.findings) + sum(
        len(getattr(outcome.verdicts, kind)) for kind in outcome.verdicts.__struct_fields__
    )
    assert len(outcome.verdicts.noted) == len(outcome.quality)
    assert counted == len(book.rules)


def test_a_place_knows_the_module_around_all_that_lies_there() -> None:
    """Two layers of one block at a line, 60 and 39 of 100: the block is around both. A head with 5 more would leave the model."""
    rows = [
        ("run.py", 7, "main", None, "Encoder_0/Block_1/Linear_0", "aten::mm", 60.0),
        ("run.py", 7, "main", None, "Encoder_0/Block_1/Norm_0", "aten::add", 39.0),
        ("run.py", 7, "main", None, None, "aten::add", 1.0),
    ]
    columns = ["file", "line", "function", "library", "module", "op", "ns"]
    (place,) = places(Columns.of_pandas(pd.DataFrame(rows, columns=columns)), np.ones(3, np.bool_), "ns")
    assert (place.module, place.within) == (None, "Encoder_0/Block_1")
    more = [*rows, ("run.py", 7, "main", None, "Head_0", "aten::mm", 30.0)]
    (place,) = places(Columns.of_pandas(pd.DataFrame(more, columns=columns)), np.ones(4, np.bool_), "ns")
    assert (place.module, place.within) == (None, None)


def test_a_place_names_the_library_s_lines_that_its_cost_lies_in() -> None:
    """One line of the user's calls three of a library's with 50, 30 and 16 of 100, and one with too little."""
    rows = [
        ("run.py", 7, "main", f"hub/hooks.py:{line} call", None, None, cost)
        for line, cost in ((3, 30.0), (5, 20.0), (5, 30.0), (9, 16.0), (11, 4.0))
    ]
    columns = ["file", "line", "function", "library", "module", "op", "ns"]
    (place,) = places(Columns.of_pandas(pd.DataFrame(rows, columns=columns)), np.ones(5, np.bool_), "ns")
    assert place.library is None
    assert [(part.library, round(part.share, 2)) for part in place.through] == [
        ("hub/hooks.py:5 call", 0.5), ("hub/hooks.py:3 call", 0.3), ("hub/hooks.py:9 call", 0.16),
    ]  # fmt: skip
    (place,) = places(Columns.of_pandas(pd.DataFrame(rows[1:3], columns=columns)), np.ones(2, np.bool_), "ns")
    assert (place.library, place.through) == ("hub/hooks.py:5 call", [])
    nowhere = [(None, None, None, *row[3:]) for row in rows]
    frame = Columns.of_pandas(pd.DataFrame(nowhere, columns=columns).astype({"line": "Int64"}))
    assert all(not one.through for one in places(frame, np.ones(5, np.bool_), "ns"))
