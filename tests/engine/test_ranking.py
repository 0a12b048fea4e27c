"""Severity and order follow the price: by hand, and on every real trace."""

from __future__ import annotations

import msgspec
import pytest
from support.analyses import analysis as made
from support.analyses import finding
from support.prices import owned_ms
from support.real import AUDITED, NAMES
from support.traces import analysis as analyzed
from support.traces import rules

from advisor.engine import ranking
from advisor.engine.ranking import Standing, arrange, falling, severity_of
from advisor.report import Options, render
from advisor.results.analysis import Analysis, Finding, Saving
from advisor.results.decision import reaching
from advisor.rulebook.rule import Match, Replay, Rule, RuleFile

LEVELS = {"low": 0.01, "medium": 0.03, "high": 0.10}
ORDER = ("note", "low", "medium", "high")


def rule(name: str, **changes: object) -> Rule:
    fields = {
        "id": name, "since": "", "title": "", "why": "", "confidence": "certain", "match": Match("kernels"),
        "levels": LEVELS, "fix": None, "replay": Replay("remove", 0.5, 1.0, "by hand"),
    }  # fmt: skip
    return Rule(**{**fields, **changes})  # type: ignore[arg-type]


def found(name: str, share: float | None, *, cost: float = 0.5, **changes: object) -> Finding:
    """A finding whose fix returns *share* of the step, to the ms."""
    saving = None if share is None else Saving(low_ms=share, high_ms=share, low_share=share, high_share=share, basis="")
    return finding(name, saving=saving, cost_share=cost, cost_ms=cost, **{"confidence": "certain", **changes})


@pytest.mark.parametrize(
    ("changes", "middle", "severity"),
    [
        ({}, 0.10, "high"),
        ({}, 0.099, "medium"),
        ({}, 0.03, "medium"),
        ({}, 0.01, "low"),
        ({}, 0.009, "note"),
        # A rule that is named from 2 % on, and returns 1.5 beside others.
        ({"levels": {"low": 0.02, "medium": 0.03}}, 0.015, "low"),
        ({"levels": {"low": 0.02, "medium": 0.03}}, 0.5, "medium"),
        ({"levels": {}, "severity": "high", "replay": None}, 0.5, "medium"),  # no price: at most medium
        ({"levels": {}, "severity": "low", "replay": None}, 0.5, "low"),
        ({"levels": {}, "severity": "low"}, 0.04, "medium"),  # a risk whose fix returns time as well
        ({"levels": {}, "severity": "medium"}, 0.01, "medium"),
        ({"levels": {}, "severity": "low", "replay": Replay("batch", 0.5, 0.8, "")}, 0.5, "low"),
    ],
)
def test_severity_is_read_off_the_middle_of_the_saving(
    changes: dict[str, object], middle: float, severity: str
) -> None:
    assert severity_of(rule("a/b", **changes), middle) == severity


def test_of_two_that_are_worth_about_the_same_the_surer_comes_first() -> None:
    likely, certain = rule("a/likely", confidence="likely"), rule("a/certain")
    # 6 % times 0.7 is 4.2 %, and 3.4 %: both between 1/32 and 1/16. Of 10 %, 7 % are not.
    assert ranking.place(certain, 0.034) > ranking.place(likely, 0.06)
    assert ranking.place(certain, 0.034) < ranking.place(likely, 0.10)


@pytest.mark.parametrize(
    ("other", "worth", "defers"),
    [
        ({"confidence": "likely"}, 0.05, True),
        ({"confidence": "likely"}, 0.039, False),  # 0.06 is more than one and a half times as much
        ({"confidence": "possible"}, 0.06, False),  # no surer
        ({"confidence": "certain", "inexact": True}, 0.06, False),  # coarser numbers as well
        ({"confidence": "certain", "replay": Replay("batch", 0.5, 0.8, "")}, 0.06, False),
    ],
)
def test_what_is_only_possible_leaves_the_lead_to_something_surer_of_about_its_worth(
    other: dict[str, object], worth: float, defers: bool
) -> None:
    assert ranking.defers(rule("a/b", confidence="possible"), 0.06, rule("c/d", **other), worth) is defers
    assert not ranking.defers(rule("a/b", confidence="likely"), 0.06, rule("c/d", **other), worth)


def test_what_returns_nothing_alone_is_at_most_medium() -> None:
    first, second = found("a/first", 0.3), found("a/second", 0.2)
    assert second.saving is not None
    waits = msgspec.structs.replace(second.saving, alone_ms={"low": 0.0, "high": 0.0})
    claims = {name: Standing(rule(name)) for name in ("a/first", "a/second")}
    for saving, severity in ((second.saving, "high"), (waits, "medium")):
        arranged = arrange([first, msgspec.structs.replace(second, saving=saving)], claims, list(claims))
        assert [one.severity for one in arranged] == ["high", severity]


def test_severities_never_rise() -> None:
    assert falling(["high", "medium", "high", "low", "medium", "note"]) == [
        "high", "medium", "medium", "low", "low", "note",
    ]  # fmt: skip


def test_findings_are_arranged_by_what_they_return_and_those_that_return_nothing_stand_last() -> None:
    book = {
        "a/first": rule("a/first"),
        "a/risk": rule("a/risk", levels={}, severity="high", replay=None),
        "a/second": rule("a/second"),
        "a/batch": rule("a/batch", levels={}, severity="low", replay=Replay("batch", 0.5, 0.8, "")),
        "a/note": rule("a/note", levels={"note": 0.001, "low": 0.01}),
        "a/spent": rule("a/spent"),
    }
    findings = [
        found("a/spent", None, after=["a/first"]),
        found("a/note", 0.002),
        found("a/batch", 0.3),
        found("a/second", 0.04),
        found("a/risk", None, cost=0.08),
        found("a/first", 0.2),
    ]
    claims = {name: Standing(one) for name, one in book.items()}
    arranged = arrange(findings, claims, ["a/first", "a/second", "a/batch", "a/note"])
    assert [(one.rule, one.severity) for one in arranged] == [
        ("a/first", "high"),
        ("a/second", "medium"),
        ("a/risk", "medium"),  # no price: the last of its severity, though its cost of 8 % is more than 4
        ("a/batch", "low"),
        ("a/note", "note"),
        ("a/spent", "note"),
    ]


def test_what_has_no_price_stands_first_only_before_notes() -> None:
    book = [
        rule("a/risk", levels={}, severity="medium", replay=None),
        rule("a/priced"),
        rule("a/note", levels={"note": 0.001, "low": 0.01}),
    ]
    claims = {one.id: Standing(one) for one in book}
    risk, note = found("a/risk", None, cost=0.5), found("a/note", 0.002)
    arranged = arrange([risk, found("a/priced", 0.02), note], claims, ["a/priced", "a/note"])
    # 2 % is low, and what stands behind it is no more.
    assert [(one.rule, one.severity) for one in arranged] == [
        ("a/priced", "low"),
        ("a/risk", "low"),
        ("a/note", "note"),
    ]
    assert [one.rule for one in arrange([risk, note], claims, ["a/note"])] == ["a/risk", "a/note"]


def test_a_finding_whose_saving_was_cut_is_ranked_anew() -> None:
    findings = [found("a/first", 0.0001), found("a/second", 0.02)]
    second, first = ranking.rearrange(findings, [rule("a/first"), rule("a/second")])
    assert (second.rule, second.severity) == ("a/second", "low")
    assert (first.rule, first.severity, first.saving, first.after) == ("a/first", "note", None, [])


def text_of(result: Analysis) -> str:
    return "".join(str(render(form, result, Options(verbosity=1))) for form in ("text", "markdown"))


@pytest.mark.real
@pytest.mark.parametrize("name", [name.removesuffix(".json.gz") for name in (*NAMES, *AUDITED)])
def test_order_severity_and_price_agree_on_real_traces(name: str) -> None:
    result = analyzed(name)
    whole = result.summary.whole_ms  # of steady work, which prices are of
    known: dict[str, RuleFile] = {one.id: one for one in rules().rules}
    severities = [ORDER.index(one.severity) for one in result.findings]
    assert severities == sorted(severities, reverse=True)
    for one in result.findings:
        replay = known[one.rule].replay
        if one.saving is None:
            continue
        assert replay is not None
        assert 0 <= one.saving.low_ms <= one.saving.high_ms
        assert one.saving.high_ms >= ranking.LEAST * whole
        assert one.saving.low_ms <= owned_ms(one, result.findings) * (1 + 1e-9)
        if replay.action != "batch":
            assert one.saving.high_ms <= owned_ms(one, result.findings) * (1 + 1e-9)
        if one.severity == "high":
            assert (one.saving.low_share + one.saving.high_share) / 2 > 0.001
    assert sum(one.saving.high_ms for one in result.findings if one.saving) <= whole * (1 + 1e-9)
    planned = [step.rules[0] for step in result.plan]
    # What is worth a note is no step of the plan.
    assert not planned or planned == [one.rule for one in result.findings if one.saving and one.severity != "note"]
    # A change stands once: findings that it does too are named with it, and have no price of their own.
    also = {rule: step.rules[0] for step in result.plan for rule in step.rules[1:]}
    assert not planned or also == {one.rule: one.done_by for one in result.findings if one.done_by}
    for step in result.plan:
        assert step.speedup_low is not None
        assert 1 <= step.speedup_low <= step.speedup
    assert "saves up to 0" not in text_of(result)


@pytest.mark.parametrize(
    ("share", "level", "reached"), [(0.2, "high", True), (0.05, "high", False), (0.05, "medium", True)]
)
def test_fail_on_compares_severities_as_shown(share: float, level: str, reached: bool) -> None:
    """A severity by what the fix returns, not by the half of the step that it costs; a note where nothing is left of it."""
    book = {name: Standing(rule(name)) for name in ("a/first", "a/spent")}
    shown = arrange([found("a/first", share), found("a/spent", None, after=["a/first"])], book, ["a/first"])
    assert bool(reaching(made(*shown), level)) is reached
    assert not reaching(made(shown[1]), "low")


def test_fields_of_older_analyses_may_be_missing() -> None:
    made = msgspec.to_builtins(found("a/b", 0.1))
    del made["after"]
    assert msgspec.convert(made, Finding).after is None
