"""The document of a report: one analysis, or several side by side; and what follows from its findings."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import get_args

import msgspec

from advisor.results.analysis import SCHEMA_VERSION, Across, Analysis, Severity, to_json

_NONE = b'"traces": []'
_SEVERITIES: tuple[str, ...] = get_args(Severity)
"""The worst first."""


class Several(msgspec.Struct, frozen=True, kw_only=True):
    """Several traces in one report. ``across`` holds what only many ranks together show; None where they are no ranks
    of one run."""

    schema_version: int = SCHEMA_VERSION
    traces: list[Analysis]
    across: Across | None = None

    def to_json(self) -> bytes:
        """The contract of ``-f json`` for more than one trace, indented: trace by trace, for of hundreds the whole would be
        in memory several times over."""
        if not self.traces:
            return to_json(self)
        before, _, after = to_json(msgspec.structs.replace(self, traces=[])).partition(_NONE)
        # Line breaks stand between values only, so that each trace can be moved in as it is.
        made = [to_json(analysis).replace(b"\n", b"\n    ") for analysis in self.traces]
        return b"".join([before, _NONE[:-1], b"\n    ", b",\n    ".join(made), b"\n  ", _NONE[-1:], after])


def analyses(document: Analysis | Several) -> Sequence[Analysis]:
    """The analyses in *document*, in the order the traces were given."""
    return document.traces if isinstance(document, Several) else [document]


def failed_rules(document: Analysis | Several) -> list[str]:
    """The rules that failed on a trace, and so judged nothing there."""
    return sorted({failure.rule for part in _parts(document) for failure in part.verdicts.error})


def reaches(document: Analysis | Several, severity: str) -> bool:
    """True where a finding is of *severity* or worse."""
    worse = _SEVERITIES[: _SEVERITIES.index(severity) + 1]
    return any(finding.severity in worse for part in _parts(document) for finding in part.findings)


def unanswered(document: Analysis | Several, globs: Sequence[str]) -> list[str]:
    """Say of each trace which rules that a question named by *globs* are in no prediction for it, and why."""
    notes = []
    for analysis in analyses(document):
        priced = analysis.what_if.rules if analysis.what_if is not None else []
        for glob in globs:
            if not any(fnmatchcase(rule, glob) for rule in priced):
                fires = any(fnmatchcase(finding.rule, glob) for finding in analysis.findings)
                reason = "fires without a price that could be replayed" if fires else "does not fire"
                notes.append(f"{glob}: {reason} in {analysis.trace.path}")
    return notes


def _parts(document: Analysis | Several) -> list[Analysis | Across]:
    across = document.across if isinstance(document, Several) else None
    return [*analyses(document), *([across] if across else [])]
