"""What the trace's device properties mean: vendor, and what the hardware can do."""

from __future__ import annotations

import re

_AMD = re.compile(r"\bAMD\b|Instinct|Radeon|\bgfx\d", re.IGNORECASE)
_INTEL = re.compile(r"\bIntel\b|Data Center GPU|\bArc\b", re.IGNORECASE)
_NVIDIA = re.compile(
    r"NVIDIA|Tesla|GeForce|Quadro|TITAN|\b[AHLVPTB]\d{2,3}[A-Z]?\b|RTX|GTX|\bGH200\b|\bGB\d{3}\b", re.IGNORECASE
)
_NO_TENSOR_CORES = re.compile(r"GTX\s*16\d\d", re.IGNORECASE)


def vendor(name: str | None, *, hip: bool = False, cuda: bool = False) -> str:
    """The maker of a device: ``nvidia``, ``amd``, ``intel`` or ``unknown``.

    gfx9 devices report compute capability 9.x, so capability never decides; names may be empty, so the runtime that
    launched the work (*hip* or *cuda* calls in the trace) is asked before them.
    """
    if hip:
        return "amd"
    if name:
        for pattern, maker in ((_AMD, "amd"), (_INTEL, "intel"), (_NVIDIA, "nvidia")):
            if pattern.search(name):
                return maker
    return "nvidia" if cuda else "unknown"


def has_tensor_cores(maker: str, capability: float | None, name: str | None) -> bool | None:
    """Whether an NVIDIA device has Tensor Cores; ``None`` for other makers and unknown capability."""
    if maker != "nvidia" or capability is None:
        return None
    return capability >= 7.0 and not (name and _NO_TENSOR_CORES.search(name))
