"""The explanation of a failure: how the step differs from the baseline's, divided over parts of the program."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.gating.baseline import Baseline
from advisor.gating.division import digest, divide
from advisor.results.analysis import Analysis, Place
from advisor.results.division import Division
from advisor.results.judgement import Check, Judgement
from advisor.views.metrics import MEAN_STEP, STEP

_PLACES = 3
"""Places of a regression of the step."""


def explained(judgement: Judgement, base: Baseline, candidates: Sequence[Analysis]) -> Judgement:
    """Return a failed judgement with its division, and with places for the checks of the step; any other as it is."""
    if judgement.verdict != "failed":
        return judgement
    division, undivided = _divided(base, candidates)
    checks = judgement.checks
    if division is not None:
        places = _places(division)
        checks = [_placed(check, places) for check in checks]
    return msgspec.structs.replace(judgement, division=division, undivided=undivided, checks=checks)


def _divided(base: Baseline, candidates: Sequence[Analysis]) -> tuple[Division | None, str]:
    """Divide what the candidates' step takes longer than the baseline's; else say why it cannot be."""
    sites = [analysis.samples.sites for analysis in candidates if analysis.samples and analysis.samples.sites]
    if base.program is None:
        return (
            None,
            "the baseline is of an advisor that kept no parts of the program: make it anew to have a failure divided",
        )
    now = digest(sites, like=base.program)
    return (divide(base.program, now), "") if now is not None else (None, "the candidate holds no steady work")


def _places(division: Division) -> list[Place]:
    """Return the places of the parts that grew beyond noise, the heaviest first."""
    grown = [part for part in division.parts if part.real and part.change_ms > 0 and part.file]
    total = sum(part.change_ms for part in grown)
    return [
        Place(
            file=part.file, line=part.line, function=part.function, library=None, module=None, op=None,
            share=part.change_ms / total,
        )
        for part in grown[:_PLACES]
    ]  # fmt: skip


def _placed(check: Check, places: Sequence[Place]) -> Check:
    """Return a check of the whole step with the places where it grew, which it has none of its own of."""
    if check.name not in (STEP.name, MEAN_STEP.name) or check.outcome != "regression" or check.where:
        return check
    return msgspec.structs.replace(check, where=list(places))
