"""Replays that lack work: what of the time beside them may be explained, worked out by hand. Times in us."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from advisor.testing import TraceBuilder
from advisor.timeline.replays import pending
from advisor.trace import Trace, read


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def test_a_replay_is_pending_until_work_launched_behind_it_runs_on_its_stream(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        b.graph([("part", 50)])  # launched at 0, on stream 7, ends at 60
        b.seek(us=200)
        b.kernel("other", us=10, stream=8)  # launched at 200 on another stream
        b.seek(us=500)
        b.kernel("next", us=10)  # launched at 500, runs at 510
        b.seek(us=600)
        b.graph([])  # launched at 600, of no known stream
        b.seek(us=700)
        b.kernel("last", us=10, stream=8)  # runs at 710
        b.seek(us=1000)
    context = trace_of(b, tmp_path).context
    spans = pending(context.recording, context.graph_nodes)
    assert np.concatenate(spans).tolist() == [0, 600_000, 510_000, 710_000]


def test_a_replay_that_nothing_follows_is_pending_to_the_end(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        b.kernel("first", us=50)
        b.graph([("part", 50)])
        b.seek(us=1000)
    context = trace_of(b, tmp_path).context
    assert np.concatenate(pending(context.recording, context.graph_nodes)).tolist() == [
        10_000,
        context.recording.extent[1],
    ]


def test_what_lies_before_a_late_launch_is_the_hosts_without_operators(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    b.kernel("first", us=100)  # launched at 0, runs 10 to 110
    b.seek(us=500)
    b.kernel("late", us=100)  # launched at 500, runs 510 to 610
    trace = trace_of(b, tmp_path)
    causes = trace.ledger.of_extent()
    assert "host" not in trace.features
    assert causes["host"] >= 390_000
    assert causes["unknown"] == 0


def test_a_blocking_copy_owns_the_idle_beside_replays_that_lack_work(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        b.kernel("first", us=50)
        b.graph([])  # what it ran is not in the trace
        with b.annotation("## sparse_data_dist ##"), b.op("aten::to"):
            b.copy("DtoH", nbytes=704, us=5, at_us=1000)
        b.seek(us=1400)
        b.kernel("next", us=600)
        b.seek(us=3000)
    trace = trace_of(b, tmp_path)
    causes = trace.ledger.by_cause()
    copies = trace.copies
    assert not trace.context.idle_trusted
    assert copies["annotation"].tolist() == ["## sparse_data_dist ##"]
    # From the end of the first kernel, at 60, to the copy at 1000; then from 1005 to the next kernel at 1410, as long as the
    # host waited at most. Its launch, 1400 to 1410, is within.
    assert causes["blocking_copy"] == 940_000 + 405_000
    assert causes["unknown"] == 0
    assert sum(causes.values()) == trace.ledger.counted_ns
