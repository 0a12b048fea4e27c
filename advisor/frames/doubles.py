"""Products in float64 that a device multiplies as fast as those in float32."""

from __future__ import annotations

import numpy as np

from advisor import hardware
from advisor.frames.schema import flag
from advisor.intervals import Bools, Ints
from advisor.timeline.context import Context

COLUMNS = (
    flag("full_rate_double", "a matrix product in float64 that the device's matrix units multiply at the rate of float32 without "
         "TF32, by a table; false where TF32 is allowed, or seen in another product"),
)  # fmt: skip
_ALIKE = 0.9


def full_rate(context: Context, rows: Ints, products: Bools) -> Bools:
    """Flag the *products* among the kernels that are such ones."""
    dtypes = context.kernel_dtypes
    doubles: Bools = products & dtypes.equals("fp64")
    settings = context.metadata.recorded
    allowed = settings is not None and settings.tf32_matmul is True
    if allowed or not doubles.any() or (products & dtypes.equals("tf32")).any():
        return np.zeros(len(rows), np.bool_)
    work, out = context.recording.work, np.zeros(len(rows), np.bool_)
    for device in context.recording.devices:
        peaks = hardware.peaks(context.recording.device_name(device))
        single = max(peaks.fp32 or 0.0, peaks.fp32_tensor or 0.0) if peaks else 0.0
        if peaks and peaks.fp64_tensor and single and peaks.fp64_tensor >= _ALIKE * single:
            out |= doubles & (work.device[rows] == device)
    return out
