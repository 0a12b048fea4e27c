"""What the trace says of the hardware: its maker."""

from __future__ import annotations

import re

_AMD = re.compile(r"\bAMD\b|Instinct|Radeon|\bgfx\d", re.IGNORECASE)
_INTEL = re.compile(r"\bIntel\b|Data Center GPU|\bArc\b", re.IGNORECASE)
_NVIDIA = re.compile(
    r"NVIDIA|Tesla|GeForce|Quadro|TITAN|\b[AHLVPTB]\d{2,3}[A-Z]?\b|RTX|GTX|\bGH200\b|\bGB\d{3}\b", re.IGNORECASE
)


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
