"""Who owns what: rules that match the same time do not both claim it, and none is saved twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.engine_world import MS, RISK, Run, Trace, finding, frame, kernels, runner, verdict

from advisor.engine.claims import Claim, priced, settle
from advisor.rulebook.rule import Action, Compiled, Fix, Match, Replay, Rule


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


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


@pytest.mark.parametrize(("taken", "stands"), [(3, True), (4, False), (5, False)])
def test_a_rule_that_keeps_most_of_its_time_still_speaks_of_it(run: Run, taken: int, stands: bool) -> None:
    """Eight segments of half a counted ms each are 50 % of the time and reach the level of 40 %; five are 31 % and do not."""
    made = kernels(1, owns=[range(10, 10 + taken)])
    made.frames["gaps"] = frame("gaps", step=[1], cost_ns=[8 * MS])
    made.owns["gaps"] = [[10, 11, 12, 13, 14, 15, 16, 17]]
    gaps = {"match_frame": "gaps", "levels": {"low": 0.4}, "yields_to": ["kernels/rule"], "replay": None}
    outcome = run(made, {"kernels/rule": {}, "gaps/rule": gaps})
    assert verdict(outcome, "gaps/rule") == ("fires" if stands else "not_applicable")
    if stands:
        found = finding(outcome, "gaps/rule")
        assert (found.severity, found.cost_ms) == ("low", pytest.approx(2.5))


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
    assert savings == {"kernels/rule": pytest.approx(3), "gaps/rule": pytest.approx(1)}
    # Nothing is left of the copies, and that is no price of 0: it is said after whom.
    assert finding(outcome, "copies/rule").saving is None
    assert finding(outcome, "copies/rule").after == ["gaps/rule", "kernels/rule"]


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
    # Each segment is 5 % of the time, of which 3.75 come back: 7.5 of the kernels; 11.25 of the copies, which weigh 0.4 of that.
    # Without a price the cost counts: 5 for syncs, and 0.4 of that for gaps. The loader's 11.25 are a note.
    # Those two are medium by themselves, before what is low; the first with a price stands first all the same.
    assert found == ["kernels/rule", "syncs/rule", "gaps/rule", "copies/rule", "loader/rule"]
    # None is more severe than one before it: without a price it is medium at most, and the kernels' 7.5 % are low.
    assert [finding.severity for finding in run(made, rules).findings] == ["low", "low", "low", "low", "note"]


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


def claim_of(name: str, action: Action, returns: float, segments: Sequence[int], *, sure: bool = True) -> Claim:
    """A claim on some segments of which its fix returns a part, neither more nor less."""
    rule = msgspec.structs.replace(
        RULE, id=f"a/{name}", confidence="certain" if sure else "likely", replay=Replay(action, returns, returns, "")
    )
    owned = np.array(segments, np.int64)
    return Claim(rule, np.ones(1, np.bool_), owned, cost_ns=len(segments) * MS)


def saved(*claims: Claim) -> list[float | None]:
    """What each saves of ten segments of 1 ms."""
    return [claim.saving and claim.saving.high_ms for claim in priced(claims, np.full(10, MS, np.int64), 10 * MS, 10.0)]


def test_work_that_is_done_twice_goes_with_what_padding_leaves_of_it() -> None:
    """All ten ms become 5, the two that are done again among them: of those one is left."""
    padding, again = claim_of("padding", "scale", 0.5, range(10)), claim_of("again", "remove", 1.0, [3, 4])
    assert saved(padding, again) == [pytest.approx(5.0), pytest.approx(1.0)]
    (second,) = (
        c for c in priced([padding, again], np.full(10, MS, np.int64), 10 * MS, 10.0) if c.rule.id == "a/again"
    )
    assert second.saving is not None
    assert second.saving.alone_ms == {"low": pytest.approx(2.0), "high": pytest.approx(2.0)}


def test_what_no_finding_owns_is_not_returned_by_one_fix_after_the_other() -> None:
    """Of ten ms one is nobody's. With times up to 2.5 x 18 % too low six return 6 x 1.45 = 8.7 ms, three half of the 1.3 left."""
    claims = [claim_of("first", "remove", 1.0, range(6)), claim_of("second", "remove", 1.0, range(6, 9))]
    highs = [
        claim.saving and claim.saving.high_ms
        for claim in priced(claims, np.full(10, MS, np.int64), 10 * MS, 10.0, error=0.18)
    ]
    assert highs == [pytest.approx(8.7), pytest.approx(0.65)]


def test_two_ways_to_make_the_same_work_shorter_are_not_added_up() -> None:
    assert saved(claim_of("one", "scale", 0.5, range(10)), claim_of("two", "scale", 0.4, range(10))) == [5.0, None]


def test_what_is_gone_for_a_part_is_not_taken_again() -> None:
    """A loop that is compiled keeps some of its time in Python; the second removal is of operators, which went first."""
    assert saved(claim_of("loop", "merge", 0.8, range(10)), claim_of("again", "remove", 1.0, [3, 4])) == [8.0, None]


def test_what_can_go_need_not_be_made_faster() -> None:
    """Quantiles in each step: sorting less returns 3 ms for sure, leaving them out 8 of the 9, likely."""
    faster = claim_of("faster", "scale", 0.375, range(8))
    gone = claim_of("gone", "remove", 8 / 9, range(9), sure=False)
    assert saved(faster, gone) == [None, pytest.approx(8.0)]


def test_what_goes_with_little_of_another_comes_behind_it() -> None:
    """A removal that takes half of what the other shortens is no reason to leave that out."""
    assert saved(claim_of("faster", "scale", 0.9, range(8)), claim_of("gone", "remove", 1.0, range(4))) == [
        pytest.approx(7.2),
        pytest.approx(0.4),
    ]


@st.composite
def contests(draw: st.DrawFn) -> tuple[list[Claim], Any, float]:
    """Rules that match anything at all of up to twelve segments, and yield to any rule before them."""
    lengths = np.array(draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=12)), np.int64)
    claims = []
    for index in range(draw(st.integers(1, 6))):
        low, high = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
        fixed = draw(st.sampled_from([None, "low", "high"]))
        owned = draw(st.sets(st.integers(0, len(lengths) - 1)))
        rule = msgspec.structs.replace(
            RULE,
            id=f"a/{index}",
            confidence=draw(st.sampled_from(["certain", "likely", "possible"])),
            yields_to=tuple(f"a/{other}" for other in sorted(draw(st.sets(st.integers(0, index)))) if other < index),
            severity=fixed,
            levels={} if fixed else {"low": draw(st.floats(0.001, 1))},
            match=Match(f"frame{index}"),
            replay=draw(
                st.sampled_from([None, *(Replay(action, low, high, "") for action in ("remove", "scale", "merge"))])
            ),
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
        if not claim.rule.severity:
            alone = claim.after is None and claim.saving is not None
            middle = (claim.saving.low_share + claim.saving.high_share) / 2 if claim.saving else 0.0
            least = min(claim.rule.levels["low"], 0.01)
            assert claim.severity == ("low" if alone and middle >= least else "note") or not claim.rule.replay
            middle = (claim.rule.replay.low + claim.rule.replay.high) / 2 if claim.rule.replay else 1.0
            alone = int(lengths[given_by[claim.rule.id].segments].sum())
            kept = middle * claim.cost_ns / whole_ns >= 0.01 and claim.cost_ns > alone / 2
            at = alone if kept else claim.cost_ns  # what fired alone and keeps most of its time stays
            assert middle * at / whole_ns >= claim.rule.levels["low"] * (1 - 1e-12)  # a product and a quotient round
        for other in claim.rule.yields_to:
            assert other not in by_id or not set(claim.segments) & set(by_id[other].segments)
        if claim.saving:
            share = claim.cost_ns / whole_ns
            assert 0 <= claim.saving.low_ms <= claim.saving.high_ms <= share * whole_ms * (1 + 1e-12)
            assert claim.saving.high_ms == pytest.approx(claim.saving.high_share * whole_ms)
    # The first to save saves all it can; and what is first is worth most.
    ranks = [claim.rank for claim in settled.claims if claim.after is None]
    assert all(claim.after is not None for claim in settled.claims[len(ranks) :])
    assert ranks == sorted(ranks, reverse=True)
    if savings and (first := settled.claims[0]).saving and first.rule.replay:
        assert first.saving.high_ms == pytest.approx(first.rule.replay.high * first.cost_ns / whole_ns * whole_ms)


@pytest.mark.parametrize(
    ("gone", "same", "high_ms"),
    [
        (1.0, False, None),  # nothing is left that could be given back
        (0.5, False, 0.3),  # half of it
        (1.0, True, 0.6),  # one change does away with both, and returns them once
    ],
)
def test_what_is_behind_operators_goes_with_them(gone: float, same: bool, high_ms: float | None) -> None:
    """Six ms of operators, and two in which what they made is given back, 30 % of them worth it: a fix takes a part of the six."""
    acts = frozenset({"move"})
    first = replace(claim_of("operators", "scale", gone, range(6)), acts=acts)
    memory = replace(
        claim_of("memory", "scale", 0.3, range(8), sure=False),
        behind=(np.repeat([6, 7], 6), np.tile(np.arange(6), 2)),
        acts=acts if same else frozenset(),
    )
    second = priced([first, memory], np.full(10, MS, np.int64), 10 * MS, 10.0)[1]
    assert (second.saving and second.saving.high_ms) == (None if high_ms is None else pytest.approx(high_ms))
    assert second.after == (("a/operators",) if high_ms is None else None)
