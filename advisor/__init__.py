"""advisor: the performance advisor for PyTorch.

    import advisor

    trace = advisor.read("trace.json.gz")
    trace.kernels                      # a DataFrame; also copies, gaps, ops, steps, ...
    analysis = advisor.analyze(trace)
    analysis.findings                  # what to do, the most worthwhile first

Names are imported when they are used: ``import advisor`` alone is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
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
    from advisor.analysis import Analysis, Finding
    from advisor.assemble import analyze, analyze_many
    from advisor.ci import gate
    from advisor.errors import AdvisorError, TraceError
    from advisor.plan import what_if
    from advisor.record.block import profile
    from advisor.trace import Trace, read

_HOMES = {
    "AdvisorError": "advisor.errors",
    "Analysis": "advisor.analysis",
    "Finding": "advisor.analysis",
    "Trace": "advisor.trace",
    "TraceError": "advisor.errors",
    "analyze": "advisor.assemble",
    "analyze_many": "advisor.assemble",
    "gate": "advisor.ci",
    "profile": "advisor.record.block",
    "read": "advisor.trace",
    "what_if": "advisor.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
