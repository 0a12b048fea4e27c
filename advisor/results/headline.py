"""The headline of an analysis: one or two lines that open every report."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import Name, Text, doc

HeadlineKind = Literal["training", "inference", "unknown", "start-up only", "capture only", "cut off", "empty"]


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """The recording in one or two lines: what it is, what bounds it, what to do first."""

    text: Annotated[Text, doc("The line, in words: at most two lines of 100 columns.")]
    kind: Annotated[
        HeadlineKind,
        doc(
            "training or inference; unknown where neither shows. Of the others nothing of the steady program can be judged: "
            "start-up only, capture only (a graph is recorded, not run), cut off (the file), empty (no operator, no GPU work)."
        ),
    ]
    bound: Annotated[
        Name | None,
        doc(
            "The cause of `summary.steady_causes` that holds the program back: the largest of idle time where the device idles "
            "for over half of steady work, else the largest of all. None where the trace does not tell."
        ),
    ]
    first: Annotated[Name | None, doc("Id of the rule of the first finding; None where there is none.")]
    remark: Annotated[
        Name | None,
        doc(
            "Code of the note of `quality` whose advice the line gives first: to record otherwise. None where it is another's."
        ),
    ] = None
