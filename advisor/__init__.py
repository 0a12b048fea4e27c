"""advisor: the performance advisor for PyTorch.

    import advisor

    analysis = advisor.analyze("trace.json.gz")
    analysis.findings                  # what to do, the most worthwhile first
    trace = advisor.read("trace.json.gz")
    trace.kernels                      # a DataFrame; also copies, gaps, ops, steps, ...
    trace.query("SELECT ...")          # SQL over them, as a DataFrame

In a notebook ``%load_ext advisor``, then ``%advisor trace.json.gz``.

Names are imported when they are used: ``import advisor`` alone is cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of typing would have to be read first, and whatever is read first meets Ctrl-C

__all__ = [
    "AdvisorError",
    "Analysis",
    "Finding",
    "Trace",
    "TraceError",
    "__version__",
    "analyze",
    "analyze_many",
    "gate",
    "profile",
    "read",
    "what_if",
]

if TYPE_CHECKING:
    from typing import Any

    from advisor.errors import AdvisorError, TraceError
    from advisor.gating.run import gate
    from advisor.pipeline import analyze, analyze_many
    from advisor.record.block import profile
    from advisor.replay.plan import what_if
    from advisor.results.analysis import Analysis, Finding
    from advisor.results.version import __version__
    from advisor.trace import Trace, read

_HOMES = {
    "AdvisorError": "advisor.errors",
    "Analysis": "advisor.results.analysis",
    "Finding": "advisor.results.analysis",
    "Trace": "advisor.trace",
    "TraceError": "advisor.errors",
    "__version__": "advisor.results.version",
    "analyze": "advisor.pipeline",
    "analyze_many": "advisor.pipeline",
    "gate": "advisor.gating.run",
    "load_ipython_extension": "advisor.cli.magic",
    "profile": "advisor.record.block",
    "read": "advisor.trace",
    "what_if": "advisor.replay.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
