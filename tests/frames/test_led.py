"""The column `led` of `collectives`: what one change to communication serves, and what stays beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import rules

from advisor.pipeline import analyze
from advisor.testing import TraceBuilder
from advisor.trace import read


def exchanging(*, gathers_ms: int) -> TraceBuilder:
    """Four steps of 100 ms: the model exchanges for 15 ms alone and reduces for 2, the optimizer gathers for *gathers_ms*."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=0, world_size=8)
    for number in range(4):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=40_000, at_us=start + 200)
            b.collective("all_to_all", 100_000_000, us=15_000, at_us=start + 40_200)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=20_000, at_us=start + 55_200)
                b.collective("all_reduce", 1_000_000, us=2_000, at_us=start + 75_200)
            with b.annotation("Optimizer.step#Shampoo.step"):
                b.collective("all_gather", 50_000_000, us=gathers_ms * 1_000, at_us=start + 77_200)
            b.sync("cudaDeviceSynchronize")
            b.seek((number + 1) * 100_000)
    return b


@pytest.mark.parametrize(
    ("gathers_ms", "led"),
    [
        # The model's exchange leads: a change to it leaves the optimizer's gathers as they are.
        (10, {"all_to_all": True, "all_reduce": True, "all_gather": False}),
        # The optimizer's gathers lead.
        (16, {"all_to_all": False, "all_reduce": False, "all_gather": True}),
    ],
)
def test_what_one_change_serves(gathers_ms: int, led: dict[str, bool], tmp_path: Path) -> None:
    frame = read(str(exchanging(gathers_ms=gathers_ms).write(tmp_path / "t.json"))).frame("collectives")
    assert {kind: set(rows) for kind, rows in frame.groupby("kind", observed=True)["led"]} == {
        kind: {flag} for kind, flag in led.items()
    }


def test_what_stays_is_not_in_the_price(tmp_path: Path) -> None:
    trace = read(str(exchanging(gathers_ms=10).write(tmp_path / "t.json")))
    found = next(one for one in analyze(trace, rules()).findings if one.rule == "distributed/exposed-communication")
    # 15 + 2 + 10 ms are exposed; of 15 + 2 ms at most 0.7 can go.
    assert found.cost_ms == pytest.approx(27, abs=0.1)
    assert found.saving is not None
    assert found.saving.high_ms == pytest.approx(0.7 * 17, abs=0.2)
