"""Verdicts, costs and claims, on traces small enough to work out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import advisor
from advisor import engine, rulebook
from advisor.analysis import Finding, Fix
from advisor.engine import Outcome, evaluation
from advisor.engine.claims import Claim, settle
from advisor.frames import SCHEMAS
from advisor.rulebook.rule import NEEDS, Compiled, Match, Replay, Rule

MS = 1_000_000


# ---- a trace made by hand


def frame(name: str, rows: int = 1, /, **columns: Any) -> pd.DataFrame:
    """A frame with every column of its schema: those given, the others unknown."""
    made: dict[str, Any] = {}
    blank = {"VARCHAR": None, "BOOLEAN": None, "DOUBLE": np.nan, "BIGINT": 0}
    for column in SCHEMAS[name].columns:
        values = columns.pop(column.name, blank[column.type])
        values = list(values) if isinstance(values, list | np.ndarray) else [values] * rows
        kind = {"VARCHAR": "category", "BOOLEAN": "boolean", "DOUBLE": "float64", "BIGINT": "Int64"}[column.type]
        made[column.name] = pd.Series(values, dtype=kind)
    assert not columns, f"no such columns: {columns}"
    return pd.DataFrame(made)


@dataclass
class Ledger:
    dur_ns: Any
    step: Any
    counted: Any

    @property
    def counted_ns(self) -> int:
        return int(self.dur_ns[self.counted].sum())


@dataclass
class Trace:
    """Segments of 1 ms, ten a step, three steps; the first is not counted. ``owns`` lists the segments of each row."""

    frames: dict[str, Any] = field(default_factory=dict)
    owns: dict[str, list[list[int]]] = field(default_factory=dict)
    features: frozenset[str] = frozenset({"gpu", "host", "steps", "shapes", "idle"})
    gpu_expected: bool = True
    step_ms: float | None = 10.0

    @property
    def whole_ms(self) -> float:
        return self.step_ms or self.window_ns / 1e6

    step_count: int = 2
    window_ns: int = 30 * MS
    warm_ns: Any = None

    def __post_init__(self) -> None:
        step = np.repeat([0, 1, 2], 10)
        self.ledger = Ledger(np.full(30, MS, np.int64), step, step > 0)
        self.frames.setdefault("trace", frame("trace", vendor="nvidia", capability=8.0, busy_share=0.5))

    def frame(self, name: str) -> pd.DataFrame:
        made = self.frames.get(name, frame(name, 0))
        if isinstance(made, Exception):
            raise made
        return made

    def claims(self, name: str, mask: Any) -> Any:
        owned = self.owns.get(name, [])
        return np.array(sorted({s for row, segments in enumerate(owned) if mask[row] for s in segments}), np.int64)


def kernels(*steps: int, owns: Sequence[Sequence[int]] = (), **columns: Any) -> Trace:
    """A trace of kernels, one a step named, each owning the segments listed for it."""
    owned = [list(segments) for segments in owns] or [[10 * step] for step in steps]
    cost = [MS * len(segments) for segments in owned]
    table = frame("kernels", len(steps), **{"step": list(steps), "cost_ns": cost, "dur_ns": cost, **columns})
    return Trace(frames={"kernels": table}, owns={"kernels": owned})


# ---- rules made by hand


def write(folder: Path, name: str, **changes: Any) -> None:
    """A rule over kernels: all of them matter, from 1 % of the time on. ``match_where`` stands for match.where."""
    parts: dict[str, Any] = {
        "id": name,
        "since": "0.1",
        "title": f"About {name}",
        "why": "because",
        "needs": [],
        "given": "",
        "confidence": "certain",
        "yields_to": [],
        "match": {"frame": "kernels"},
        "levels": {"low": 0.01, "medium": 0.2, "high": 0.4},
        "fix": {"title": "Do it", "effort": "a line", "before": "x", "after": "y", "caveat": "", "verify": "it is so"},
        "replay": {"action": "remove", "low": 0.5, "high": 1.0, "basis": "by hand"},
    }
    for key, value in changes.items():
        head, _, tail = key.partition("_")
        if head in ("match", "fix", "replay") and tail:
            parts[head][tail] = value
        elif value is None:
            parts.pop(key)
        else:
            parts[key] = value
    path = folder / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in parts.items()))


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


RISK: dict[str, Any] = {"levels": None, "replay": None, "severity": "medium"}

Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run(trace, {"a/b": {...}})`` writes those rules and runs them."""

    def go(made: Any, rules: Mapping[str, Mapping[str, Any]] | None = None, **options: Any) -> Outcome:
        for name, changes in (rules or {"kernels/rule": {}}).items():
            write(tmp_path, name, **changes)
        return engine.run(made, rulebook.load([tmp_path]), **options)

    return go


def verdict(outcome: Outcome, rule: str = "kernels/rule") -> str:
    """What the rule came to: exactly one thing."""
    verdicts = outcome.verdicts
    found = {
        "fires": rule in [finding.rule for finding in outcome.findings],
        "passes": rule in verdicts.passes,
        "not_applicable": rule in [given.rule for given in verdicts.not_applicable],
        "not_run": rule in [given.rule for given in verdicts.not_run],
        "error": rule in [given.rule for given in verdicts.error],
    }
    (one,) = [name for name, so in found.items() if so]
    return one


def finding(outcome: Outcome, rule: str = "kernels/rule") -> Finding:
    (found,) = [found for found in outcome.findings if found.rule == rule]
    return found


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
        ({"levels": {"high": 0.1}}, "fires"),
        ({"levels": {"low": 0.11}}, "passes"),
        ({"levels": {"note": 0.09, "low": 0.11}}, "fires"),
        ({"match_frame": "copies"}, "passes"),
        ({"match_where": "CAST(name AS BIGINT) > 0"}, "error"),
    ],
)
def test_what_a_rule_comes_to(run: Run, changes: dict[str, Any], expected: str) -> None:
    assert verdict(run(kernels(0, 1, 2, name=["sgemm"] * 3), {"kernels/rule": changes})) == expected


@pytest.mark.parametrize(("segments", "severity"), [(3, "low"), (4, "medium"), (7, "medium"), (8, "high")])
def test_severity_follows_the_share(run: Run, segments: int, severity: str) -> None:
    """Levels at 1, 20 and 40 % of twenty counted ms: at 0.2, 4 and 8 ms, the level itself included."""
    assert finding(run(kernels(1, owns=[range(10, 10 + segments)]))).severity == severity


def test_what_is_not_recorded_is_said_with_how_to_record_it(run: Run) -> None:
    (missing,) = run(kernels(1), {"kernels/rule": {"needs": ["memory", "stacks", "gpu"]}}).verdicts.not_run
    assert missing.needs == ["memory", "stacks"]
    assert missing.how == "Record with profile_memory=True. Record with with_stack=True."


@pytest.mark.parametrize("need", engine.HOW)
def test_every_need_says_what_to_record(need: str) -> None:
    assert engine.HOW[need].endswith(".")
    assert set(engine.HOW) == set(NEEDS)


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


# ---- who owns what


def test_a_rule_yields_the_time_that_another_owns(run: Run) -> None:
    """Both match all eight counted ms at first; the gaps' rule keeps the two that no kernel row of the other owns."""
    made = kernels(1, owns=[range(10, 16)])
    made.frames["gaps"] = frame("gaps", step=[1], cost_ns=[8 * MS])
    made.owns["gaps"] = [[10, 11, 12, 13, 14, 15, 16, 17]]
    outcome = run(made, {"kernels/rule": {}, "gaps/rule": {"match_frame": "gaps", "yields_to": ["kernels/rule"]}})
    gaps = finding(outcome, "gaps/rule")
    assert (finding(outcome).cost_ms, gaps.cost_ms) == (pytest.approx(3.0), pytest.approx(1.0))
    assert gaps.severity == "low"
    assert gaps.occurrences == 1


def test_a_rule_whose_time_is_all_owned_does_not_apply(run: Run) -> None:
    rules = {"kernels/first": {}, "kernels/second": {"yields_to": ["kernels/first"]}}
    outcome = run(kernels(1, 2), rules)
    assert [found.rule for found in outcome.findings] == ["kernels/first"]
    (said,) = outcome.verdicts.not_applicable
    assert (said.rule, said.because) == ("kernels/second", "its time is already owned by kernels/first")


def test_rows_that_another_rule_owns_are_no_longer_counted(run: Run) -> None:
    rules = {
        "kernels/first": {"match_where": "step = 1"},
        "kernels/second": {"yields_to": ["kernels/first"]},
    }
    outcome = run(kernels(1, 2, 2), rules)
    assert finding(outcome, "kernels/second").occurrences == 2
    assert finding(outcome, "kernels/second").cost_ms == pytest.approx(0.5)  # both kernels of step 2 share a segment


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"match_where": "step = 7"}, "fires"),  # the other passes
        ({"levels": {"high": 0.9}}, "fires"),  # the other is below its levels
        ({"given": "vendor = 'amd'"}, "fires"),  # the other does not apply
        ({}, "not_applicable"),
    ],
)
def test_a_rule_yields_only_to_one_that_fires(run: Run, first: dict[str, Any], second: str) -> None:
    rules = {"kernels/first": first, "kernels/second": {"yields_to": ["kernels/first"]}}
    assert verdict(run(kernels(1, 2), rules), "kernels/second") == second


def test_who_lost_all_owns_nothing_that_others_must_yield(run: Run) -> None:
    """The third yields to the second alone, and the second has lost everything to the first."""
    rules = {
        "kernels/first": {},
        "kernels/second": {"yields_to": ["kernels/first"]},
        "kernels/third": {"yields_to": ["kernels/second"]},
    }
    outcome = run(kernels(1, 2), rules)
    assert [found.rule for found in outcome.findings] == ["kernels/first", "kernels/third"]


def test_a_risk_stands_without_its_time_but_not_without_its_rows(run: Run) -> None:
    made = kernels(1)
    made.frames["gaps"] = frame("gaps", step=[1])
    made.owns["gaps"] = [[10]]
    rules = {
        "kernels/rule": {},
        "gaps/risk": {"match_frame": "gaps", "yields_to": ["kernels/rule"], "levels": None, "severity": "medium"},
        "kernels/risk": {"yields_to": ["kernels/rule"], **RISK},
    }
    outcome = run(made, rules)
    assert finding(outcome, "gaps/risk").cost_ms == 0
    assert finding(outcome, "gaps/risk").saving is None
    assert verdict(outcome, "kernels/risk") == "not_applicable"


def test_a_risk_has_a_severity_and_no_saving(run: Run) -> None:
    made = Trace(frames={"trace": frame("trace", peak_share=0.95)})
    outcome = run(made, {"memory/full": {"match_frame": "trace", "match_where": "peak_share > 0.9", **RISK}})
    found = finding(outcome, "memory/full")
    assert (found.severity, found.cost_ms, found.saving, found.occurrences) == ("medium", 0.0, None, 1)
    assert found.where == []
    assert (found.evidence.columns, found.evidence.rows) == (["peak_share"], [[0.95]])


def test_no_time_is_saved_twice(run: Run) -> None:
    """The likely rule is worth 0.7 of its 4 ms, the certain one its 3: the certain one saves first, and 1 ms is left."""
    made = kernels(1, owns=[range(10, 18)])
    made.frames["gaps"] = frame("gaps", step=[1])
    made.owns["gaps"] = [[10, 11, 12, 13, 14, 15]]
    outcome = run(made, {"kernels/rule": {"confidence": "likely"}, "gaps/rule": {"match_frame": "gaps"}})
    assert [found.rule for found in outcome.findings] == ["gaps/rule", "kernels/rule"]
    first, second = outcome.findings
    assert first.saving is not None
    assert second.saving is not None
    assert (first.saving.high_ms, second.saving.high_ms) == (pytest.approx(3.0), pytest.approx(1.0))
    assert second.cost_ms == pytest.approx(4.0)
    assert second.saving.basis.endswith("; what gaps/rule would save is not counted again")


def test_a_claim_that_others_took_from_is_weighed_again(run: Run) -> None:
    """Copies matched 5 ms, of which kernels save 4: gaps, with 2 ms, come before them to the one that both match."""
    made = Trace()
    owned = {"kernels": range(10, 16), "copies": [12, 13, 14, 15, 16], "gaps": [16, 17]}
    for name, segments in owned.items():
        made.frames[name] = frame(name, step=[1])
        made.owns[name] = [list(segments)]
    outcome = run(made, {f"{name}/rule": {"match_frame": name} for name in owned})
    savings = {found.rule: found.saving.high_ms for found in outcome.findings if found.saving}
    assert savings == {"kernels/rule": pytest.approx(3), "gaps/rule": pytest.approx(1), "copies/rule": 0}


def test_findings_are_ordered_by_what_they_are_worth_and_notes_come_last(run: Run) -> None:
    made = Trace()
    owned = {"kernels": [10, 11], "copies": [12, 13, 14], "gaps": [15], "syncs": [16], "loader": range(17, 20)}
    for name, segments in owned.items():
        made.frames[name] = frame(name, step=[1])
        made.owns[name] = [list(segments)]
    rules: dict[str, dict[str, Any]] = {f"{name}/rule": {"match_frame": name} for name in owned}
    rules["copies/rule"]["confidence"] = "possible"  # 0.4 of 1.5 ms
    rules["syncs/rule"] |= {"replay": None, "levels": None, "severity": "high"}
    rules["gaps/rule"] |= {"replay": None, "levels": None, "severity": "high", "confidence": "possible"}
    rules["loader/rule"]["levels"] = {"note": 0.01}
    found = [finding.rule for finding in run(made, rules).findings]
    assert found == ["kernels/rule", "copies/rule", "gaps/rule", "syncs/rule", "loader/rule"]


RULE = Rule(
    **dict.fromkeys(("since", "title", "why", "given", "replaces", "path"), ""),  # type: ignore[arg-type]
    id="a/b",
    needs=(),
    confidence="certain",
    yields_to=(),
    severity=None,
    match=Match("kernels"),
    limits={},
    levels={"low": 0.05},
    fix=Fix(title="", effort="", before="", after="", caveat="", verify=""),
    replay=None,
    references=(),
    compiled=Compiled(),
)


@st.composite
def contests(draw: st.DrawFn) -> tuple[list[Claim], Any, float]:
    """Rules that match anything at all of up to twelve segments, and yield to any rule before them."""
    lengths = np.array(draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=12)), np.int64)
    claims = []
    for index in range(draw(st.integers(1, 6))):
        low, high = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
        fixed = draw(st.sampled_from([None, "low", "high"]))
        owned = draw(st.sets(st.integers(0, len(lengths) - 1)))
        rule = replace(
            RULE,
            id=f"a/{index}",
            confidence=draw(st.sampled_from(["certain", "likely", "possible"])),
            yields_to=tuple(f"a/{other}" for other in sorted(draw(st.sets(st.integers(0, index)))) if other < index),
            severity=fixed,
            levels={} if fixed else {"low": draw(st.floats(0.001, 1))},
            match=Match(f"frame{index}"),
            replay=draw(st.sampled_from([None, Replay("remove", low, high, "")])),
        )
        claims.append(Claim(rule, np.ones(1, np.bool_), np.array(sorted(owned), np.int64)))
    return claims, lengths, draw(st.floats(0.001, 10**6))


@settings(max_examples=400, deadline=None)
@given(contests())
def test_savings_are_part_of_the_step_whatever_the_rules_match(contest: tuple[list[Claim], Any, float]) -> None:
    matches, lengths, whole_ms = contest
    whole_ns = int(lengths.sum())
    settled = settle(matches, lengths, whole_ns, whole_ms)
    given_by = {match.rule.id: match for match in matches}

    # Every rule comes to one thing.
    everyone = [claim.rule.id for claim in settled.claims] + settled.passes + list(settled.owned)
    assert sorted(everyone) == sorted(given_by)

    savings = [claim.saving for claim in settled.claims if claim.saving]
    assert sum(saving.high_ms for saving in savings) <= whole_ms * (1 + 1e-12)
    by_id = {claim.rule.id: claim for claim in settled.claims}
    for claim in settled.claims:
        assert set(claim.segments) <= set(given_by[claim.rule.id].segments)
        assert claim.cost_ns == lengths[claim.segments].sum()
        assert claim.severity == (claim.rule.severity or "low")
        if not claim.rule.severity:
            assert claim.cost_ns / whole_ns >= claim.rule.levels["low"]
        for other in claim.rule.yields_to:
            assert other not in by_id or not set(claim.segments) & set(by_id[other].segments)
        if claim.saving:
            share = claim.cost_ns / whole_ns
            assert 0 <= claim.saving.low_ms <= claim.saving.high_ms <= share * whole_ms * (1 + 1e-12)
            assert claim.saving.high_ms == pytest.approx(claim.saving.high_share * whole_ms)
    # The first to save saves all it can; and what is first is worth most.
    ranks = [claim.rank for claim in settled.claims]
    assert ranks == sorted(ranks, reverse=True)
    if savings and (first := settled.claims[0]).saving and first.rule.replay:
        assert first.saving.high_ms == pytest.approx(first.rule.replay.high * first.cost_ns / whole_ns * whole_ms)


# ---- places and evidence


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
        ({"title": "{overhead_share:.1%} lost of {window_ns}"}, "12.3 % lost of 30.00 ms", None),
        ({"title": "Steps: {has_steps}, rank {rank}, on {vendor}"}, "Steps: no, rank unknown, on nvidia", None),
        ({"match_where": "NOT has_steps", "title": "No steps"}, "No steps", None),
        ({"match_when": "idle_ns > 1"}, "About profile/rule (idle 2.00 ms, overhead 12 %)", None),
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
    assert outcome.findings == []
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
    assert outcome.verdicts == engine.Verdicts(passes=[], not_applicable=[], not_run=[], error=[])


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
def test_the_rules_that_ship_run_on_real_traces(name: str, real: Callable[[str], str]) -> None:
    made = advisor.read(real(f"{name}.json.gz"))
    book = rulebook.load([rulebook.builtin_rules_dir()])
    outcome = engine.run(made, book)
    assert outcome.verdicts.error == []
    whole = made.step_ms or made.window_ns / 1e6
    assert sum(found.saving.high_ms for found in outcome.findings if found.saving) <= whole * (1 + 1e-12)
    assert all(found.evidence.rows for found in outcome.findings)
    counted = (
        len(outcome.findings)
        + len(outcome.quality)
        + sum(len(getattr(outcome.verdicts, kind)) for kind in ("passes", "not_applicable", "not_run", "error"))
    )
    assert counted == len(book.rules)
