"""For tests: traces built call by call, in the layout that Kineto writes. See :class:`TraceBuilder`."""

from advisor.testing.builder import TraceBuilder
from advisor.testing.timeline import Allocation, Span, Work

__all__ = ["Allocation", "Span", "TraceBuilder", "Work"]
