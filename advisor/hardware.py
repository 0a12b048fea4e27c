"""Facts of the hardware beside the trace: its maker, and its peak rates."""

from __future__ import annotations

import re
from typing import NamedTuple

_AMD = re.compile(r"\bAMD\b|Instinct|Radeon|\bgfx\d", re.IGNORECASE)
_INTEL = re.compile(r"\bIntel\b|Data Center GPU|\bArc\b", re.IGNORECASE)
_NVIDIA = re.compile(
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


class Peaks(NamedTuple):
    """Peak rates in TFLOP/s, dense: ordinary fp32 units, and Tensor Cores in TF32 (None: they have none) and in 16 bits.

    16-bit products add up in fp32, as torch's do. Source: the makers' architecture papers and data sheets; of boards of
    one name the fastest, as what is asked of the table is how the rates compare.
    """

    fp32: float
    tf32: float | None
    half: float

    @property
    def half_times(self) -> float:
        """Peak rate of the 16-bit Tensor Cores over that of fp32."""
        return self.half / self.fp32

    @property
    def tf32_times(self) -> float | None:
        """The same for TF32."""
        return self.tf32 / self.fp32 if self.tf32 else None

    @property
    def half_times_tf32(self) -> float | None:
        """Peak rate in 16 bits over that of TF32."""
        return self.half / self.tf32 if self.tf32 else None


# The first that fits. On GeForce cards TF32 is as fast as fp32, and 16 bits are twice that.
_PEAKS = tuple(
    (re.compile(rf"(?<![A-Za-z\d]){name}(?![A-Za-z\d])"), peaks)
    for name, peaks in (
        ("V100S?", Peaks(15.7, None, 125.0)),
        ("(?:Tesla )?T4", Peaks(8.1, None, 65.0)),
        ("TITAN RTX|Quadro RTX [68]000", Peaks(16.3, None, 130.5)),
        ("RTX 2080 Ti", Peaks(13.4, None, 53.8)),
        ("A(?:100|800)(?:X|-\\w+)*", Peaks(19.5, 156.0, 312.0)),
        ("A30", Peaks(10.3, 82.6, 165.2)),
        ("A10", Peaks(31.2, 62.5, 125.0)),
        ("A10G", Peaks(31.5, 35.0, 70.0)),
        ("A40", Peaks(37.4, 74.8, 149.7)),
        ("RTX A6000", Peaks(38.7, 77.4, 154.8)),
        ("RTX A5000", Peaks(27.8, 55.6, 111.1)),
        ("RTX 3090 Ti", Peaks(40.0, 40.0, 80.0)),
        ("RTX 3090", Peaks(35.6, 35.6, 71.0)),
        ("RTX 3080", Peaks(29.8, 29.8, 59.5)),
        ("H100 PCIe", Peaks(51.2, 378.0, 756.0)),
        ("(?:H[12]00|H800|GH200)(?:-\\w+)*", Peaks(66.9, 494.7, 989.4)),
        ("H20", Peaks(44.0, 74.0, 148.0)),
        ("L4", Peaks(30.3, 60.6, 121.0)),
        ("L40S", Peaks(91.6, 183.2, 362.1)),
        ("L40", Peaks(90.5, 90.5, 181.0)),
        ("RTX 6000 Ada(?: Generation)?", Peaks(91.1, 182.1, 364.2)),
        ("RTX 4090", Peaks(82.6, 82.6, 165.2)),
        ("RTX 4080", Peaks(48.7, 48.7, 97.5)),
    )
)


def peaks(name: str | None) -> Peaks | None:
    """The peak rates of a device, by the name that the trace gives it; None where the table does not have it."""
    if name:
        for pattern, known in _PEAKS:
            if pattern.search(name[:200]):
                return known
    return None


class Abilities(NamedTuple):
    """Abilities of a device: matrix units in bf16, in TF32 and in fp8, and code of torch.compile; None where unknown."""

    bf16: bool | None
    tf32: bool | None
    fp8: bool | None
    compiles: bool | None


_BF16, _TF32, _FP8, _TRITON = 8.0, 8.0, 8.9, 7.0
"""CUDA compute capabilities from which on there are such units, and from which on Triton makes code."""
_CDNA = re.compile(r"\bMI(\d{3})|\bgfx(9[0-9a-f]{2})\b", re.IGNORECASE)
_CDNA_WITH_FP8 = re.compile(r"\bMI3\d\d|\bgfx9[45]", re.IGNORECASE)


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


# What pinned copies reach at best over 16 lanes, in GB/s: by the generation of PCI Express that the board has.
_GENERATIONS = {3: 13.0, 4: 26.0, 5: 54.0}
# The first that fits. 0: processor and GPU in one package, or joined by NVLink, without PCI Express between them.
_LINKS = tuple(
    (re.compile(rf"(?<![A-Za-z\d])(?:{names})(?![A-Za-z\d])", re.IGNORECASE), generation)
    for names, generation in (
        (r"GH200|GB\d+|MI300A", 0),
        (r"K80|M60|P40|P100|V100S?|T4|TITAN (?:RTX|V|Xp?)|MI25", 3),
        (r"Quadro RTX \d+|(?:RTX|GTX) (?:10|16|20)\d\d(?: Ti| SUPER)*", 3),
        (r"A2|A10G?|A16|A30|A40|A[18]00|L4|L40S?|MI50|MI60|MI100|MI2\d\dX?", 4),
        (r"RTX A\d+|RTX [34]0\d\d(?: Ti| SUPER)*|RTX \d+ Ada", 4),
        (r"H20|H[12]00|H800|B[123]00|MI3(?:00|08|25)X|MI35\dX", 5),
        (r"RTX 50\d\d(?: Ti| SUPER)*|RTX PRO \d+", 5),
    )
)


def link_gbps(name: str | None) -> float | None:
    """The GB/s that pinned copies between host and device reach at best; None for a device that the table does not have."""
    if name:
        for pattern, generation in _LINKS:
            if pattern.search(name[:200]):
                return _GENERATIONS.get(generation)
    return None
