"""Views of a built trace, and checks that hold for those of any trace."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from advisor.engine.claims import Claim
from advisor.engine.query import run
from advisor.results.views import Grid, Timeline, Views
from advisor.testing import TraceBuilder
from advisor.timeline.ledger import OF_STEPS
from advisor.trace import Trace, read

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


def check_timeline(trace: Trace, line: Timeline) -> None:
    """Check what holds of every timeline."""
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
