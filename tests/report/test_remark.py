"""Advice on recording in place of findings, where how it was recorded leaves none: the remark that says it, with its code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import headlines as built
from support.headlines import launch_bound
from support.pages import Page
from support.traces import analysis, rules

from advisor.pipeline import analyze
from advisor.report import Options, figures, render
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.trace import read

GPU = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
WARM = "profile(schedule=schedule(wait=1, warmup=3, active=5, repeat=1))"


def analysis_of(build: Callable[[], TraceBuilder], folder: Path) -> Analysis:
    return analyze(read(str(build().write(folder / "t.json"))), rules())


def screen(found: Analysis, width: int = 80) -> list[str]:
    return render("text", found, Options(width=width)).decode().splitlines()


def without_host() -> TraceBuilder:
    """Ten kernels of 10 us, each behind a call of 40 us, and no operator."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(10):
        b.kernel("spin", us=10, host_us=40)
    return b


@pytest.mark.parametrize(
    ("build", "code", "lines"),
    [
        (
            built.unrecorded,
            "missing-gpu",
            [
                "No findings. A GPU or accelerator was used, but the trace has no event of it",
                "    (missing-gpu).",
                "    → Record the GPU's activities, with no other profiler attached",
                f"    {GPU}",
            ],
        ),
        (
            built.only_started,
            "few-steps",
            [
                "No findings. Only one step was recorded (few-steps).",
                "    → Record about five steps after a warm-up",
                f"    {WARM}",
            ],
        ),
        (
            without_host,
            "missing-host",
            [
                "No findings. No operators were recorded: the trace holds launches at most",
                "    (missing-host).",
                "    → Record the CPU's activities too",
                f"    {GPU}",
            ],
        ),
    ],
)
def test_the_screen_says_how_to_record(
    build: Callable[[], TraceBuilder], code: str, lines: list[str], tmp_path: Path
) -> None:
    found = analysis_of(build, tmp_path)
    assert found.headline is not None
    assert found.headline.remark == code
    shown = screen(found)
    at = next(place for place, line in enumerate(shown) if line.startswith("No findings"))
    assert shown[at : at + len(lines)] == lines


def test_a_screen_too_narrow_for_the_code_names_what_to_do(tmp_path: Path) -> None:
    shown = "\n".join(screen(analysis_of(built.unrecorded, tmp_path), 60))
    assert "→ Record the GPU's activities" in shown
    assert "profile(" not in shown


def test_a_finding_leads_before_any_remark(tmp_path: Path) -> None:
    found = analysis_of(lambda: launch_bound(3), tmp_path)
    assert found.findings
    assert figures.remark(found) is None
    assert not any("No findings" in line for line in screen(found))


def test_the_whole_report_and_the_page_hold_the_code(tmp_path: Path) -> None:
    found = analysis_of(built.unrecorded, tmp_path)
    assert GPU in render("text", found, Options(width=100, verbosity=1)).decode()
    assert GPU in render("markdown", found).decode()
    page = Page(render("html", found).decode())
    assert GPU in [text.strip() for tag in ("pre", "code") for _, text in page.all(tag)]


def test_the_brief_holds_it_on_a_line(tmp_path: Path) -> None:
    lines = render("brief", analysis_of(built.unrecorded, tmp_path)).decode().splitlines()
    assert (
        f"first, the recording (missing-gpu): Record the GPU's activities, with no other profiler attached: {GPU}"
        in lines
    )


def test_of_an_empty_recording_there_is_no_remark(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text(built.EMPTY)
    found = analyze(read(str(path)), rules())
    assert found.headline is not None
    assert (found.headline.kind, found.headline.remark) == ("empty", None)


@pytest.mark.real
def test_a_capture_is_not_told_to_warm_up() -> None:
    """Calls are recorded into a graph there, however often: the headline says what to record, and no code would change it."""
    found = analysis("audited/mi300_vllm_graph_capture").headline
    assert found is not None
    assert found.remark is None
    assert "Record steps that replay it" in found.text
