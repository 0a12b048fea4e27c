"""Words that users read: titles are short, and reports keep to the field's own terms."""

from __future__ import annotations

import re

from support.paths import ROOT
from support.traces import rules

from advisor.rulebook.rule import MOST_WHY

MOST_TITLE = 70
_UNUSUAL = (
    "got by", "for want of", "first things first", "perhaps nothing", "sets the pace", "gives back", "hopefully",
    "do away with", "takes down", "for ever", "thrice", "nobody knows", "stand merged", "costs, and stays",
    "does not say why", "and does not count", "that could run has", "another stretch of time", "not as they were",
    "what the words mean", "by no more than its noise", "hold the trace against", "take an improvement over",
    "called otherwise", "is said to be, and", "to the brim", "dearer", "somebody", "mends", "works off",
)  # fmt: skip
_OF_RULES = (
    "anew",
    "mend",
    "mended",
    "kin",
    "the matter",
    "counted is",
    "counted are",
    "turned over",
    "stands still",
    "nobody",
)
"""Phrases that a reader stumbles over; a test here keeps what users read free of them."""


def test_reasons_are_short() -> None:
    long = {rule.id: len(rule.why.split()) for rule in rules().rules if len(rule.why.split()) > MOST_WHY}
    assert long == {}


def texts() -> dict[str, str]:
    """Every text of a rule that a report shows, by rule."""
    shown = {}
    for rule in rules().rules:
        parts = [
            rule.title,
            rule.why,
            rule.more,
            *(part for fix in rule.variants for part in (fix.title, fix.caveat, fix.verify)),
        ]
        shown[rule.id] = "\n".join(parts)
    return shown


def test_titles_are_short() -> None:
    long = {
        rule.id: rule.title for rule in rules().rules if len(re.sub(r"\{[^}]*\}", "100 %", rule.title)) > MOST_TITLE
    }
    assert long == {}


def test_titles_are_told_apart() -> None:
    titles = [rule.title for rule in rules().rules]
    assert sorted(set(titles)) == sorted(titles)


def test_rules_say_it_in_usual_words() -> None:
    found = {
        rule: [words for words in (*_UNUSUAL, *_OF_RULES) if re.search(rf"\b{words}\b", text.lower())]
        for rule, text in texts().items()
    }
    assert {rule: words for rule, words in found.items() if words} == {}


_SHOWN = ("report", "cli", "gating", "views", "replay")
"""Packages whose strings users read."""


def test_reports_say_it_in_usual_words() -> None:
    """In strings of the reports' code and templates; comments and docstrings are for its readers alone."""
    found = []
    for path in sorted(path for package in _SHOWN for path in (ROOT / "advisor" / package).rglob("*")):
        if path.suffix not in (".py", ".j2", ".js"):
            continue
        code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(encoding="utf-8"), flags=re.DOTALL).lower()
        found += [f"{path.name}: {words}" for words in _UNUSUAL if re.search(rf"\b{words}\b", code)]
    assert found == []
