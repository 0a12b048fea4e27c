"""Devices by the names that torch writes in traces, and variants of one name by their units and memory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.hardware import full_name, limits, link_gbps, lookup, peaks, properties

GIB = 1 << 30

# Every name in the real traces, with numSms and totalGlobalMem as their deviceProperties have them.
TRACED = [
    ("Tesla V100-DGXS-32GB", 80, 34_084_028_416, "V100 SXM", 125.0, 900.0),
    ("Tesla V100-SXM2-32GB", 80, 34_079_637_504, "V100 SXM", 125.0, 900.0),
    ("NVIDIA GeForce RTX 2080 Ti", 68, 11_554_586_624, "RTX 2080 Ti", 56.8, 616.0),
    ("NVIDIA A100-PCIE-40GB", 108, 42_346_610_688, "A100 PCIe 40 GB", 312.0, 1555.0),
    ("NVIDIA A100-PG509-200", 108, 42_297_524_224, "A100 SXM 40 GB", 312.0, 1555.0),
    ("NVIDIA A100-SXM4-40GB", 108, 42_314_694_656, "A100 SXM 40 GB", 312.0, 1555.0),
    ("NVIDIA A100-SXM4-80GB", 108, 84_990_623_744, "A100 SXM 80 GB", 312.0, 2039.0),
    ("NVIDIA A100-SXM4-80GB", 108, 85_174_583_296, "A100 SXM 80 GB", 312.0, 2039.0),
    ("NVIDIA A100 80GB PCIe", 108, 84_987_740_160, "A100 PCIe 80 GB", 312.0, 1935.0),
    ("NVIDIA H100 80GB HBM3", 132, 85_018_279_936, "H100 SXM", 989.4, 3352.0),
    ("NVIDIA B200", 148, 191_503_138_816, "B200", 2250.0, 8000.0),
    ("AMD Instinct MI210", 104, 68_702_699_520, "MI210", 181.0, 1638.0),
    ("AMD Radeon Graphics", 104, 68_702_699_520, "MI210 or MI250 (one of the package's two dies)", 181.0, 1638.0),
    ("AMD Instinct MI300X", 304, 206_141_652_992, "MI300X", 1307.4, 5325.0),
    ("AMD Instinct MI300X VF", 304, 205_571_227_648, "MI300X", 1307.4, 5325.0),
    ("", 304, 206_141_652_992, "MI300X", 1307.4, 5325.0),
]
# Elsewhere: names, units and memory as torch prints them in others' reports.
REPORTED = [
    ("Tesla T4", 40, 15_828_320_256, "T4", 65.0, 320.0),
    ("NVIDIA A10G", 80, 22_587 << 20, "A10G", 70.0, 600.0),
    ("NVIDIA L40S", 142, 45_589 << 20, "L40S", 362.1, 864.0),
    ("NVIDIA H100 PCIe", 114, 79 * GIB, "H100 PCIe", 756.0, 2039.0),
    ("NVIDIA H100 NVL", 132, 99_456_909_312, "H100 NVL", 835.5, 3938.0),
    ("NVIDIA H200", 132, 143_156 << 20, "H200 SXM", 989.4, 4800.0),
    ("NVIDIA H20", 78, 97_285 << 20, "H20 96 GB", 148.0, 4023.0),
    ("NVIDIA GH200 480GB", 132, 95 * GIB, "GH200 96 GB", 989.4, 4023.0),
    ("NVIDIA GH200 144G HBM3e", 132, 141 * GIB, "GH200 144 GB", 989.4, 4900.0),
    ("NVIDIA GeForce RTX 4080", 76, 16_049 << 20, "RTX 4080", 97.4, 717.0),
    ("NVIDIA GeForce RTX 5090", 170, 32_109 << 20, "RTX 5090", 209.6, 1792.0),
    ("NVIDIA GeForce RTX 4090 D", 114, 24 * GIB, "RTX 4090 D", 147.0, 1008.0),
    ("NVIDIA GeForce RTX 3080", 68, 10 * GIB, "RTX 3080", 59.6, 760.0),
    ("NVIDIA GeForce RTX 3080", 70, 12 * GIB, "RTX 3080", 61.2, 912.0),
    ("NVIDIA RTX 6000 Ada Generation", 142, 48 * GIB, "RTX 6000 Ada Generation", 364.4, 960.0),
    ("AMD Instinct MI250X/MI250", 104, 64 * GIB, "MI250 (one of the package's two dies)", 181.0, 1638.0),
    ("AMD Instinct MI250X/MI250", 110, 64 * GIB, "MI250X (one of the package's two dies)", 191.5, 1638.0),
    ("AMD Instinct MI325X", 304, 256 * GIB, "MI325X", 1307.4, 6000.0),
    ("Intel(R) Data Center GPU Max 1100", 448, 48 * GIB, "Max 1100", 355.5, 1229.0),
    (
        "Intel(R) Data Center GPU Max 1550", 448, 65_536 << 20,
        "Max 1550, a stack of 56 Xe cores (one of the package's two stacks)", 367.0, 1638.0,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sms", "memory", "found", "half", "speed"), TRACED + REPORTED)
def test_a_device_is_known_by_what_torch_says_of_it(
    name: str, sms: int, memory: int, found: str, half: float, speed: float
) -> None:
    rates = limits(name, sms, memory)
    assert rates is not None
    assert (rates.name, rates.peak("fp16"), rates.peak("memory")) == (found, pytest.approx(half), speed)


@pytest.mark.parametrize(
    ("name", "sms", "memory"),
    [
        (None, None, None), ("", None, None), ("", 304, None), ("", 132, 80 * GIB), ("a device", 132, 80 * GIB),
        ("NVIDIA A1000", 16, 8 * GIB), ("RTX 40900", 128, 24 * GIB), ("AMD Radeon RX 7900 XTX", 96, 24 * GIB),
        # A slice of a GPU, a partition, another board under the name, fewer units than the row's.
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 10 * GIB), ("AMD Instinct MI300X", 38, 24 * GIB),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 76, 16 * GIB), ("NVIDIA A100-SXM-64GB", 124, 64 * GIB),
        ("NVIDIA H100 80GB HBM3", 114, 80 * GIB), ("NVIDIA A100-SXM4-80GB", 108, 40 * GIB),
    ],
)  # fmt: skip
def test_what_no_row_fits_is_not_guessed(name: str | None, sms: int | None, memory: int | None) -> None:
    assert limits(name, sms, memory) is None


def test_of_variants_that_a_name_leaves_open_only_what_they_agree_in_is_known() -> None:
    rates = limits("NVIDIA A100-SXM4", None, None)
    assert rates is not None
    assert rates.name == "A100 SXM 40 GB or A100 SXM 80 GB"
    assert rates.peak("bf16") == 312.0
    assert rates.peak("memory") is None
    assert rates.l2_bytes == 40 << 20
    # 40 GB or 80 GB differ in memory, a laptop's or two dies' in nothing that is asked of them.
    dies = limits("AMD Radeon Graphics", 104, 64 * GIB)
    assert dies is not None
    assert dies.peak("gpu_link") is None
    assert dies.peak("host_link") == 31.5


@pytest.mark.parametrize(
    ("name", "sms", "memory", "found"),
    [
        ("", 304, 206_141_652_992, "AMD Instinct MI300X"),
        (None, 304, 256 * GIB, "AMD Instinct MI325X"),
        # The dies of two boards are alike in all that tells a device.
        ("AMD Radeon Graphics", 104, 68_702_699_520, "AMD Instinct MI210 or MI250"),
        ("AMD Radeon Graphics", 48, 24 * GIB, "AMD Radeon Graphics"),
        ("", 132, 80 * GIB, ""), ("", 304, None, ""), (None, None, None, None),
        ("AMD Instinct MI300X VF", 304, 205_571_227_648, "AMD Instinct MI300X VF"),
    ],
)  # fmt: skip
def test_a_device_that_rocm_left_nameless_has_the_name_of_the_row_that_it_fits(
    name: str | None, sms: int | None, memory: int | None, found: str | None
) -> None:
    assert full_name(name, sms, memory) == found


def test_caches() -> None:
    mi300, h100 = limits("AMD Instinct MI300X", 304, 192 * GIB), limits("NVIDIA H100 80GB HBM3", 132, 80 * GIB)
    assert mi300 is not None
    assert h100 is not None
    assert (mi300.l2_bytes, mi300.last_level_bytes) == (32 << 20, 256 << 20)
    assert (h100.l2_bytes, h100.last_level_bytes) == (50 << 20, None)


def test_products_use_matrix_units_that_do_the_type_in_full() -> None:
    h100, mi210 = limits("NVIDIA H100 80GB HBM3", 132, 80 * GIB), limits("AMD Instinct MI210", 104, 64 * GIB)
    assert h100 is not None
    assert mi210 is not None
    assert [h100.products(kind).peak for kind in ("fp64", "fp32", "tf32")] == [66.9, 66.9, 494.7]  # type: ignore[union-attr]
    assert [mi210.products(kind).peak for kind in ("fp64", "fp32")] == [45.3, 45.3]  # type: ignore[union-attr]
    assert mi210.products("fp8") is None


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("NVIDIA GeForce RTX 4060", 13.0), ("NVIDIA GeForce GTX 1660 SUPER", 13.0), ("NVIDIA RTX PRO 6000", 54.0),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 26.0), ("NVIDIA TITAN V", 13.0), ("AMD Instinct MI308X", 54.0),
        ("NVIDIA GB200", None), ("Tesla P100-PCIE-16GB", 13.0),
    ],
)  # fmt: skip
def test_the_link_to_the_host(name: str, gbps: float | None) -> None:
    # A board of eight lanes has half of what its generation does over sixteen.
    assert link_gbps(name) == gbps


def test_ratios_of_devices() -> None:
    mi210, mi300x = peaks("AMD Instinct MI210"), peaks("AMD Instinct MI300X")
    assert mi210 is not None
    assert mi300x is not None
    # In fp32 AMD's matrix units multiply as well: 45.3 of 181 TFLOP/s, and 163.4 of 1,307.4.
    assert (mi210.half_times, mi300x.half_times) == (pytest.approx(4.0, rel=0.01), pytest.approx(8.0, rel=0.01))
    assert peaks("NVIDIA GeForce RTX 4090 Laptop GPU") is None
    b200 = peaks("NVIDIA B200")
    assert b200 is not None
    assert (b200.half_times, b200.tf32_times, b200.half_times_tf32) == (30.0, 15.0, 2.0)


@pytest.mark.parametrize(
    ("name", "full", "capability", "sms"),
    [
        ("mi300x", "AMD Instinct MI300X", None, 304),
        ("H100 PCIe", "H100 PCIe", 9.0, 114),
        ("NVIDIA A100", "NVIDIA A100", 8.0, 108),  # of 40 or 80 GB: the memory is not said
        ("rtx 5090", "rtx 5090", 12.0, 170),
        ("T4", "NVIDIA T4", 7.5, 40),
    ],
)
def test_properties_by_name(name: str, full: str, capability: float | None, sms: int) -> None:
    found = properties(name)
    assert found is not None
    assert (found.name, found.capability, found.sms) == (full, capability, sms)
    assert (found.memory_bytes is None) == (name == "NVIDIA A100")


def test_a_name_that_no_device_has() -> None:
    assert properties("Accelerator 9000") is None


@given(
    st.sampled_from([device.name for device in lookup.DEVICES]),
    st.text("NVIDAM Rtx-450i0ı", max_size=6),
    st.integers(0, 30),
)
def test_what_a_pattern_opens_with_leaves_out_no_device_that_it_fits(name: str, noise: str, at: int) -> None:
    name = name[:at] + noise + name[at:]
    fitting = {
        device.name
        for device in lookup.DEVICES
        if re.search(rf"(?<![A-Za-z\d])(?:{device.pattern})(?![A-Za-z\d])", name, re.IGNORECASE | re.ASCII)
    }
    near = {
        device.name
        for device in lookup.DEVICES
        if any(opening in name.lower() for opening in lookup.openings(device.pattern))
    }
    assert fitting <= near


def test_a_pattern_opens_with_what_every_text_that_fits_it_holds() -> None:
    assert lookup.openings(r"A100(?:-SXM4?)?(?:-40GB)?|A100-PG509-\d+") == ("a100", "a100-pg509-")
    assert lookup.openings(r"MI2\d\dX?|GB?200") == ("mi2", "g")
