"""Every rule that ships has a whole proof, and all of it holds; no rule's advice goes without its parts."""

from __future__ import annotations

import pytest
from support.paths import ROOT

from advisor import rulebook
from advisor.rulebook import Rule
from advisor.testing.proof import SUFFIX, cases, edge, fires, lacks, quiet
from advisor.testing.runner import missing, prove

BOOK = rulebook.load([ROOT / "rules"])


@pytest.mark.parametrize("rule", BOOK.rules, ids=lambda rule: rule.id)
def test_the_proof_holds(rule: Rule) -> None:
    results = prove(rule, BOOK)
    assert [f"{result.kind}: {result.name}: {result.problem}" for result in results if result.problem] == []


def test_every_proof_is_of_a_rule() -> None:
    proofs = {
        str(path.relative_to(ROOT / "rules")).removesuffix(SUFFIX) for path in (ROOT / "rules").rglob(f"*{SUFFIX}")
    }
    assert proofs == {rule.id for rule in BOOK.rules}


@pytest.mark.parametrize("rule", BOOK.rules, ids=lambda rule: rule.id)
def test_the_card_has_all_its_parts(rule: Rule) -> None:
    assert len(rule.why.split()) >= 20
    assert all(limit.unit and limit.basis for limit in rule.limits.values())
    if not rule.is_profile:
        assert rule.references, "references"
        by_rows = any(fix.rows for fix in rule.variants)
        for fix in rule.variants:
            # Of rules that choose a fix by the rows alone, some have no code: none would fit all operators of the kind.
            assert fix.before.strip() != fix.after.strip() or (by_rows and not fix.before and not fix.after)
            assert fix.caveat
            assert fix.verify


def test_a_proof_without_one_kind_of_case_is_not_whole(tmp_path: object) -> None:
    rule = next(rule for rule in BOOK.rules if rule.id == "transfer/pageable-copy")

    @fires()
    def one() -> None: ...
    @quiet
    def two() -> None: ...

    from advisor.testing.proof import _MARK

    found = [getattr(build, _MARK) for build in (one, two)]
    assert missing(rule, found) == [
        "has no case of @edge",
        "has no case of @lacks",
        "no case plants a symptom of known size: @fires(cost_ms=…)",
    ]


def test_cases_come_in_the_order_of_the_file(tmp_path: object) -> None:
    found = cases(ROOT / "rules" / "transfer" / f"pageable-copy{SUFFIX}")
    assert found[0].kind == "fires"
    assert {case.kind for case in found} == {"fires", "quiet", "edge", "lacks"}
    assert callable(edge)
    assert callable(lacks("gpu"))
