"""Several analyses side by side, as one report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from advisor.results.analysis import SCHEMA_VERSION, Analysis
from advisor.results.encoding import to_json
from advisor.results.field import doc
from advisor.results.ranks import Across

_NONE = b'"traces": []'


class Several(msgspec.Struct, frozen=True, kw_only=True):
    """Several traces in one report."""

    schema_version: Annotated[int, doc("As in an analysis.")] = SCHEMA_VERSION
    traces: Annotated[list[Analysis], doc("In the order they were given; what could not be read is left out.")]
    across: Annotated[Across | None, doc("What many ranks together show; None where the traces are of no such.")] = None

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``: trace by trace, for of hundreds the whole would be
        in memory several times over."""
        if not self.traces:
            return to_json(self)
        before, _, after = to_json(msgspec.structs.replace(self, traces=[])).partition(_NONE)
        # Line breaks stand between values only, so that each trace can be moved in as it is.
        texts = [to_json(analysis).replace(b"\n", b"\n    ") for analysis in self.traces]
        return b"".join([before, _NONE[:-1], b"\n    ", b",\n    ".join(texts), b"\n  ", _NONE[-1:], after])


def analyses(document: Analysis | Several) -> Sequence[Analysis]:
    """Return the analyses in *document*, in the order the traces were given."""
    return document.traces if isinstance(document, Several) else [document]
