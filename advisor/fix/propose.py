"""Proposals: the edits that the findings of an analysis ask for, and advice where no edit can be made for certain."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from advisor.fix.edit import Change, Edit, Files, Request
from advisor.fix.edits import EDITS
from advisor.fix.project import Project
from advisor.fix.source import NotEditable
from advisor.results.analysis import Analysis, Finding
from advisor.results.fixes import Advice, Price

Among = Callable[[Sequence[str]], Analysis]
"""Analysis of the same trace by some rules alone."""


@dataclass
class Proposal:
    """An edit for one or more findings: the ways to make it, the best guess first.

    ``price`` is what it returns beside the edits before it, ``alone`` beside none, None where that is the same.
    """

    edit: Edit
    findings: list[Finding]
    changes: list[Change]
    price: Price | None
    alone: Price | None = None
    request: Request = field(repr=False, kw_only=True)

    def renewed(self) -> list[Change]:
        """Make the changes again, in the files as kept edits left them. Raises ``NotEditable``."""
        return list(self.edit.make(self.request))


def propose(
    analysis: Analysis, project: Project, among: Among, *, cores: int | None, writes: bool
) -> tuple[list[Proposal], list[Advice]]:
    """Return the edits in the order of the findings, and what is told without an edit; *writes*: the files are to be written.

    A finding's saving leaves out what fixes before it save. Those that no edit makes are not made: where that matters, edits are
    priced *among* themselves.
    """
    files = Files(project.root, project.find, project.script_path)
    proposals: list[Proposal] = []
    advice: list[Advice] = []
    for finding in analysis.findings:
        request = Request(finding, analysis, files, cores)
        because, served = "", False
        for edit in EDITS:
            if finding.rule not in edit.rules:
                continue
            known = next((one for one in proposals if one.edit is edit), None)
            try:
                changes = list(edit.make(request))
                for change in changes:
                    project.check(change.path, writes=writes)
            except NotEditable as reason:
                because = because or str(reason)
                continue
            if not changes:
                continue
            served = True
            if known is not None and known.changes[0].after == changes[0].after:
                known.findings.append(finding)
            else:
                predicted = _of_part(edit, price(finding))
                proposals.append(Proposal(edit, [finding], changes, predicted, request=request))
        if not served and finding.category != "profile":
            advice.append(_advice(finding, because))
    _price_among(proposals, analysis, among)
    return proposals, advice


def _price_among(proposals: Sequence[Proposal], analysis: Analysis, among: Among) -> None:
    """Price the edits beside each other, without the fixes that none of them makes, where these leave them less to save."""
    rules = list(dict.fromkeys(finding.rule for proposal in proposals for finding in proposal.findings))
    others = [finding for finding in analysis.findings if finding.saving is not None and finding.rule not in rules]
    behind = []
    for proposal in proposals:
        proposal.alone = _of_part(proposal.edit, _alone(proposal.findings[0]))
        if proposal.alone is not None or proposal.price is None:
            behind.append(proposal)
    if not others or not behind:
        return
    priced = {finding.rule: price(finding) for finding in among(rules).findings}
    for proposal in behind:
        proposal.price = _of_part(proposal.edit, priced.get(proposal.findings[0].rule)) or proposal.price


def _of_part(edit: Edit, whole: Price | None) -> Price | None:
    """Return what an edit returns of a finding's saving: from nothing on, where it changes only part of what the finding costs."""
    return whole if whole is None or not edit.part else Price(low=min(whole.low, 0.0), high=whole.high)


def _alone(finding: Finding) -> Price | None:
    """Return the shares of the step that a finding's fix returns with none of the others; None where these are its saving's."""
    saving = finding.saving
    if saving is None or saving.alone_ms is None or not saving.high_ms:
        return None
    per_ms = saving.high_share / saving.high_ms
    return Price(low=saving.alone_ms["low"] * per_ms, high=saving.alone_ms["high"] * per_ms)


def price(finding: Finding) -> Price | None:
    """Return the shares of the step that the replay predicts."""
    saving = finding.saving
    return Price(low=saving.low_share, high=saving.high_share) if saving is not None else None


def diff(change: Change) -> str:
    """Return a change as a unified diff that ``git apply`` and ``patch -p1`` take."""
    before, after = (text.splitlines(keepends=True) for text in (change.before, change.after))
    lines = list(difflib.unified_diff(before, after, f"a/{change.path}", f"b/{change.path}"))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _advice(finding: Finding, because: str) -> Advice:
    spot = next((spot for spot in finding.where if spot.file), None)
    where = "" if spot is None else f"{spot.file}:{spot.line}" if spot.line else str(spot.file)
    return Advice(
        rule=finding.rule,
        title=finding.title,
        where=where,
        fix=finding.fix.title,
        sketch=finding.fix.after.strip("\n"),
        price=price(finding),
        because=because,
    )
