"""A part of a trace: its figures are those that the whole has for it, and those of a trace that holds nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from support.traces import trace

import advisor
from advisor.cli import main
from advisor.errors import UsageError
from advisor.reading import stream
from advisor.testing.builder import TraceBuilder
from advisor.timeline.ledger import OF_STEPS
from advisor.trace import Trace

WHOLE = (
    "a100_dlrm_rank3of8.json.gz",
    "mi300_resnet_ddp_checkpointing.json.gz",  # the host runs ahead: steps are the GPU's
    "ns_resolution_rank0.json.gz",  # as well
    pytest.param("v100_resnet50_workers4.json.gz", marks=pytest.mark.study),  # GPU work reaches into the next step
    "h100_transformer_run1.json.gz",
)
ABOUT = ("number", "host_start_ns", "host_dur_ns", "start_ns", "dur_ns", "loader_waits")


def recorded_steps(first: int, last: int, path: Path) -> Path:
    """Steps of which no two are alike, from *first* to before *last* of the same program."""
    builder = TraceBuilder(first_step=first)
    for number in range(first, last):
        with builder.step():
            with builder.loader(ms=2 + number % 3):
                pass
            with builder.python("train.py(54): train"):
                builder.copy("HtoD", nbytes=8_000_000, us=900 + 100 * number)
                with builder.op("aten::mm", seq=number):
                    builder.kernel("volta_sgemm_128x64_nn", us=3000 + 500 * (number % 2))
                builder.item()
            builder.sync("cudaDeviceSynchronize")
    return builder.write(path)


def told(found: Trace) -> dict[str, Any]:
    """What a report says of a trace, without its name, its length in the file and that it is a part."""
    report: dict[str, Any] = json.loads(advisor.analyze(found).to_json())
    report["quality"] = [note for note in report["quality"] if note["code"] != "part"]
    for key in ("path", "events", "span_ms"):
        report["trace"].pop(key)
    # A column holds numbers of names, which a longer file may have met in another order; and a part begins later.
    for timeline in [report["views"]["timeline"], *report["views"]["others"]]:
        names = timeline.pop("names")
        timeline["name"] = [names[number] for number in timeline["name"]]
        timeline.pop("start_ms")
    return report


def without_times(value: Any) -> Any:
    """*value* without the columns of evidence that say when something was."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in ("rows", "columns")}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


@pytest.mark.parametrize(("first", "last"), [(3, 8), (0, 4), (5, 6)])
def test_a_part_reads_like_a_recording_of_its_steps(first: int, last: int, tmp_path: Path) -> None:
    whole = advisor.read(str(recorded_steps(0, 8, tmp_path / "whole.json")), steps=(first, last))
    alone = advisor.read(str(recorded_steps(first, last, tmp_path / "alone.json")))
    assert whole.steps_recorded == last - first
    assert without_times(told(whole)) == without_times(told(alone))


@pytest.mark.real
@pytest.mark.parametrize("name", WHOLE)
def test_steps_have_the_figures_of_the_whole_report(name: str, real: Any) -> None:
    whole = trace(name)
    steps, count = whole.frame("steps"), whole.steps_recorded
    for first, last in ((0, 2), (1, 2), (1, count), (count // 2, count // 2 + 1)):
        low, high = int(steps["number"][first]), int(steps["number"][last]) if last < len(steps) else None
        part = advisor.read(real(name), steps=(low, high))
        mine = part.frame("steps")
        for column in (*ABOUT, *(f"{cause}_ns" for cause in OF_STEPS)):
            assert mine[column].tolist() == steps[column][first : None if high is None else last].tolist(), column
        # Of the kernels that ran in these steps none is lost, nor its place; one more may have been running already.
        all_kernels, kernels = whole.kernels, part.kernels
        inside = all_kernels[all_kernels["step"].between(first, last - 1)]
        assert 0 <= len(kernels[kernels["step"] >= 0]) - len(inside) <= 1
        for column in ("op", "file", "module"):
            assert 0 <= kernels[column].notna().sum() - inside[column].notna().sum() <= 1, column
        assert part.zero_ns == whole.zero_ns


@pytest.mark.real
def test_idle_that_a_wait_before_the_part_causes_is_all_that_differs(real: Any) -> None:
    # Every step of this benchmark ends in a wait whose idle reaches into the next: 0.2 % of a step.
    whole = trace("a100_copies_pinned.json.gz")
    steps = whole.frame("steps")
    part = advisor.read(real("a100_copies_pinned.json.gz"), steps=(int(steps["number"][1]), int(steps["number"][4])))
    apart = {c: int(np.abs(part.frame("steps")[f"{c}_ns"].to_numpy() - steps[f"{c}_ns"][1:4]).sum()) for c in OF_STEPS}
    assert {cause for cause, ns in apart.items() if ns} == {"sync", "host"}
    assert apart["sync"] == apart["host"] < 0.002 * steps["dur_ns"][1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Trace]:
    path = str(recorded_steps(0, 8, tmp_path_factory.mktemp("part") / "whole.json"))
    return path, advisor.read(path)


@settings(max_examples=40, deadline=None)
@given(ends=st.tuples(st.integers(0, 80_000), st.integers(1, 80_000)))
def test_any_stretch_adds_up_to_the_whole_ledger(ends: tuple[int, int], built: tuple[str, Trace]) -> None:
    path, whole = built
    begin, end = whole.window
    low_us, high_us = ends[0], ends[0] + ends[1]
    if low_us * 1000 >= end - begin:
        return
    part = advisor.read(path, window_ms=(low_us / 1000, high_us / 1000))
    low, high = begin + low_us * 1000, min(begin + high_us * 1000, end)
    assert part.window == (low, high)
    assert part.steps_recorded == 0
    book = part.ledger
    assert int(book.dur_ns.sum()) == high - low
    first, last = whole.context.recording.bounds[[0, -1]].tolist()
    if low < first or high > last:
        return  # the whole knows that to be work of before, or the recording's tail
    # Device work is exactly what the whole has there. Idle is as long; a wait that began before may explain less of it.
    for cause in OF_STEPS[:4]:
        mine = whole.ledger.cause == OF_STEPS.index(cause)
        start, stop = whole.ledger.start_ns[mine], whole.ledger.end_ns[mine]
        inside = np.maximum(np.minimum(stop, high) - np.maximum(start, low), 0).sum()
        assert book.by_cause()[cause] == inside, cause


def test_which_steps_are_meant(built: tuple[str, Trace]) -> None:
    path, _ = built

    def numbers(low: int | None, high: int | None) -> list[int]:
        return advisor.read(path, steps=(low, high)).frame("steps")["number"].tolist()

    assert numbers(3, 6) == [3, 4, 5]
    assert numbers(6, None) == [6, 7]
    assert numbers(None, 2) == [0, 1]
    assert numbers(-2, None) == [6, 7]
    assert numbers(None, -6) == [0, 1]
    assert numbers(7, 100) == [7]
    with pytest.raises(UsageError, match="no step 9:; it holds ProfilerStep#0 to #7"):
        numbers(9, None)
    with pytest.raises(UsageError, match="no step 4:2"):
        numbers(4, 2)


def test_parts_on_the_command_line(built: tuple[str, Trace]) -> None:
    path, _ = built

    def said(*args: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, list(args))
        return result.exit_code, result.stdout or result.stderr

    code, text = said("analyze", path, "--steps", "3:6", "-f", "json")
    report = json.loads(text)
    assert code == 0
    assert report["summary"]["steps"] == 3
    (note,) = [note for note in report["quality"] if note["code"] == "part"]
    assert note["message"].startswith("only a part was read: ProfilerStep#3 to #5, 3 of 8 steps")
    code, text = said(
        "query", path, "SELECT count(*) AS n FROM kernels WHERE step >= 0", "--steps", "-3:", "-f", "json"
    )
    assert (code, json.loads(text)) == (0, [{"n": 3}])
    code, text = said("analyze", path, "--window", "1:2.5", "-f", "json")
    assert (code, json.loads(text)["summary"]["window_ms"]) == (0, 1.5)
    for args, problem in (
        (("--steps", "8:"), "it holds ProfilerStep#0 to #7"),
        (("--steps", "3"), "give two whole numbers as 3:6"),
        (("--steps", "1.5:2"), "give two whole numbers as 3:6"),
        (("--window", ":"), "give two numbers of ms"),
        (("--window", "nan:3"), "give two numbers of ms"),
        (("--window", "9e9:"), "ms in the window"),
        (("--window", "5:4"), "ms in the window"),
        (("--steps", "1:2", "--window", "1:2"), "give one of them"),
        (("--window", "-3:2"), "ms in the window"),
    ):
        code, text = said("analyze", path, *args)
        assert (code, problem in text) == (2, True), (args, text)


def test_several_traces_have_windows_of_their_own(built: tuple[str, Trace], tmp_path: Path) -> None:
    other = recorded_steps(0, 3, tmp_path / "other.json")
    result = CliRunner().invoke(main, ["analyze", built[0], str(other), "--window", "1:2"])
    assert result.exit_code == 2
    assert "--window: each trace has a window of its own" in result.stderr
    result = CliRunner().invoke(main, ["analyze", built[0], str(other), "--steps", "1:3", "-f", "json"])
    assert result.exit_code == 0, result.stderr
    assert [trace["summary"]["steps"] for trace in json.loads(result.stdout)["traces"]] == [2, 2]


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.op("aten::mm"):
        builder.kernel("volta_sgemm_128x64_nn", us=100)
    path = str(builder.write(tmp_path / "t.json"))
    with pytest.raises(UsageError, match="holds no ProfilerStep at all"):
        advisor.read(path, steps=(0, 1))
    assert len(advisor.read(path, window_ms=(0.02, 0.05)).kernels) == 1


def test_only_the_rows_of_the_part_are_held(built: tuple[str, Trace]) -> None:
    path, whole = built
    rows = {name: len(table["ts"]) for name, table in whole._recording.tables.items()}
    part = {name: len(table["ts"]) for name, table in advisor.read(path, steps=(2, 4))._recording.tables.items()}
    assert part["kernel"] * 4 == rows["kernel"]
    assert part["python"] * 4 == rows["python"]


# ---- how far a file is read


def test_progress_counts_the_bytes_of_the_file(tmp_path: Path) -> None:
    path = recorded_steps(0, 8, tmp_path / "t.json.gz")
    seen: list[tuple[int, int | None]] = []
    stream.read(str(path), lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_bar_while_a_file_is_read_and_none_afterwards() -> None:
    from advisor.cli.terminal import Line

    bar = Line(100)

    def shown(done: int = 0, whole: int | None = None) -> str:
        bar.advance(done, whole)
        return bar.line(done, whole)

    bar("analyzing t.json")
    assert shown() == "analyzing t.json"
    assert shown(250_000_000, 1_000_000_000) == f"analyzing t.json [{'#' * 6}{' ' * 18}] 250 of 1,000 MB"
    assert shown(300_000_000) == "analyzing t.json 300 MB"
    assert shown(1_000_000_000, 1_000_000_000) == "analyzing t.json"


def test_the_line_is_gone_before_anything_else_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    from advisor.cli import complain
    from advisor.cli.terminal import Line

    Line(100)("analyzing a.json")
    complain("the first", "note")
    complain("the second", "note")
    before = "\ranalyzing a.json\r" + " " * 16 + "\r"
    assert capsys.readouterr().err == before + "advisor: note: the first\nadvisor: note: the second\n"
