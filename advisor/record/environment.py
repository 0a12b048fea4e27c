"""Facts of the machine and of torch's switches that a trace does not hold. Nothing here sets a device up."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

_DRIVER = Path("/proc/driver/nvidia/version")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def usable_cores() -> int | None:
    """Count the cores that this process may use: by its affinity and by the quota of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()
    quota = _quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def _quota() -> float | None:
    """Return the cores that the control group's quota allows; None without one."""
    try:
        if _QUOTA.exists():
            most, _, period = _QUOTA.read_text().strip().partition(" ")
        else:
            most, period = (path.read_text().strip() for path in _QUOTA_1)
        cores = int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None


def driver() -> str | None:
    """Read the version of NVIDIA's kernel driver; None where there is none."""
    try:
        match = re.search(r"(?:Kernel Module|Open Kernel Module)\D*?(\d+\.\d+[.\d]*)", _DRIVER.read_text())
    except OSError:
        return None
    return match[1] if match else None


def facts(torch: Any) -> dict[str, Any]:
    """Return the fields of :class:`~advisor.reading.program_settings.Recorded` of the whole process; None where unknown."""
    version = torch.version
    gpu = bool(version.cuda)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "torch": str(torch.__version__),
            "cuda": version.cuda or getattr(version, "hip", None),
            "driver": driver(),
            "cores": usable_cores(),
            "threads": torch.get_num_threads(),
            "tf32_matmul": _switch(torch, "_get_cublas_allow_tf32") if gpu else None,
            "tf32_cudnn": _switch(torch, "_get_cudnn_allow_tf32") if gpu else None,
            "cudnn_benchmark": _switch(torch, "_get_cudnn_benchmark") if gpu else None,
            "deterministic": _switch(torch, "_get_deterministic_algorithms"),
        }


def _switch(torch: Any, name: str) -> bool | None:
    """Read one of torch's switches; None where this torch has it no more, or raises an error."""
    try:
        return bool(getattr(torch._C, name)())
    except (AttributeError, RuntimeError):
        return None
