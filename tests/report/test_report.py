"""Reports from analyses made by hand, with the text a hostile or broken trace could put into them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.analyses import HOSTILE, REPLACE, analysis, finding, hostile_analysis, together

from advisor.errors import UsageError
from advisor.report import FORMATS, Options, format_of, render
from advisor.report.plain import clean, columns, in_one_unit, milliseconds, number, percents, shorten, size, wrap
from advisor.report.table import align, evidence_cell, evidence_heading
from advisor.results.analysis import Analysis, PlanStep
from advisor.results.distance import LineDistance
from advisor.results.ranks import Clocks
from advisor.results.several import Several


def text(document: Analysis | Several, **options: object) -> str:
    return render("text", document, Options(**({"verbosity": 1} | options))).decode()


def test_the_report_says_first_things_first() -> None:
    report = text(analysis(finding(), finding("transfer/pageable-copy", severity="low", saving=None, cost_ms=0.0)))
    head, _, rest = report.partition("2 findings, most valuable first")
    assert "trace.json.gz · Tesla V100 (32.0 GiB) · 5 steps · torch 2.1.0" in head
    assert "121 ms  median; p10 118 – p90 130 ms over 5 steps" in head
    assert "3.0 GiB of 32.0 GiB (9.4 %)" in head
    assert " 1. HIGH    Batches are loaded in the training process" in rest
    # 28.1 of 121 ms is 23.2 %; 21.0 of 121 ms is 17.4 %
    assert "saves 21.0 to 28.1 ms of 121 ms a step (17.4 to 23.2 %)" in rest
    assert "train.py:54 in train → torch/utils/data/dataloader.py:521 __next__" in rest
    assert "          num_workers=8)" in rest  # six columns of margin, and the tab as four
    assert "none of its own" in rest
    assert "- 2 not run, shapes missing: profile(record_shapes=True)" in rest
    assert "Rules: 2 fired, 1 noted on the profile, 1 passed, 1 not applicable, 2 not run" in rest


def test_causes_add_up_and_lie_in_order() -> None:
    causes = {"compute": 0.5, "loader": 0.3, "host": 0.2}
    made = analysis()
    report = text(REPLACE(made, summary=REPLACE(made.summary, causes=causes)))
    rows = re.findall(r"^  (\w+) +█+[▏▎▍▌▋▊▉]? +([\d.]+) ms +([\d.]+) %", report, re.MULTILINE)
    # of a step of 121 ms: 60.5, 36.3 and 24.2
    assert rows == [("compute", "60.5", "50.0"), ("loader", "36.3", "30.0"), ("host", "24.2", "20.0")]
    assert re.search(r"^  together +121 ms +100.0 %$", report, re.MULTILINE)


def test_thirds_print_as_a_hundred_percent() -> None:
    assert percents([1 / 3, 1 / 3, 1 / 3]) == [33.4, 33.3, 33.3]


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=13))
def test_shares_always_add_up(weights: list[float]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    shown = percents(shares)
    assert round(sum(shown), 6) == 100
    assert all(abs(part - 100 * share) < 0.1 + 1e-6 for part, share in zip(shown, shares, strict=True))


def test_an_unknown_figure_is_never_zero() -> None:
    made = analysis()
    bare = REPLACE(
        made.summary,
        steps=0,
        step_ms=None,
        device=None,
        gpu_busy_share=None,
        gpu_utilization={},
        sm_efficiency=None,
        achieved_occupancy=None,
        tensor_core_share=None,
        peak_memory_bytes=None,
        memory_bytes=None,
        causes={},
    )
    features = REPLACE(made.trace.features, gpu=False)
    report = text(REPLACE(made, summary=bare, trace=REPLACE(made.trace, devices=[], features=features)))
    # TensorBoard's utilization and SM efficiency are no figures of their own: beside GPU busy, where they differ from it.
    assert "not recorded        step time, GPU busy, achieved occupancy, Tensor Cores, peak memory" in report
    assert "no GPU in the trace · no steps" in report
    listed = REPLACE(made.trace, devices=[], features=features, unrecorded_device="NVIDIA A100")
    assert "NVIDIA A100, no work of it recorded · no steps" in text(REPLACE(made, summary=bare, trace=listed))
    assert "Where the window's 605 ms go (the host; no GPU work)\n  not recorded" in report
    assert not re.search(r"\b0(\.0)? ", report.partition("Rules")[0])
    assert "peak memory not recorded" in text(REPLACE(made, summary=bare), verbosity=-1)


def test_no_finding_is_said_with_what_could_not_run() -> None:
    report = text(analysis())
    assert "No findings\n  1 rule ran and found nothing; 2 could not run (see below)." in report


def test_time_that_another_finding_counts_is_said_to_be_counted_there() -> None:
    slow = finding("data-loading/slow-collate-or-transform", severity="low", saving=None, cost_ms=0.0)
    assert "counted under data-loading/single-process-loader" in text(analysis(finding(), slow))
    assert "none of its own: a risk, or memory" in text(analysis(slow))


def test_a_kernel_of_cutlass_is_shown_by_what_tells_it_apart() -> None:
    name = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1>(cutlass_75::Params)"
    assert evidence_cell("name", name) == "cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1"


def test_notes_are_short() -> None:
    report = text(analysis(finding(severity="note")))
    assert "No findings" in report
    assert (
        "Noted\n  - Batches are loaded in the training process (data-loading/single-process-loader, 23.2 %)" in report
    )
    assert "The GPU waits" not in report


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
@pytest.mark.parametrize("many", [False, True])
def test_nothing_of_a_trace_moves_the_cursor(verbosity: int, many: bool) -> None:
    made = hostile_analysis()
    report = text(Several(traces=[made, made], across=together(made, HOSTILE)) if many else made, verbosity=verbosity)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", report)
    assert "\\u202e" in report  # an override is spelled out, not swallowed
    assert "owned" not in report  # the inside of an escape sequence is not text
    assert "[bold]markup[/bold]" in report
    forged = [line for line in report.splitlines() if line.lstrip().startswith("forged line")]
    assert all(line.startswith("    ") for line in forged)  # wrapped or code, under its label, never a line of its own


def test_colour_is_only_where_it_is_asked_for() -> None:
    assert "\x1b[" not in text(analysis(finding()))
    coloured = text(analysis(finding()), color=True)
    assert "\x1b[1;31mHIGH" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text(analysis(finding()))


@pytest.mark.parametrize("width", [72, 80, 100, 140])
def test_lines_fit_the_width(width: int) -> None:
    report = text(analysis(finding()), width=width)
    table = [line for line in report.splitlines() if "void" in line]
    assert table
    assert all(columns(line) <= width for line in table)
    assert all(columns(line) <= width for line in report.split("most valuable first")[1].splitlines())


def test_quiet_is_a_line_a_finding_and_verbose_names_what_passed() -> None:
    made = analysis(finding(), finding("b/b", severity="note", saving=None))
    assert text(made, verbosity=-1).splitlines()[1:] == [
        "step 121 ms · GPU busy 69.1 % · peak memory 3.0 GiB of 32.0 GiB (9.4 %)",
        " 1. high    17.4 to 23.2 %    data-loading/single-process-loader: Batches are loaded in the training process",
        " 2. note    takes 28.1 ms     b/b: Batches are loaded in the training process",
    ]
    verbose = text(made, verbosity=1)
    assert "passed: kernels/small-grid" in verbose
    assert "noted on the profile: profile/no-warmup" in verbose
    assert "https://pytorch.org/tutorials/recipes/tuning.html" in verbose
    assert "precision/a, precision/b" in verbose


def test_everything_shows_each_of_many_findings_whole() -> None:
    made = analysis(*(finding(f"a/r{index}") for index in range(12)))
    assert text(made).count("The GPU waits.") == render("markdown", made).decode().count("The GPU waits.") == 12


def test_several_traces_start_with_an_overview() -> None:
    made = analysis(finding())
    report = text(Several(traces=[made, REPLACE(made, findings=[])]))
    assert report.startswith("2 traces\n")
    assert report.count("═" * 100) == 2


def test_what_many_ranks_show_comes_last() -> None:
    made = analysis(finding())
    report = text(Several(traces=[made, made], across=together(made)))
    last = report[report.index("Across 2 of 8 ranks") :]
    lines = last.splitlines()
    header = "rank step GPU busy compute communication waits last others wait trace"
    assert lines[2].split() == header.split()
    assert lines[3].split()[:2] == ["0", "–"]
    row = "1 121 ms 69.1 % 60.0 % 9.0 % 8.50 ms (7.0 %) 25.0 % 2.50 ms rank0.json"
    assert lines[4].split() == row.split()
    assert "Clocks aligned on the ends of 84 collectives; they scatter by up to 12.0 µs." in last
    assert " 1. HIGH    Batches are loaded in the training process" in last
    short = text(Several(traces=[made, made], across=together(made)), verbosity=-1)
    assert short.splitlines()[-2] == "Across 2 of 8 ranks"


def test_of_many_ranks_those_that_matter_are_shown() -> None:
    made = analysis(finding())
    across = together(made)
    rows = [REPLACE(across.ranks[1], rank=rank, caused_ms=float(rank % 40)) for rank in range(64)]
    document = Several(traces=[made, made], across=REPLACE(across, ranks=rows))
    lines = render("markdown", document).decode().splitlines()
    shown = [line.split()[1] for line in lines if line.endswith("`rank0.json` |")]
    assert shown == [str(rank) for rank in range(24, 40)]
    assert any("and 48 more ranks" in line for line in lines)


def test_clocks_that_do_not_allow_it_are_said() -> None:
    made = analysis(finding())
    clocks = Clocks(
        collectives=9, residual_ms=30.0, comparable=False, because="The clocks do not allow it: so far apart."
    )
    report = text(Several(traces=[made, made], across=REPLACE(together(made), clocks=clocks, findings=[])))
    assert "The clocks do not allow it: so far apart." in report


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (0.001234, "0.00123"),
        (0.02, "0.0200"),
        (0.1234, "0.123"),
        (1.234, "1.23"),
        (9.999, "10.0"),
        (99.96, "100"),
        (121.4, "121"),
        (12345.6, "12,346"),
        (0.0000123, "<0.001"),
        (-0.000999, ">-0.001"),
        (-3.456, "-3.46"),
    ],
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 ms"), (0.00237, "2.37 µs"), (0.087, "87.0 µs"), (0.9994, "999 µs"), (0.9996, "1.00 ms"), (12.34, "12.3 ms"),
        (9999, "9,999 ms"), (24_100, "24.1 s"), (1e-9, "<0.001 µs"), (-0.5, "-500 µs"), (None, "not recorded"),
        (float("nan"), "not recorded"), (float("inf"), "∞ ms"),
    ],
)  # fmt: skip
def test_times_have_the_unit_in_which_people_say_them(ms: float | None, shown: str) -> None:
    assert milliseconds(ms) == shown


def test_figures_beside_each_other_share_the_unit_of_the_largest() -> None:
    assert in_one_unit(0.694, 0.107, 0) == (["694", "107", "0"], "µs")
    assert in_one_unit(0.428, 3.05) == (["0.428", "3.05"], "ms")
    assert in_one_unit(0.0, 0.0) == (["0", "0"], "ms")


def test_sizes_are_powers_of_1024() -> None:
    assert [size(value) for value in (None, 12, 1024, 5 << 20, 32 << 30)] == [
        "not recorded",
        "12 B",
        "1.0 KiB",
        "5.0 MiB",
        "32.0 GiB",
    ]


@given(st.text(), st.integers(1, 40))
def test_what_is_shortened_fits(name: str, width: int) -> None:
    safe = clean(name)
    assert clean(safe) == safe
    assert columns(shorten(safe, width)) <= width
    safe.encode("utf-8")


def test_lone_surrogates_can_be_written() -> None:
    assert clean("a\ud800b") == "a\\ud800b"


def test_a_table_shortens_text_before_figures() -> None:
    lines = align(["name", "n"], [["x" * 80, "123,456"], ["汉字", "1"]], [False, True], 40)
    assert [columns(line) for line in lines] == [40, 40, 40]
    assert lines[1].endswith("  123,456")


@pytest.mark.parametrize(
    ("column", "value", "heading", "cell"),
    [
        ("dur_ns", 1_234_567, "dur", "1.23 ms"),
        ("bytes", 65536, "bytes", "64.0 KiB"),
        ("gpu_share", 0.5, "gpu", "50.0 %"),
        ("n", 12345, "n", "12,345"),
        ("line", -1, "line", "–"),
        ("ratio", float("nan"), "ratio", "–"),
        ("pinned", True, "pinned", "yes"),
        ("bandwidth_gbps", 12.34, "bandwidth", "12.3 GB/s"),
    ],
)
def test_evidence_shows_the_unit_of_its_column(column: str, value: float, heading: str, cell: str) -> None:
    assert (evidence_heading(column), evidence_cell(column, value)) == (heading, cell)


def test_the_longest_suffix_decides_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Fake:
        name: str
        suffix: str

    monkeypatch.setitem(FORMATS, "sarif", Fake("sarif", ".sarif.json"))  # type: ignore[arg-type]
    assert format_of("a.sarif.json").name == "sarif"
    assert format_of("A.JSON").name == "json"
    with pytest.raises(UsageError, match=r"a\.doc: no format has this suffix. Name the file .txt \(text\)"):
        format_of("a.doc")


def test_a_path_is_whole_on_a_line_of_its_own() -> None:
    # Nobody can open or search for a path whose middle is left out.
    long = "/".join(["moca", "library", "model_hub", "huggingface", "adapters", "pipelines", "text", "base_model.py"])
    place = REPLACE(finding().where[0], file=long, line=28, function="run_on_input")
    lines = text(analysis(finding(where=[place])), width=60, verbosity=1).splitlines()
    assert any(f"{long}:28" in line for line in lines)


@pytest.mark.parametrize("width", range(12, 40))
def test_a_figure_stays_with_its_unit(width: int) -> None:
    text = "64 % of the steady 152 ms a step, 23 % waits (0.9–2.2 %); 10.5 ms, 300 GB/s, 4.5 µs, 15.8 GiB in 6 steps"
    lines = wrap(text, width)
    assert " ".join(lines) == text
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if re.match(r"%|ms|µs|GB|GiB", line)]
    assert any(line.startswith("steps") for line in wrap("in 6 steps", 4))


def test_a_plan_and_a_line_are_whole_with_everything() -> None:
    """The title of a fix wraps, and a place in a table is one to open: neither is cut in its middle."""
    title = "Run the forward pass under fp16 autocast, with a GradScaler around the loss and the optimizer's step"
    line = "some/package/of/the/users/model_zoo/networks/resnet.py:46 forward"
    step = PlanStep(
        rules=["a/b"], title=title, step_ms_before=9, step_ms_after={"low": 5, "high": 7}, speedup=1.8, speedup_low=1.2
    )
    part = LineDistance(line=line, ms=4.0, limit_ms=1.0, reachable_ms=1.5, most_ms=2.0)
    made = replace(analysis(finding()), plan=[step])
    made = replace(made, summary=replace(made.summary, distance_lines=[part], modelled_share=1.0, limit_ms=1.0))
    text = render("text", made, Options(width=80, verbosity=1)).decode()
    assert title in " ".join(re.sub(r"[\d.]+ → \S+ – \S+ ms\s+\S+ to \S+", "", text).split())
    assert line in text
