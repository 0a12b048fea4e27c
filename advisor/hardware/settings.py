"""Rates that the user supplies: of a device that the table does not have, or of one of which more is known."""

from __future__ import annotations

import fnmatch
import re
from typing import Annotated

import msgspec
from msgspec import Meta

from advisor.hardware.rates import KINDS

_NUMBER = r"^\s*(?=[0.]*[1-9])(\d{1,9}(?:\.\d{1,9})?)\s*"
_RATE = _NUMBER + r"([GTP]?)(?:FLOPS?|FLOP/s|OPS?|OP/s)\s*$"
_SPEED = _NUMBER + r"([MGT]?)B/s\s*$"
_SIZE = _NUMBER + r"([KMG]?)i?B\s*$"
_TERA = {"": 1e-12, "G": 1e-3, "T": 1.0, "P": 1e3}
_GIGA = {"": 1e-9, "M": 1e-3, "G": 1.0, "T": 1e3}
_MOST = 1e9
"""Of any rate or size, in its unit: a million times what there is, and far from where arithmetic overflows."""
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

Arithmetic = (
    Annotated[
        Annotated[float, Meta(gt=0, le=_MOST)] | Annotated[str, Meta(pattern=_RATE)],
        Meta(
            description="TFLOP/s, or text with a unit",
            extra={"must": "TFLOP/s such as 989, or text such as '1.98 PFLOP/s'"},
        ),
    ]
    | None
)
Speed = (
    Annotated[
        Annotated[float, Meta(gt=0, le=_MOST)] | Annotated[str, Meta(pattern=_SPEED)],
        Meta(description="GB/s, or text with a unit", extra={"must": "GB/s such as 3350, or text such as '3.35 TB/s'"}),
    ]
    | None
)
Size = (
    Annotated[
        Annotated[float, Meta(gt=0, le=_MOST)] | Annotated[str, Meta(pattern=_SIZE)],
        Meta(description="MiB, or text with a unit", extra={"must": "MiB such as 50, or text such as '50 MB'"}),
    ]
    | None
)


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates that somebody gives: of matrix products, dense, by type; of memory and, one direction, of links."""

    fp64: Arithmetic = None
    fp64_tensor: Arithmetic = None
    fp32: Arithmetic = None
    fp32_tensor: Arithmetic = None
    tf32: Arithmetic = None
    fp16: Arithmetic = None
    bf16: Arithmetic = None
    fp8: Arithmetic = None
    fp4: Arithmetic = None
    int8: Arithmetic = None
    memory: Speed = None
    host_link: Speed = None
    gpu_link: Speed = None

    def rates(self) -> dict[str, float]:
        """Give what is there, by kind, in TFLOP/s and GB/s."""
        return {kind: _number(value) for kind in KINDS if (value := getattr(self, kind)) is not None}


class Hardware(Given, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates of the device, ``[tool.advisor.hardware]``: they come before those of the table."""

    device: Annotated[
        str,
        Meta(min_length=1, description="a glob on the device's name, as the trace has it: the devices that this is of"),
    ] = "*"
    reachable: Annotated[Given, Meta(description="what programs reach of it, where that is known")] = Given()
    l2_cache: Size = None

    @property
    def l2_bytes(self) -> int | None:
        """Size of the L2 cache, where it is given."""
        if isinstance(self.l2_cache, str):
            return int(_scaled(_SIZE, self.l2_cache, _BINARY))
        return None if self.l2_cache is None else int(self.l2_cache * (1 << 20))

    def problems(self) -> list[tuple[str, str]]:
        """Name each rate that is said to be reached beyond its own peak, and say so."""
        peaks, reached = self.rates(), self.reachable.rates()
        return [
            (f"reachable.{kind}", f"is above the peak, {kind} = {getattr(self, kind)}")
            for kind, rate in reached.items()
            if rate > peaks.get(kind, rate)
        ]

    def is_of(self, name: str | None) -> bool:
        """Check that these rates are of the device of that name."""
        return fnmatch.fnmatchcase((name or "").lower(), self.device.lower())


def _number(value: float | str) -> float:
    if not isinstance(value, str):
        return float(value)
    rate = re.match(_RATE, value)
    return _scaled(_RATE, value, _TERA) if rate else _scaled(_SPEED, value, _GIGA)


def _scaled(form: str, text: str, scale: dict[str, float] | dict[str, int]) -> float:
    """Read a text whose form was checked when the settings were read."""
    match = re.match(form, text)
    assert match is not None
    return float(match[1]) * scale[match[2]]
