"""Rates of a device: peak and reachable, by type of number, and of its memory and links.

Everything is dense, with sums of 16-bit products in fp32, as torch's are: what makers quote "with sparsity" is halved, and
where a board sums in fp32 at half its rate, as GeForce cards do, it is that half. One direction of a link. None is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

Basis = Literal["measured", "assumed", "given"]
"""Of a reachable rate: measured on such a device, a share of the peak by its architecture, or from the user's settings."""


class Peaks(NamedTuple):
    """Peak rates in TFLOP/s (of int8: TOP/s): ordinary units in fp64 and fp32, matrix units in all else."""

    fp64: float | None = None
    fp64_tensor: float | None = None
    fp32: float | None = None
    fp32_tensor: float | None = None
    """Products of full fp32 in matrix units, which AMD's have and NVIDIA's do not."""
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None
    fp8: float | None = None
    fp4: float | None = None
    int8: float | None = None

    @property
    def half_times(self) -> float | None:
        """Peak rate of the 16-bit matrix units over that of products in fp32, in the faster units that can do them."""
        fp32 = max(self.fp32 or 0.0, self.fp32_tensor or 0.0)
        return self.fp16 / fp32 if self.fp16 and fp32 else None

    @property
    def tf32_times(self) -> float | None:
        """The same for TF32."""
        return self.tf32 / self.fp32 if self.tf32 and self.fp32 else None

    @property
    def half_times_tf32(self) -> float | None:
        """Peak rate in 16 bits over that of TF32."""
        return self.fp16 / self.tf32 if self.fp16 and self.tf32 else None


KINDS = (*Peaks._fields, "memory", "host_link", "gpu_link")
"""Rates of a device: of arithmetic in TFLOP/s, of memory and links in GB/s."""


class Device(NamedTuple):
    """One variant of a device, as the table has it."""

    name: str
    pattern: str
    """Of the name that torch gives it."""
    family: str
    """Key of the shares that are reachable."""
    source: str
    peaks: Peaks = Peaks()
    sms: int | None = None
    gib: float | None = None
    """Nominal size of the memory; what torch says is up to a tenth less."""
    memory: float | None = None
    l2_mib: float | None = None
    last_level_mib: float | None = None
    """A cache between L2 and memory: AMD's Infinity Cache."""
    pcie: int | None = None
    """Generation of PCI Express; 0 where host and device are joined by something faster."""
    lanes: int = 16
    c2c: float | None = None
    """GB/s a direction of what joins host and device in place of PCI Express."""
    gpu_link: float | None = None
    """GB/s a direction over all links to other devices; 0 for a board that has none."""
    per: str = ""
    """Part of a package that torch counts as one device, where it is not the whole."""


class Limit(NamedTuple):
    """A peak rate, and what of it programs reach; None where nothing is known of that."""

    peak: float
    reachable: float | None
    basis: Basis
    source: str
    """Of the reachable rate."""


class Rates(Struct, frozen=True):
    """Rates and caches of one device."""

    name: str
    source: str
    limits: Mapping[str, Limit]
    """By kind (``KINDS``): TFLOP/s of arithmetic, GB/s of memory and links; a kind that is not known is not there."""
    sms: int | None = None
    l2_bytes: int | None = None
    last_level_bytes: int | None = None

    def peak(self, kind: str) -> float | None:
        """The peak rate of a kind; None where it is not known."""
        found = self.limits.get(kind)
        return found.peak if found else None

    def reachable(self, kind: str) -> float | None:
        """The rate of a kind that programs reach; None where it is not known."""
        found = self.limits.get(kind)
        return found.reachable if found else None

    def products(self, type_: str) -> Limit | None:
        """The limit of matrix products in a type: of matrix units where they do that type in full, else of the ordinary ones."""
        return self.limits.get(f"{type_}_tensor") or self.limits.get(type_)
