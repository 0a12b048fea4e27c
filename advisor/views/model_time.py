"""Models that a program calls, by the time that each takes of the device: its kernels, and the idle time in its calls."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from advisor.intervals import Ints, covered, fetch, union
from advisor.results.model_time import ModelTime
from advisor.timeline.context import Context
from advisor.views.kernel_time import mean_step_ns
from advisor.views.limits import owned

Floats = npt.NDArray[np.float64]
_LEAST = 0.02
"""Of steady work: a model of less is not named, and one that takes all but so much is alone."""
_WRAPPERS = frozenset(
    {"OptimizedModule", "DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DeepSpeedEngine", "DDP"}
)
_NUMBER = re.compile(r"_\d+$")


def model_time(context: Context) -> list[ModelTime]:
    """Divide steady time of the busiest device among outermost modules, the longest first.

    A backward pass is its forward's module's. Empty where no modules were recorded, and where one model takes nearly all of it.
    """
    host, ledger = context.recording.host, context.ledger
    if not host.size or not host.module_paths or not len(context.kernel_rows) or context.graphs_underrecorded:
        return []
    names = _models(host.module_paths)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    codes = np.array([numbers[name] for name in names], np.int64)
    busy, _ = owned(context)
    kernels = _of_models(host.attributes.module, codes, context.recording.work.launch[context.kernel_rows], busy)
    idle = np.zeros(len(numbers))
    if context.idle_trusted:
        rows = np.flatnonzero(ledger.counted & ledger.through("host", "operator"))
        module = host.attributes.module
        calls = np.flatnonzero((module >= 0) & (fetch(module, host.parent) < 0))
        within = covered(union(ledger.start_ns[rows], ledger.end_ns[rows]), host.start[calls], host.end[calls])
        idle = np.bincount(codes[module[calls]], within, len(numbers)).astype(np.float64)
    total = kernels + idle
    order = [at for at in np.argsort(-total, kind="stable").tolist() if total[at] >= _LEAST * ledger.counted_ns]
    if len(order) < 2:
        return []
    ms, models = mean_step_ns(context) / 1e6 / max(ledger.counted_ns, 1), list(numbers)
    return [
        ModelTime(model=models[at], kernel_ms=float(kernels[at]) * ms, idle_ms=float(idle[at]) * ms) for at in order
    ]


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
    return [_NUMBER.sub("", around.get(path[0], path[0])) for path in parts]


def _unwrapped(path: list[str]) -> list[str]:
    while len(path) > 1 and _NUMBER.sub("", path[0]) in _WRAPPERS:
        path = path[1:]
    return path
