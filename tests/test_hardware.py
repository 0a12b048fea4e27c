"""What is known of GPUs beside the trace: peak rates by name, and what they allow a fix to return."""

from __future__ import annotations

import pytest

from advisor.hardware import peaks
from advisor.rulebook.rule import Replay


@pytest.mark.parametrize(
    ("name", "half", "tf32"),
    [
        ("Tesla V100-SXM2-16GB", 125 / 15.7, None),
        ("Tesla V100S-PCIE-32GB", 130 / 16.4, None),
        ("Tesla T4", 65 / 8.1, None),
        ("NVIDIA A100-SXM4-80GB", 16.0, 8.0),
        ("NVIDIA A100 80GB PCIe", 16.0, 8.0),
        ("NVIDIA A10", 125 / 31.2, 62.5 / 31.2),
        ("NVIDIA A10G", 70 / 31.5, 35 / 31.5),
        ("NVIDIA H100 80GB HBM3", 989.4 / 66.9, 494.7 / 66.9),
        ("NVIDIA H100 PCIe", 756 / 51.2, 378 / 51.2),
        ("NVIDIA H200", 989.4 / 66.9, 494.7 / 66.9),
        ("NVIDIA GH200 480GB", 989.4 / 66.9, 494.7 / 66.9),
        ("NVIDIA GeForce RTX 4090", 2.0, 1.0),
        ("NVIDIA GeForce RTX 3090 Ti", 2.0, 1.0),
        ("NVIDIA GeForce RTX 3080", 2.0, 1.0),
        ("NVIDIA L40S", 362.1 / 91.6, 2.0),
        ("NVIDIA L40", 2.0, 1.0),
        ("NVIDIA L4", 121 / 30.3, 2.0),
        ("NVIDIA RTX 6000 Ada Generation", 364.2 / 91.1, 182.1 / 91.1),
    ],
)
def test_a_gpu_is_known_by_the_name_that_the_trace_gives_it(name: str, half: float, tf32: float | None) -> None:
    found = peaks(name)
    assert found is not None
    assert found.half_times == pytest.approx(half, rel=1e-3)
    assert found.tf32_times == (None if tf32 is None else pytest.approx(tf32, rel=1e-3))


@pytest.mark.parametrize("name", [None, "", "NVIDIA A1000", "L4000", "RTX 40900", "GA100X1", "NVIDIA RTX A3000"])
def test_a_gpu_that_the_table_does_not_have_is_not_guessed(name: str | None) -> None:
    assert peaks(name) is None


PRIOR = Replay("scale", 0.3, 0.75, "prior: up to four times", times="tf32_times")


def test_a_price_stays_where_the_rates_are_not_known() -> None:
    assert PRIOR.within(None) is PRIOR


def test_a_price_follows_the_ratio_of_the_rates_and_says_so() -> None:
    # 16 times as fast at most: a sixteenth is left; cautiously its fourth root, twice as fast: half.
    price = PRIOR.within(16.0)
    assert (price.low, price.high) == (pytest.approx(0.5), pytest.approx(15 / 16))
    assert price.basis == (
        "prior: up to four times; here 50 to 93.8 %: this GPU's TF32 peaks at 16 times the rate of its fp32 units"
    )
    # Of 4 the fourth root is 1.41: 29 %, under what the prior says of any GPU.
    assert (PRIOR.within(4.0).low, PRIOR.within(4.0).high) == (0.3, 0.75)


def test_a_ratio_that_is_no_rate_only_cuts() -> None:
    batch = Replay("batch", 0.5, 0.85, "larger", times="batch_times")
    assert batch.within(100.0) is batch
    assert (batch.within(2.0).low, batch.within(2.0).high) == (0.5, 0.5)


def test_a_price_is_cut_to_what_the_peak_rates_allow_and_says_so() -> None:
    # Twice as fast at most: half of the time.
    cut = PRIOR.within(2.0)
    assert (cut.low, cut.high) == (0.3, 0.5)
    assert cut.basis == (
        "prior: up to four times; here no more than 50 %: this GPU's TF32 peaks at 2 times the rate of its fp32 units"
    )
    # A quarter faster at most: a fifth of the time, also cautiously.
    assert (PRIOR.within(1.25).low, PRIOR.within(1.25).high) == (pytest.approx(0.2), pytest.approx(0.2))
    assert (PRIOR.within(0.9).low, PRIOR.within(0.9).high) == (0.0, 0.0)
