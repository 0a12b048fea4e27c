"""Files from which events were taken out: what may be missing beside a collective, or in idle time, has no price."""

from __future__ import annotations

from pathlib import Path

import advisor
from advisor.testing import TraceBuilder
from advisor.trace import read


def _training(out: int) -> TraceBuilder:
    """Three steps of 100 ms: a product of 20, an exchange of 40 that nothing recorded hides, an optimizer of 40 ms on the host.

    *out* events are missing while the exchange runs, and as many in the optimizer's step.
    """
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mm", us=100):
                b.kernel("volta_sgemm_128x64_nn", us=20_000)
            with b.op("c10d::alltoall_base_", us=100):
                b.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", us=40_000)
            b.taken_out(out)
            with b.annotation("Optimizer.step#Shampoo.step"):
                b.idle(us=60_000)
                b.taken_out(out)
                b.idle(us=30_000)
                with b.op("aten::add_", us=100):
                    b.kernel("elementwise_kernel", us=1_000)
    return b


def test_an_exchange_beside_which_events_were_taken_out_is_not_known_to_be_exposed(tmp_path: Path) -> None:
    whole, thinned = (
        read(str(_training(out).write(tmp_path / f"{out}.json"))).frame("collectives") for out in (0, 2_000)
    )
    assert whole["exposed_ns"].sum() == whole["dur_ns"].sum() == 120_000_000
    assert thinned["exposed_ns"].sum() < 10_000_000
    assert thinned["cost_ns"].sum() < 10_000_000


def test_idle_time_of_which_events_were_taken_out_has_no_price(tmp_path: Path) -> None:
    whole, thinned = (
        advisor.analyze(str(_training(out).write(tmp_path / f"{out}.json")), only=["kernels/slow-optimizer"]).findings
        for out in (0, 2_000)
    )
    assert [finding.saving is None for finding in whole] == [False]
    assert [(finding.saving, finding.severity) for finding in thinned] == [(None, "medium")]
