"""A larger batch, in the time that a batch of today's size takes within it: what each step costs once is spread.

The host's work does not depend on the size of the batch, nor does work on parameters and their gradients; of both, a batch
*times* as large leaves one part in *times*. A kernel with fewer blocks than multiprocessors leaves some idle, and one with
a block and a half for each leaves half of them idle for half of the time: more blocks fill them. It is charged for whole
blocks a multiprocessor. That a multiprocessor might hold several at once is left out: one that computes all the time gains
nothing from a second block. What loads or copies samples takes the same for each, and stays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.timeline.calls import OPTIMIZER, ZERO_GRAD
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]


def per_sample(blocks_per_sm: Floats, times: float) -> Floats:
    """Return the rest of a kernel's time, per sample, in a batch *times* as large; 1 where the trace does not say its blocks."""
    grown = np.ceil(np.round(blocks_per_sm * times, 6)) / (times * np.ceil(np.round(blocks_per_sm, 6)))
    return np.where(np.isfinite(grown) & (blocks_per_sm > 0), np.minimum(grown, 1.0), 1.0)


def left(context: Context, share: float, *, fuller: bool) -> Floats:
    """Return the rest of each piece of GPU work where *share* of what a step costs once goes; *fuller*: kernels fill up, too."""
    work, rows = context.recording.work, context.kernel_rows
    times = 1 / (1 - min(share, 0.99))
    out = np.ones(len(work))
    if fuller and len(rows):
        with np.errstate(divide="ignore", invalid="ignore"):
            out[rows] = per_sample(context.tables["kernel"]["blocks_per_sm"][work.row[rows]].astype(np.float64), times)
    once = np.isin(context.phases(work.launch), (OPTIMIZER, ZERO_GRAD)) | work.communication
    out[once] = 1 / times
    return out
