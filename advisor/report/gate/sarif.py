"""``-f sarif``: SARIF 2.1.0, for code scanning. A result keeps its fingerprint while lines move: rule, file, function."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import quote

from advisor.report import Options
from advisor.report.documents.judgement import line_of
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
    titles = {check.name: check.title for check in checks}
    rules = [{"id": clean(name), "shortDescription": {"text": clean(titles[name] or name)}} for name in ids]
    driver = {"name": "advisor", "semanticVersion": __version__, "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"advisor-gate/{clean(judgement.workload)}"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the checkout."}}},
        "results": [_result(check, ids.index(check.name), judgement.baseline) for check in checks],
        "properties": {"verdict": judgement.verdict, "headline": clean(judgement.headline)},
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + b"\n"


def _result(check: Check, index: int, baseline: str) -> dict[str, Any]:
    places = [place for place in check.where if place.file][:_PLACES]
    first = places[0] if places else None
    regressed = check.outcome == "regression"
    result: dict[str, Any] = {
        "ruleId": clean(check.name),
        "ruleIndex": index,
        "kind": "fail" if regressed else "open",
        "level": ("error" if check.level == "error" else "warning") if regressed else "none",
        "message": {"text": clean(line_of(check))},
        "locations": [_location(place) for place in places]
        or [_physical(_uri(baseline or "advisor-baseline.json"), 1)],
        "partialFingerprints": {"advisorGate/v1": fingerprint(check.name, first)},
    }
    if check.waiver:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": clean(check.waiver)}]
    figures = {"unit": check.unit, "base": check.base, "now": check.now, "change": check.change}
    result["properties"] = {key: value for key, value in figures.items() if value is not None}
    return result


def fingerprint(rule: str, place: Place | None) -> str:
    """Hash rule, file and function, not the line or the figures: stable while the code around moves."""
    parts = [rule, (place.file or "") if place else "", (place.function or "") if place else ""]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


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
    parts = [part for part in re.split(r"[\\/]+", re.sub(r"^[A-Za-z]:", "", path)) if part not in ("", ".", "..")]
    return "/".join(quote(part, safe="-._~+=@ ".replace(" ", ""), errors="replace") for part in parts) or "unknown"
