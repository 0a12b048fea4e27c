"""The views of a report: every sum on a page is the trace's own, and what was drawn together lost no time."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from support.real import NAMES
from support.traces import analysis, rules
from support.traces import trace as real

from advisor import views as viewing
from advisor.cli import main as advisor_command
from advisor.engine.claims import Claim
from advisor.engine.query import run
from advisor.pipeline import analyze
from advisor.report import FORMATS
from advisor.report.redact import redact
from advisor.results.analysis import Analysis
from advisor.results.encoding import to_json
from advisor.results.views import Grid, Timeline, Views
from advisor.testing import TraceBuilder
from advisor.timeline.ledger import OF_STEPS
from advisor.trace import Trace, read
from advisor.views.memory import thin
from advisor.views.thinning import Spans, fit

HOST_KINDS = ("python", "module", "annotation", "operator", "runtime")


def traced(b: TraceBuilder, folder: Path) -> Trace:
    return read(str(b.write(folder / "trace.json")))


def matching(trace: Trace, frame: str, rows: Any) -> Claim:
    """A rule that matched some rows of a frame."""
    mask = np.asarray(rows, np.bool_)
    rule = SimpleNamespace(match=SimpleNamespace(frame=frame))
    return cast(Claim, SimpleNamespace(rule=rule, rows=mask, segments=trace.claims(frame, mask)))


def column(grid: Grid, name: str) -> list[Any]:
    at = [heading.name for heading in grid.columns].index(name)
    return [row[at] for row in grid.rows]


def by_first(grid: Grid, name: str, *, roots: bool = True) -> dict[Any, Any]:
    keep = [not grid.parents or grid.parents[at] < 0 or not roots for at in range(len(grid.rows))]
    return {row[0]: cell for row, cell, mine in zip(grid.rows, column(grid, name), keep, strict=True) if mine}


def sums(line: Timeline, *keys: str) -> dict[tuple[Any, ...], int]:
    """ns of the items by track and category (as text), or what is asked for."""
    out: dict[tuple[Any, ...], int] = defaultdict(int)
    for at in range(len(line.start)):
        key = {"track": line.track[at], "category": line.categories[line.category[at]], "row": line.row[at]}
        out[tuple(key[name] for name in keys)] += line.dur[at]
    return dict(out)


def training() -> TraceBuilder:
    """Three steps with a loader, a pageable copy, modules, backward work, a wait and memory; 10 ms each and more."""
    b = TraceBuilder(memory_gb=16)
    b.pool(allocated=1_000_000, reserved=2 << 20)
    for _ in range(3):
        with b.step():
            with b.loader(ms=2):
                pass
            with b.python("/home/someone/work/deep/train.py(54): train"):
                b.copy("HtoD", nbytes=19_267_584, us=1650)
                with b.module("Net_0"), b.op("aten::linear", shapes=[[8, 512], [512, 512]], seq=7):
                    kept = b.memory(4_000_000)
                    with b.op("aten::addmm", shapes=[[512], [8, 512]]):
                        b.kernel("volta_sgemm_128x64_nn", us=3000)
                with b.module("Net_0"), b.module("ReLU_0"), b.op("aten::relu", shapes=[[8, 512]]):
                    scratch = b.memory(3_000_000)
                    b.kernel("void at::native::vectorized_elementwise_kernel<4, relu>", us=500)
                    b.release(scratch)
                with b.thread(77), b.backward("AddmmBackward0", 7), b.op("aten::mm", shapes=[[8, 512]]):
                    b.kernel("volta_sgemm_128x64_nt", us=2000)
                b.item()
                b.release(kept)
    return b


@pytest.fixture
def made(tmp_path: Path) -> tuple[Trace, Views]:
    trace = traced(training(), tmp_path)
    views = analyze(trace, views=True).views
    assert views is not None
    return trace, views


def check_timeline(trace: Trace, line: Timeline) -> None:
    """What holds of every timeline."""
    steps = trace.frame("steps")
    low, high = (int(steps[name].iloc[line.step]) for name in ("start_ns", "dur_ns"))
    high += low
    assert (line.start_ms, line.dur_ns) == (low / 1e6, high - low)
    columns = [line.track, line.row, line.start, line.dur, line.name, line.category, line.count, line.finding]
    size = len(line.start)
    assert {len(values) for values in columns} == {size}
    assert size <= 6000 + 64 * len(line.tracks)
    assert list(zip(line.track, line.start, strict=True)) == sorted(zip(line.track, line.start, strict=True))
    tracks = np.array(line.track)
    assert line.tracks[0].kind == "cause"
    # By cause, the step is covered exactly and without holes, and each cause has what the frame `steps` says.
    mine = np.flatnonzero(tracks == 0)
    start, dur = np.array(line.start), np.array(line.dur)
    assert start[mine[0]] == 0
    assert (start[mine][1:] == (start + dur)[mine][:-1]).all()
    own = {key[1]: value for key, value in sums(line, "track", "category").items() if key[0] == 0}
    row = steps.iloc[line.step]
    assert own == {cause: int(row[f"{cause}_ns"]) for cause in OF_STEPS if row[f"{cause}_ns"]}
    # Streams hold what ran in the step, to the ns.
    for number, track in enumerate(line.tracks):
        here = np.flatnonzero(tracks == number)
        assert set(np.array(line.row)[here].tolist()) <= set(range(track.depth))
        assert track.depth <= 12
        if track.kind != "stream":
            continue
        stream = int(track.label.rpartition(" ")[2])
        work = [
            trace.frame(frame).query(f"device == {trace.device} and stream == {stream}")
            for frame in ("kernels", "copies", "memsets")
        ]
        begin = np.concatenate([table["start_ns"].to_numpy() for table in work])
        end = begin + np.concatenate([table["dur_ns"].to_numpy() for table in work])
        assert dur[here].sum() == (np.clip(end, low, high) - np.clip(begin, low, high)).sum()
        assert np.array(line.count)[here].sum() == ((begin < high) & (end > low)).sum()
    # Host calls: none is lost but those that the label tells of.
    labels = [track.label for track in line.tracks if track.kind == "thread"]
    if not any("left out" in label for label in labels) and "threads" not in line.title:
        calls = trace.frame("launches")
        begin, end = calls["start_ns"].to_numpy(), (calls["start_ns"] + calls["dur_ns"]).to_numpy()
        runtime = sum(value for key, value in sums(line, "category").items() if key == ("runtime",))
        assert runtime == (np.clip(end, low, high) - np.clip(begin, low, high)).sum()
    # Nothing sticks out, and nothing on a row overlaps.
    assert (start >= 0).all()
    assert ((start + dur) <= line.dur_ns).all()
    if not any(track.depth > 1 and track.kind == "stream" for track in line.tracks):
        order = np.lexsort((start + dur, start, line.row, tracks))
        lane = tracks[order] * 100 + np.array(line.row)[order]
        after = lane[1:] == lane[:-1]
        assert ((start + dur)[order][:-1] <= start[order][1:])[after].all()
    assert line.events == sum(count for count, track in zip(line.count, line.track, strict=True) if track)
    assert line.merged == sum(n for n, track in zip(line.count, line.track, strict=True) if track and n > 1)


def check_tables(trace: Trace, views: Views) -> None:
    """Sums of the tables are those of SQL over the frames."""
    counted = "step >= 0" if trace.step_count else "true"

    def asked(sql: str) -> dict[Any, Any]:
        return dict(run(trace, sql.replace("$counted", counted))[1])

    def close(table: dict[Any, float], known: dict[Any, float]) -> None:
        for key, value in table.items():
            if isinstance(key, str) and "…" in key:
                continue
            assert value == pytest.approx(known[key], abs=1e-9), key

    names = "SELECT name, sum(dur_ns) / 1e6 FROM kernels WHERE $counted GROUP BY name"
    close(by_first(views.kernels, "total"), asked(names))
    close(by_first(views.classes, "GPU time"), asked(names.replace("name", "class", 2)))
    close(
        by_first(views.classes, "kernels"), asked("SELECT class, count(*) FROM kernels WHERE $counted GROUP BY class")
    )
    if views.kernels.total == len(views.kernels.rows):
        (whole,) = run(trace, f"SELECT sum(dur_ns) / 1e6 FROM kernels WHERE {counted}")[1]
        assert sum(column(views.kernels, "total")) == pytest.approx(whole[0] or 0)
        assert sum(column(views.kernels, "share")) == pytest.approx(1 if whole[0] else 0)
    close(by_first(views.operators, "calls"), asked("SELECT name, count(*) FROM ops WHERE $counted GROUP BY name"))
    close(
        by_first(views.operators, "host self"),
        asked("SELECT name, sum(self_ns) / 1e6 FROM ops WHERE $counted GROUP BY name"),
    )
    for own, total in (("host self", "host total"), ("GPU self", "GPU total")):
        for less, more in zip(column(views.operators, own), column(views.operators, total), strict=True):
            assert less <= more + 1e-9
    for grid, frame in ((views.copies, "copies"), (views.syncs, "syncs")):
        if grid.total == len(grid.rows):
            time_of = "GPU time" if frame == "copies" else "host waits"
            (row,) = run(trace, f"SELECT count(*), coalesce(sum(dur_ns), 0) / 1e6 FROM {frame} WHERE {counted}")[1]
            assert sum(column(grid, frame if frame == "copies" else "waits")) == row[0]
            assert sum(column(grid, time_of)) == pytest.approx(row[1])
    for grid in (views.operators, views.modules):
        assert all(parent < at for at, parent in enumerate(grid.parents))
    modules = (
        "SELECT sum(dur_ns) / 1e6 FROM (FROM kernels UNION ALL BY NAME FROM copies UNION ALL BY NAME FROM memsets)"
    )
    if views.modules.rows and views.modules.total == len(views.modules.rows):
        (row,) = run(trace, f"{modules} WHERE {counted}")[1]
        assert sum(value or 0 for value in column(views.modules, "GPU self")) == pytest.approx(row[0] or 0)
    for grid in (views.classes, views.kernels, views.operators, views.modules, views.copies, views.syncs):
        assert len(grid.rows) <= min(200, grid.total)
        assert {len(line) for line in grid.rows} <= {len(grid.columns)}


# ---- steps and timeline


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
    assert "ProfilerStep#4" in views.timeline.title


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


# ---- out and in again


def test_views_go_to_json_and_back(made: tuple[Trace, Views]) -> None:
    trace, views = made
    analysis = analyze(trace, views=True)
    assert Analysis.from_json(analysis.to_json()) == analysis
    assert analysis.views == views
    assert analyze(trace).views is None
    text = to_json(analysis).decode()
    assert sum('"start": [0, ' in line for line in text.splitlines()) == 1


def test_plain_lists_stand_on_one_line_whatever_their_text() -> None:
    value = {"a": [], "b": ["x\\", "[ 1, \n 2]", '"', None, True, 1e-5], "c": [[1, 2], ["]\\\\"]], "d": ["[\n 1\n]"]}
    text = to_json(value).decode()
    assert json.loads(text) == value
    assert '"b": ["x\\\\", ' in text


def test_redaction_leaves_no_folder_in_views(made: tuple[Trace, Views]) -> None:
    cut = redact(analyze(made[0], views=True))
    assert cut.views is not None
    text = msgspec.json.encode(cut.views).decode()
    assert "deep" not in text
    assert "train (train.py:54)" in text
    assert "Net_0/ReLU_0" in text


def test_the_command_adds_views_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(training().write(tmp_path / "trace.json"))

    def views(*options: str) -> Views | None:
        out = tmp_path / "out.json"
        done = CliRunner().invoke(
            advisor_command, ["analyze", path, "-f", "json", "-o", str(out), "--force", "-q", *options]
        )
        assert done.exit_code == 0, done.output
        return Analysis.from_json(out.read_bytes()).views

    assert views() is None
    with_views = views("--views")
    assert with_views is not None
    monkeypatch.setitem(FORMATS, "json", FORMATS["json"]._replace(views=True))
    assert views() == with_views


# ---- what is missing, and what is real


def test_traces_that_lack_things_have_empty_views(tmp_path: Path) -> None:
    nothing = TraceBuilder(None)
    with nothing.op("aten::add", us=10):
        pass
    gpu = TraceBuilder()
    gpu.kernel("k", us=10, launched=False, at_us=5)
    for b in (nothing, gpu):
        views = analyze(traced(b, tmp_path), views=True).views
        assert views is not None
        assert views.queue is None
        assert views.memory == []
        assert views.modules.rows == []
        assert len(views.steps) == 1


def test_work_that_overlaps_on_a_stream_gets_rows(tmp_path: Path) -> None:
    b = TraceBuilder()
    for at in range(3):
        b.kernel(f"k{at}", us=100, at_us=50 * at, launched=False)
    line = viewing.build(traced(b, tmp_path), {}, []).timeline
    assert line is not None
    assert [track.depth for track in line.tracks if track.kind == "stream"] == [2] or line.tracks[1].depth == 3
    assert sums(line, "track")[(1,)] == 300_000


@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_views_of_real_traces(name: str) -> None:
    trace, plain = real(name), analysis(name)
    assert analyze(trace, rules()) == plain  # without views and samples all else is as with them
    views = analysis(name, views=True).views
    assert views is not None
    assert views.timeline is not None
    check_timeline(trace, views.timeline)
    check_tables(trace, views)
    assert views.timeline.rules == [finding.rule for finding in plain.findings]
    assert len(msgspec.json.encode(views)) <= 500_000
    assert len(msgspec.json.encode(views.timeline)) <= 350_000
    assert msgspec.json.decode(msgspec.json.encode(views), type=Views) == views
    for curve in views.memory:
        frame = trace.frame("memory")
        assert curve.peak_bytes == frame.loc[frame["device"] == curve.device, "allocated_bytes"].max()
        assert len(curve.ms) <= 1000
        assert sum(column(curve.holders, "size")) * 1e6 == pytest.approx(curve.peak_bytes, rel=1e-6)
    if views.queue is not None:
        assert len(views.queue.ms) <= 1000


def test_absurd_figures_whose_mean_overflows_are_unknown_and_not_infinite(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        for _ in range(2):
            b.kernel(
                "volta_sgemm_128x64_nn", us=5000, args={"est. achieved occupancy %": 1e308, "blocks per SM": 1e308}
            )
        b.sync()
    views = analyze(read(str(b.write(tmp_path / "t.json"))), views=True).views
    assert views is not None
    names = [column.name for column in views.kernels.columns]
    (row,) = views.kernels.rows
    assert row[names.index("occupancy")] is None
    assert row[names.index("blocks per SM")] is None
