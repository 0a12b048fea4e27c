"""``-f junit``: a test case a check. What counts and grew is a failure; what has no answer is skipped."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from advisor.report import Options
from advisor.report.documents.judgement import line_of, lines_of
from advisor.report.plain import clean
from advisor.results.judgement import Check, Judgement


def render(judgement: Judgement, _options: Options) -> str:
    """Write one suite; no times and no host, so that the same judgement gives the same bytes."""
    checks = sorted(judgement.checks, key=lambda check: (check.kind, check.name))
    cases = [_case(check, judgement) for check in checks]
    if judgement.incomparable:
        why = _attribute("; ".join(judgement.incomparable))
        cases.insert(
            0, f'  <testcase classname="advisor.gate" name="comparable" time="0"><skipped message={why}/></testcase>'
        )
    failures = sum(_fails(check) for check in checks)
    skipped = sum(check.outcome == "inconclusive" for check in checks) + bool(judgement.incomparable)
    attributes = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}" time="0"'
    name = _attribute(f"advisor gate{f' {judgement.workload}' if judgement.workload else ''}")
    head = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", f"<testsuite name={name} {attributes}>"]
    output = f"  <system-out>{_text(judgement.headline)}</system-out>"
    return "\n".join([*head, *cases, output, "</testsuite>", "</testsuites>"]) + "\n"


def _fails(check: Check) -> bool:
    return check.outcome == "regression" and check.counts


def _case(check: Check, judgement: Judgement) -> str:
    opening = f'  <testcase classname="advisor.{check.kind}" name={_attribute(check.name)} time="0">'
    if _fails(check):
        where = _text(_where(check, judgement))
        body = f"<failure message={_attribute(check.message)} type={_attribute(check.outcome)}>{where}</failure>"
    elif check.outcome == "inconclusive":
        body = f"<skipped message={_attribute(check.message)}/>"
    else:
        body = f"<system-out>{_text(line_of(check))}</system-out>"
    return f"{opening}{body}</testcase>"


def _where(check: Check, judgement: Judgement) -> str:
    places = [f"{place.file}:{place.line} {place.function or ''}".strip() for place in check.where if place.file]
    return "\n".join([*lines_of(check, judgement), *places])


def _text(text: str) -> str:
    return escape("\n".join(_allowed(line) for line in text.split("\n")))


def _attribute(text: str) -> str:
    return quoteattr(_allowed(text))


def _allowed(text: str) -> str:
    """Return *text* of characters that XML 1.0 can hold at all."""
    return "".join(
        c for c in clean(text) if c in "\t" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
