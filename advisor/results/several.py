"""Several analyses side by side, as one report shows them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from advisor.results.analysis import SCHEMA_VERSION, Analysis
from advisor.results.encoding import to_json
from advisor.results.field import doc
from advisor.results.ranks import Across

AT_LENGTH = 8
"""Number of traces that a report shows in full; of more, the rest have a line each or show as spread."""
_NONE = b'"traces": []'


class Several(msgspec.Struct, frozen=True, kw_only=True):
    """Several traces in one report."""

    schema_version: Annotated[int, doc("As in an analysis.")] = SCHEMA_VERSION
    traces: Annotated[list[Analysis], doc("In the order they were given; what could not be read is left out.")]
    across: Annotated[Across | None, doc("What many ranks together show; None where the traces are of no such.")] = None

    def to_json(self, end: bytes = b"") -> bytes:
        """Encode as indented JSON, the contract of ``-f json``, with *end* behind it: trace by trace into one buffer, for of
        hundreds the whole would be in memory several times over."""
        buffer = io.BytesIO()
        buffer.writelines(self._parts())
        buffer.write(end)
        return buffer.getvalue()

    def _parts(self) -> Iterator[bytes]:
        """Yield the text piece by piece."""
        if not self.traces:
            yield to_json(self)
            return
        before, _, after = to_json(msgspec.structs.replace(self, traces=[])).partition(_NONE)
        yield before + _NONE[:-1]
        # Line breaks stand between values only, so that each trace can be moved in as it is.
        for index, analysis in enumerate(self.traces):
            yield b",\n    " if index else b"\n    "
            yield to_json(analysis).replace(b"\n", b"\n    ")
        yield b"\n  " + _NONE[-1:] + after


def analyses(document: Analysis | Several) -> Sequence[Analysis]:
    """Return the analyses in *document*, in the order the traces were given."""
    return document.traces if isinstance(document, Several) else [document]
