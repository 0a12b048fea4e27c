"""The table of devices: sources, dense rates, and that its numbers fit one another."""

from __future__ import annotations

import json

import pytest
from support.paths import ROOT

from advisor.hardware.lookup import DEVICES, limits
from advisor.hardware.rates import KINDS, Device
from advisor.hardware.reachable import MEASURED, SHARES

NAMES = [f"{device.name} {device.sms} {device.gib}" for device in DEVICES]
GIB = 1 << 30

# Operations of the ordinary fp32 units in a clock, by unit: two for each lane of its 64, 128 or, of a vector engine, 16.
CLOCK_OPS = {
    **dict.fromkeys(("volta", "t4", "turing", "a100", "a100-pcie", "cdna", "cdna2"), 128),
    **dict.fromkeys(
        ("ampere", "ada", "l4", "geforce", "hopper", "hopper-pcie", "hopper-small", "gh200", "blackwell"), 256
    ),
    **dict.fromkeys(("mi300", "mi325", "mi350", "mi355"), 256),
    "xe": 32,
}


@pytest.mark.parametrize("device", DEVICES, ids=NAMES)
def test_every_device_has_its_source_and_what_the_roofline_needs(device: Device) -> None:
    assert len(device.source) > 15
    assert "http" not in device.source
    assert device.family in SHARES
    assert device.peaks.fp32
    assert device.memory
    assert device.pcie is not None


@pytest.mark.parametrize("device", [device for device in DEVICES if device.sms], ids=lambda device: device.name)
def test_the_rate_in_fp32_is_units_times_a_clock(device: Device) -> None:
    ops = 128 if device.family == "geforce" and device.name.startswith("RTX 20") else CLOCK_OPS[device.family]
    assert device.peaks.fp32 is not None
    assert device.sms is not None
    # GHz of boards that are held to 70 W, and of the fastest.
    assert 1.15 <= device.peaks.fp32 * 1e3 / (device.sms * ops) <= 2.75


@pytest.mark.parametrize("device", DEVICES, ids=NAMES)
def test_types_are_to_one_another_as_dense_rates_are(device: Device) -> None:
    # A sparse rate among dense ones is off by two: makers print it first.
    peaks = device.peaks
    half, geforce = peaks.fp16, device.family == "geforce"
    assert half is not None
    if peaks.bf16 is not None and device.name != "MI100":
        assert peaks.bf16 == half
    if peaks.tf32 is not None:
        assert half / peaks.tf32 == pytest.approx(2.0, rel=0.03)
    if peaks.fp8 is not None:
        assert peaks.fp8 / half == pytest.approx(4.0 if geforce else 2.0, rel=0.03)
    if peaks.fp4 is not None:
        assert peaks.fp8 is not None
        assert peaks.fp4 / peaks.fp8 == pytest.approx(3.0 if device.name in ("B300", "GB300") else 2.0, rel=0.01)
    if peaks.int8 is not None and device.name not in ("B300", "GB300"):
        expected = 4.0 if geforce else 1.0 if device.family in ("cdna", "cdna2") else 2.0
        assert peaks.int8 / half == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("name", "sms", "gib", "kind", "sparse"),
    [
        # As data sheets print them, with sparsity.
        ("NVIDIA H100 80GB HBM3", 132, 79, "fp8", 3958), ("NVIDIA H100 80GB HBM3", 132, 79, "bf16", 1979),
        ("NVIDIA H100 NVL", 132, 93, "tf32", 835), ("NVIDIA L4", 58, 22, "fp8", 485), ("NVIDIA L40S", 142, 45, "fp8", 1466),
        ("NVIDIA B200", 148, 178, "fp4", 18000), ("NVIDIA B200", 148, 178, "tf32", 2250), ("NVIDIA GB200", 152, 185, "bf16", 5000),
        ("NVIDIA A100-SXM4-80GB", 108, 79, "int8", 1248), ("NVIDIA A30", 56, 24, "fp16", 330),
        ("NVIDIA GeForce RTX 5090", 170, 32, "fp4", 3352), ("NVIDIA GeForce RTX 3090", 82, 24, "fp16", 142),
        ("NVIDIA RTX A4000", 48, 16, "fp16", 153.4), ("NVIDIA GeForce RTX 4090", 128, 24, "bf16", 330.3),
        ("AMD Instinct MI300X", 304, 192, "fp8", 5229.8), ("AMD Instinct MI355X", 256, 288, "fp16", 5033),
    ],
)  # fmt: skip
def test_rates_are_dense(name: str, sms: int, gib: int, kind: str, sparse: float) -> None:
    rates = limits(name, sms, gib * GIB)
    assert rates is not None
    assert rates.peak(kind) == pytest.approx(sparse / 2, rel=0.005)


def test_a_die_of_an_mi250x_is_half_the_package() -> None:
    # 383 TFLOP/s and 3,277 GB/s are both dies'.
    rates = limits("AMD Instinct MI250X", 110, 64 * GIB)
    assert rates is not None
    assert rates.peak("fp16") == pytest.approx(383 / 2)
    assert rates.peak("memory") == pytest.approx(3277 / 2, rel=0.001)


@pytest.mark.parametrize("device", DEVICES, ids=NAMES)
def test_no_more_is_reached_than_the_peak(device: Device) -> None:
    measured = MEASURED.get(device.name, {})
    known = device.peaks._asdict() | {"memory": device.memory}
    for kind, (rate, source) in measured.items():
        assert 0.3 * known[kind] < rate <= known[kind], kind
        assert source
    for kind in KINDS:
        assert 0 < SHARES[device.family].of(kind) <= 1


def test_every_measurement_is_of_a_device_in_the_table() -> None:
    assert MEASURED.keys() <= {device.name for device in DEVICES}


def test_an_h100_reaches_what_was_measured_on_one() -> None:
    own = json.loads((ROOT / "sample_traces" / "h100" / "figures.json").read_text())["reachable"]
    rates = limits("NVIDIA H100 80GB HBM3", 132, 85_017_493_504)
    assert rates is not None
    keys = {"fp64": "fp64_tensor", "fp8_rowwise": "fp8", "memory_triad": "memory"}
    for key in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8_rowwise", "int8", "memory_triad"):
        limit = rates.limits[keys.get(key, key)]
        assert limit.reachable == pytest.approx(own[key], rel=0.001), key
        assert limit.basis == "measured"
    # Nothing that was measured is above the peak, writes alone included.
    assert own["memory_write"] < rates.limits["memory"].peak


def test_what_is_assumed_says_so_and_whence() -> None:
    rates = limits("NVIDIA H200", 132, 141 * GIB)
    assert rates is not None
    assert (rates.limits["bf16"].basis, rates.limits["bf16"].reachable) == ("measured", 794.5)
    tf32 = rates.limits["tf32"]
    assert (tf32.basis, tf32.reachable) == ("assumed", pytest.approx(0.79 * 494.7))
    assert "H100 SXM" in tf32.source
