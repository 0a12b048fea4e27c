"""Samples that a loader fetches in this process, by the pass with stacks: their line, their library, and what would be the same
the next time.

A sample is a call of the dataset's ``__getitem__``. Until something random is drawn in it, it is the same whenever its index comes
again, and so are files that are read and decoded behind that. What the pass for stacks adds to each call is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from advisor.intervals import Bools, Ints
from advisor.reading.program_settings import SAMPLE_KINDS as KINDS
from advisor.reading.program_settings import Samples
from advisor.reading.stream import Recorded
from advisor.record.lines import MARK
from advisor.record.stacks import around
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP, PYTHON, Host

Floats = npt.NDArray[np.float64]
_WAIT = regex(r"^enumerate\(DataLoader\)#_SingleProcess\w*\.__next__")
_FETCH = regex(r"torch/utils/data/_utils/fetch\.py\(\d+\): ")
_SAMPLE = regex(r"\(\d+\): __getitems?__$")
FILES = regex(
    r"-packages/(?:PIL/(?:ImageFile\.py\(\d+\): load$|Image\.py\(\d+\): open$)|pandas/io/|imageio|skimage/io|tifffile|soundfile|"
    r"librosa/core/audio|torchaudio/|torchcodec/|torchvision/(?:io/|datasets/folder)|pydicom|nibabel|rasterio|zarr|lmdb|decord|"
    r"h5py/_hl/(?:dataset|files)|scipy/io/|numpy/lib/_?(?:npyio|format))"
    r"|torch/serialization\.py\(\d+\): load$"
    r"|/python3\.\d+/(?:wave|gzip|zipfile|csv|lzma|bz2|tarfile|json/(?:__init__|decoder)|zipfile/\w+|xml/\w+/\w+)\.py\("
    r"|^<built-in (?:function|method) (?:imread|imdecode|open|loads?|fromfile|decode_(?:jpeg|png|image))\b"
    r"|^<built-in method (?:\w*read\w*|decode) of (?:_io\.|ImagingDecoder)"
)
"""Calls that read files, or take apart what was in one."""
_TABLE = regex(r"-packages/pandas/")
_CONVERTS = regex(
    r"^<built-in (?:function|method) (?:tensor|as_tensor|from_numpy|array|asarray|FloatTensor|LongTensor)\b"
)
_MAPPED = regex(r"-packages/numpy/_?core/memmap\.py\(")
_DRAWS = regex(
    r"^aten::(?:rand|bernoulli|normal|uniform|multinomial|exponential|dropout)"
    r"|^<built-in (?:function|method) (?:rand\w*|getrandbits|shuffle|choices?|normal_?|uniform_?|bernoulli_?|multinomial)\b"
    r"|/python3\.\d+/random\.py\(|\): (?:random_|Random|ColorJitter)|^nn\.Module: (?:Random|ColorJitter)|-packages/albumentations/"
)
_LEAST = 0.25
"""Share of a sample from which on picking or converting rows is what it does."""
_LEAST_LINE = 0.2
_MOST_CALL_NS = 3_000
"""Time that the profiler adds to a call, at most: a busy machine makes it look like more."""
_WORD = regex(
    r"(?:-packages/|/python3\.\d+/)(?!site-|dist-)(\w+)[^()]*\(\d+\): (\w+)$|^<built-in (?:function|method) (\w+)"
)


def samples(timed: Recorded, stacked: Recorded, lines: Sequence[str], draws: Collection[int]) -> Samples | None:
    """Return what the samples of loaders without workers take; None where there are none.

    *lines* are the places that marked lines stand for, *draws* the numbers of those that draw something random.
    """
    if not any(_WAIT.match(name) for name in stacked.names):
        return None
    return _Look(stacked, lines, draws, _wait_ns(timed)).result()


def _wait_ns(recorded: Recorded) -> float:
    """Return the median time of a wait; NaN without any."""
    codes = [code for code, name in enumerate(recorded.names) if _WAIT.match(name)]
    waits = [
        table["dur"][np.isin(table["name"], codes)]
        for group in ("op", "annotation")
        if (table := recorded.tables.get(group)) is not None
    ]
    return float(np.median(all_)) if len(all_ := np.concatenate(waits)) else float("nan")


def _only(recorded: Recorded, kept: Bools) -> Recorded:
    """Return what is recorded with the operators and annotations of some names alone; Python's calls with the unmarked."""
    tables = {}
    for group, table in recorded.tables.items():
        rows = kept[table["name"]]
        if rows.any():
            tables[group] = {column: values[rows] for column, values in table.items()}
    return replace(recorded, tables=tables)


class _Look:
    """One pass with stacks."""

    def __init__(self, stacked: Recorded, lines: Sequence[str], draws: Collection[int], timed_ns: float) -> None:
        zero = min(int(table["ts"].min()) for table in stacked.tables.values())
        self.names, self.lines = stacked.names, lines
        # The span of a function's first line begins before the profiler's call and ends within it: apart, both nest.
        self.number = np.array(
            [int(name[len(MARK) :]) if name.startswith(MARK) else -1 for name in self.names], np.int64
        )
        self.host = host = Host(_only(stacked, self.number < 0), zero)
        self.marked = Host(_only(stacked, self.number >= 0), zero)
        acts = (host.group == ANNOTATION) | (host.group == OP)
        wait = np.flatnonzero(acts & self._named(_WAIT))
        # Of waits inside others, as of a loader that reads another, the outer ones.
        self.wait = wait[around(host, np.where(self._marks(wait), np.arange(host.size), -1))[wait] < 0]
        drawing = np.isin(self.number[self.marked.name], list(draws))
        self.drawn = np.sort(np.concatenate([host.start[self._named(_DRAWS)], self.marked.start[drawing]]))
        python = host.group == PYTHON
        outer = around(host, np.where(python, np.arange(host.size), -1))
        fetched = (outer >= 0) & self._named(_FETCH)[outer]
        self.sample = np.flatnonzero(python & fetched & self._named(_SAMPLE) & self._inside())
        self.calls = np.concatenate([[0], np.cumsum(python)])
        self.call_ns = self._overhead(timed_ns)

    def _named(self, pattern: re.Pattern[str]) -> Bools:
        flags = np.array([pattern.search(name) is not None for name in self.names], np.bool_)
        return np.asarray(flags[self.host.name])

    def _marks(self, nodes: Ints) -> Bools:
        out = np.zeros(self.host.size, np.bool_)
        out[nodes] = True
        return out

    def _inside(self) -> Bools:
        """Flag the nodes that lie in a wait."""
        host = self.host
        out = np.zeros(host.size, np.bool_)
        for node in self.wait.tolist():
            out |= (host.thread == host.thread[node]) & (host.start >= host.start[node]) & (host.end <= host.end[node])
        return out

    def _length(self, start: Ints, end: Ints, thread: Ints) -> Floats:
        """Return the ns from *start* to *end* on a thread, without what the calls in between took to be recorded."""
        host, out = self.host, np.zeros(len(start))
        for each in np.unique(thread).tolist():
            here = np.flatnonzero(thread == each)
            low, high = np.searchsorted(host.thread, [each, each + 1])
            nodes = host.start[low:high]
            first, last = low + np.searchsorted(nodes, start[here]), low + np.searchsorted(nodes, end[here])
            calls = self.calls[last] - self.calls[first]
            out[here] = np.maximum((end[here] - start[here]) - self.call_ns * calls, 0)
        return out

    def _overhead(self, timed_ns: float) -> float:
        host, self.call_ns = self.host, 0.0
        if not len(self.wait) or not timed_ns > 0:
            return 0.0
        low = self.wait
        inside = self._inside() & (host.group == PYTHON)
        calls = max(int(inside.sum()) / len(low), 1.0)
        longer = float(np.median(host.end[low] - host.start[low])) - timed_ns
        return min(max(longer / calls, 0.0), _MOST_CALL_NS)

    def result(self) -> Samples | None:
        """Return what was found; None without waits."""
        host = self.host
        if not len(self.wait):
            return None
        whole = float(self._length(host.start[self.wait], host.end[self.wait], host.thread[self.wait]).sum())
        if whole <= 0:
            return None
        fixed, kind, through = self._work()
        return Samples(
            count=self._count(),
            fixed_share=round(min(fixed / whole, 1.0), 3),
            kind=kind,
            through=through,
            **self._line(),
        )

    def _count(self) -> int:
        """Return the samples of a wait; of those that end an epoch there are none."""
        host = self.host
        if not len(self.sample):
            return 0
        at = np.searchsorted(host.start[self.wait], host.start[self.sample], side="right") - 1
        return int(np.median(np.unique(at, return_counts=True)[1]))

    # ---- what is the same the next time

    def _work(self) -> tuple[float, str, str]:
        """Return the ns of samples that are the same whenever they come again, what they do, and the heaviest call for it."""
        host, nodes = self.host, self.sample
        if not len(nodes):
            return 0.0, "", ""
        start, end = host.start[nodes], host.end[nodes]
        at = np.searchsorted(self.drawn, start)
        cut = np.minimum(end, np.append(self.drawn, np.iinfo(np.int64).max)[at])
        fixed = float(self._length(start, cut, host.thread[nodes]).sum())
        whole = float(self._length(start, end, host.thread[nodes]).sum())
        within = around(host, np.where(self._marks(nodes), np.arange(host.size), -1))
        files, table, rows = (self._outermost(pattern, within) for pattern in (FILES, _TABLE, _CONVERTS))
        behind = np.zeros(host.size, np.int64)
        behind[nodes] = cut
        late = files[host.start[files] >= behind[within[files]]]
        fixed += self._taken(late)
        if len(files) >= len(nodes):
            return fixed, KINDS[0], self._heaviest(files)
        if self._taken(table) >= _LEAST * whole:
            return fixed, KINDS[1], self._heaviest(table)
        mapped = bool((self._named(_MAPPED) & (within >= 0)).any())
        if self._taken(rows) >= _LEAST * whole and not mapped:
            return fixed, KINDS[2], self._heaviest(rows)
        return fixed, "", ""

    def _outermost(self, pattern: re.Pattern[str], within: Ints) -> Ints:
        flags = self._named(pattern) & (self.host.group == PYTHON) & (within >= 0)
        own = np.where(flags, np.arange(self.host.size), -1)
        return np.flatnonzero(flags & (around(self.host, own) < 0))

    def _taken(self, nodes: Ints) -> float:
        host = self.host
        return float(self._length(host.start[nodes], host.end[nodes], host.thread[nodes]).sum())

    def _heaviest(self, nodes: Ints) -> str:
        """Return the library and the function that most of the time of *nodes* is spent in."""
        host = self.host
        spent = np.bincount(host.name[nodes], host.end[nodes] - host.start[nodes])
        match = _WORD.search(self.names[int(np.argmax(spent))])
        return "" if match is None else match[3] or f"{match[1]}: {match[2]}"

    # ---- where

    def _line(self) -> dict[str, Any]:
        """Return the place of the line that most of the waits is spent at, itself or in a library that it calls."""
        host, marked = self.host, self.marked
        inside = np.zeros(marked.size, np.bool_)
        for node in self.wait.tolist():
            within = (marked.start >= host.start[node]) & (marked.end <= host.end[node])
            inside |= within & (marked.thread == host.thread[node])
        if not inside.any():
            return {}
        spent = (marked.end - marked.start - marked.children_ns())[inside]
        total = np.bincount(self.number[marked.name[inside]], spent)
        whole = float((host.end[self.wait] - host.start[self.wait]).sum())
        heaviest = int(np.argmax(total))
        share = float(total[heaviest]) / whole
        head, _, function = self.lines[heaviest].partition(": ")
        file, _, number = head.rpartition("(")
        if share < _LEAST_LINE or not number.rstrip(")").isdigit():
            return {}
        return {"line_share": round(min(share, 1.0), 3), "file": file, "line": int(number[:-1]), "function": function}
