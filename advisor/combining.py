"""The ranks of one run together: analyses and digests in, what they show together out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from advisor.engine.run import Outcome, chosen, run
from advisor.ranks.difference import differences
from advisor.ranks.rewrite import LATE, rewrite
from advisor.ranks.spread import lags, spreads, traffic, waits
from advisor.ranks.summary import clocks_of, notes_of, ranks_of, rows_of, stages_of, turns_of, world_size
from advisor.results.analysis import Analysis, QualityNote, Verdicts
from advisor.results.ranks import Across
from advisor.views import headline

if TYPE_CHECKING:
    from advisor.ranks.digest import Digest
    from advisor.ranks.job import Job
    from advisor.rulebook import Rulebook


def combine(
    analyses: Sequence[Analysis],
    digests: Sequence[Digest],
    rules: Rulebook,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> tuple[list[Analysis], Across | None]:
    """Combine the digests of several ranks of one run; None where they are no such. The analyses come back with what these show."""
    if len(digests) < 2:
        return list(analyses), None
    job, notes = ranks_of(digests)
    if job is None:
        return list(analyses), None
    wanted = [rule.id for rule in rules.rules if rule.of_ranks and chosen(rule, only, skip)]
    across = _across(job, notes, rules, wanted)
    telling = [finding.rule for finding in across.findings if finding.rule in LATE]
    places = {id(member): index for index, member in enumerate(digests)}
    replace = msgspec.structs.replace
    ranked = [replace(row, trace=places[id(member)]) for member, row in zip(job.digests, across.ranks, strict=True)]
    across = replace(across, ranks=ranked)
    rows = {id(member): row for member, row in zip(job.digests, ranked, strict=True)}
    results: list[Analysis] = []
    for analysis, member in zip(analyses, digests, strict=True):
        row = rows.get(id(member))
        if row is not None:
            analysis = _without(analysis, wanted)
            before = analysis.findings
            analysis = rewrite(analysis, row, job.arrivals.frame, telling, rules.rules) if telling else analysis
            analysis = replace(analysis, headline=headline.reordered(analysis.headline, before, analysis.findings))
        results.append(analysis)
    return results, across


def _across(job: Job, notes: Sequence[QualityNote], rules: Rulebook, wanted: Sequence[str]) -> Across:
    """Run the rules that need ranks over all of them."""
    verdicts = Verdicts(passes=[], not_applicable=[], not_run=[], error=[])
    outcome = run(job, rules, only=wanted) if wanted else Outcome([], verdicts, [])
    replace = msgspec.structs.replace
    not_run = [
        replace(verdict, how=job.obstacle) if "ranks" in verdict.needs and job.obstacle else verdict
        for verdict in outcome.verdicts.not_run
    ]
    rows = rows_of(job)
    return Across(
        ranks=rows,
        world_size=world_size(job),
        step_ms=job.step_ms,
        clocks=clocks_of(job),
        quality=[*notes, *notes_of(job)],
        findings=outcome.findings,
        verdicts=replace(outcome.verdicts, not_run=not_run),
        spreads=spreads(job, rows),
        traffic=traffic(job),
        lags=lags(job),
        waits=waits(job),
        differences=differences(job),
        turns=turns_of(job),
        stages=stages_of(job),
    )


def _without(analysis: Analysis, rules: Sequence[str]) -> Analysis:
    """Return *analysis* without its verdicts on rules that all ranks together have answered."""
    verdicts = analysis.verdicts
    not_run = [verdict for verdict in verdicts.not_run if verdict.rule not in rules]
    return msgspec.structs.replace(analysis, verdicts=msgspec.structs.replace(verdicts, not_run=not_run))
