"""What a report is made of: one analysis, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.results.analysis import SCHEMA_VERSION, Across, Analysis, to_json

_NONE = b'"traces": []'


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
