"""``-f sarif``: SARIF 2.1.0, for code scanning. A result keeps its fingerprint while lines move: rule, file, function."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from advisor.report import Options
from advisor.report.documents.judgement import lines_of
from advisor.report.gate.help import of
from advisor.report.gitlab import fingerprint, relative
from advisor.report.plain import clean
from advisor.results.analysis import Place
from advisor.results.encoding import to_json
from advisor.results.judgement import Check, Judgement
from advisor.results.version import __version__

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PLACES = 3


def render(judgement: Judgement, _options: Options) -> bytes:
    """Write one run: what grew, what has no answer and counts, and what is waived, as suppressed."""
    checks = [c for c in judgement.checks if c.outcome == "regression" or (c.outcome == "inconclusive" and c.counts)]
    ids = sorted({check.name for check in checks})
    named = {check.name: check for check in checks}
    rules = [_rule(named[name]) for name in ids]
    driver = {"name": "advisor", "semanticVersion": __version__, "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"advisor-gate/{clean(judgement.workload)}"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the checkout."}}},
        "results": [_result(check, ids.index(check.name), judgement) for check in checks],
        "properties": {"verdict": judgement.verdict, "headline": clean(judgement.headline)},
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + b"\n"


def _rule(check: Check) -> dict[str, Any]:
    """Describe a check: alerts show its help, so that nobody needs the advisor to understand one."""
    help_ = of(check)
    return {
        "id": clean(check.name),
        "shortDescription": {"text": help_.short},
        "fullDescription": {"text": help_.full},
        "help": {"text": help_.text, "markdown": help_.markdown},
    }


def _result(check: Check, index: int, judgement: Judgement) -> dict[str, Any]:
    places = [place for place in check.where if place.file][:_PLACES]
    first = places[0] if places else None
    regressed = check.outcome == "regression"
    result: dict[str, Any] = {
        "ruleId": clean(check.name),
        "ruleIndex": index,
        "kind": "fail" if regressed else "open",
        "level": ("error" if check.level == "error" else "warning") if regressed else "none",
        "message": {"text": "\n".join(map(clean, lines_of(check, judgement)))},
        "locations": [_location(place) for place in places]
        or [_physical(_uri(judgement.baseline or judgement.settings), 1)],
        "partialFingerprints": {"advisorGate/v1": fingerprint(check.name, first)},
    }
    if check.waiver:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": clean(check.waiver)}]
    figures = {"unit": check.unit, "base": check.base, "now": check.now, "change": check.change}
    result["properties"] = {key: value for key, value in figures.items() if value is not None}
    return result


def _location(place: Place) -> dict[str, Any]:
    location = _physical(_uri(place.file or ""), place.line if place.line and place.line > 0 else 1)
    if place.function:
        location["logicalLocations"] = [{"name": clean(place.function), "kind": "function"}]
    return location


def _physical(uri: str, line: int) -> dict[str, Any]:
    artifact = {"uri": uri, "uriBaseId": "SRCROOT"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}


def _uri(path: str) -> str:
    """Return a relative reference: no drive, no root, no way up."""
    return "/".join(quote(part, safe="-._~+=@", errors="replace") for part in relative(path).split("/"))
