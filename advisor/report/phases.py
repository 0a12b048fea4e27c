"""Phases of a serving engine or diffusion pipeline: a sentence each, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.report import blocks as doc
from advisor.report.plain import milliseconds, percent
from advisor.results.phases import Phase

_MOST = 3
_PARTS = ("attention", "experts", "sampling")


def sentence(phases: Sequence[Phase]) -> str:
    """Return the phases in a line: batch, time, and what the kernels do; empty without."""
    return ". ".join(_clause(phase) for phase in phases[:_MOST])


def _clause(phase: Phase) -> str:
    facts = [f"{phase.iterations:,} batch{'es' * (phase.iterations != 1)}"]
    if phase.sequences is not None:
        unit = "image" if phase.phase == "diffusion" else "sequence"
        facts[0] += f" of {_count(phase.sequences, unit)}"
    if phase.tokens is not None and phase.tokens != phase.sequences:
        facts.append(_count(phase.tokens, "token"))
    if phase.ms is not None:
        each = f" ({milliseconds(phase.token_ms)} for each token of the batch)" if phase.token_ms is not None else ""
        facts.append(f"{milliseconds(phase.ms)} from its first to its last kernel{each}")
    if phase.busy_share is not None:
        facts.append(f"busy {percent(phase.busy_share)} of it")
    shares = [
        f"{name} {percent(share)}" for name in (*_PARTS, "drafting") if (share := _share(phase, name)) is not None
    ]
    if phase.collectives_ms is not None and (phase.collectives_share or 0.0) >= _EXCHANGED:
        shares.append(f"{_collective(phase)} {percent(phase.collectives_share)} ({milliseconds(phase.collectives_ms)})")
    busy = f"; of the time of all its kernels, collectives too: {', '.join(shares)}" if shares else ""
    return f"{phase.phase.capitalize()} ({phase.engine}): {', '.join(facts)}{busy}"


_EXCHANGED = 0.05
"""Of the kernels' time: collectives that are a figure of their own."""


def _collective(phase: Phase) -> str:
    """Name the collectives by the kind of most of their time."""
    known = phase.collective not in (None, "other")
    return (phase.collective or "").replace("all_", "all-").replace("_", " ") if known else "collectives"


def _count(number: float, unit: str) -> str:
    text = f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"
    return f"{text} {unit}{'s' * (number != 1)}"


def _share(phase: Phase, name: str) -> float | None:
    value: float | None = getattr(phase, f"{name}_share")
    return value


def title() -> str:
    """Return the table's title."""
    return "Phases of the engine, by its annotations (means of a batch)"


def heads(phases: Sequence[Phase]) -> list[str]:
    """Return the names of the columns of figures."""
    return [f"{phase.phase} ({phase.engine})" for phase in phases]


def rows(phases: Sequence[Phase]) -> list[tuple[str, list[str], str]]:
    """Return the figures: name, a text a phase, meaning."""
    return [
        ("batches recorded", [_plain(phase.iterations) for phase in phases], ""),
        ("sequences", [_plain(phase.sequences) for phase in phases], "or images, as annotated"),
        ("tokens", [_plain(phase.tokens) for phase in phases], "that are computed, as annotated"),
        (
            "time",
            [milliseconds(phase.ms, "–") for phase in phases],
            "from the first to the last GPU work that it launched",
        ),
        ("time a token", [milliseconds(phase.token_ms, "–") for phase in phases], "that time over its tokens"),
        ("GPU busy", [percent(phase.busy_share, "–") for phase in phases], "of that time"),
        ("host", [milliseconds(phase.host_ms) for phase in phases], "of the annotation on the host"),
        ("launches", [_plain(phase.launches) for phase in phases], "a replay of a graph is one"),
        ("kernels", [_plain(phase.kernels) for phase in phases], "that ran for it"),
        *(
            (
                name,
                [percent(_share(phase, name), "–") for phase in phases],
                "of the kernels' time; – where no kernel shows it",
            )
            for name in _PARTS
        ),
        (
            "collectives",
            [percent(phase.collectives_share, "–") for phase in phases],
            "of the kernels' time, waiting for other ranks included; – where there are none",
        ),
        *(_drafts(phases) if any(phase.drafting_share is not None for phase in phases) else ()),
    ]


def _drafts(phases: Sequence[Phase]) -> Iterator[tuple[str, list[str], str]]:
    """Yield what speculative decoding costs, and from which gain on it is worth that.

    To verify drafts takes no less than to decode one token a sequence, so a batch must keep at least as many as it is longer.
    """
    yield "drafting", [percent(phase.drafting_share, "–") for phase in phases], "of the kernels' time"
    least = [None if (share := phase.drafting_share) is None else 1 / max(1 - share, 0.001) for phase in phases]
    hint = "tokens kept a sequence and batch: with fewer, drafts cost more than they return. The engine logs how many it keeps"
    yield "worth it from", ["–" if number is None else f"{number:,.2f}" for number in least], hint


def _plain(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def table(phases: Sequence[Phase]) -> Iterator[doc.Block]:
    """Yield the phases as a table: a row a figure, a column a phase; nothing without."""
    if not phases:
        return
    yield doc.Heading(title())
    cells: list[tuple[doc.Text, ...]] = [(name, *values, doc.Span(hint, "dim")) for name, values, hint in rows(phases)]
    yield doc.Table(("figure", *heads(phases), "meaning"), cells, "<" + ">" * len(phases) + "~")
