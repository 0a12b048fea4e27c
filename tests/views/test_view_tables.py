"""Memory, queue and tables of a report: their sums are the trace's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.traces import trace as real_trace
from support.views import by_first, check_tables, column, traced

from advisor.pipeline import analyze
from advisor.results.views import Views
from advisor.testing import TraceBuilder
from advisor.trace import Trace
from advisor.views.memory import thin
from advisor.views.operators import operators

# ---- memory and queue


def test_memory_keeps_its_peak_and_who_held_it(made: tuple[Trace, Views]) -> None:
    trace, views = made
    (curve,) = views.memory
    frame = trace.frame("memory").query("device == 0")
    # 1 MB before the recording, 4 MB of the linear layer, 3 MB beside it.
    assert curve.peak_bytes == frame["allocated_bytes"].max() == 8_000_000
    assert curve.capacity_bytes == 16 << 30
    assert curve.allocated_bytes == frame["allocated_bytes"].tolist()
    held = {row[0]: row[1:] for row in curve.holders.rows}
    assert held == {
        "Net_0": [4.0, 0.5, 1],
        "Net_0/ReLU_0": [3.0, 0.375, 1],
        "(before the recording)": [1.0, 0.125, None],
    }


def test_a_thinned_curve_keeps_every_extreme() -> None:
    rng = np.random.default_rng(3)
    when = np.sort(rng.integers(0, 10**9, 40_000))
    curve = np.cumsum(rng.integers(-100, 101, 40_000))
    keep = thin(when, [curve])
    assert len(keep) <= 1000
    assert curve[keep].max() == curve.max()
    assert {0, 39_999} <= set(keep.tolist())
    # In each stretch of the picture, the curve reaches as high and as low as it did: 83 stretches of six pixels each.
    stretch = ((when - when[0]) / (when[-1] - when[0]) * (498 - 1e-6)).astype(int) // 6
    for number in range(83):
        here, kept = curve[stretch == number], curve[keep][stretch[keep] == number]
        assert (kept.min(), kept.max()) == (here.min(), here.max())


def test_the_queue_counts_what_was_launched_and_has_not_ended(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        b.kernel("a", us=100)  # launch 0-10, runs 10-110
        b.kernel("b", us=100)  # launch 10-20, runs 110-210
        b.idle(us=180)  # to 200
        b.sync(us=10)  # to 210
        b.idle(us=90)  # to 300
        b.kernel("c", us=100)  # launch 300-310, runs 310-410
    views = analyze(traced(b, tmp_path), views=True).views
    assert views is not None
    queue = views.queue
    assert queue is not None
    assert list(zip(queue.ms, queue.depth, strict=True)) == [(0, 1), (0.01, 2), (0.11, 1), (0.21, 0), (0.3, 1)]
    assert queue.empty_share == pytest.approx(90 / 410)
    assert queue.median == 1


# ---- tables


def test_tables_say_what_sql_says(made: tuple[Trace, Views]) -> None:
    check_tables(*made)


def test_tables_of_a_built_trace_worked_out_by_hand(made: tuple[Trace, Views]) -> None:
    _, views = made
    ops = views.operators
    assert by_first(ops, "GPU self")["aten::addmm"] == 9.0
    assert by_first(ops, "GPU self")["aten::linear"] == 0
    assert by_first(ops, "GPU total")["aten::linear"] == 9.0
    assert "[[512],[8,512]]" in column(ops, "operator")
    tree = {row[0]: row[1:] for row in views.modules.rows}
    # calls, host, GPU self, total, backward: 3 x (3 + 2 of its backward) and 3 x 0.5 in the module inside it
    assert tree["Net_0"][0] == 6
    assert tree["Net_0"][2:5] == [15.0, 16.5, 6.0]
    assert tree["ReLU_0"][2:5] == [1.5, 1.5, 0]
    assert views.modules.parents[column(views.modules, "module").index("ReLU_0")] == 0
    (copy,) = [row for row in views.copies.rows if row[0] == "HtoD"]
    assert copy[:5] == ["HtoD", "pageable", "aten::copy_", "work/deep/train.py:54 train", 3]
    assert copy[5:8] == [pytest.approx(57.802752), 4.95, pytest.approx(19_267_584 / 1_650_000)]


def test_an_operator_inside_its_like_counts_once(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step(), b.op("aten::to", us=100), b.op("aten::other", us=60), b.op("aten::to", us=40):
        b.kernel("k", us=500)
    views = analyze(traced(b, tmp_path), views=True).views
    assert views is not None
    assert by_first(views.operators, "host total")["aten::to"] == pytest.approx(0.1)
    assert by_first(views.operators, "GPU total")["aten::to"] == pytest.approx(0.5)
    assert by_first(views.operators, "calls")["aten::to"] == 2


@pytest.mark.real
def test_marks_that_torch_wrote_as_operators_are_none() -> None:
    """In 2021 ProfilerStep, Optimizer.step and the loader's range were operators too."""
    trace = real_trace("v100_resnet50_workers0")
    names = [row[0] for row in operators(trace).rows]
    assert "aten::cudnn_convolution" in names
    assert not [
        name for name in names if str(name).startswith(("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#"))
    ]
