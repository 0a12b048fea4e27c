"""Flame graphs as data and as pictures: sums by hand, what is merged, and that it stays small."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.pages import Page
from support.paths import ROOT
from support.traces import sample
from support.views import traced

from advisor.pipeline import analyze
from advisor.report.html import flame as drawing
from advisor.results.views import Flame, Views
from advisor.testing import TraceBuilder
from advisor.trace import Trace
from advisor.views.flame import LEAST, MOST, flames

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"


def tree(flame: Flame) -> dict[tuple[str, ...], tuple[float, int]]:
    """Paths by the names on the way to them, with their time and calls; no path is there twice."""
    ways: list[tuple[str, ...]] = []
    for name, parent in zip(flame.names, flame.parents, strict=True):
        ways.append((*(ways[parent] if parent >= 0 else ()), name))
    assert len(set(ways)) == len(ways)
    return dict(zip(ways, zip(flame.ms, flame.calls, strict=True), strict=True))


def test_the_gpus_time_hangs_below_modules(made: tuple[Trace, Views]) -> None:
    _, gpu = made[1].flames
    # Three steps: a product of 3 ms forward and one of 2 ms backward, a ReLU of 0.5 ms and a copy of 1.65 ms; readbacks of 1 us.
    assert gpu.total_ms == pytest.approx(3 * 7.151)
    assert tree(gpu) == {
        ("Net_0",): (16.5, 9),
        ("Net_0", "aten::addmm"): (9.0, 3),
        ("Net_0", "aten::mm"): (6.0, 3),
        ("Net_0", "ReLU_0"): (1.5, 3),
        ("Net_0", "ReLU_0", "aten::relu"): (1.5, 3),
        ("aten::copy_",): (4.95, 3),
        ("aten::copy_", "Memcpy HtoD (Pageable -> Device)"): (4.95, 3),
    }


def test_the_hosts_time_hangs_below_python(made: tuple[Trace, Views]) -> None:
    host, _ = made[1].flames
    found = tree(host)
    thread, train = "host thread 4000", "train (work/deep/train.py:54)"
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert found[(thread, loader)] == (6.0, 3)
    # 9.175 ms a step, of which the loader takes 2; autograd's thread worked for 18 us, too little to draw.
    assert found[(thread, train)] == (pytest.approx(3 * 7.175), 3)
    assert found[(thread, train, "aten::item")] == (pytest.approx(3 * 5.495), 3)
    assert host.total_ms == pytest.approx(3 * 9.181)
    assert not any(name.startswith("ProfilerStep") for name in host.names)


def test_without_stacks_operators_hang_below_operators(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step(), b.op("aten::linear"), b.op("aten::addmm"):
        b.kernel("gemm", us=40)
    views = analyze(traced(b, tmp_path), views=True).views
    assert views is not None
    host, gpu = views.flames
    assert ("host thread 4000", "aten::linear", "aten::addmm", "cudaLaunchKernel") in tree(host)
    assert "By operators inside operators" in host.note
    assert tree(gpu) == {
        ("aten::linear",): (0.04, 1),
        ("aten::linear", "aten::addmm"): (0.04, 1),
        ("aten::linear", "aten::addmm", "gemm"): (0.04, 1),
    }


def test_what_is_small_stands_together_and_work_without_a_launch_is_there(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.kernel("large", ms=10, launched=False)
    for at in range(50):
        b.kernel(f"k{at}", us=1, launched=False)
    views = analyze(traced(b, tmp_path), views=True).views
    assert views is not None
    (gpu,) = views.flames
    # 50 us of 10.05 ms: each is too small to draw, all together are not.
    assert tree(gpu) == {("large",): (10.0, 1), ("50 smaller",): (0.05, 50)}


def test_no_time_is_no_picture() -> None:
    none = Flame(kind="gpu", note="", total_ms=0.0, names=[], categories=[], parents=[], ms=[], calls=[])
    assert drawing.chart(none) == ""


def test_pictures_are_bounded_and_nothing_reaches_beyond_its_parent() -> None:
    views = sample(SAMPLE, views=True).views
    assert views is not None
    for flame in views.flames:
        assert len(flame.names) <= 2 * MOST + 1  # with one for what is merged in each
        assert all(ms >= LEAST * flame.total_ms for ms in flame.ms)
        for at, parent in enumerate(flame.parents):
            inside = sum(ms for ms, above in zip(flame.ms, flame.parents, strict=True) if above == at)
            assert parent < at
            assert inside <= flame.ms[at] * (1 + 1e-9)
        assert len(str(drawing.chart(flame))) < 25_000


def test_a_picture_is_drawn_to_scale() -> None:
    flame = Flame(
        kind="gpu", note="", total_ms=8.0, names=["a", "b", "<c>", "d"], categories=["module", "operator", "zzz", "module"],
        parents=[-1, 0, 0, -1], ms=[6.0, 2.0, 1.0, 2.0], calls=[1, 2, 3, 4],
    )  # fmt: skip
    assert drawing.places(flame) == [(0, 0.0), (1, 0.0), (1, 0.25), (0, 0.75)]
    page = Page(str(drawing.chart(flame)))
    spans = [(attrs.get("x"), attrs.get("width")) for attrs, _ in page.all("svg")[1:]]
    assert spans == [("0%", "75%"), ("75%", "25%"), ("0%", "25%"), ("25%", "12.5%")]
    titles = [text for _, text in page.all("title")]
    assert titles == [
        "a: 6.00 ms, 75.0 %, 1×",
        "d: 2.00 ms, 25.0 %, 4×",
        "b: 2.00 ms, 25.0 %, 2×",
        "<c>: 1.00 ms, 12.5 %, 3×",
    ]
    assert page.faults == []
    assert drawing.summary(flame) == "GPU time of 8.00 ms; innermost and heaviest: d 2.00 ms, b 2.00 ms, <c> 1.00 ms"
    short = replace(flame, total_ms=0.08, ms=[0.06, 0.02, 0.01, 0.02])
    assert drawing.summary(short) == "GPU time of 80.0 µs; innermost and heaviest: d 20.0 µs, b 20.0 µs, <c> 10.0 µs"


def test_a_host_of_nothing_but_steps_has_no_flame_graph(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(2):
        with b.step():
            b.idle(ms=1)
    assert flames(traced(b, tmp_path)) == []
