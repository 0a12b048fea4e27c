"""One screen: at most thirty lines, nothing cut, and the first thing to do at its head."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from support.analyses import analysis, finding, together
from support.paths import ROOT
from support.real import AUDITED, NAMES
from support.traces import analysis as analyzed

import advisor
from advisor.cli import main
from advisor.engine.query import run
from advisor.errors import UsageError
from advisor.frames import SCHEMAS
from advisor.report import FORMATS, Options, figures, places, render, savings, step_time, time_lines
from advisor.report.documents import screen
from advisor.report.documents.explain import choose
from advisor.report.plain import columns
from advisor.results.analysis import (
    Analysis,
    Evidence,
    Finding,
    Place,
    PlanStep,
    QualityNote,
    Saving,
    Setting,
    StartupPart,
    StepTimes,
    Summary,
    Through,
)
from advisor.results.copy_time import CopyTime
from advisor.results.elsewhere import Elsewhere
from advisor.results.host_time import HostTime
from advisor.results.judgement import Check, Judgement
from advisor.results.kernel_time import KernelTime
from advisor.results.several import Several
from advisor.testing import TraceBuilder

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"
WIDTHS = (60, 80, 100, 200)


def lines(made: object, width: int = 80) -> list[str]:
    return render("text", made, Options(width=width)).decode().splitlines()


def check(made: Analysis, width: int) -> None:
    """Lines are few, fit the width but for places and the trace's name, and say early what to do first."""
    shown = lines(made, width)
    assert len(shown) <= (screen.LINES if width >= 80 else 45)
    known = {places.where(found) for found in made.findings} | {made.trace.path}
    # Where the screen divides the waits by lines, a place stands without the share that it has of its finding.
    known |= {re.sub(r" \(\d+ %\)", "", place) for place in known}
    assert [line for line in shown if columns(line) > width and line not in known] == []
    assert not any("…" in line for line in shown if "…" not in str(made.headline))
    leading = [found for found in made.findings if found.severity != "note" and found.after is None]
    if leading:
        text = " ".join(" ".join(shown[:12]).split())
        assert leading[0].title in text
        assert savings.saving(leading[0], made.findings, made.summary) in text


@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_every_real_trace_fits_a_screen(name: str) -> None:
    made = analyzed(name)
    for width in WIDTHS:
        check(made, width)


def many(count: int, **changes: object) -> Analysis:
    return analysis(*(finding(f"a/r{at}", title=f"Title {at} " + "long " * 11, **changes) for at in range(count)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 6, 10, 40])
def test_findings_give_up_their_fix_and_their_place_before_their_line(count: int, width: int) -> None:
    place = Place(file="a/" * 110 + "train.py", line=7, function="f", library=None, module=None, op=None, share=1.0)
    made = many(count, where=[place])
    check(made, width)
    shown = lines(made, width)
    listed = [line for line in shown if re.match(r" ?\d+ (HIGH|MEDIUM|LOW)", line)]
    assert len(listed) == min(count, 10)
    assert sum(line.startswith("a/a/") for line in shown) >= 1
    assert any("→ Load in workers" in line for line in shown)
    if count > 10:
        assert any(f"{count - 10} more" in line for line in shown)


def test_a_busy_machine_is_said_on_the_screen_and_not_only_counted() -> None:
    """A stranger read prices of threads that had waited half of the time for a core as if they were the program's."""
    busy, other = (
        QualityNote(code=code, message=f"The machine {code}", advice="") for code in ("busy-machine", "other")
    )
    made = replace(many(1), quality=[busy, other])
    for name in ("markdown", "html", "brief"):
        assert "record again on idle cores" in render(name, made, Options()).decode().partition("Title 0")[0], name
    shown = lines(made)
    text = " ".join(" ".join(shown).split())
    assert "Doubtful, record again on idle cores: The machine busy-machine" in text
    assert text.index("Doubtful") < text.index("Title 0")
    assert "1 remark on the recording" in text
    assert "busy" not in " ".join(lines(replace(many(1), quality=[other])))


def test_steps_of_another_process_are_doubted_on_the_screen() -> None:
    """The one step of this file is of a process that runs nothing in it."""
    text = " ".join(" ".join(lines(analyzed("triton_example"))).split())
    assert "Doubtful, shares of the step say little: 1 step is of another process" in text
    assert text.index("Doubtful") < text.index("No findings")


def test_the_total_is_of_the_fixes_that_are_listed() -> None:
    """Of 100 ms a fix returns 10 to 30, a second one 5, and a note, which no line names, 2 to 8: 65 and 85 are left, not 57."""

    def part(rule: str, low: float, high: float, severity: str) -> Finding:
        saving = Saving(low_ms=low, high_ms=high, low_share=low / 100, high_share=high / 100, basis="x")
        return finding(rule, saving=saving, severity=severity)

    def step(rule: str, before: float, low: float, high: float) -> PlanStep:
        after = {"low": low, "high": high}
        return PlanStep(
            rules=[rule],
            title=rule,
            step_ms_before=before,
            step_ms_after=after,
            speedup=100 / low,
            speedup_low=100 / high,
        )

    findings = [part("a/first", 10, 30, "high"), part("a/second", 5, 5, "medium"), part("a/note", 2, 8, "note")]
    plan = [step("a/first", 100, 70, 90), step("a/second", 70, 65, 85), step("a/note", 65, 57, 83)]
    summary = replace(analysis().summary, steps=5, step_ms=StepTimes(median=100, p10=100, p90=100, samples=[100.0]))
    made = replace(analysis(*findings), plan=plan, summary=summary)
    shown = "\n".join(lines(made))
    assert (
        "These fixes: step 100 → 65.0–85.0 ms (1.2–1.5× as fast); each saving counts after those above it:"
        in " ".join(shown.split())
    )
    alone = replace(made, findings=[findings[0], findings[2]], plan=[plan[0], plan[2]])
    assert "This fix: step 100 → 70.0–90.0 ms (1.1–1.4× as fast):" in "\n".join(lines(alone))
    assert "All fixes: step 100 → 65.0–85.0 ms" in "\n".join(lines(replace(made, findings=findings[:2], plan=plan[:2])))
    assert savings.together(made) == "These fixes: step 100 → 65.0–85.0 ms (1.2–1.5× as fast)"


def test_findings_at_one_line_are_told_apart_by_the_model_that_they_lie_in() -> None:
    """A pipeline that is called in one line: of its encoder attention is not fused, and of the rest something else waits."""
    line = Place(
        file="run.py",
        line=7,
        function="main",
        library=None,
        module=None,
        op=None,
        share=1.0,
        within="T5EncoderModel_0/T5Stack_0",
    )
    other, decoder = replace(line, within=None), replace(line, line=9, within="UNet_0")
    waits = finding("a/waits", title="The GPU waits", where=[other, decoder])
    attention = finding("a/attention", title="Not fused", where=[line])
    text = "\n".join(lines(analysis(waits, attention)))
    assert "Not fused, in T5EncoderModel" in text
    assert "The GPU waits  " in text
    for alone in (analysis(replace(waits, where=[other]), attention), analysis(attention)):  # one model, or one finding
        assert "in T5EncoderModel" not in "\n".join(lines(alone))


def test_recorded_settings_are_the_fix_in_few_words() -> None:
    setting = Setting(
        of="DataLoader", name="num_workers", value="0", advice="8", because="so many keep up", file=None, line=None
    )
    assert savings.words(finding(settings=[setting])) == "num_workers 0 → 8"
    assert savings.words(finding(settings=[replace(setting, advice=None)])) == finding().fix.title


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (22.3, 34.31, "22.3–34.3 ms"),
        (0.0, 29.1, "0–29.1 ms"),
        (0.0023, 0.0871, "2.30–87.1 µs"),
        (5.0, 5.0, "5.00 ms"),
        (900.0, 12_000.0, "0.900–12.0 s"),
        (0.0, 0.0, "0 ms"),
    ],
)
def test_durations_are_in_the_unit_of_their_upper_end(low: float, high: float, text: str) -> None:
    assert savings.durations(low, high) == text


def test_a_saving_says_what_is_known_where_nothing_is_promised() -> None:
    plain = finding(saving=Saving(low_ms=0.0, high_ms=38.0, low_share=0.0, high_share=0.0949, basis="x"))
    assert savings.saving(plain, []) == "saves 0–38.0 ms (0–9.5 %)"
    unpriced = finding(saving=None)
    assert savings.saving(unpriced, []).endswith("saving not known")
    assert savings.saving(replace(unpriced, category="memory", cost_ms=0.0), [finding()]) == "costs no time of its own"
    assert savings.saving(replace(unpriced, cost_ms=0.0), [finding()]) == "part of 1"


def test_what_costs_nothing_here_says_what_happened() -> None:
    stops = Evidence(columns=["stalls", "usually_us", "stopped_ms"], rows=[[22, 23.5, 318.749]])
    one = finding(cost_ms=0.0, evidence=stops)
    assert savings.saving(one, []) == f"22 stops, 319 ms; saves {one.saving}"
    both = Evidence(columns=[*stops.columns, "between_ms"], rows=[[*stops.rows[0], 155.0]])
    assert savings.saving(replace(one, evidence=both), []) == f"stopped for 474 ms; saves {one.saving}"


def test_of_unlike_traces_each_has_its_headline_and_of_very_many_a_line() -> None:
    one = analysis(finding())
    few = lines(Several(traces=[one, one]), 100)
    assert few[0].startswith("2 traces · ")
    crowd = lines(Several(traces=[one] * 300), 100)
    assert len(crowd) <= screen.LINES_OF_RANKS
    assert any("more: -v" in line for line in crowd)


def test_what_collectives_wait_for_is_taken_from_what_they_transfer() -> None:
    """481 of 623 ms are exposed, of which 432 pass before the last rank has come; of less than a tenth nothing is said."""
    summary = replace(
        analysis().summary, step_ms=None, window_ms=623.0, causes={"communication": 481 / 623, "compute": 142 / 623},
        steady_causes={"communication": 481 / 623, "compute": 142 / 623}, rank_wait_ms=432.0,
    )  # fmt: skip
    told = "exposed collectives 481 ms: 432 ms waiting for other ranks, 49.0 ms in transfer"
    assert step_time.collectives(summary) == told
    # A collective of its kind alone tells of neither: 49 are not the transfer's where the transfer of the others takes 19.
    apart = told.replace("49.0 ms in transfer", "19.0 ms in transfer, 30.0 ms not known")
    assert step_time.collectives(replace(summary, exchange_ms=19.0)) == apart
    assert step_time.collectives(replace(summary, exchange_ms=30.0)) == told  # under a twentieth
    assert step_time.collectives(replace(summary, rank_wait_ms=None)) == ""
    assert step_time.collectives(replace(summary, steady_causes={"communication": 0.09, "compute": 0.91})) == ""
    assert told in lines(replace(analysis(finding()), summary=summary))


def test_ranks_together_say_where_their_time_goes_in_the_mean() -> None:
    """Of 100 and 300 ms half each: 60 + 60 ms of collectives come to 60 of 200, of which a fifth of the step, 40 ms, is waiting."""
    one = analysis(finding())
    summaries = [
        replace(
            one.summary,
            step_ms=None,
            window_ms=ms,
            causes={"communication": 60 / ms, "compute": 1 - 60 / ms},
            kernel_time=[KernelTime(family=family, ms=kernels, share=1.0)],
        )
        for ms, family, kernels in ((100.0, "convolutions", 90.0), (300.0, "matrix products", 30.0))
    ]
    across = together(one)
    rows = [replace(row, wait_share=0.2) for row in across.ranks]
    many = [replace(one, summary=summary) for summary in summaries]
    shown = lines(Several(traces=many, across=replace(across, ranks=rows)))
    assert "mean of the ranks 200 ms: compute 70.0 %, communication 30.0 %" in shown
    assert "exposed collectives 60.0 ms: 40.0 ms waiting for other ranks, 20.0 ms in transfer" in " ".join(
        " ".join(shown).split()
    )
    assert "kernels 60.0 ms: convolutions 75 %, matrix products 25 %" in shown
    unknown = " ".join(lines(Several(traces=many, across=across)))  # one rank's waits are not known
    assert "in transfer" not in unknown
    assert "mean of the ranks" in unknown


def test_ranks_stand_under_the_title_of_their_first_finding_and_say_whose_time_it_is() -> None:
    """Ranks 0 and 2 share one; a fix that makes late ranks less late returns what the finding of all ranks speaks of."""
    titles = ("A thread is stopped", "Loading is slow", "A thread is stopped")
    many = [analysis(finding(title=title)) for title in titles]
    across = together(many[0])
    rows = [replace(across.ranks[0], rank=at, trace=at) for at in range(3)]
    across = replace(across, ranks=rows, findings=[])
    shown = lines(Several(traces=many, across=across))
    at = shown.index("Each rank by itself, its first finding:")
    assert [" ".join(line.split()[:2]) for line in shown[at + 1 : at + 6]] == [
        "A thread", "rank 0", "rank 2", "Loading is", "rank 1",
    ]  # fmt: skip
    late = [analysis(replace(one.findings[0], late_ms=5.0)) for one in many]
    assert "Each rank by itself, its first finding, of the same time as above, not more:" in lines(
        Several(traces=late, across=replace(across, findings=[finding()]))
    )


def test_several_places_stand_behind_the_margin_and_none_is_cut() -> None:
    nowhere = replace(finding().where[0], file=None, line=None, function=None, library=None, module=None)
    parts = [replace(nowhere, op=name * 24, share=share) for name, share in (("a", 0.28), ("b", 0.27), ("c", 0.26))]
    shown = lines(analysis(finding(where=parts)))
    at = next(at for at, line in enumerate(shown) if "aaa" in line)
    margin = len(shown[at]) - len(shown[at].lstrip())
    assert margin > 0
    texts = [f"{name * 24} ({share} %)" for name, share in (("a", 28), ("b", 27), ("c", 26))]
    assert [shown[at].strip(), shown[at + 1].strip()] == [f"{texts[0]}, {texts[1]},", texts[2]]


def test_a_place_is_a_link_on_a_terminal_where_its_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the folder that one is in, and nowhere else: a trace names files as it likes."""
    (tmp_path / "work dir" / "src").mkdir(parents=True)
    (tmp_path / "work dir" / "train.py").write_text("")
    (tmp_path / "outside.py").write_text("")
    (tmp_path / "work dir" / "away.py").symlink_to(tmp_path / "outside.py")
    monkeypatch.chdir(tmp_path / "work dir")

    def links(file: str, **options: Any) -> list[str]:
        made = analysis(finding(where=[replace(finding().where[0], file=file, line=54)]))
        drawn = render("text", made, Options(**({"color": True} | options))).decode()
        return re.findall(r"\x1b\]8;;(.+?)\x1b\\(.+?)\x1b\]8;;\x1b\\", drawn)

    url = (tmp_path / "work dir" / "train.py").as_uri()
    assert "work%20dir" in url
    assert links("train.py") == [(url, "train.py:54")]
    whole = str(tmp_path / "work dir" / "train.py")
    assert links(whole) == [(url, f"{whole}:54")]
    assert links("train.py", color=False) == []
    for file in (
        "gone.py",
        "../outside.py",
        str(tmp_path / "outside.py"),
        "away.py",
        "src",
        "a\x1b]8;;x\x07.py",
        "\0.py",
    ):
        assert links(file) == [], file
    monkeypatch.chdir(tmp_path)
    assert links("train.py") == []
    assert links("train.py", source_root=str(tmp_path / "work dir")) == [(url, "train.py:54")]


# ---- what is asked for beside it


def test_explain_finds_a_finding_by_its_number_its_rule_and_its_name() -> None:
    made = analysis(finding("a/one"), finding("b/two"))
    for what in ("2", "b/two", "two"):
        (group,) = choose(made, what)
        assert [found.rule for found in group.findings] == ["b/two"]
    text = render("text", made, Options(explain="2")).decode()
    assert "b/two" in text
    assert "a/one" not in text
    why, fix, more = (
        text.index(part) for part in ("why      The GPU waits.", "fix      Load", "more     Measured on one GPU.")
    )
    assert why < fix < more < text.index("         Harmless where the batch")
    assert len(choose(made, "all")[0].findings) == 2


def test_explain_all_says_that_there_is_nothing() -> None:
    made = replace(analysis(finding()), findings=[])
    assert render("text", made, Options(explain="all")).decode().strip() == "No findings, so there is none to explain."


@pytest.mark.parametrize(
    ("what", "said"), [("3", "there are 2 here"), ("0", "there are 2 here"), ("b/tow", "nearest: b/two")]
)
def test_explain_says_what_there_is_where_it_finds_nothing(what: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose(analysis(finding("a/one"), finding("b/two")), what)


def test_concise_is_a_line_a_finding_with_place_and_fix() -> None:
    made = analysis(finding(), finding("b/b", severity="note", saving=None))
    (line,) = render("concise", made).decode().splitlines()
    assert re.fullmatch(
        r"train\.py:54: high data-loading/single-process-loader: Batches are loaded in the training process "
        r"\(saves 21\.0–28\.1 ms \(17–23 %\)\) → Load in workers",
        line,
    )
    assert set(FORMATS) == {"text", "json", "html", "markdown", "concise", "gitlab", "brief"}


def test_a_trace_alone_is_analyzed_and_nothing_at_all_is_helped(tmp_path: Path) -> None:
    runner = CliRunner()
    helped = runner.invoke(main, [])
    assert helped.exit_code == 0
    assert "Commands:" in helped.output
    missing = runner.invoke(main, [str(tmp_path / "t.json.gz")])
    assert missing.exit_code == 3
    assert "no command" not in missing.output
    assert runner.invoke(main, ["analyse"]).exit_code == 2


# ---- in a program


def test_an_analysis_is_a_line_in_a_shell() -> None:
    made = analysis(finding(), finding("b/b", severity="note", saving=None))
    assert repr(made) == (
        "<Analysis of /home/someone/runs/trace.json.gz: 1 finding, first data-loading/single-process-loader>"
    )
    assert repr(analysis()) == "<Analysis of /home/someone/runs/trace.json.gz: 0 findings>"
    assert type(made._repr_html_()) is str
    first = made.findings[0]
    assert repr(first).startswith("<Finding high data-loading/single-process-loader: 'Batches are loaded")
    assert repr(first).endswith(f", saves {first.saving}>")
    assert str(Saving(low_ms=0.0213, high_ms=0.0438, low_share=0.0275, high_share=0.547, basis="replay")) == (
        "21.3–43.8 µs (2.8–55 %)"
    )
    assert repr(finding("b/b", title="\x1b[2J", saving=None)) == "<Finding high b/b: '\\x1b[2J'>"
    grown = Check(kind="metric", name="step_ms", title="", outcome="regression", level="error", message="10 → 20 ms")
    assert repr(grown) == "<Check regression 'step_ms': '10 → 20 ms'>"
    judged = Judgement(
        schema_version=1, verdict="failed", headline="FAILED", workload="", baseline="", traces=[], incomparable=[],
        checks=[grown, replace(grown, outcome="same")],
    )  # fmt: skip
    assert repr(judged) == "<Judgement failed: 1 of 2 checks regressed; 'FAILED'>"


def test_a_notebook_shows_verdict_picture_plan_and_fix() -> None:
    """The loader holds 54.8 % of the step: of a bar of 24 signs that is 13 and an eighth."""
    text = advisor.analyze(SAMPLE, views=False)._repr_html_()
    order = ["55 % of the steady 80 ms", "█" * 13, "single-process-loader", "Fix plan", "num_workers=8"]
    found = [text.index(words) for words in order if words != "single-process-loader"]
    assert found == sorted(found)
    assert "█" * 14 not in text


def test_a_page_from_python_is_whole(tmp_path: Path) -> None:
    made = advisor.analyze(SAMPLE)
    made.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert 'aria-label="Kernels"' in page
    assert 'aria-label="Operators"' in page


def test_analyze_takes_a_path() -> None:
    path = ROOT / "sample_traces" / "gate" / "workers.json.gz"
    assert advisor.analyze(path, only=["data-loading/*"]) == advisor.analyze(
        advisor.read(str(path)), only=["data-loading/*"]
    )


def test_show_tables_lists_the_frames() -> None:
    trace = advisor.read(str(ROOT / "sample_traces" / "gate" / "workers.json.gz"))
    names, rows = run(trace, " SHOW TABLES ;")
    assert names == ["frame", "one row is"]
    assert ("kernels", "a GPU kernel") in rows
    assert len(rows) == len(SCHEMAS)


def test_an_export_is_a_trace_and_not_called_otherwise(tmp_path: Path) -> None:
    path = str(ROOT / "sample_traces" / "gate" / "workers.json.gz")
    done = CliRunner().invoke(main, ["export", path, "-o", str(tmp_path / "x.html")])
    assert done.exit_code == 2
    assert "name it .json or .json.gz" in done.output
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        # Of two models' attention that of 24 layers of T5 is meant: the other's runs in sage_fwd.
        (
            "audited/mi300_xdit_flux",
            "Attention is not fused (no SDPA or FlashAttention) saves 3.09–5.33 ms (1.2–2.1 %) · in T5EncoderModel",
        ),
        # 2.78 ms beside 6.54 of start-up: the first calls of its operators, of which one takes 313 us.
        ("mi250_minitoy_train", "as fast); a warm one may gain less; each saving counts after those above it:"),
    ],
)
def test_a_small_finding_keeps_a_place_and_a_cold_step_its_name(name: str, told: str) -> None:
    assert told in " ".join(" ".join(lines(analyzed(name))).split())


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        # Of 6 % that wait for memory a line says more than of 593 ms, of tenths, and of 4 that are left.
        (
            {"compute": 0.70, "host": 0.195, "allocator": 0.062, "loader": 0.043},
            "compute 70 %, host 20 %, allocator 6 %",
        ),
        (
            {"compute": 0.70, "host": 0.25, "allocator": 0.03, "loader": 0.02},
            "593 ms: compute 70 %, host 25 %, other 5 %",
        ),
    ],
)
def test_a_cause_of_a_twentieth_has_its_name_in_the_line_of_causes(causes: dict[str, float], text: str) -> None:
    summary = replace(
        analysis().summary, steps=0, step_ms=None, window_ms=593.0, extent_ms=593.0, steady_ms=89.7,
        steady_causes=causes, median_ms={},
    )  # fmt: skip
    line = time_lines.time_line(summary, 80)
    assert line.startswith("window outside start-up 89.7 ms")
    assert line.endswith(text)
    assert len(line) <= 80


@pytest.mark.parametrize(
    ("waits", "unit"), [((10, 10, 10, 10), "step 30"), ((10, 10, 10, 90), "mean step 50.0 ms (median 30.0 ms)")]
)
def test_a_mean_of_steps_that_differ_is_called_one(waits: tuple[int, ...], unit: str, tmp_path: Path) -> None:
    """Of 30 ms each, and of 30, 30, 30 and 110: 50 on average, where half of them take 30."""
    b = TraceBuilder()
    for ms in waits:
        with b.step():
            b.idle(ms=ms)
            with b.op("aten::mm", us=10):
                b.kernel("ampere_sgemm_128x64_nn", us=20_000)
            b.sync()
    summary = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary
    assert time_lines.time_line(summary, 80).startswith(unit)


@pytest.mark.parametrize(
    ("steps", "ms", "said", "always"), [(20, 18, True, False), (20, 20, True, True), (200, 18, False, False)]
)
def test_start_up_of_a_twentieth_of_the_recording_is_said_with_its_kind_and_of_a_fifth_on_any_screen(
    steps: int, ms: int, said: bool, always: bool, tmp_path: Path
) -> None:
    """Steps of 5 ms, in the first of which a library is loaded: with what is left of it 23 of 118 ms, or 25 of 120; 23 of 1,018."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for at in range(steps):
        with b.step():
            with b.op("aten::cudnn_convolution", us=10):
                if not at:
                    b.call("cudaModuleLoadData", ms * 1000)
                b.kernel("implicit_gemm", us=5_000)
            b.sync()
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    text = " ".join(" ".join(lines(made, 100)).split())
    assert ("Start-up, not counted, is " in text) == said
    assert bool(figures.start_up(made.summary)) == always
    assert not said or f"loading {ms} ms in aten::cudnn_convolution" in text.replace(".0 ms", " ms")


@pytest.mark.real
def test_memory_that_is_allocated_behind_a_warm_up_may_be_that_of_an_emptied_cache() -> None:
    """The benchmark runs its model twice and empties the cache between: both runs allocate, and no longer warm-up changes that."""
    text = " ".join(" ".join(lines(analyzed("alexnet_inference"), 100)).split())
    assert "Warm up before recording, until no memory is allocated any more: empty_cache() undoes it" in text


def test_what_lies_outside_start_up_is_part_of_the_whole_recording(tmp_path: Path) -> None:
    """A context of 300 ms, 40 ms of an operator on the CPU before the GPU's first work and 60 ms with it: 100 of 400 ms."""
    b = TraceBuilder(host_us=0, latency_us=0)
    b.call("cudaDeviceGetStreamPriorityRange", 300_000)
    with b.op("aten::mul", us=40_000):
        pass
    for _ in range(20):
        with b.op("aten::mm", us=3_000):
            b.kernel("ampere_sgemm_128x64_nn", us=1_000)
    summary = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary
    assert time_lines.time_line(summary, 100).startswith("window outside start-up 100 ms of 400 ms: ")


@pytest.mark.parametrize(
    ("parts", "width", "line"),
    [
        ([("compute", 70.0), ("host", 19.2), ("copy", 10.8)], 39, "step: compute 70.0 %, other 30.0 %"),
        ([("compute", 70.0), ("host", 19.2), ("copy", 10.8)], 40, "step: compute 70 %, host 19 %, copy 11 %"),
        ([("compute", 90.1), ("host", 9.0), ("copy", 0.9)], 43, "step: compute 90.1 %, other 9.9 %"),
        ([("compute", 80.0), ("host", 19.7), ("copy", 0.3)], 36, "step: compute 80 %, host 20 %"),
    ],
    ids=["no room", "whole percents", "nothing large is hidden", "what rounds to nothing"],
)
def test_no_tenth_of_the_step_is_hidden_where_whole_percents_leave_room(
    parts: list[tuple[str, float]], width: int, line: str
) -> None:
    assert time_lines.in_a_line("step: ", parts, width) == line


def _of_kernels(**parts: float) -> Summary:
    """An analysis of one step of 100 ms, of which kernels take as many ms as *parts* say."""
    total = sum(parts.values())
    times = [
        KernelTime(family=name.replace("_", " "), ms=ms, share=ms / total)
        for name, ms in sorted(parts.items(), key=lambda part: -part[1])
    ]
    return replace(analysis().summary, steady_ms=100.0, kernel_time=times)


@pytest.mark.parametrize(
    ("parts", "width", "shown"),
    [
        # 50 of 100 ms: 25, 20 and 5 of it.
        ({"softmax": 25, "matrix_products": 20, "casts": 5}, 80,
         ["kernels 50.0 ms: softmax 50 %, matrix products 40 %, casts 10 %"]),
        # Families of less than 1.5 % are among the others.
        ({"softmax": 25, "matrix_products": 24, "casts": 0.7, "other": 0.3}, 80,
         ["kernels 50.0 ms: softmax 50 %, matrix products 48 %, other 2 %"]),
        # One line leaves 26 % of it to the others: it takes two.
        ({"matrix_products": 20, "rotary_embedding": 10, "RMS_norm": 7, "convolutions": 7, "softmax": 6}, 60,
         ["kernels 50.0 ms: matrix products 40 %,", "    rotary embedding 20 %, RMS norm 14 %, other 26 %"]),
        ({"matrix_products": 20, "rotary_embedding": 10, "RMS_norm": 7, "convolutions": 7, "softmax": 6}, 80,
         ["kernels 50.0 ms: matrix products 40 %, rotary embedding 20 %, RMS norm 14 %,", "    convolutions 14 %, softmax 12 %"]),
        # Kernels of less than a tenth of the step are not what it is about.
        ({"softmax": 5, "matrix_products": 4}, 80, []),
    ],
)  # fmt: skip
def test_what_the_kernels_time_is_made_of(parts: dict[str, float], width: int, shown: list[str]) -> None:
    assert time_lines.kernels_lines(_of_kernels(**parts), width) == [(line,) for line in shown]


def test_notes_that_own_much_are_named_the_longest_first() -> None:
    """Of 121 ms notes own 60, 12 and 5: the last is under a twentieth."""
    notes = [
        finding(f"a/{name}", severity="note", title=name, cost_ms=ms, cost_share=ms / 121, saving=None, after=["b/b"])
        for name, ms in (("Small", 5.0), ("Not fused", 12.0), ("Masked", 60.0))
    ]
    shown = "\n".join(lines(analysis(finding("b/b"), *notes)))
    assert "Noted: Masked, 60.0 ms; Not fused, 12.0 ms (gone with the fixes above)" in shown
    # One of them that no other fix does away with.
    shown = "\n".join(lines(analysis(finding("b/b"), *notes[:2], replace(notes[2], after=None))))
    assert "Noted: Masked, 60.0 ms; Not fused, 12.0 ms\n" in shown
    # One that goes with the fix of another note, which the screen does not show.
    shown = "\n".join(lines(analysis(finding("b/b"), *notes[:2], replace(notes[2], after=["a/Hidden"]))))
    assert "Noted: Masked, 60.0 ms; Not fused, 12.0 ms\n" in shown
    # One whose own fix returns nothing, with or without the others.
    shown = "\n".join(lines(analysis(finding("b/b"), *notes[:2], replace(notes[2], after=[]))))
    assert "Noted: Masked, 60.0 ms; Not fused, 12.0 ms\n" in shown
    # What the same change does away with is counted with the finding.
    assert "Noted: Not fused" in "\n".join(
        lines(analysis(finding("b/b"), *notes[:2], replace(notes[2], done_by="b/b")))
    )
    # Where nothing was found they are what there is, down to a hundredth of the step.
    assert "Noted: Masked, 60.0 ms; Not fused, 12.0 ms; Small, 5.00 ms\n" in "\n".join(lines(analysis(*notes)))


def test_notes_push_no_finding_out() -> None:
    said = []
    for words in range(1, 60, 4):
        title = " long" * words
        others = [finding(f"a/{at}", title=f"Title {at}{title}") for at in range(9)]
        note = finding("a/note", severity="note", cost_ms=60.0, cost_share=0.04, saving=None, after=["a/0"])
        small, large = ("\n".join(lines(analysis(*others, replace(note, cost_share=share)))) for share in (0.04, 0.5))
        assert small.count("Title") == large.count("Title")
        said.append("Noted" in large)
    assert said[0]
    assert not all(said)


@pytest.mark.parametrize("words", range(11, 80, 3))
def test_copies_stand_below_the_findings_but_push_none_out(words: int) -> None:
    """Ten findings of two lines each leave them room; of some lengths of titles one more would have no place beside them."""
    copied = CopyTime(direction="HtoD", ms=9.0, hidden_ms=0.0, count=1.0, bytes=18e6, host_memory="pageable")
    made = analysis(*(finding(f"a/r{at}", title=f"Title {at} " + "long " * words) for at in range(10)))
    beside = replace(made, summary=replace(made.summary, steady_ms=100.0, copy_time=[copied]))
    plain, shown = ("\n".join(lines(one)) for one in (made, beside))
    assert shown.count("Title") == plain.count("Title")
    stands = "copies: 9.00 ms to the GPU (17.2 MiB, pageable, 2 GB/s)" in shown
    assert stands if words == 11 else True


def test_kernels_of_a_mean_step_say_so_where_it_is_another_than_the_median() -> None:
    """The step is the median, 100 ms: of a mean of 103 the kernels' time says so, of 101 not."""
    summary = _of_kernels(softmax=25, matrix_products=25)
    for mean, first in (
        (103.0, "kernels 50.0 ms (mean step): "),
        (101.0, "kernels 50.0 ms: "),
        (None, "kernels 50.0 ms: "),
    ):
        ((line,),) = time_lines.kernels_lines(replace(summary, steady_mean_ms=mean), 80)
        assert line == first + "softmax 50 %, matrix products 50 %"


@pytest.mark.parametrize(
    ("file", "library", "text"),
    [
        # A model of a library does the work that the program's line called.
        ("app/model.py", "transformers/models/t5/modeling_t5.py:253 forward",
         "transformers/models/t5/modeling_t5.py:253 forward, from app/model.py:40 in run"),
        # The whole path has no place in a line of 80: the file's name has.
        ("company/library/adapters/model.py", "transformers/models/owlv2/modeling_owlv2.py:410 forward",
         "transformers/models/owlv2/modeling_owlv2.py:410 forward, from model.py:40 in run"),
        # What stands on every stack tells nothing.
        ("app/model.py", "torch/nn/functional.py:2190 softmax", "app/model.py:40 in run"),
        ("app/model.py", "torchinductor/dn/cdn.py:165 call", "app/model.py:40 in run"),
        ("app/model.py", "copy.py:128 deepcopy", "app/model.py:40 in run"),
        ("app/model.py", None, "app/model.py:40 in run"),
        (None, "torch/nn/functional.py:2190 softmax", "torch/nn/functional.py:2190 softmax"),
    ],
)  # fmt: skip
def test_the_place_is_the_library_s_line_and_the_user_s(file: str | None, library: str | None, text: str) -> None:
    place = Place(file=file, line=40, function="run", library=library, module=None, op="aten::_softmax", share=1.0)
    assert places.where(finding("a/b", where=[place])) == text


def test_of_several_lines_of_a_library_the_one_with_the_most_stands_with_its_share() -> None:
    """Torch's own and generated code tell nothing."""
    parts = [
        Through(library="torch/nn/functional.py:9 linear", share=0.5),
        Through(library="hub/hooks.py:3 call", share=0.4),
    ]
    place = Place(
        file="app/model.py", line=40, function="run", library=None, module=None, op=None, share=1.0, through=parts
    )
    told = "hub/hooks.py:3 call (40 %) and others, from app/model.py:40 in run"
    assert places.where(finding("a/b", where=[place])) == told
    assert places.where(finding("a/b", where=[replace(place, through=parts[:1])])) == "app/model.py:40 in run"


@pytest.mark.parametrize(
    ("alone", "text"),
    [
        # Most of it is there only once the fixes above have been made: that is said beside it.
        (1.31, "saves 22.0–43.8 ms (14–29 %) after those above, alone 0–1.31 ms"),
        (0.0, "saves 22.0–43.8 ms (14–29 %) after those above, alone nothing"),
        (30.0, "saves 22.0–43.8 ms (14–29 %), alone 0–30.0 ms"),
        (None, "saves 22.0–43.8 ms (14–29 %)"),
    ],
)
def test_what_a_fix_saves_only_behind_others_says_so(alone: float | None, text: str) -> None:
    by_itself = None if alone is None else {"low": 0.0, "high": alone}
    price = Saving(low_ms=22.0, high_ms=43.8, low_share=0.14, high_share=0.29, basis="replay", alone_ms=by_itself)
    one = finding("a/b", saving=price)
    assert savings.saving(one, [one]) == text


@pytest.mark.parametrize(
    ("cost_ms", "alone_high", "text"),
    [
        # 35.2 is 1.25 times the 28.1 that it saves at most: another figure.
        (35.2, None, "cost 35.2 ms, saves 21.0–28.1 ms (17–23 %)"),
        (35.0, None, "saves 21.0–28.1 ms (17–23 %)"),
        # Alone it saves up to 40 ms: a cost of less beside it would read as a fault.
        (35.2, 40.0, "saves 21.0–28.1 ms (17–23 %), alone 30.0–40.0 ms"),
        (50.0, 40.0, "cost 50.0 ms, saves 21.0–28.1 ms (17–23 %), alone 30.0–40.0 ms"),
    ],
)
def test_a_cost_stands_beside_what_is_saved_where_it_is_more(
    cost_ms: float, alone_high: float | None, text: str
) -> None:
    saving = finding().saving
    assert saving is not None
    alone = None if alone_high is None else {"low": 30.0, "high": alone_high}
    one = finding(cost_ms=cost_ms, saving=replace(saving, alone_ms=alone))
    assert savings.saving(one, [one]) == text


def test_a_saving_above_its_cost_names_what_the_same_change_saves_as_well() -> None:
    """28.1 ms at most of 20 of its own: the rest is of the other. Of 30 of its own nothing has to be said."""
    one = finding("gradient/zeroing-wait", cost_ms=20.0)
    same = finding("gradient/added-to-zeros", saving=None, done_by=one.rule)
    assert savings.aside(one, [one, same]) == ", added-to-zeros included"
    assert savings.aside(one, [one, same, same]) == ", 2 others included"
    assert savings.aside(replace(one, cost_ms=30.0), [one, same]) == ""
    assert savings.aside(one, [one, replace(same, done_by=None)]) == ""
    assert "included" not in " ".join(
        lines(analysis(one, same))
    )  # it would take a line of its own: 28.1 is 1.4 times 20
    odd = analysis(replace(one, cost_ms=18.0), same)
    assert "saves 21.0–28.1 ms (17–23 %), added-to-zeros included" in " ".join(lines(odd))
    assert "included" not in " ".join(lines(odd, 60))


@pytest.mark.parametrize(("recorded", "text"), [(14.0, ", 14.0 ms with the CPU as recorded"), (15.0, ""), (None, "")])
def test_what_a_slow_recording_leaves_of_a_saving_is_said_where_it_is_half_at_most(
    recorded: float | None, text: str
) -> None:
    """Of 28.1 ms."""
    one = finding()
    assert one.saving is not None
    assert savings.aside(replace(one, saving=replace(one.saving, recorded_ms=recorded)), [one]) == text


def test_operators_that_hold_much_each_are_the_place_together() -> None:
    nowhere = replace(finding().where[0], file=None, line=None, function=None, library=None, module=None)
    held = [replace(nowhere, op=op, share=share) for op, share in (("a", 0.63), ("b", 0.35), ("c", 0.02))]
    assert places.where(finding(where=held)) == "a (63 %), b (35 %)"
    assert places.where(finding(where=[replace(held[0], share=0.81), held[1]])) == "a"  # it stands for all
    assert places.where(finding(where=[replace(held[0], share=0.2), *held[2:]])) == "a (20 %) and others"
    node = "autograd::engine::evaluate_function: MmBackward0"
    assert places.where(finding(where=[replace(held[0], op=node), held[1]])) == "MmBackward0 (63 %), b (35 %)"


def test_lines_that_hold_much_each_are_the_place_together() -> None:
    """Of the same file the second is its line alone; what does not fit a line of text is one of the others."""
    one = finding().where[0]
    parts = [replace(one, library=None, share=0.4), replace(one, library=None, line=90, function="loss", share=0.3)]
    assert places.where(finding(where=parts)) == "train.py:54 in train (40 %), :90 in loss (30 %)"
    other = replace(parts[1], file="app/models/head.py")
    assert places.where(finding(where=[parts[0], other])) == "train.py:54 in train (40 %), head.py:90 in loss (30 %)"
    long = replace(parts[1], function="f" * 60)
    assert places.where(finding(where=[parts[0], long])) == "train.py:54 in train (40 %) and others"


def spread_over_a_library() -> Finding:
    parts = [("hub/hooks.py:3 call", 0.4), ("hub/hooks.py:68 rotate", 0.22), ("hub/nn/mlp.py:9 forward", 0.15)]
    through = [
        Through(library=library, share=part) for library, part in [("torch/nn/functional.py:9 linear", 0.2), *parts]
    ]
    place = replace(finding().where[0], library=None, module=None, op=None, share=1.0, through=through)
    return finding("a/b", where=[place])


def test_where_lines_are_left_the_places_behind_the_first_are_said() -> None:
    """Of the same file the line alone, of another its name; torch's own tell nothing."""
    one = spread_over_a_library()
    assert places.where(one) == "hub/hooks.py:3 call (40 %) and others, from train.py:54 in train"
    assert places.places_behind(one) == "also :68 rotate 22 %, mlp.py:9 forward 15 %"
    assert places.places_behind(finding()) == ""  # one line is all of it
    assert any("also :68 rotate 22 %" in line for line in lines(analysis(one)))
    # What holds under a tenth, and what does not fit a line, is one of the others.
    nowhere = replace(finding().where[0], file=None, line=None, function=None, library=None, module=None)
    shares = (("a", 0.2), ("b", 0.12), ("c", 0.09))
    held = [replace(nowhere, op=op, share=part) for op, part in shares]
    assert places.places_behind(finding(where=held)) == "also b 12 %"
    assert places.places_behind(finding(where=[held[0], replace(held[1], op="f" * 70)])) == ""


def test_a_name_that_says_and_others_is_none_of_several_places() -> None:
    """A range of the program's own, which holds four fifths of the cost."""
    nowhere = replace(finding().where[0], file=None, line=None, function=None, library=None, module=None)
    held = [replace(nowhere, op="loss and others", share=0.8), replace(nowhere, op="sort", share=0.2)]
    assert "loss and others" in places.where(finding(where=held))
    assert places.places_behind(finding(where=held)) == ""


def test_the_places_behind_the_first_take_no_line_from_a_finding() -> None:
    one = spread_over_a_library()
    place = one.where[0]
    twin = replace(one, where=[replace(place, through=place.through[:2])])  # of which no other is known
    assert places.places_behind(twin) == ""
    with_others, without = (lines(analysis(*(replace(of, rule=f"a/b{at}") for at in range(12)))) for of in (one, twin))
    assert len(with_others) <= screen.LINES
    assert any("also :68" in line for line in with_others)
    for part in (" HIGH ", "hub/hooks.py:3 call (40 %)", "→ Load in workers"):
        assert sum(part in line for line in with_others) == sum(part in line for line in without) > 0


def waiting(total: float, *findings: Finding) -> list[str]:
    """The screen of findings beside idle time for the CPU of *total* ms of a step of 100 ms; of it backward has 60 %."""
    made = analysis(*findings)
    parts = [HostTime(where="backward", kind="phase", ms=0.6 * total, share=0.6)]
    parts += [HostTime(where=f"aten::operator_{at}", kind="operator", ms=0.1 * total, share=0.1) for at in range(4)]
    return lines(replace(made, summary=replace(made.summary, host_time=parts, step_ms=None, window_ms=100.0)))


def cheap(high_ms: float, at: int) -> Finding:
    """A finding of eight lines, from the third on of nine, two of them its fix, that saves *high_ms* at most."""
    saving = Saving(low_ms=0.0, high_ms=high_ms, low_share=0.0, high_share=high_ms / 100, basis="replay")
    one = finding(f"a/r{at}", title=f"Title {at} " + "long " * (65 if at < 2 else 79), saving=saving)
    return replace(one, fix=replace(one.fix, title=f"Change {at} " + "now " * 18))


@pytest.mark.parametrize(("high_ms", "divided", "fixes"), [(5.0, True, 3), (10.0, False, 4)])
def test_what_the_cpu_does_takes_the_room_of_fixes_that_return_less(high_ms: float, divided: bool, fixes: int) -> None:
    """Findings fill the 34 lines that four others leave; idle time of 40 ms takes the two of a fix that returns at most 6."""
    findings = [cheap(50.0, 0), *(cheap(high_ms, at) for at in (1, 2, 3))]
    shown = waiting(40.0, *findings)
    assert any(line.startswith("waits for the CPU 40.0 ms: backward 60 %") for line in shown) == divided
    assert sum("→ Change" in line for line in shown) == fixes
    assert sum(line.startswith((" 1", " 2", " 3", " 4")) for line in shown) == 4  # none is left out for it


@pytest.mark.parametrize("high_ms", [2.0, 30.0])
def test_lines_of_the_source_take_nothing_of_a_finding(high_ms: float) -> None:
    """They divide the whole step, of which hardly a finding returns half: all four keep their fixes, where idle time takes one."""
    made = analysis(*[cheap(50.0, 0), *(cheap(high_ms, at) for at in (1, 2, 3))])
    parts = [HostTime(where=f"train.py:{at} main", kind="line", ms=25.0, share=0.25) for at in range(4)]
    summary = replace(made.summary, host_time=parts, step_ms=None, window_ms=100.0)
    shown = lines(replace(made, summary=summary))
    assert sum("→ Change" in line for line in shown) == 4
    alone = lines(replace(made, summary=summary, findings=made.findings[:2]))
    assert any(line.startswith("time by line 100 ms: train.py:0 main 25 %") for line in alone)


def test_unknown_limits_leave_the_screen_for_what_the_cpu_does() -> None:
    """Three findings leave room for three lines with the reason why a limit is not known; four long ones for one line without."""
    part = Elsewhere(cause="compute", where="aten::mm", ms=20.0, unknown="of a reason that takes lines " * 5)
    made = analysis(*(cheap(50.0, at) for at in range(4)))
    parts = [HostTime(where="backward", kind="phase", ms=40.0, share=1.0)]
    summary = replace(made.summary, host_time=parts, step_ms=None, window_ms=100.0)
    full = replace(made, summary=summary, elsewhere=[part], findings=made.findings[:3])
    shown = lines(full)
    assert any("In no finding" in line for line in shown)
    assert any(line.startswith("waits for the CPU") for line in shown)
    assert any("limit not known" in line for line in shown)  # three findings leave room for all
    crowded = lines(replace(full, findings=[*made.findings[:3], replace(made.findings[3], title="long " * 35)]))
    assert any(line.startswith("waits for the CPU") for line in crowded)
    assert not any("limit not known" in line for line in crowded)
    assert any("In no finding: compute, 20.0 ms in aten::mm." in line for line in crowded)


def test_what_is_not_counted_beside_start_up_is_said_where_it_is_a_tenth() -> None:
    """By the raw files 14.2 of 49.4 ms drain an earlier forward pass, and a first step takes 1.22 of 2.87 ms."""
    for name, told in (
        ("h100_qwen_0.5b", "Not counted, of 49.4 ms: 14.2 ms of work queued before the recording"),
        ("h100_transformer_run1", "Not counted, of 2.87 ms: 1.22 ms of a first step unlike the others"),
    ):
        assert told in lines(analyzed(name), 100)
    summary = replace(analysis().summary, extent_ms=100.0, causes={"before": 0.09, "after": 0.1, "compute": 0.81})
    assert figures.ends(summary, first=True) == "Not counted, of 100 ms: 10 ms behind the last step"
    assert figures.ends(replace(summary, causes={"before": 0.09, "compute": 0.91}), first=True) == ""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mi300_vllm_graph_replay", "Not counted, of 19.1 ms: 8.33 ms before the device's first work"),
        ("cpu_only", "Not counted, of 1,290 ms: 1,075 ms behind the last step"),
        ("gpu_events_without_host", "is 1.4 of 1.63 ms (973 ms more lie behind the last work): first call"),
        ("audited/rtx2080ti_resnet_annotated", "is 4.8 of 14.5 s (1,646 ms more lie behind the last step): loading"),
        (
            "audited/a100_dlrm_shampoo_rank1of128",
            "Not counted, of 3,366 ms: 852 ms before the first step; 1,276 ms behind the last step",
        ),
        ("audited/a100_switch_transformer_8x1024", "since the host's first event (the window begins 323 ms later)"),
        (
            "audited/mi300_normalization_layers",
            "loading 1,093 ms, 974 ms of it in hipLaunchKernel (aten::native_batch_norm 332 ms, aten::native_group_norm 211 ms,",
        ),
    ],
)
def test_what_lies_outside_the_window_is_said_where_it_is_a_tenth(name: str, told: str) -> None:
    """By the raw files: events begin 8.37 ms before the first GPU work; the profiler's span ends 1,075 ms behind the only step.

    It ends 973 and 1,646 ms behind the last GPU work of two others, and six launches of 1,036 ms load code. Of one it spans
    3,366.4 ms, and ProfilerStep#551 begins 852.2 ms behind its begin.
    """
    text = " ".join(" ".join(lines(analyzed(name))).split())
    assert told in text


def test_of_a_part_that_was_asked_for_nothing_lies_behind() -> None:
    summary = replace(analysis().summary, extent_ms=100.0, causes={"compute": 1.0}, tail_ms=20.0)
    assert figures.ends(summary, first=True, span_ms=120.0) == "Not counted, of 120 ms: 20 ms behind the last step"
    assert figures.ends(replace(summary, tail_ms=None), first=True, span_ms=900.0) == ""


def test_what_was_recorded_before_the_first_step_is_said_beside_start_up_too() -> None:
    # 200 ms before the steps of 100, of which 50 are start-up, and 20 behind them.
    loaded = StartupPart(kind="loading", ms=50.0, where=None)
    causes = {"startup": 0.5, "compute": 0.5}
    summary = replace(
        analysis().summary, extent_ms=100.0, causes=causes, startup=[loaded], early_ms=200.0, tail_ms=20.0
    )
    assert "(200 ms more lie before the first step)" in figures.start_up(summary)
    assert "The recording begins 200 ms before the first step." in figures.not_steady(summary)
    assert figures.ends(summary, first=True, span_ms=320.0) == "Not counted, of 320 ms: 200 ms before the first step"
    assert figures.ends(summary, first=False, span_ms=320.0) == ""


def test_a_gpu_that_ran_slower_is_said_on_the_screen() -> None:
    note = QualityNote(code="slowed-device", message="The GPU ran slower at 5-6 ms", advice="")
    assert note.message in lines(replace(many(1), quality=[note]))


def test_what_a_slower_gpu_added_is_said_as_that() -> None:
    """By the raw file its products took 75.7 ms beyond their lower quartiles, of 587 ms; the stretches themselves are 160 ms."""
    assert "The GPU ran slower at 525–656 and 881–910 ms, which added 13 % of the time" in lines(
        analyzed("audited/a100_switch_transformer_8x1024")
    )


def test_without_operators_the_cpu_is_to_be_recorded_before_stacks() -> None:
    text = " ".join(" ".join(lines(analyzed("mi210_gpu_only"))).split())
    assert "For operators record the CPU too, for source lines with with_stack=True." in text


def test_start_up_is_measured_against_what_was_recorded_and_summed_up_by_place() -> None:
    """Of 19.9 ms the host shows nothing for 18.4: the two cudaMalloc of 408 and 284 us in aten::mm are most of the rest."""
    text = " ".join(" ".join(lines(analyzed("event_sync_multi_stream"))).split())
    assert (
        "Start-up, not counted, is 0.692 of 19.9 ms since the host's first event (the window begins 411 µs later): allocation "
        "692 µs in aten::mm" in text
    )


@pytest.mark.parametrize("name", ["v100_resnet50_workers0", "audited/v100_resnet50_workers4_b", "a100_dlrm_rank3of8"])
def test_findings_keep_their_fixes_before_passes_and_notes(name: str) -> None:
    made = analyzed(name)
    shown = lines(made)
    listed = savings.leading(made.findings)
    assert sum(line.strip().startswith("→") for line in shown) >= len(listed) - 1
    assert not any(line.startswith("passes:") for line in shown)


@pytest.mark.parametrize(
    ("name", "kernels", "passes"),
    [
        (
            "audited/v100_aot_allreduce_rank1of2",
            "kernels 124 ms: matrix products 67 %, elementwise 20 %, other 13 %",
            "passes: forward 63.3 ms, backward 252 ms, optimizer 12.4 ms, zero_grad 11.4 ms",
        ),
        (
            "v100_resnet50_workers4",
            "kernels 99.1 ms (mean step): convolutions 68 %, batch norm 16 %, other 16 %",
            None,
        ),
        (
            "a100_dlrm_rank3of8",
            "kernels 46.9 ms: embedding 33 %, matrix products 29 %, elementwise 14 %,",
            None,
        ),
    ],
)
def test_passes_take_the_line_of_small_kinds_of_kernels_alone(name: str, kernels: str, passes: str | None) -> None:
    """By the raw file of the first `zero_grad` takes 10.4 to 13.7 ms and the optimizer's step 11.8 to 13.3. In the second the host
    is in SGD's step for 21.4 to 24.6 ms: in the mean 22.6 of 134 ms, which is 21.4 of the median step of 126; there a step that is
    37 ms longer than the median one comes first. In the last a fifth of the kernels' time would go without a name.
    """
    shown = lines(analyzed(name))
    assert kernels in shown
    whole = step_time.passes(analyzed("v100_resnet50_workers4").summary)
    assert "optimizer 2.69 ms (1.45 ms idle, 21.4 ms on the CPU)" in whole
    assert [line for line in shown if line.startswith("passes:")] == ([passes] if passes else [])


def test_of_a_capture_the_little_beside_it_is_not_divided() -> None:
    """By the raw file 55.8 of 57.8 ms are the capture: shares of the other 2.0 say nothing of the program."""
    shown = "\n".join(lines(analyzed("audited/mi300_vllm_graph_capture")))
    assert "for 55.8 of 57.8 ms calls are recorded into a graph" in shown
    assert "CPU of the capture 58.9 ms" in shown
    for told in ("outside start-up", "In no finding", "waits for the CPU"):
        assert told not in shown


def test_drawing_weights_is_not_taken_for_the_start_of_the_gpu() -> None:
    """By the raw file uniform_ draws for 2,485 ms before any kernel, and 77 launches hold the host 5,163 ms for their counters.

    The first convolution's takes 1,220 ms, that of the pass behind it 68.5: the other 1,152 load code.
    """
    shown = " ".join(" ".join(lines(analyzed("cupti_counters"))).split())
    assert "initialization 2,567 ms, 2,481 ms of it in aten::uniform_ (random weights, on the CPU)" in shown
    assert "profiler, 4,011 ms in cudaLaunchKernel" in shown
    assert "Start-up, not counted, is 7.2 of 11.8 s" in shown


def test_the_call_that_creates_the_context_is_named() -> None:
    """By the raw file aten::empty takes 19.58 of 19.81 s."""
    assert "The GPU's context takes 19.6 s in aten::empty" in lines(analyzed("audited/a100_param_bench"))


def test_in_one_line_the_waits_go_without_their_division() -> None:
    """Where one line is left, which operators the GPU waits for is worth more than how much of it is launches."""
    summary = analyzed("v100_resnet50_workers4").summary
    (line,) = time_lines.host_lines(summary, 80, 1)
    assert line == ("waits for the CPU 28.8 ms (mean): aten::conv2d 28 %, zero_grad 22 %, other 50 %",)
    assert "operators" in str(time_lines.host_lines(analyzed("v100_resnet50_workers0").summary, 80, 2)[0])
    # Beside the median step's causes they are the mean step's, and say so: by the raw file 6.4 of 28.8 ms are in zero_grad.
    assert any(
        line.startswith("waits for the CPU 28.8 ms (mean)") for line in lines(analyzed("v100_resnet50_workers4"))
    )


def test_a_line_that_the_waits_are_divided_among_has_one_share() -> None:
    """The finding's own is of the launches behind that line's waits, 28 % of them; the line of waits has where the CPU was."""
    text = lines(analyzed("h100_bert_small"))
    place = next(line for line in text if "modeling_bert.py:364 forward" in line)
    assert "modeling_bert.py:364 forward and others" in place
    assert sum("modeling_bert.py:364 forward 22 %" in line for line in text) == 1


def test_kinds_of_kernels_have_a_second_line_where_lines_are_left() -> None:
    """Two lines name 97 % of the kernels' time, one 93 %; a screen that is full keeps to one."""
    parts = {"matrix products": 0.64, "attention in steps": 0.29, "activations": 0.04, "RMS norm": 0.03}
    kinds = [KernelTime(family=name, ms=100 * part, share=part) for name, part in parts.items()]

    def shown(count: int) -> str:
        made = analysis(*(finding(f"a/r{at}", title=f"Title {at} " + "long " * 40) for at in range(count)))
        return " ".join(lines(replace(made, summary=replace(made.summary, kernel_time=kinds, window_ms=200.0))))

    assert "activations 4 %, RMS norm 3 %" in " ".join(shown(1).split())
    assert "activations" not in shown(9)
