"""The maker of a device, and what its units can do at all."""

from __future__ import annotations

import re
from typing import NamedTuple

from advisor.regex import regex

_AMD = regex(r"\bAMD\b|Instinct|Radeon|\bgfx\d", re.IGNORECASE)
_INTEL = regex(r"\bIntel\b|Data Center GPU|\bArc\b", re.IGNORECASE)
_NVIDIA = regex(
    r"NVIDIA|Tesla|GeForce|Quadro|TITAN|\b[AHLVPTB]\d{2,3}[A-Z]?\b|RTX|GTX|\bGH200\b|\bGB\d{3}\b", re.IGNORECASE
)

# Makers of accelerators that go by a word of their own in categories of events; all others are of unknown makers.
ACCELERATORS = {"XPU": "intel", "HPU": "intel"}


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


class Abilities(NamedTuple):
    """Abilities of a device: matrix units in bf16, in TF32 and in fp8, and code of torch.compile; None where unknown."""

    bf16: bool | None
    tf32: bool | None
    fp8: bool | None
    compiles: bool | None


_BF16, _TF32, _FP8, _TRITON = 8.0, 8.0, 8.9, 7.0
"""CUDA compute capabilities from which on there are such units, and from which on Triton makes code."""
_CDNA = regex(r"\bMI(\d{3})|\bgfx(9[0-9a-f]{2})\b", re.IGNORECASE)
_CDNA_WITH_FP8 = regex(r"\bMI3\d\d|\bgfx9[45]", re.IGNORECASE)


def abilities(vendor: str, name: str | None, capability: float | None, proven: float | None = None) -> Abilities:
    """Abilities of a device by its maker, name and compute capability; *proven* is a capability that it has at the least."""
    if vendor == "nvidia":
        known = capability if capability is not None else proven

        def has(least: float) -> bool | None:
            if known is not None and known >= least:
                return True
            return False if capability is not None else None

        return Abilities(has(_BF16), has(_TF32), has(_FP8), has(_TRITON))
    if vendor == "amd":
        matrix = True if name and _CDNA.search(name) else None
        return Abilities(matrix, None, bool(_CDNA_WITH_FP8.search(name or "")) if matrix else None, True)
    return Abilities(None, None, None, None)
