"""Multiprocessors that a kernel leaves idle, by its blocks: what of its time is left in a larger batch, per sample."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]


def per_sample(blocks_per_sm: Floats, times: float | Floats) -> Floats:
    """Return the rest of a kernel's time, per sample, in a batch *times* as large; 1 where the trace does not say its blocks."""
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.ceil(np.round(blocks_per_sm * times, 6)) / (times * np.ceil(np.round(blocks_per_sm, 6)))
    return np.where(np.isfinite(grown) & (blocks_per_sm > 0), np.minimum(grown, 1.0), 1.0)


def blocks_per_sm(context: Context) -> Floats:
    """Return the blocks of each piece of GPU work for each multiprocessor; NaN of what is no kernel or does not tell."""
    work, rows = context.recording.work, context.kernel_rows
    out = np.full(len(work), np.nan)
    if len(rows):
        out[rows] = context.tables["kernel"]["blocks_per_sm"][work.row[rows]].astype(np.float64)
    return out
