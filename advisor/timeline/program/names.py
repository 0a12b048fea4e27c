"""Distinct names of a trace by what they name: what a program is, is read from these, never event by event."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from advisor.timeline.context import Context

# A name says what it says at its head; a hostile one must not cost its length.
MOST = 500


class Names(Struct, frozen=True):
    """Distinct names, each group once: operators, annotations, calls of the runtime, kernels, and the files of Python functions."""

    ops: tuple[str, ...]
    annotations: tuple[str, ...]
    runtime: tuple[str, ...]
    kernels: tuple[str, ...]
    host: frozenset[str]
    """Operators and annotations."""
    files: frozenset[str]
    """Files of Python functions, with / between folders, and the frames of modules (``nn.Module: Linear_0``)."""
    folders: frozenset[str]
    """Names of all folders of these files."""
    functions: frozenset[str]
    """Names of these functions that hold ``attention``."""

    def has(self, *names: str) -> bool:
        """Tell whether one of *names* is that of an operator or an annotation."""
        return not self.host.isdisjoint(names)


def names_of(context: Context) -> Names:
    """The distinct names of a recording."""
    groups = {group: _used(context, group) for group in ("op", "annotation", "runtime", "kernel")}
    host = frozenset((*groups["op"], *groups["annotation"]))
    called = {*_used(context, "python"), *_of_stacks(context)}
    files = frozenset(name.partition("(")[0].replace("\\", "/") for name in called)
    attending = frozenset(name.rpartition(" ")[2][:MOST] for name in called if "attention" in name)
    paths = {file.rpartition("/")[0] for file in files if "/" in file}
    folders = frozenset(folder for path in paths for folder in path.split("/"))
    return Names(
        groups["op"], groups["annotation"], groups["runtime"], groups["kernel"], host, files, folders, attending
    )


def _of_stacks(context: Context) -> set[str]:
    """Python functions in stacks that operators carry as text: where those were recorded apart, or before there were events."""
    stacks = context.recording.recorded.stacks
    return {frame[:MOST] for stack in stacks if stack for frame in stack.split(";")}


_STEP = "ProfilerStep#"


def any_match(pattern: re.Pattern[str], names: Iterable[str]) -> bool:
    """Tell whether *pattern* is found in one of *names*."""
    return any(pattern.search(name) for name in names)


def _used(context: Context, group: str) -> tuple[str, ...]:
    table = context.tables.get(group)
    if table is None:
        return ()
    present = np.zeros(len(context.names), np.bool_)
    present[table["name"]] = True
    names = (context.names[code][:MOST] for code in np.flatnonzero(present).tolist())
    # The steps' own names differ by their number, and say one thing: each pattern would be held against all of them.
    step = ""
    return tuple(name for name in names if not name.startswith(_STEP) or name == (step := step or name))
