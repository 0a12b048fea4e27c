"""The timeline and its steps: every event of a built step, what marks the evidence, and what was drawn together."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from support.views import check_timeline, matching, sums, traced

from advisor import views as viewing
from advisor.pipeline import analyze
from advisor.results.views import Views
from advisor.testing import TraceBuilder
from advisor.timeline.ledger import OF_STEPS
from advisor.trace import Trace
from advisor.views.thinning import Spans, fit


def test_steps_are_the_frames_own(made: tuple[Trace, Views]) -> None:
    trace, views = made
    frame = trace.frame("steps")
    assert [bar.name for bar in views.steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert [bar.sampled for bar in views.steps] == [False, True, True]
    for bar, ns in zip(views.steps, frame["dur_ns"].tolist(), strict=True):
        assert bar.ms == ns / 1e6
        assert sum(bar.causes.values()) == pytest.approx(bar.ms)
        assert set(bar.causes) <= set(OF_STEPS)


def test_the_timeline_holds_a_built_step_event_by_event(made: tuple[Trace, Views]) -> None:
    trace, views = made
    line = views.timeline
    assert line is not None
    check_timeline(trace, line)
    assert line.merged == 0
    assert [(track.kind, track.label) for track in line.tracks] == [
        ("cause", "GPU 0: what its time goes to"),
        ("stream", "GPU 0, stream 7"),
        ("thread", "host thread 4000"),
        ("thread", "autograd thread 77"),
    ]
    # The step that is nearest the median; its loader's wait of 2 ms, in full, on the host and as a cause.
    names = [line.names[code] for code in line.name]
    loader = [at for at, name in enumerate(names) if name.startswith("enumerate(DataLoader)")]
    assert [line.dur[at] for at in loader] == [2_000_000]
    kinds = sums(line, "category")
    assert set(kinds) >= {("compute",), ("copy",), ("python",), ("module",), ("operator",), ("runtime",)}
    assert "train (work/deep/train.py:54)" in names
    assert "Net_0" in names


def test_spans_tell_their_launch_and_where_they_come_from(made: tuple[Trace, Views]) -> None:
    line = made[1].timeline
    assert line is not None
    names, calls, origins = [line.names[code] for code in line.name], line.launches, line.origins
    told = {}
    for item, start, track, row in zip(calls.item, calls.start, calls.track, calls.row, strict=True):
        at = line.origin[item]
        known = [column[at] for column in (origins.operator, origins.shapes, origins.module)]
        texts = [origins.texts[code] if code >= 0 else None for code in known]
        told[names[item]] = (start, track, row, *texts, [origins.lines[code] for code in origins.stack[at]])
    here = ["work/deep/train.py:54 train"]
    assert told == {
        "Memcpy HtoD (Pageable -> Device)": (2_000_000, 2, 3, "aten::copy_", None, None, here),
        "volta_sgemm_128x64_nn": (3_662_000, 2, 5, "aten::addmm", "[[512],[8,512]]", "Net_0", here),
        "void at::native::vectorized_elementwise_kernel<4, relu>": (
            3_668_000, 2, 5, "aten::relu", "[[8,512]]", "Net_0/ReLU_0", here,
        ),
        # On autograd's thread, from the forward operator's line and module.
        "volta_sgemm_128x64_nt": (3_674_000, 3, 3, "aten::mm", "[[8,512]]", "Net_0", here),
        "Memcpy DtoH (Device -> Pageable)": (3_680_000, 2, 4, "aten::_local_scalar_dense", None, None, here),
    }  # fmt: skip
    assert [line.origin[at] for at, name in enumerate(names) if name in ("loader", "compute")] == [-1, -1]


def test_a_stack_is_the_lines_of_the_users_from_within(tmp_path: Path) -> None:
    b = TraceBuilder()
    outer, inner = "/home/someone/work/train.py(9): main", "/home/someone/work/train.py(5): step"
    with b.step(), b.python(outer), b.python(inner), b.python("torch/nn/functional.py(1): relu"), b.op("aten::relu"):
        b.kernel("k", us=5)
    line = viewing.build(traced(b, tmp_path), {}, []).timeline
    assert line is not None
    (item,) = line.launches.item
    stack = line.origins.stack[line.origin[item]]
    assert [line.origins.lines[at].split("/")[-1] for at in stack] == ["train.py:5 step", "train.py:9 main"]


def test_the_step_shown_is_the_one_nearest_the_median(tmp_path: Path) -> None:
    b = TraceBuilder()
    for ms in (50, 10, 30, 11, 12, 90):
        with b.step():
            b.kernel("k", ms=ms)
            b.sync()
    views = analyze(traced(b, tmp_path), views=True).views
    assert views is not None
    assert views.timeline is not None
    # Without the first step: 10, 11, 12, 30, 90 ms.
    assert views.timeline.step == 4
    assert views.timeline.title == "ProfilerStep#4, 12.0 ms, of 6 steps the one nearest to the median"
    # Beside it, in order of time, each once: the first, the slowest and the last.
    assert [(line.step, line.role) for line in views.others] == [(0, "first"), (5, "slowest and last")]
    assert views.others[1].title.endswith("of 6 steps the slowest and last")
    for line in views.others:
        assert sums(line, "track")[(0,)] == line.dur_ns
        assert [line.names[line.name[at]] for at in line.launches.item] == ["k"]


def test_one_step_leaves_no_choice(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        b.kernel("k", ms=3)
        b.sync()
    views = analyze(traced(b, tmp_path), views=True).views
    assert views is not None
    assert views.timeline is not None
    assert (views.timeline.role, views.others) == ("", [])


def test_evidence_is_marked_and_marked_apart(made: tuple[Trace, Views]) -> None:
    _, views = made
    line = views.timeline
    assert line is not None
    marked = defaultdict(set)
    for at, finding in enumerate(line.finding):
        if finding >= 0:
            marked[line.rules[finding]].add(line.names[line.name[at]])
    assert "Memcpy HtoD (Pageable -> Device)" in marked["transfer/pageable-copy"]
    assert any("DataLoader" in name for name in marked["data-loading/single-process-loader"])


def test_every_frames_rows_find_their_events(made: tuple[Trace, Views]) -> None:
    trace, _ = made
    frames = ("kernels", "copies", "gaps", "syncs", "loader", "launches", "ops", "python", "functions")
    for frame in frames:
        line = viewing.build(trace, {"a": matching(trace, frame, np.ones(len(trace.frame(frame))))}, ["a"]).timeline
        assert line is not None
        assert 0 in line.finding, frame


def test_rules_that_match_the_same_events_share_them(made: tuple[Trace, Views]) -> None:
    trace, _ = made
    table = trace.frame("kernels")
    every = np.ones(len(table), np.bool_)
    one = (table["name"] == "volta_sgemm_128x64_nt").to_numpy()
    claims = {
        "all": matching(trace, "kernels", every),
        "same": matching(trace, "kernels", every),
        "one": matching(trace, "kernels", one),
    }
    line = viewing.build(trace, claims, list(claims)).timeline
    assert line is not None
    marks = {
        rule: {line.names[line.name[at]] for at, f in enumerate(line.finding) if f == number}
        for number, rule in enumerate(line.rules)
    }
    assert all(marks.values())
    assert marks["one"] == {"volta_sgemm_128x64_nt"}


def test_what_is_too_short_is_drawn_together_and_loses_no_time() -> None:
    rng = np.random.default_rng(7)
    size = 50_000
    gap, dur = rng.integers(0, 3000, size), rng.integers(0, 2000, size)
    dur[rng.integers(0, size, 20)] = 900_000
    start = np.cumsum(gap + np.append(0, dur[:-1]))
    zero = np.zeros(size, np.int64)
    spans = Spans(
        zero, zero, start, dur, np.arange(size), rng.integers(0, 3, size), rng.integers(-1, 2, size), zero + 1
    )
    length = int(start[-1] + dur[-1])
    few = fit(spans, 2000, length)
    assert len(few) <= 2000
    for kind in range(3):
        for finding in (-1, 0, 1):
            before = (spans.category == kind) & (spans.finding == finding)
            after = (few.category == kind) & (few.finding == finding)
            assert few.dur[after].sum() == dur[before].sum()
            assert few.count[after].sum() == before.sum()
    assert (few.start[1:] >= few.start[:-1] + few.dur[:-1]).all()
    # The long ones stand as they were, under their own names.
    long = np.flatnonzero(dur == 900_000)
    assert set(zip(start[long].tolist(), long.tolist(), strict=True)) <= set(
        zip(few.start.tolist(), few.name.tolist(), strict=True)
    )
    assert few.start[-1] + few.dur[-1] <= length
