"""Holders of the peak of memory, in words and rows."""

from __future__ import annotations

from advisor.report.plain import percent, size
from advisor.results.memory import Holder, MemoryPeak

NAMED = 2
TITLE = "Who holds the peak of memory"


def place(holder: Holder) -> str:
    """Return ``model.py:31 forward``; the library's frame where no frame is the user's; else why there is none."""
    if holder.file is not None:
        return f"{holder.file}:{holder.line} {holder.function or ''}".rstrip()
    if holder.library is not None:
        return holder.library
    return "allocated before the history begins" if holder.before else "no stack recorded"


def sentence(peak: MemoryPeak) -> str:
    """Return the peak and what holds most of it."""
    shown = [f"{percent(holder.share)} {place(holder)}" for holder in peak.holders[:NAMED]]
    held = f": {', '.join(shown)}" if shown else ""
    return f"Peak of memory {size(peak.bytes)} on GPU {peak.device}{held}"


def moment(peak: MemoryPeak) -> str:
    """Return when the peak is, and in what."""
    parts = [f"{size(peak.bytes)} on GPU {peak.device}"]
    if peak.at_ms is not None:
        parts.append(f"at {peak.at_ms:,.3f} ms")
    if peak.step is not None:
        parts.append(f"in step {peak.step}")
    if peak.op:
        parts.append(f"in {peak.op}")
    if peak.unknown_bytes:
        parts.append(f"{size(peak.unknown_bytes)} of it without a stack")
    return ", ".join(parts) + "; sizes as they were asked for."


def rows(peak: MemoryPeak) -> list[tuple[str, str, str, str, str]]:
    """Return a row a holder: place, size, share, allocations, operator."""
    return [
        (place(holder), size(holder.bytes), percent(holder.share), f"{holder.allocations:,}", holder.op or "")
        for holder in peak.holders
    ]
