"""Stretches in which the host waits for nothing run as arrays, and come to what the clock comes to node by node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.real import AUDITED, NAMES
from support.traces import trace as real

from advisor.replay import graph as graphs
from advisor.replay import simulate
from advisor.replay.graph import Graph
from advisor.testing import TraceBuilder
from advisor.trace import read

FIELDS = ("start", "end", "begun", "ended")
A100 = "NVIDIA A100-SXM4-80GB"


def drawn(graph: Graph, seed: int) -> simulate.Change:
    """A change of some of the times, at random; none for the first."""
    draw = np.random.default_rng(seed)

    def less(times: np.ndarray) -> np.ndarray | None:
        parts = np.where(draw.random(len(times)) < 0.3, draw.random(len(times)), 0)
        return (np.abs(times) * parts).astype(np.int64) if draw.random() < 0.7 else None

    if not seed:
        return simulate.Change()
    free = draw.random(len(graph)) * (draw.random(len(graph)) < 0.3)
    return simulate.Change(
        think=less(graph.think),
        call=less(graph.length),
        dur=less(graph.dur),
        free=free if draw.random() < 0.5 else None,
        everywhere=bool(draw.random() < 0.4),
        late=float(draw.random()),
    )


def compare(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> list[simulate.Stretch]:
    monkeypatch.setattr(simulate, "_SHORT", 1)
    arrays = simulate.Prepared(graph)
    monkeypatch.setattr(simulate, "_SHORT", 1 << 60)
    nodes = simulate.Prepared(graph)
    assert not any(stretch.owner is not None for stretch in nodes.stretches)
    for prepared in (arrays, nodes):
        covered = [at for stretch in prepared.stretches for at in range(stretch.low, stretch.high)]
        assert covered == list(range(len(graph)))
    for seed in range(8):
        change = drawn(graph, seed)
        one, other = simulate.run(arrays, change), simulate.run(nodes, change)
        for field in FIELDS:
            assert np.array_equal(getattr(one, field), getattr(other, field)), (seed, field)
    return arrays.stretches


@pytest.mark.real
@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_real_traces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.build(real(name.removesuffix(".json.gz")).context)
    if graph is not None:
        compare(graph, monkeypatch)


def steady() -> TraceBuilder:
    b = TraceBuilder(A100)
    for _ in range(3):
        with b.step():
            for at in range(40):
                with b.op("aten::mm"):
                    b.kernel("gemm", us=3 + at % 11)
    b.sync()
    return b


def streams() -> TraceBuilder:
    """Work on two streams by turns, and a copy back that blocks."""
    b = TraceBuilder(A100)
    for _ in range(3):
        with b.step():
            for at in range(30):
                with b.op("aten::mm"):
                    b.kernel("gemm", us=5 + at % 7, stream=7 + at % 2)
            b.item()
    return b


def full() -> TraceBuilder:
    """So many short launches before long kernels that the queue fills."""
    b = TraceBuilder(A100, host_us=1)
    with b.step():
        for _ in range(2500):
            with b.op("aten::mm"):
                b.kernel("gemm", us=20)
    b.sync()
    return b


@pytest.mark.parametrize(("build", "least"), [(steady, 100), (streams, 25), (full, 0)])
def test_built_traces(
    build: Callable[[], TraceBuilder], least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, to the ns; and stretches are as long as the program lets them be."""
    graph = graphs.build(read(str(build().write(tmp_path / "trace.json"))).context)
    assert graph is not None
    stretches = compare(graph, monkeypatch)
    assert max(stretch.high - stretch.low for stretch in stretches if stretch.owner is not None) >= least


def test_a_full_queue_goes_node_by_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that waits for room in the queue: what the arrays came to is thrown away."""
    graph = graphs.build(read(str(steady().write(tmp_path / "trace.json"))).context)
    assert graph is not None
    graph.queue = 5
    graph.dur *= 40
    tried: list[bool] = []
    at_once = simulate._Clock._at_once

    def spy(self: simulate._Clock, stretch: simulate.Stretch, owner: np.ndarray) -> bool:
        tried.append(at_once(self, stretch, owner))
        return tried[-1]

    monkeypatch.setattr(simulate._Clock, "_at_once", spy)
    compare(graph, monkeypatch)
    assert False in tried
