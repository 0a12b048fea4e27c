"""Upper bounds of a price."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.results.analysis import Finding


def owned_ms(finding: Finding, findings: Sequence[Finding]) -> float:
    """The time that the rows of a finding own, and of those that its fix does too: its saving is of all of them.

    With it goes the host's behind the GPU's work, and the waiting for ranks that are late for the same reason.
    """
    all_of = [finding, *(other for other in findings if other.done_by == finding.rule)]
    return sum(one.cost_ms + one.host_ms + one.late_ms for one in all_of)
