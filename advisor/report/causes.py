"""Names of the causes in reports: of a GPU's time, and of the main thread's where the program ran on the CPU."""

from __future__ import annotations

from advisor.report.plain import milliseconds
from advisor.results.analysis import Summary

# What of the host's time passes without an event is said from such a part of it on, and of the steady time.
_SAID, _LEAST = 0.1, 0.01

CAUSES = {
    "compute": "kernels that compute",
    "communication": "collectives that no computing hides",
    "copy": "copies that nothing hides",
    "memset": "memory being set",
    "other_device": "idle: waits for work of another GPU",
    "startup": "idle: start-up, which happens once",
    "loader": "idle: waits for the next batch",
    "sync": "idle: the host waited for the GPU",
    "blocking_copy": "idle: a copy held the host",
    "allocator": "idle: memory allocated or freed",
    "compile": "idle: compiling",
    "gc": "idle: Python's garbage collector",
    "operator": "idle: an operator computed on the CPU",
    "host": "idle: Python and launches",
    "profiler": "idle: the profiler itself",
    "unknown": "idle, cause unknown",
    "before": "work of before the recording",
    "after": "the recording's tail, behind the last work",
}
"""Meaning of each cause of the ledger on a GPU; those of idle time begin with `idle: `."""

ON_CPU = {
    "compute": "operators",
    "communication": "collectives, and waiting for them",
    "host": "idle: outside operators, in Python or freeing memory",
}
"""Meaning of the causes that mean something else on the CPU."""


_SILENT = "idle: nothing is recorded"
_UNRECORDED = "not recorded: work of graph replays, or idle"
_BESIDE_REPLAYS = {
    "communication": "collectives that no recorded computing hides",
    "copy": "copies that nothing recorded hides",
}
"""The same where replays of graphs are not recorded whole."""
_BESIDE_GAPS = {
    "communication": "collectives; what ran beside them may have been taken out",
    "copy": "copies; what ran beside them may have been taken out",
}
"""The same where events were taken out of the file."""
_THINNED = "not in the file: its events were taken out"
_TAKEN_OUT = 0.1


def on_cpu(summary: Summary) -> bool:
    """Tell whether the causes are those of a CPU program's main thread: of an unrecorded GPU nothing says that it computes."""
    return summary.device is None and not {"compute", "communication"}.isdisjoint(summary.causes)


def meaning(cause: str, summary: Summary) -> str:
    """Return a cause in words; nothing for one that is unknown."""
    if cause == "unknown" and not summary.replays_whole:
        return _UNRECORDED
    if cause == "unknown" and summary.taken_out_share > _TAKEN_OUT:
        return _THINNED
    if cause == "unknown" and summary.device is None:
        return _SILENT
    if cause == "host" and (silent := unseen(summary)):
        return silent
    if cause == "communication" and (waiting := _late(summary)):
        return waiting
    return ON_CPU.get(cause, _words(cause, summary)) if on_cpu(summary) else _words(cause, summary)


def _words(cause: str, summary: Summary) -> str:
    """Return a cause of a GPU's time in words: work that is not in the file may hide what no other does."""
    beside = {} if summary.replays_whole else _BESIDE_REPLAYS
    if summary.taken_out_share > _TAKEN_OUT:
        beside = _BESIDE_GAPS
    return beside.get(cause, CAUSES.get(cause, ""))


def _late(summary: Summary) -> str:
    """Divide the time in collectives into waiting for other ranks and the exchange itself, where either is known and matters."""
    whole, waited = _of(summary, "communication", summary.rank_wait_ms)
    _, exchanged = _of(summary, "communication", summary.exchange_ms)
    rest = f", {milliseconds(exchanged)} the exchange" if exchanged else ""
    if on_cpu(summary) or waited < max(_SAID * whole, _LEAST * summary.whole_ms):
        return ""
    return f"{_words('communication', summary)}: {milliseconds(waited)} waiting for other ranks{rest}"


def _of(summary: Summary, cause: str, part_ms: float | None) -> tuple[float, float]:
    """Return the ms of a cause as they are shown, and of them a part of *part_ms* of all steps' mean."""
    shown, mean = summary.shown_causes.get(cause, 0.0), summary.steady_causes.get(cause, 0.0)
    return shown * summary.whole_ms, (part_ms or 0.0) * (shown / mean if mean else 1.0)


def unseen(summary: Summary) -> str:
    """Return the host's cause in words where some of it passes without any event, of which nobody knows what the host did."""
    host, silent = _of(summary, "host", summary.silent_ms)
    if silent < max(_SAID * host, _LEAST * summary.whole_ms) or not silent:
        return ""
    return f"idle: {'the host' if 2 * silent >= host else 'Python and launches'}; {milliseconds(silent)} without any event of it"


def breakdown(summary: Summary) -> str:
    """Return ``compute 70 %, loader 20 %, Python 10 %``: what takes a hundredth of the time or more."""
    causes = sorted(((share, name) for name, share in summary.shown_causes.items() if share >= 0.01), reverse=True)
    names = {"host": "Python", "gc": "garbage collector"}
    return ", ".join(f"{names.get(name, name.replace('_', ' '))} {100 * share:.0f} %" for share, name in causes)
