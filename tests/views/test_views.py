"""The views of a report: out and in again, of traces that lack things, and of the real ones."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from support.real import NAMES
from support.traces import analysis, rules
from support.traces import trace as real
from support.views import check_tables, check_timeline, column, sums, traced, training

from advisor import views as viewing
from advisor.cli import main as advisor_command
from advisor.pipeline import analyze
from advisor.report import FORMATS
from advisor.report.redact import redact
from advisor.results.analysis import Analysis
from advisor.results.encoding import to_json
from advisor.results.views import Views
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

# ---- out and in again


def test_views_go_to_json_and_back(made: tuple[Trace, Views]) -> None:
    trace, views = made
    analysis = analyze(trace, views=True)
    assert Analysis.from_json(analysis.to_json()) == analysis
    assert analysis.views == views
    assert analyze(trace).views == views  # to_html() and notebooks are whole without an option
    assert analyze(trace, views=False).views is None
    text = to_json(analysis).decode()
    assert len(views.others) == 2
    assert sum('"start": [0, ' in line for line in text.splitlines()) == 3  # a line for each step that is held


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


# One of each kind: what a second analysis without views asks of a trace is what there is in it, and not how much.
UNLIKE = {
    "a100_copies_pinned.json.gz",  # many steps of kernels and copies, without communication
    "a100_dlrm_rank3of8.json.gz",  # a rank
    "a100_host_only.json.gz",  # a GPU's host without the GPU
    "cpu_only.json.gz",
    "gpu_events_without_host.json.gz",
    "h100_owlv2_large.json.gz",  # one step, with stacks and memory
    "legacy_list_root_cpu.json.gz",
    "mi300_vllm_graph_replay.json.gz",  # graphs
}


def test_the_kinds_of_real_traces_are_there() -> None:
    assert set(NAMES) >= UNLIKE


@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_views_of_real_traces(name: str) -> None:
    trace, plain = real(name), analysis(name)
    if name in UNLIKE:
        assert analyze(trace, rules(), views=False) == plain  # without views and samples all else is as with them
    views = analysis(name, views=True).views
    assert views is not None
    assert views.timeline is not None
    for line in (views.timeline, *views.others):
        check_timeline(trace, line)
    assert sum(len(line.start) for line in views.others) <= 3 * 1050 + 64 * 12
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
