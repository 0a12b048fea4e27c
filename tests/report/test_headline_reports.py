"""Every report opens with the headline, speaks of steady time, and says what is not counted."""

from __future__ import annotations

import json
import re

import pytest
from support.analyses import REPLACE, analysis, finding, together
from support.pages import Page

from advisor.report import Options, figures, render
from advisor.report.causes import meaning
from advisor.report.redact import redact
from advisor.results.analysis import Analysis, StartupPart, StepTimes, Summary
from advisor.results.headline import Headline
from advisor.results.several import Several

TEXT = "300 of 330 ms are start-up: TorchScript specializes f. Inference, eager, no steps: 79 % of the steady 30 ms the GPU waits."
HEADLINE = Headline(text=TEXT, kind="inference", bound="host", first="gpu-idle/launch-bound")


def summary(**change: object) -> Summary:
    """A window of 330 ms: 264 of start-up, 33 of before and 3 behind the last work; 30 are steady, of which 24 the host's."""
    whole = {
        "startup": 264 / 330,
        "before": 33 / 330,
        "after": 3 / 330,
        "host": 24 / 330,
        "compute": 6 / 330,
    }
    made = REPLACE(
        analysis().summary,
        steps=0,
        step_ms=None,
        window_ms=330.0,
        extent_ms=330.0,
        gpu_busy_share=0.02,
        gpu_utilization={"0": 0.02},
        sm_efficiency=0.02,
        causes=whole,
        steady_ms=30.0,
        steady_causes={"host": 0.8, "compute": 0.2},
        startup=[
            StartupPart(kind="specialization", ms=260.0, where="f"),
            StartupPart(kind="loading", ms=4.0, where=None),
            StartupPart(kind="allocation", ms=0.1, where=None),
        ],
    )
    return REPLACE(made, **change)


def opened(*findings: object, **change: object) -> Analysis:
    return REPLACE(analysis(*findings), headline=HEADLINE, summary=summary(**change))  # type: ignore[arg-type]


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("findings", [(), (finding(),)])
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_text_opens_with_it(findings: tuple[object, ...], verbosity: int) -> None:
    from advisor.report import Options

    report = render("text", opened(*findings), Options(verbosity=verbosity)).decode()
    lines = report.splitlines()
    assert lines[0].startswith("/home/someone/runs/trace.json.gz · ")
    assert flat(" ".join(lines[1:3])) == TEXT


def test_markdown_opens_with_it() -> None:
    blocks = render("markdown", opened(finding())).decode().split("\n\n")
    assert blocks[0] == "## `trace.json.gz`"
    assert blocks[2] == f"**{TEXT}**"


def test_the_page_opens_with_it() -> None:
    page = Page(render("html", opened(finding())).decode())
    assert [text for _, text in page.all("h1")] == [TEXT]
    paragraphs = [text for _, text in page.all("p")]
    assert paragraphs[1] == "trace.json.gz"  # below the page's own line: the name, which is no heading then


def test_the_page_of_an_older_analysis_is_headed_by_its_trace() -> None:
    page = Page(render("html", analysis(finding())).decode())
    assert [text for _, text in page.all("h1")] == ["trace.json.gz"]


def test_the_page_of_several_traces_is_headed_by_what_only_the_ranks_together_show() -> None:
    across = together(analysis(finding()))
    page = Page(render("html", Several(traces=[opened(), opened()], across=across)).decode())
    assert [text.partition(":")[0] for _, text in page.all("h1")] == [across.findings[0].title]
    assert [text for attrs, text in page.all("p") if attrs.get("class") == "headline"] == [TEXT, TEXT]
    page = Page(render("html", Several(traces=[opened(), opened()], across=None)).decode())
    assert [text for _, text in page.all("h1")] == ["runs: 2 traces"]


def test_a_notebook_opens_with_it() -> None:
    page = Page(opened(finding())._repr_html_())
    assert [text for _, text in page.all("p")][1] == TEXT


def test_json_holds_it_and_goes_back() -> None:
    document = json.loads(render("json", opened(finding())))
    assert document["headline"] == {
        "text": TEXT,
        "kind": "inference",
        "bound": "host",
        "first": "gpu-idle/launch-bound",
        "remark": None,
    }
    assert list(document).index("headline") < list(document).index("summary")
    assert Analysis.from_json(render("json", opened(finding()))).headline == HEADLINE


def test_each_of_several_traces_has_its_own() -> None:
    other = REPLACE(opened(), headline=REPLACE(HEADLINE, text="Training, eager, 5 steps."))
    report = flat(render("text", Several(traces=[opened(), other])).decode())
    assert TEXT in report
    assert "Training, eager, 5 steps." in report


def test_it_names_no_folder_where_that_is_asked_for() -> None:
    made = REPLACE(opened(), headline=REPLACE(HEADLINE, text="Training: most in /home/someone/secret/train.py (3 ms)."))
    found = redact(made).headline
    assert found is not None
    assert found.text == "Training: most in train.py (3 ms)."


def test_an_older_analysis_has_a_report_without_it() -> None:
    report = render("text", analysis(finding()), Options(verbosity=1)).decode()
    assert report.splitlines()[1] == ""
    assert "step time" in report


# ---- steady time


def test_causes_are_of_steady_time_and_the_rest_is_said_in_a_line() -> None:
    report = render("text", opened(), Options(verbosity=1)).decode()
    assert "Where the steady 30.0 ms go (GPU 0)" in report
    rows = re.findall(r"^  (\w+) +█+[▏▎▍▌▋▊▉]? +([\d.]+) ms +([\d.]+) %", report, re.MULTILINE)
    assert rows == [("host", "24.0", "80.0"), ("compute", "6.00", "20.0")]
    # 3 ms behind the last work and 0.1 ms of allocation are under a hundredth of 330
    assert (
        "Not counted, of 330 ms: 264 ms of start-up (specialization 260 ms in f, loading 4.00 ms); 33.0 ms of work queued "
        "before the recording." in flat(report)
    )
    assert "Not counted, of 330 ms: 264 ms of start-up" in flat(render("html", opened()).decode())


def test_steady_time_stands_beside_the_window_or_the_step_where_it_differs() -> None:
    rows = {figure.name: figure for figure in figures.headline(summary())}
    assert (rows["window"].text, rows["steady"].text) == ("330 ms", "30.0 ms")
    assert "steady" not in {figure.name for figure in figures.headline(summary(steady_ms=327.0))}
    # 1 % of a step of 121 ms is 1.21
    steps = StepTimes(median=121.0, p10=121.0, p90=121.0, samples=[121.0], mean=121.0)
    near = summary(steps=1, step_ms=steps, steady_ms=120.0)
    assert "steady" not in {figure.name for figure in figures.headline(near)}
    cold = summary(steps=1, step_ms=steps, steady_ms=108.0)
    assert figures.causes_title(cold) == "Where the cold step's other 108 ms go"
    assert not {"steady"} & {figure.name for figure in figures.headline(cold)}
    apart = summary(steps=1, step_ms=steps, steady_ms=119.0)
    assert "steady" in {figure.name for figure in figures.headline(apart)}
    assert figures.causes_title(near) == "Where a step's 120 ms go"
    assert figures.causes_title(apart) == "Where a step's steady 119 ms go"


def test_a_window_of_one_kernel_is_said_to_be_part_of_the_hosts_span() -> None:
    window = next(figure for figure in figures.headline(summary(window_ms=0.003)) if figure.name == "window")
    assert window.hint == "of the GPU's work; that of the host spans 330 ms; the trace has no steps"


def test_found_steps_say_what_marks_them() -> None:
    steps = StepTimes(median=10.0, p10=10.0, p90=10.0, samples=[10.0], mean=10.0)
    found = figures.headline(summary(steps=1, step_ms=steps, steps_by="Optimizer.step of SGD"))[0]
    assert found.hint == "one step; found by Optimizer.step of SGD"
    assert figures.headline(summary(steps=1, step_ms=steps, steps_by="ProfilerStep"))[0].hint == "one step"


def test_other_utilizations_are_said_in_one_line_where_they_differ() -> None:
    def hint(**change: object) -> str:
        return next(figure.hint for figure in figures.headline(summary(**change)) if figure.name == "GPU busy")

    # of the steady time 20 % are busy, of the window 2 %
    assert hint() == "kernels, copies and memsets, of the window; 20.0 % of steady time"
    alike = {"gpu_busy_share": 0.2, "gpu_utilization": {"0": 0.25}, "sm_efficiency": 0.15}
    assert hint(**alike) == "kernels, copies and memsets, of the window"
    assert hint(**alike | {"gpu_utilization": {"0": 0.41}, "sm_efficiency": 0.4}) == (
        "kernels, copies and memsets, of the window. TensorBoard shows utilization 41.0 % (kernels only, another window) and "
        "SM efficiency 40.0 % (multiprocessors that had work)"
    )
    assert hint(**alike | {"gpu_utilization": {"0": 0.2, "1": 0.1}}).endswith(
        "shows utilization GPU 0 20.0 %, GPU 1 10.0 %"
    )


@pytest.mark.parametrize(
    ("usual", "more"),
    [(24.0, ""), (25.1, ""), (25.3, "; 25.3 ms in the median step"), (0.0, "; 0 ms in the median step")],
)
def test_what_the_median_step_holds_is_said_where_the_mean_is_another(usual: float, more: str) -> None:
    # Of 30 ms the host owns 24 on average: said from 1.2 ms apart on.
    lines = {part.cause: part.meaning for part in figures.causes(summary(median_ms={"host": usual, "compute": 6.0}))}
    assert lines["host"] == f"idle: Python and launches{more}"
    assert lines["compute"] == "kernels that compute"
    assert figures.causes(summary())[0].meaning == "idle: Python and launches"


def test_copies_beside_replays_that_lack_work_are_not_said_to_be_hidden_by_nothing() -> None:
    whole, lacking = (summary(replays_whole=flag) for flag in (True, False))
    assert [meaning("copy", made) for made in (whole, lacking)] == [
        "copies that nothing hides",
        "copies that nothing recorded hides",
    ]
    assert meaning("communication", lacking) == "collectives that no recorded computing hides"
    assert meaning("compute", lacking) == "kernels that compute"
