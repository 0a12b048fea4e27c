"""What each figure of a trace is made of, by name and place: what the gate names when the figure grows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.timeline.ledger import CAUSES

if TYPE_CHECKING:
    from advisor.intervals import Bools, Ints
    from advisor.trace import Trace

_MS = 1e6
_MB = 1e6
_MOST = 30
_NAME = 120
_LEAST = 1e-3
"""Of a part, in ms, MB or calls a step: less is never what made a figure grow."""
_FOLDERS = re.compile(r".*[\\/]")
_IDLE = {"loader_ms": ("loader",), "sync_ms": ("sync", "blocking_copy"), "host_ms": ("host",)}


def host_steps(trace: Trace, frame: pd.DataFrame) -> Ints:
    """The step in which the host asked for each row, by its start; -1 outside. Without steps there is the one window."""
    at = frame["start_ns"].to_numpy(np.int64)
    if not trace.step_count:
        return np.zeros(len(at), np.int64)
    steps = trace.frame("steps")
    starts = steps["host_start_ns"].to_numpy(np.int64)
    last = int((starts + steps["host_dur_ns"].to_numpy(np.int64)).max())
    return np.where(at < last, np.searchsorted(starts, at, side="right") - 1, -1)


def parts(trace: Trace, sampled: Bools, metrics: Sequence[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """For each of *metrics* that has parts: the heaviest by name, a step on average over the *sampled* steps."""
    for name in metrics:
        if name == "step_ms":
            steps = trace.frame("steps")[sampled]
            means = {cause: float(steps[f"{cause}_ns"].mean()) / _MS for cause in CAUSES}
            yield name, {cause: round(ms, 6) for cause, ms in means.items() if ms >= _LEAST}
        elif name == "kernel_ms":
            kernels = trace.frame("kernels")
            mine = kernels[(kernels["device"] == trace.device) & (kernels["class"] != "communication")]
            yield name, _heaviest(mine, mine["step"].to_numpy(), sampled, ["name"], mine["dur_ns"] / _MS)
        elif name in _IDLE:
            gaps = trace.frame("gaps")
            mine = gaps[gaps["cause"].isin(_IDLE[name])]
            yield name, _heaviest(mine, mine["step"].to_numpy(), sampled, ["op", *_PLACE], mine["cost_ns"] / _MS)
        elif name == "sync_count":
            syncs = trace.frame("syncs")
            yield name, _heaviest(syncs, host_steps(trace, syncs), sampled, ["name", "op", *_PLACE])
        elif name == "operator_count":
            ops = trace.frame("ops")
            yield name, _heaviest(ops, host_steps(trace, ops), sampled, ["name"])
        elif name == "launch_count":
            launches = trace.frame("launches")
            mine = launches[launches["kind"].isin(["kernel", "copy", "memset", "graph"])]
            yield name, _heaviest(mine, host_steps(trace, mine), sampled, ["name", "op"])
        elif name in ("copied_mb", "pageable_mb"):
            copies = trace.frame("copies")
            chosen = copies["direction"].isin(["HtoD", "DtoH"])
            if name == "pageable_mb":
                chosen &= copies["host_memory"] == "pageable"
            mine = copies[chosen]
            megabytes = mine["bytes"].astype("float64") / _MB
            yield name, _heaviest(mine, host_steps(trace, mine), sampled, ["name", "op", *_PLACE], megabytes)


_PLACE = ("file", "line", "function")


def _heaviest(
    frame: pd.DataFrame, step: Ints, sampled: Bools, by: list[str], weights: pd.Series[float] | None = None
) -> dict[str, float]:
    """Sums of *weights* (else the number of rows) by what *by* says of the rows, a step on average."""
    inside: npt.NDArray[np.bool_] = (step >= 0) & (step < len(sampled))
    inside &= sampled[np.clip(step, 0, len(sampled) - 1)]
    keys = frame[by][inside]
    weight = np.ones(len(keys)) if weights is None else weights.to_numpy(np.float64)[inside]
    sums = keys.assign(_weight=weight).groupby(by, observed=True, dropna=False)["_weight"].sum()
    sums = (sums / max(1, int(sampled.sum()))).sort_values(ascending=False, kind="stable")[:_MOST]
    found: dict[str, float] = {}
    for key, value in sums.items():
        if value >= _LEAST:
            label = _label(by, key if isinstance(key, tuple) else (key,))
            found[label] = round(found.get(label, 0.0) + float(value), 6)
    return found


def _label(by: list[str], key: tuple[object, ...]) -> str:
    """``cudaStreamSynchronize in aten::item at train.py:54 train``; what is unknown is left out."""
    known = {name: value for name, value in zip(by, key, strict=True) if isinstance(value, str | int) and value != -1}
    name = str(known.get("name", ""))
    if "op" in known:
        name = f"{name} in {known['op']}" if name else str(known["op"])
    if "file" in known:
        name += f" at {_FOLDERS.sub('', str(known['file']))}"
        name += f":{known['line']}" if "line" in known else ""
        name += f" {known['function']}" if "function" in known else ""
    return name.strip()[:_NAME] or "no operator"
