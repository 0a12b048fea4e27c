"""Analyses to compare, and a comparison whose every text is an attack."""

from __future__ import annotations

from pathlib import Path

import msgspec

import advisor
from advisor.results.analysis import Analysis
from advisor.results.comparison import Comparison
from advisor.results.division import Division


def whole(path: Path | str, name: str = "") -> Analysis:
    return advisor.analyze(advisor.read(str(path), source=name or str(path)), samples=True, views=True)


def hostile(comparison: Comparison) -> Comparison:
    """Trace text that would be markup, in every place that text has."""
    evil = "</td><script>alert(1)</script>\x1b[2J{{ 7*7 }}\u202e"
    replace = msgspec.structs.replace
    return replace(
        comparison,
        headline=evil,
        before=replace(comparison.before, path=evil, device=evil),
        unlike=[evil],
        division=comparison.division and _division(comparison.division, evil),
        causes=[replace(comparison.causes[0], name=evil), *comparison.causes[1:]],
        findings=[replace(turned, title=evil, rule=evil) for turned in comparison.findings],
        claims=[replace(claim, fix=evil, verify=evil, because=evil, rule=evil) for claim in comparison.claims],
        items=[replace(item, name=evil, shape=evil) for item in comparison.items],
    )


def _division(division: Division, evil: str) -> Division:
    replace = msgspec.structs.replace
    parts = [
        replace(
            part, label=evil, because=evil, file=evil, function=evil, real=True,
            before=replace(part.before, kernels=[evil], shapes=evil, dtype=evil),
            parts=[replace(part, label=evil, because=evil, parts=[])],
        )
        for part in division.parts
    ]  # fmt: skip
    return replace(division, parts=parts, notes=[evil])
