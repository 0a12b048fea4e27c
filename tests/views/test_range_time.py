"""The host's time by ranges of the program, where no device was recorded. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import advisor
from advisor.report import step_time
from advisor.results.analysis import Summary
from advisor.testing import TraceBuilder


def recorded(folder: Path, *, device: bool) -> Summary:
    """Three steps of a job on a GPU: 2 ms to read a value in an exchange and 3 ms of Python in it, then 20 ms of backward."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB" if device else None, host_us=5, latency_us=0)
    for _ in range(3):
        with b.step():
            with b.annotation("## exchange ##"):
                with b.op("aten::item"), b.op("aten::_local_scalar_dense"):
                    b.idle(ms=2)
                b.idle(ms=3)
            with b.annotation("## backward ##"), b.op("nccl:all_reduce"):
                if device:
                    b.kernel("ampere_sgemm_128x64_nn", ms=20)
                b.idle(ms=20)
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json")))).summary


def test_a_range_has_all_of_its_time_whatever_the_host_does_in_it(tmp_path: Path) -> None:
    summary = recorded(tmp_path, device=False)
    assert [(part.name, round(part.ms)) for part in summary.range_time] == [
        ("## backward ##", 20),
        ("## exchange ##", 5),
    ]
    assert step_time.ranges(summary) == "ranges (host): backward 20.0 ms, exchange 5.00 ms"


def test_with_a_device_its_time_is_divided_instead(tmp_path: Path) -> None:
    assert recorded(tmp_path, device=True).range_time == []
