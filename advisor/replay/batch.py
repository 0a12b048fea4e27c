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

from advisor.frames.filling import blocks_per_sm, per_sample
from advisor.timeline.calls import OPTIMIZER, ZERO_GRAD
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]


def left(context: Context, share: float, *, fuller: bool) -> Floats:
    """Return the rest of each piece of GPU work where *share* of what a step costs once goes; *fuller*: kernels fill up, too."""
    work = context.recording.work
    times = 1 / (1 - min(share, 0.99))
    out = per_sample(blocks_per_sm(context), times) if fuller else np.ones(len(work))
    once = np.isin(context.phases(work.launch), (OPTIMIZER, ZERO_GRAD)) | work.communication
    out[once] = 1 / times
    return out
