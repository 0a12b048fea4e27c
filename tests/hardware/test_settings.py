"""Rates that the user gives: read, checked, and before those of the table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.config import given_rates
from advisor.errors import UsageError
from advisor.hardware import KINDS, Hardware, limits
from advisor.hardware.lookup import DEVICES
from advisor.hardware.settings import Given
from advisor.rulebook.tables import Reader

GIB = 1 << 30


def test_units() -> None:
    read = given_rates(
        ["bf16=989", "fp8 = 1.98PFLOP/s", "int8=900 TOPS", "memory=3.35TB/s", "host_link=54", "l2_cache=50MB"]
    )
    assert read.rates() == {"bf16": 989.0, "fp8": 1980.0, "int8": 900.0, "memory": 3350.0, "host_link": 54.0}
    assert read.l2_bytes == 50 << 20


def test_a_table_of_the_settings_is_read_alike() -> None:
    reader = Reader()
    read = reader.struct(
        Hardware, {"device": "*B300*", "fp4": "13.5 PFLOP/s", "memory": 8000, "reachable": {"memory": "7.4 TB/s"}}
    )
    assert reader.texts() == []
    assert (read.rates(), read.reachable.rates()) == ({"fp4": 13500.0, "memory": 8000.0}, {"memory": 7400.0})
    assert read.is_of("NVIDIA B300 SXM6 AC")
    assert not read.is_of("NVIDIA B200")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["bf61=3"], "--peak: bf61: no such key; nearest: bf16"),
        (["bf16"], "--peak: bf16: must be of the form RATE=NUMBER"),
        (["bf16=fast"], "bf16: must be TFLOP/s such as 989, or text such as '1.98 PFLOP/s', not 'fast'"),
        (["memory=3.35TFLOPS"], "memory: must be GB/s such as 3350"),
        (["bf16=0"], "bf16: must be TFLOP/s"),
        (["bf16=0.0 TFLOPS"], "bf16: must be TFLOP/s"),
        (["bf16=-3"], "bf16: must be TFLOP/s"),
        (["bf16=1e999"], "bf16: must be TFLOP/s"),
        (["bf16=9e999TFLOP/s"], "bf16: must be TFLOP/s"),
        (["reachable=3"], "reachable: must be a table, not 3.0"),
        (["reachable.bf61=3"], r"reachable\.bf61: no such key; nearest: bf16"),
        (["bf16=5", "reachable.bf16=9"], r"reachable\.bf16: is above the peak, bf16 = 5.0"),
        (["bf16=5", "bf16.x=3"], r"bf16\.x: must be of the form"),
        (["=3"], "no such key"),
    ],
)
def test_a_mistake_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        given_rates(texts)


def test_a_device_that_nobody_knows_has_what_is_given() -> None:
    assert limits("A new device", 7, 8 * GIB, Hardware()) is None
    rates = limits("A new device", 7, 8 * GIB, given_rates(["bf16=100", "memory=1TB/s", "reachable.bf16=70"]))
    assert rates is not None
    assert {kind: limit.peak for kind, limit in rates.limits.items()} == {"bf16": 100.0, "memory": 1000.0}
    assert (rates.limits["bf16"].reachable, rates.limits["bf16"].basis) == (70.0, "given")
    assert (rates.limits["memory"].reachable, rates.limits["memory"].basis) == (pytest.approx(880.0), "assumed")


def test_a_peak_that_is_given_keeps_the_share_that_is_reached() -> None:
    # A board held to less power: 778.6 of 989.4 are reached, so 393.5 of 500.
    rates = limits("NVIDIA H100 80GB HBM3", 132, 79 * GIB, given_rates(["bf16=500"]))
    assert rates is not None
    assert rates.limits["bf16"].reachable == pytest.approx(393.5, abs=0.1)
    assert rates.limits["bf16"].basis == "assumed"
    assert rates.peak("fp16") == 989.4


def test_rates_of_other_devices_do_not_count() -> None:
    given_ = Hardware(device="*A100*", bf16=1.0)
    assert limits("NVIDIA H100 80GB HBM3", 132, 79 * GIB, given_) == limits("NVIDIA H100 80GB HBM3", 132, 79 * GIB)
    other = limits("NVIDIA A100-SXM4-80GB", 108, 79 * GIB, given_)
    assert other is not None
    assert other.peak("bf16") == 1.0


def test_more_may_be_reached_than_the_table_has_as_a_peak() -> None:
    rates = limits("NVIDIA GeForce RTX 4090", 128, 24 * GIB, given_rates(["reachable.bf16=170"]))
    assert rates is not None
    assert (rates.peak("bf16"), rates.reachable("bf16")) == (170.0, 170.0)


RATES = st.dictionaries(st.sampled_from(KINDS), st.floats(0.1, 1e5))


@settings(max_examples=60, deadline=None)
@given(device=st.sampled_from(DEVICES), first=RATES, second=RATES, reached=RATES)
def test_what_is_given_wins_and_the_later_over_the_earlier(
    device: object, first: dict[str, float], second: dict[str, float], reached: dict[str, float]
) -> None:
    named = next(row for row in DEVICES if row is device)
    name, sms, memory = named.name, named.sms, int(named.gib * GIB) if named.gib else None
    table = limits(name, sms, memory)
    rates = limits(name, sms, memory, Hardware(**first), Hardware(**second, reachable=Given(**reached)))
    expected = first | second
    for kind in KINDS:
        limit = rates.limits.get(kind) if rates else None
        if kind in expected:
            assert limit is not None
            least = reached.get(kind, 0.0) if kind not in second else 0.0
            assert limit.peak == max(expected[kind], least)
        elif kind not in reached:
            assert limit == (table.limits.get(kind) if table else None)
        if kind in reached:
            assert limit is not None
            assert limit.basis == "given"
            assert limit.reachable == min(reached[kind], limit.peak)
        if limit is not None and limit.reachable is not None:
            assert 0 <= limit.reachable <= limit.peak * (1 + 1e-9)
