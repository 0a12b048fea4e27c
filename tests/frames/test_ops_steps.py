"""Steps of operators: those of the host that ran them, however far it is ahead of the device."""

from __future__ import annotations

from pathlib import Path

from advisor.testing import TraceBuilder
from advisor.trace import read


def test_operators_of_a_host_that_is_a_step_ahead_are_counted_in_their_own_step(tmp_path: Path) -> None:
    """The device works off 30 ms from before the first step: its first step begins where the host is in the second."""
    b = TraceBuilder(host_us=0, latency_us=0)
    b.kernel("elementwise_kernel", us=30_000)
    for _ in range(3):
        with b.step():
            with b.op("reducer::copy_bucket_to_grad", us=100):
                b.kernel("copy_kernel", us=10)
            with b.op("aten::mm", us=10_000):
                b.kernel("volta_sgemm_128x64_nn", us=16_000)
    ops = read(str(b.write(tmp_path / "trace.json"))).frame("ops")
    copies = ops[ops["name"].astype(str) == "reducer::copy_bucket_to_grad"]
    assert sorted(copies["step"]) == [0, 1, 2]
