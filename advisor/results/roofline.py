"""Roofline of a device, and the operators under it: part of the views."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, Text, doc


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of arithmetic in one number format, by matrix units where the device has them for it."""

    format: Annotated[Name, doc("fp64, fp32, tf32, fp16, bf16, fp8, fp4 or int8.")]
    tflops: Annotated[float, doc("TFLOP/s at the peak; of int8 TOP/s.")]
    reachable_tflops: Annotated[float | None, doc("The same as programs reach; None where unknown.")]


class RoofPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one operator in one number format, in steady work on the busiest device."""

    op: Annotated[Text, doc("The operator whose work they do.")]
    format: Annotated[Name | None, doc("The format of its matrix products; None for other arithmetic.")]
    ms: Annotated[float, doc("Time that they own, per step (per window without steps).")]
    tflops: Annotated[float, doc("Arithmetic over the kernels' time, in TFLOP/s.")]
    intensity: Annotated[float, doc("Arithmetic over the bytes that must move at the least, in FLOP a byte.")]
    reachable_share: Annotated[float, doc("Of their time, what the same work takes at rates that programs reach.")]


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """Operators by how much they compute a byte and how fast, under what the device can do."""

    device: Annotated[Name, doc("The device, as the table of rates has it.")]
    memory_gbps: Annotated[float, doc("Peak bandwidth of its memory.")]
    reachable_gbps: Annotated[float | None, doc("The same as programs reach; None where unknown.")]
    roofs: Annotated[list[Roof], doc("Of the formats in which matrix products ran, the highest first.")]
    points: Annotated[list[RoofPoint], doc("The operators with most time, the most first.")]
    moving_ms: Annotated[
        float, doc("Time of operators that compute nothing (copies, fills, gathers), which no point stands for.")
    ]
    left_ms: Annotated[float, doc("Time of further operators that compute, with less than those of `points`.")]
