"""Upper bounds of a price."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.results.analysis import Finding


def owned_ms(finding: Finding, findings: Sequence[Finding]) -> float:
    """The time that the rows of a finding own, and of those that its fix does too: its saving is of all of them."""
    return finding.cost_ms + sum(other.cost_ms for other in findings if other.done_by == finding.rule)
