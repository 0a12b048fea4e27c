"""Models that a program calls, by the time that each takes of the device: its kernels, and the idle time in its calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.intervals import Ints, covered, distinct, fetch, union
from advisor.regex import regex
from advisor.results.model_time import ModelTime
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import thread_behind
from advisor.views.kernel_time import mean_step_ns
from advisor.views.limits import owned

Floats = npt.NDArray[np.float64]
_LEAST = 0.02
"""Of steady work: a model of less is not named, and one that takes all but so much is alone."""
_WRAPPERS = frozenset(
    {"OptimizedModule", "DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DeepSpeedEngine", "DDP"}
)
_LOSS = regex(r"(?:Loss|Criterion)(?:WithLogits)?\d*$")
_NUMBER = regex(r"_\d+$")


def model_time(context: Context) -> list[ModelTime]:
    """Divide steady time of the busiest device among outermost modules, the longest first; a loss is none.

    The kernels of a backward pass are its forward's module's; idle time is of the module that the thread which launches next calls
    meanwhile. Empty where no modules were recorded, and where one model takes nearly all of it.
    """
    host, ledger = context.recording.host, context.ledger
    if not host.size or not host.module_paths or not len(context.kernel_rows) or context.graphs_underrecorded:
        return []
    names = _models(host.module_paths)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    codes = np.array([numbers[name] for name in names], np.int64)
    busy, _ = owned(context)
    kernels = _of_models(host.attributes.module, codes, context.recording.work.launch[context.kernel_rows], busy)
    idle = _idle(context, codes, len(numbers)) if context.idle_trusted else np.zeros(len(numbers))
    total = np.where([_LOSS.search(name) is None for name in numbers], kernels + idle, 0.0)
    order = [at for at in np.argsort(-total, kind="stable").tolist() if total[at] >= _LEAST * ledger.counted_ns]
    if len(order) < 2:
        return []
    ms, models = mean_step_ns(context) / 1e6 / max(ledger.counted_ns, 1), list(numbers)
    return [
        ModelTime(model=models[at], kernel_ms=float(kernels[at]) * ms, idle_ms=float(idle[at]) * ms) for at in order
    ]


def _idle(context: Context, codes: Ints, size: int) -> Floats:
    """Sum the idle time in which a thread is in a model's forward pass, and launches what ends it."""
    host, ledger = context.recording.host, context.ledger
    rows = np.flatnonzero(ledger.counted & ledger.through("host", "operator"))
    module = host.attributes.module
    calls = np.flatnonzero((module >= 0) & (fetch(module, host.parent) < 0))
    calls = calls[context.phases(calls) != BACKWARD]
    threads = thread_behind(context, ledger.end_ns[rows])
    idle = np.zeros(size)
    for thread in distinct(threads).tolist():
        waits, called = rows[threads == thread], calls[host.thread[calls] == thread]
        spans = union(ledger.start_ns[waits], ledger.end_ns[waits])
        within = covered(spans, host.start[called], host.end[called])
        idle += np.bincount(codes[module[called]], within, size)
    return idle


def _of_models(module: Ints, codes: Ints, launch: Ints, ns: Floats) -> Floats:
    """Sum some ns by the model of the node of each launch."""
    path = fetch(module, launch)
    known = path >= 0
    return np.bincount(codes[path[known]], ns[known], int(codes.max()) + 1).astype(np.float64)


def _models(paths: list[str]) -> list[str]:
    """Return the class of each path's outermost module that wraps no other: ``T5EncoderModel`` of ``T5EncoderModel_0/T5Stack_0``.

    A module that lies within another one elsewhere is that one's: its forward pass runs again.
    """
    parts = [_unwrapped(path.split("/")) for path in paths]
    around = {part: path[0] for path in parts for part in path[1:]}
    return [_NUMBER.sub("", _outermost(path[0], around)) for path in parts]


def _outermost(part: str, around: dict[str, str]) -> str:
    """Return the module around a module, around that one and so on, up to one that lies in none, or in what it holds itself."""
    known = {part}
    while (above := around.get(part, part)) not in known:
        known.add(above)
        part = above
    return part


def _unwrapped(path: list[str]) -> list[str]:
    while len(path) > 1 and _NUMBER.sub("", path[0]) in _WRAPPERS:
        path = path[1:]
    return path
