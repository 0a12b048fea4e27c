"""Calls that write files, among the calls of Python that a trace holds: torch.save, numpy.save, json.dump, a file's write, fsync.

What writes is told by its end: a built-in that hands bytes to a file. What calls it in a library is the same call as long as its
name says that it saves, dumps or writes; so the time that torch.save takes to pickle counts, and a trainer's whole loop does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, covered, distinct, fetch, union, without
from advisor.regex import regex
from advisor.timeline.calls import PYTHON, Host

_FILE = regex(
    r"^<built-in (?:method (?:(?:write|writelines|flush|truncate|close) of _io\."
    r"(?:TextIOWrapper|BufferedWriter|BufferedRandom|FileIO)"
    r"|(?:writerow|writerows) of _csv\.writer|commit of sqlite3\.Connection|flush of mmap\.mmap|tofile of numpy\.\w+"
    r"|encode_to_file of )|function (?:fsync|fdatasync|replace|rename|imwrite|serialize_file|copyfile|sendfile)>)"
)
_FILE_OR_MEMORY = regex(r"^<built-in (?:method (?:write_record|write_end_of_file) of |function dump>)")
"""torch's archive writer and pickle.dump take a file or a buffer in memory, which the names of other calls tell apart."""
_MEMORY = regex(r"^<built-in method (?:write|flush) of _io\.(?:BytesIO|StringIO) object")
_OPEN = "<built-in function open>"
_SAVES = regex(r"_{0,2}(?:save|dump|write|imwrite|imsave|to_(?:csv|json|parquet|feather|hdf|pickle|excel|file)\b)\w*$")
_FRAME = regex(r"^(?P<file>.*)\(\d+\): (?P<function>\w+)$")
_BUILT_IN = regex(r"^<built-in (?:method|function) (?P<function>\w+)")
_FOLDERS = regex(r"^.*(?:(?:site|dist)-packages|python3\.\d+)/")


def label(name: str) -> str:
    """``torch.save`` of a library's function, ``write`` of a built-in: how the call that *name* stands for is written."""
    frame = _FRAME.match(name)
    if frame is None:
        built_in = _BUILT_IN.match(name)
        return built_in["function"] if built_in is not None else name
    package = _FOLDERS.sub("", frame["file"].replace("\\", "/")).strip("/").split("/")[0].removesuffix(".py")
    return f"{package}.{frame['function'].lstrip('_')}"


class Writes(Struct, frozen=True):
    """Calls that write files: their nodes, sorted as the forest is; none lies in another."""

    node: Ints

    def within(self, host: Host, thread: int, start: Ints, end: Ints) -> Ints:
        """ns of each span in which *thread* was in one of the calls."""
        here = self.node[host.thread[self.node] == thread]
        return covered(union(host.start[here], host.end[here]), start, end)

    def longest(self, host: Host, thread: int, start: int, end: int) -> int:
        """The first call of *thread* in the frame whose calls have most of a span's time; -1 for none."""
        here = self.node[
            (host.thread[self.node] == thread) & (host.start[self.node] < end) & (host.end[self.node] > start)
        ]
        if not len(here):
            return -1
        _, first, of = np.unique(fetch(host.name, host.parent[here]), return_index=True, return_inverse=True)
        ns = np.minimum(host.end[here], end) - np.maximum(host.start[here], start)
        return int(here[first[np.argmax(np.bincount(of, weights=ns))]])


def find(host: Host, names: Sequence[str], own: Bools) -> Writes:
    """Find the calls; *own* flags, by the code of a name, frames of the user's, which no call reaches beyond."""
    python = host.group == PYTHON
    kinds = np.zeros((5, max(len(names), 1)), np.bool_)
    for code in distinct(host.name[python]).tolist():
        name = names[code]
        if name.startswith("<"):
            kinds[0, code] = _FILE.match(name) is not None
            kinds[1, code] = _FILE_OR_MEMORY.match(name) is not None
            kinds[2, code] = _MEMORY.match(name) is not None
            kinds[4, code] = name == _OPEN
        elif not own[code]:
            frame = _FRAME.match(name)
            kinds[3, code] = frame is not None and _SAVES.match(frame["function"]) is not None
    file, either, memory, saves, opens = kinds
    if not (file | either).any():
        return Writes(np.zeros(0, np.int64))
    certain, unsure, spared = (
        _outermost(host, np.flatnonzero(python & which[host.name]), saves, own) for which in (file, either, memory)
    )
    found = np.union1d(certain, without(unsure, spared))
    found = np.union1d(found, _opened(host, np.flatnonzero(python & opens[host.name]), found))
    # Without the user's frames between, one may lie in another.
    inside = host.above(found, np.isin(np.arange(host.size), found)) >= 0 if len(found) else np.zeros(0, np.bool_)
    return Writes(found[~inside])


def _outermost(host: Host, nodes: Ints, saves: Bools, own: Bools) -> Ints:
    """Return the outermost call of a library's that saves around each of *nodes*, inside the user's code; else the node itself."""
    best, at = nodes.copy(), host.parent[nodes].astype(np.int64)
    open_ = np.flatnonzero(at >= 0)
    while len(open_):
        here = at[open_]
        open_, here = open_[~own[host.name[here]]], here[~own[host.name[here]]]
        saving = saves[host.name[here]]
        best[open_[saving]] = here[saving]
        at[open_] = host.parent[here]
        open_ = open_[at[open_] >= 0]
    return distinct(best)


def note(share: float, ns: int, text: str) -> str:
    """Write what the recorder notes before an operator: what part of the *ns* of Python there wrote files, and by what call."""
    return f"{share:.3f} of {ns} ns in {text}"


def _opened(host: Host, opens: Ints, found: Ints) -> Ints:
    """Return which of *opens* open a file that is written next, in the same function: to empty a file that is there takes long."""
    if not len(opens) or not len(found):
        return opens[:0]
    order = np.lexsort((host.start[found], host.thread[found]))
    behind = found[order]
    keys = np.lexsort((np.r_[host.start[behind], host.start[opens]], np.r_[host.thread[behind], host.thread[opens]]))
    both = np.r_[behind, opens][keys]
    is_open = keys >= len(behind)
    at = np.flatnonzero(is_open[:-1] & ~is_open[1:])
    first, then = both[at], both[at + 1]
    functions = host.group == PYTHON
    same = host.above(first, functions) == host.above(then, functions)
    chosen: Ints = first[same & (host.thread[first] == host.thread[then])]
    return chosen
