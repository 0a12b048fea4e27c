"""Facts of the machine and of torch's switches that a trace does not hold. Nothing here sets a device up."""

from __future__ import annotations

import os
import platform
import re
import warnings
from pathlib import Path
from typing import Any

from advisor.reading.program_settings import INSTRUCTION_SETS
from advisor.record import memory

_PROCESSOR = Path("/proc/cpuinfo")
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


def processor() -> tuple[str | None, tuple[str, ...] | None]:
    """Read the model of the processor, and which of the instruction sets it has; None where the system does not tell."""
    try:
        text = _PROCESSOR.read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return platform.processor() or None, None
    lines = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", text, re.MULTILINE))
    flags = lines.get("flags", lines.get("Features"))
    name = lines.get("model name", "").strip() or platform.processor() or None
    return name, None if flags is None else tuple(each for each in INSTRUCTION_SETS if each in flags.split())


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
    name, instruction_sets = processor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "torch": str(torch.__version__),
            "cuda": version.cuda or getattr(version, "hip", None),
            "driver": driver(),
            "cores": usable_cores(),
            "threads": torch.get_num_threads(),
            "processor": name,
            "instruction_sets": instruction_sets,
            "memory_bytes": memory.total(),
            "quantized_engine": _engine(torch),
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


def _engine(torch: Any) -> str | None:
    """Name the engine that quantized layers run on; None where this torch has none."""
    try:
        name = str(torch.backends.quantized.engine)
    except (AttributeError, RuntimeError):
        return None
    return None if name == "none" else name
