"""Schema of a frame: its columns, each with type, unit and meaning."""

from __future__ import annotations

from msgspec import Struct


class Column(Struct, frozen=True):
    """One column. ``type`` is its SQL type; ``source`` names the field of the trace or the definition it comes from."""

    name: str
    type: str
    unit: str
    meaning: str
    source: str = ""


class Schema(Struct, frozen=True):
    """One frame: what a row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def names(self) -> list[str]:
        """The column names in order."""
        return [column.name for column in self.columns]


def integer(name: str, unit: str, meaning: str, source: str = "") -> Column:
    """A 64-bit whole number."""
    return Column(name, "BIGINT", unit, meaning, source)


def real(name: str, unit: str, meaning: str, source: str = "") -> Column:
    """A double; NULL where unknown."""
    return Column(name, "DOUBLE", unit, meaning, source)


def flag(name: str, meaning: str, source: str = "") -> Column:
    """True, false, or NULL where unknown."""
    return Column(name, "BOOLEAN", "", meaning, source)


def text(name: str, meaning: str, source: str = "") -> Column:
    """A string, from a small set of values or repeated often; NULL where unknown."""
    return Column(name, "VARCHAR", "", meaning, source)


LINE = (
    "line in that file where the function is defined, not the one that ran; of a function that ran when the recording "
    "began, where it was then; in traces of 2021, with call stacks as text, the line that ran; -1 where unknown"
)
"""Kineto writes of a Python call where its function begins (co_firstlineno), and nothing of the line it has come to."""
COMMON = (
    integer("step", "", "the step (row of `steps`) that the row starts in; -1 outside the steps"),
    integer("start_ns", "ns", "start, since the first event of the trace", "ts"),
    integer("dur_ns", "ns", "duration", "dur"),
    integer("cost_ns", "ns", "the ns of the window that the row owns (see Words in docs/frames.md)"),
    integer("device", "", "the GPU, as the trace numbers it; -1 for the host", "args.device"),
    integer("stream", "", "the GPU stream; -1 where there is none", "args.stream"),
    integer("thread", "", "the host thread that ran or launched it; -1 where unknown", "tid"),
    text("op", "innermost operator (or annotation) on the launching thread"),
    text("module", "path of nn.Module calls around it"),
    text("file", "source file of the user's innermost frame"),
    integer("line", "", LINE),
    text("function", "function of that frame"),
    text("library", "innermost frame that is a library's: file:line function"),
)
