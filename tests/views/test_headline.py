"""The headline: what a recording is, what bounds it, what to do first, in two lines; and never silent where time is lost."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from support import headlines as built
from support.analyses import analysis as by_hand
from support.analyses import finding
from support.real import AUDITED, NAMES
from support.traces import analysis as real_analysis
from support.traces import rules
from support.traces import trace as real_trace

from advisor.engine.run import run
from advisor.pipeline import analyze
from advisor.results.analysis import Analysis, StartupPart
from advisor.results.headline import Headline
from advisor.testing import TraceBuilder
from advisor.testing.accelerators import Accelerator
from advisor.trace import read
from advisor.views import owners
from advisor.views.headline import ALL_RANKS, _idle_of, _why_startup, reordered
from advisor.views.phrasing import (
    AT_ONCE,
    AT_ONCE_BRIEFLY,
    BRIEFLY,
    COLUMNS,
    LACKING,
    LACKING_BRIEFLY,
    LINES,
    ON_CPU,
    ON_GPU,
    PIPELINE,
    STOPPED,
    STOPPED_BRIEFLY,
    THINNED,
    THINNED_BRIEFLY,
    UNPROVEN,
    UNSEEN,
    UNSEEN_BRIEFLY,
    WAITING,
    WAITING_BRIEFLY,
    Clause,
    clauses,
    short_name,
)

SILENT = 0.20


@cache
def made(build: Callable[[], TraceBuilder]) -> Analysis:
    with TemporaryDirectory() as folder:
        return analyze(read(str(build().write(Path(folder) / "trace.json"))), rules())


def headline(build: Callable[[], TraceBuilder]) -> Headline:
    found = made(build).headline
    assert found is not None
    return found


# ---- built traces, with figures worked out by hand


def test_inference_that_waits_for_python() -> None:
    # forty operators of 100 us, of which the GPU works 10: 3.6 of 4 ms are idle
    found = headline(built.launch_bound)
    assert found.text == (
        "Inference, eager, 1 step: 90 % of the 4 ms step the GPU waits for Python and launches. First, launch less: compile "
        "the model, with CUDA graphs where shapes are fixed."
    )
    assert (found.kind, found.bound, found.first) == ("inference", "host", "gpu-idle/launch-bound")


def test_an_accelerator_that_is_no_gpu_is_called_a_device() -> None:
    """Jobs of 1 ms, launched in 20 us each, on a device of a maker's own categories."""

    def training() -> TraceBuilder:
        b = Accelerator("mtia")
        for _ in range(3):
            with b.step():
                for _ in range(4):
                    with b.op("aten::mm"):
                        b.job("fc_kernel", us=1000, waits=True)
        return b

    found = headline(training)
    assert "the device computes" in found.text
    assert "GPU" not in found.text


def test_training_that_waits_for_batches() -> None:
    found = headline(built.loader_bound)
    assert found.text == (
        "Training, eager, 4 steps: 75 % of the steady 40 ms a step the GPU waits for the next batch. First, load the batches in "
        "worker processes."
    )
    assert (found.kind, found.bound, found.first) == ("training", "loader", "data-loading/single-process-loader")


def test_a_pipeline_that_prepares_its_input_waits_for_no_batch() -> None:
    """A pipeline of transformers makes the loader, which prepares what it is given, be it the same image again."""

    def pipeline() -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0)
        for _ in range(4):
            with b.step(), b.python("transformers/pipelines/base.py(1200): __call__"):
                with b.loader(ms=30):
                    pass
                with b.op("aten::linear", us=8_000):
                    b.kernel(built.GEMM, us=8_000)
        return b

    assert "the GPU waits for the pipeline's preprocessing" in headline(pipeline).text


def test_the_first_advice_is_the_part_that_returns_most() -> None:
    """Without gradients operators take some per cent less; compiled, nearly all of the launches go."""

    def recording_gradients() -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0)
        for _ in range(2):
            with b.step():
                for seq in range(40):
                    with b.op("aten::linear", us=100, seq=seq):
                        b.kernel(built.GEMM, us=10)
        return b

    assert headline(recording_gradients).text.partition(" First, ")[2].startswith("compile the model")


def test_one_cold_step_is_not_called_steady() -> None:
    """Of 329 ms of a first step 300 are the loading of a kernel: what the rest takes no later step need take."""

    def cold() -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0)
        with b.step():
            b.kernel("fill_kernel", us=10)
            with b.op("aten::cudnn_convolution"):
                b.kernel("implicit_convolve_sgemm", us=1_000, host_us=300_000)
            for _ in range(29):
                with b.op("aten::cudnn_convolution", us=1_000):
                    b.kernel("implicit_convolve_sgemm", us=100)
        return b

    text = headline(cold).text
    assert text.startswith("300 of 329 ms of this cold step are start-up. Record after a warm-up")
    assert "of the other 29 ms" in text
    assert "steady" not in text


def test_one_of_several_ranks() -> None:
    found = headline(lambda: built.launch_bound(2, rank=1, world_size=8))
    assert found.text.startswith(
        "Inference, rank 1 of 8, eager, 2 steps: 90 % of the steady 4 ms a step the GPU waits for Python"
    )


def test_start_up_comes_first_where_it_is_most_of_the_recording() -> None:
    found = headline(built.started_up)
    assert found.text.startswith(
        "300 of 330 ms are start-up: GPU code is loaded in aten::cudnn_convolution. Record after a warm-up. Inference"
    )
    assert "100 % of the other 30 ms the GPU computes" in found.text
    assert (found.kind, found.bound) == ("inference", "compute")
    summary = made(built.started_up).summary
    assert summary.extent_ms == pytest.approx(330.0)
    assert summary.causes["startup"] * summary.extent_ms == pytest.approx(299.99)


def test_so_does_a_tail_or_the_work_of_before() -> None:
    assert headline(built.with_a_tail).text.startswith(
        "90 of 100 ms lie behind the last work: not counted. Inference, eager"
    )
    assert "100 % of the 10 ms step the GPU computes" in headline(built.with_a_tail).text
    before = headline(built.queued_before).text
    assert before.startswith(
        "90 of 100 ms are work queued before the recording: not counted. Inference, eager, no steps: 100 %"
    )


def test_a_program_on_the_cpu_and_what_no_finding_speaks_of() -> None:
    # the convolution's 70 of 100 ms have a note that only says where to look, the sum's 30 have none
    found = headline(built.on_the_cpu)
    assert "100 % of the steady 100 ms a step the main thread is in operators" in found.text
    assert "most in aten::mkldnn_convolution (70 ms). No known fault stands out." in found.text
    assert (found.bound, found.first) == ("compute", "cpu/hot-operator")


def test_a_cpu_program_beside_a_gpu_says_which() -> None:
    def build() -> TraceBuilder:
        b = TraceBuilder("NVIDIA A100-SXM4-40GB")
        with b.step(), b.op("aten::mkldnn_convolution", us=100):
            pass
        return b

    assert headline(build).text.startswith(
        "Inference, eager, on the CPU beside an idle NVIDIA A100-SXM4-40GB, 1 step: 100 %"
    )


def test_without_a_finding_the_owner_is_named() -> None:
    found = headline(built.silent)
    assert made(built.silent).findings == []
    assert (
        found.text
        == "Program, eager, 1 step: 100 % of the 100 ms step the GPU computes, most in lattice_update (60 ms)."
    )
    assert (found.kind, found.bound, found.first) == ("unknown", "compute", None)


def test_an_operator_on_the_cpu_is_named() -> None:
    found = headline(built.waiting_for_an_operator)
    # A finding says which: cpu/work-off-the-gpu owns these 80 ms.
    assert "80 % of the 100 ms step the GPU waits for operators on the CPU. First, make the tensor" in found.text
    assert found.first == "cpu/work-off-the-gpu"
    assert found.bound == "operator"


def test_a_function_is_named_that_holds_the_host() -> None:
    def build() -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0)
        with b.step():
            with b.python("train.py(10): routed"), b.python("builtin sum", us=90_000):
                pass
            b.kernel("lattice_update", us=10_000)
            b.sync()
        return b

    trace_of = made(build)
    claims = {found.rule for found in trace_of.findings}
    found = headline(build)
    assert "90 % of the 100 ms step the GPU waits for Python" in found.text
    assert claims or "most in routed (90 ms)" in found.text


def test_where_nothing_of_the_gpu_was_recorded_its_idle_time_is_not_judged() -> None:
    found = headline(built.unrecorded)
    assert found.text == (
        "Inference, eager, 1 step: nothing of the GPU was recorded; for 100 % of the 10 ms step the host works, most in "
        "aten::linear (10 ms). First, record the GPU too."
    )
    assert (found.bound, found.first) == (None, None)


# ---- recordings that cannot be judged


def test_a_capture_of_a_graph() -> None:
    found = headline(built.captured)
    assert found.kind == "capture only"
    assert found.bound is None
    assert found.text.startswith(
        "A graph capture: for 100 of 100 ms calls are recorded into a graph, not run; idle means nothing"
    )


def test_start_up_alone() -> None:
    found = headline(built.only_started)
    assert found.kind == "start-up only"
    assert found.text == (
        "Start-up only, 5 of 5.01 ms: the first call of aten::empty. Nothing of the steady program was recorded. Record a few "
        "steps after a warm-up."
    )


def test_an_empty_recording(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text(built.EMPTY)
    found = analyze(read(str(path)), rules()).headline
    assert found is not None
    assert found.kind == "empty"
    assert found.text.startswith(
        "The profiler ran for 77.9 s and recorded nothing: no operator, no GPU work. Run the program"
    )


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = built.launch_bound(4).write(tmp_path / "whole.json").read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: len(whole) * 6 // 10])
    found = analyze(read(str(path)), rules()).headline
    assert found is not None
    assert found.kind == "cut off"
    assert found.text.startswith("The file is cut off: figures speak of what is left. Inference: ")


# ---- the words


def test_it_fits_two_lines_whatever_the_names_are() -> None:
    name = "aten::" + "very_long_" * 30

    def build() -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0)
        b.kernel("fill_kernel", us=10)
        with b.op(name):
            b.kernel("implicit_convolve_sgemm", us=1_000, host_us=300_000)
        with b.op(name, us=29_000):
            b.kernel("implicit_convolve_sgemm", us=29_000)
        return b

    text = headline(build).text
    assert len(textwrap.wrap(text, COLUMNS)) <= LINES
    assert text.startswith("300 of 330 ms are start-up")
    assert "100 % of the other 30 ms the GPU computes" in text


def test_findings_in_another_order_change_what_to_do_first() -> None:
    pin = finding("transfer/pageable-copy")
    pin = msgspec.structs.replace(pin, fix=msgspec.structs.replace(pin.fix, title="Pin the host memory"))
    load = finding()
    before = Headline(
        text="Training: 75 % idle. First, load in workers.", kind="training", bound="loader", first=load.rule
    )
    after = reordered(before, [load, pin], [pin, load])
    assert after == Headline(
        text="Training: 75 % idle. First, pin the host memory.",
        kind="training",
        bound="loader",
        first="transfer/pageable-copy",
    )
    assert reordered(before, [load, pin], [load, pin]) == before
    assert reordered(None, [load], [pin]) is None


@pytest.mark.parametrize(
    ("title", "clause"),
    [
        (
            "Call find_device, reset_hooks and write outside the step, or not at all",
            "Call find_device and others outside the step",
        ),
        ("Call find_device and write outside the step, or not at all", "Call find_device and write outside the step"),
        ("Take all parameters in one step, and compile what is left", "Take all parameters in one step"),
    ],
)
def test_of_functions_that_do_not_fit_the_first_is_named_with_what_to_do(title: str, clause: str) -> None:
    assert clauses(title) == (title, clause)


def test_an_older_analysis_has_none() -> None:
    text = by_hand(finding()).to_json().replace(b'"headline": null,', b"")
    assert b"headline" not in text
    assert Analysis.from_json(text).headline is None


# ---- the real traces


@pytest.mark.real
@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_no_report_is_silent_where_time_is_lost(name: str) -> None:
    """Each cause of over a fifth of steady time that no finding claims is spoken of, and the line fits."""
    result, trace = real_analysis(name), real_trace(name)
    found, summary = result.headline, result.summary
    assert found is not None
    assert len(textwrap.wrap(found.text, COLUMNS)) <= LINES
    assert found.first == (result.findings[0].rule if result.findings else None)
    if found.kind not in ("training", "inference", "unknown") or "hardware-counters" in {
        note.code for note in result.quality
    }:
        return
    if found.bound is not None:
        judged = summary.steps and not summary.cold
        part = r"(?:steady |[\d.,]+ [mµ]?s step)" if judged else r"(?:other )?[\d.,]+ [mµ]?s"
        assert re.search(f"{100 * summary.shown_causes[found.bound]:.0f} % of the {part}", found.text)
    free = trace.ledger.counted.copy()
    for claim in run(trace, rules()).matches.values():
        free[claim.segments] = False
    lost = owners.by_cause(trace.ledger, free)
    for cause, ns in lost.items():
        if ns > SILENT * trace.ledger.counted_ns and cause not in ("unknown", "profiler"):
            owner = owners.owner(trace.context, cause, free)
            share = f"{100 * summary.shown_causes[cause]:.0f} %"
            assert cause == found.bound or share in found.text
            # A benchmark's own work is named below the findings: on the line stands what the program can change.
            of_benchmark = owner is not None and "benchmark" in owner.name
            # Of a collective beside which events were taken out it is not said that it is what the time goes to.
            unproven = cause == "communication" and trace.context.thinned
            if unproven:
                assert any(part.cause == cause for part in result.elsewhere)
            elif owner is not None and owner.ns > SILENT * trace.ledger.counted_ns and not of_benchmark:
                assert owner.name[-10:] in found.text


WORDS = ("GPU", "device")


@pytest.mark.real
@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_every_percent_is_that_of_the_cause_it_stands_beside(name: str) -> None:
    """The first is of the bound, the others of causes by their names; all as the summary has them."""
    result = real_analysis(name)
    found, causes = result.headline, result.summary.shown_causes
    assert found is not None
    on_cpu = {cause: (BRIEFLY[cause], ON_CPU.get(cause, "")) for cause in BRIEFLY}
    phrases = {cause: (*on_cpu[cause], *(ON_GPU[cause].format(device=word) for word in WORDS)) for cause in BRIEFLY}
    phrases["communication"] += (*(WAITING.format(device=word) for word in WORDS), WAITING_BRIEFLY)
    phrases["host"] += (UNSEEN.format(device="GPU"), UNSEEN_BRIEFLY, AT_ONCE.format(device="GPU"), AT_ONCE_BRIEFLY)
    phrases["host"] += (STOPPED.format(device="GPU"), STOPPED_BRIEFLY)
    phrases["unknown"] += (LACKING.format(device="GPU"), LACKING_BRIEFLY, THINNED, THINNED_BRIEFLY)
    phrases["communication"] += (UNPROVEN,)
    phrases["loader"] += (PIPELINE.format(device="GPU"),)
    for match in re.finditer(
        r"(\d+) %(?: of the (?:steady |other )?[\d.,]+ [mµ]?s(?: a step| step| recorded| outside start-up)?)? ",
        found.text,
    ):
        words = found.text[match.end() :]
        meant = [cause for cause, known in phrases.items() if any(text and words.startswith(text) for text in known)]
        meant += ["host"] if words.startswith("the host works") else []
        assert int(match[1]) in {round(100 * causes.get(cause, -1)) for cause in meant}, words


def test_a_share_is_of_all_of_a_cause_though_a_finding_owns_part_of_it() -> None:
    # Of 100 ms the GPU computes for 45: 20 of products that a finding owns, 25 of what none does.
    text = headline(built.partly_claimed).text
    assert made(built.partly_claimed).summary.shown_causes["compute"] == pytest.approx(0.45)
    assert "45 % computing, 25 ms in lattice::update, which no finding covers" in text


@pytest.mark.parametrize(
    ("idle_us", "held_us", "text"),
    [
        (80_600, 134_000, "80.6 of 134 ms"),
        (80_600, 90_000, "80.6 ms"),
        (900, 1_500, "900 µs of 1.5 ms"),
        (500, 0, "500 µs"),
    ],
)
def test_a_call_that_holds_the_host_longer_than_the_gpu_idles_says_both(idle_us: int, held_us: int, text: str) -> None:
    found = owners.Owner("cudaMemcpyAsync", 1000 * idle_us, held_ns=1000 * held_us)
    assert _idle_of(found, 1e-6) == text


@pytest.mark.real
def test_a_copy_that_waits_for_the_gpu_says_for_how_long() -> None:
    # By the raw file cudaMemcpyAsync under ## sparse_data_dist ## takes 144 to 152 ms in each step of the host. The device begins
    # its first 155 ms later, and is alone in its last: 612 ms of these calls lie in its five, 122 each.
    found = real_analysis("audited/a100_dlrm_rank0of16").headline
    assert found is not None
    assert "cudaMemcpyAsync under ## sparse_data_dist ## (75.4 of 124 ms)" in found.text


def test_what_a_finding_owns_is_named_where_it_is_much_more_than_what_none_does() -> None:
    # Of 100 ms the GPU computes for 75: 50 of products that a finding owns, 25 of what none does.
    text = headline(partial(built.partly_claimed, 25, 50)).text
    assert "75 % of the steady 100 ms a step the GPU computes, most in aten::mm (50 ms)" in text


@pytest.mark.real
@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_the_first_finding_is_the_first_of_the_plan(name: str) -> None:
    result = real_analysis(name)
    if result.plan and result.headline is not None:
        assert result.headline.first == result.findings[0].rule == result.plan[0].rules[0]


@pytest.mark.real
def test_a_rank_that_waits_is_told_to_look_at_the_others() -> None:
    """Rank 1 waits for 413 of 623 ms, and its findings return 18 at most; ranks 0 and 6 are those that come late."""
    ranks = {number: real_analysis(f"a100_megatron_tp8/rank{number}.json.gz").headline for number in (0, 1, 4, 6, 7)}
    told = {number: found is not None and ALL_RANKS in found.text for number, found in ranks.items()}
    assert told == {0: False, 1: True, 4: True, 6: False, 7: True}


def test_what_is_once_is_not_called_steady() -> None:
    """Three products without steps, 30 ms: nothing shows that a fourth would take as long. With steps it does."""

    def products(b: TraceBuilder) -> TraceBuilder:
        for _ in range(3):
            with b.op("aten::linear", us=10_000):
                b.kernel("volta_sgemm_128x64_nn", us=10_000)
        return b

    assert "100 % of the 30 ms recorded the GPU computes" in headline(lambda: products(TraceBuilder(latency_us=0))).text


def test_several_kinds_of_start_up_are_named_with_their_times() -> None:
    """300 ms: 200 of loading code, 100 of an allocation. Of 295 and 5 the second is not worth a word."""
    summary = made(built.started_up).summary
    parts = [
        StartupPart(kind="loading", ms=200.0, where="aten::mm"),
        StartupPart(kind="allocation", ms=100.0, where=None),
        StartupPart(kind="selection", ms=1.0, where=None),
    ]
    assert _why_startup(parts) == "200 ms loading GPU code in aten::mm, 100 ms allocating"
    assert _why_startup([parts[0], msgspec.structs.replace(parts[1], ms=5.0)]) == "GPU code is loaded in aten::mm"
    assert [part.kind for part in summary.startup] == ["loading"]
    # Of the 200 ms 190 are its: the figure beside the name would be another's. 199.5 read as 200.
    named = (("loading", "200 ms loading GPU code"), ("first call", "200 ms in first calls"))
    for kind, words in named:
        most = msgspec.structs.replace(parts[0], kind=kind, where_ms=190.0)
        assert _why_startup([most, parts[1]]) == f"{words}, most in aten::mm, 100 ms allocating"
    assert _why_startup([msgspec.structs.replace(parts[0], where_ms=199.5), parts[1]]) == _why_startup(parts)


def test_causes_are_named_in_the_order_of_their_size() -> None:
    """The first finding is of the loader, 14 % of the step: launches take 18 %, and are named before it."""
    text = headline(built.launches_behind_a_loader).text
    shares = [int(share) for share in re.findall(r"(\d+) %", text)]
    assert len(shares) == 4
    assert shares == sorted(shares, reverse=True)
    assert "18 % Python and launches; 14 % waits for batches. First, load" in text


def test_an_owner_of_less_than_half_is_not_said_to_hold_most() -> None:
    """The range around three operators holds all of their 10 ms, the largest operator 4."""

    def apart() -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0)
        with b.step(), b.annotation("model_inference"):
            for name, us in (("aten::linear", 4_000), ("aten::relu", 3_000), ("aten::sum", 3_000)):
                with b.op(name, us=us):
                    b.call("cudaLaunchKernel", 10)
        return b

    assert "the host works, most in model_inference (10 ms)" in headline(apart).text
    assert Clause("computing", "aten::mm", "3 ms", most=False).within(60) == "computing, 3 ms of it in aten::mm"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::copy_", "aten::copy_"),
        ("cudaMemcpyAsync under ## sparse_data_dist ##", "## sparse_data_dist ##"),
        ("the benchmark's own [param|clear_cache]", "[param|clear_cache]"),
        ("torch::autograd::CppNode<SplitLookupFunction>", "CppNode<SplitLookupFunction>"),
        ("torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>", "SplitLookupFunction…"),
        ("a b c d e f g h i j k l m n o p q r", "a b c d e f g…l m n o p q r"),
    ],
)
def test_a_long_name_is_shown_by_whole_words(name: str, short: str) -> None:
    assert short_name(name, 28) == short


def test_of_a_template_what_it_is_of_is_shown_before_a_name_is_cut() -> None:
    name = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
    assert short_name(name, 60) == "CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
    assert short_name(name, 44) == "SplitLookupFunction_rowwise_adagrad_Op"


def test_where_there_is_room_for_it_a_name_keeps_the_call_and_its_place() -> None:
    assert short_name("at::cuda::(anonymous namespace)::spin_kernel(long)", 44) == "at::cuda::spin_kernel(long)"
    assert short_name("cudaMemcpyAsync in aten::copy_ under ## sparse_data_dist ##", 44) == (
        "cudaMemcpyAsync under ## sparse_data_dist ##"
    )


def test_a_name_of_one_long_word_is_cut_in_no_time() -> None:
    """53 kB of a fuzzed file took ten seconds: from each of its letters the rest of the word was searched for colons."""
    assert short_name("a" * 2_000_000, 40) == "a" * 19 + "…" + "a" * 19


def interrupted(*pauses_us: int) -> TraceBuilder:
    """Six steps of 20 kernels of 100 us, and Python of so long in each."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for pause in pauses_us:
        with b.step():
            with b.python("train.py(7): reads"):
                b.idle(us=pause)
            for _ in range(20):
                with b.op("aten::linear", us=100):
                    b.kernel("volta_sgemm_128x64_nn", us=100)
            b.sync()
    return b


def test_one_long_stretch_of_the_host_is_not_said_to_be_python_and_launches() -> None:
    """15 ms in one step of six, and 1 ms in each other: three quarters of the host's time in one stretch."""
    said = made(lambda: interrupted(1_000, 1_000, 1_000, 15_000, 1_000, 1_000)).headline
    assert said is not None
    assert AT_ONCE.format(device="GPU") in said.text


def test_the_same_time_in_every_step_is_python_and_launches() -> None:
    said = made(lambda: interrupted(*(3_333,) * 6)).headline
    assert said is not None
    assert ON_GPU["host"].format(device="GPU") in said.text


@pytest.mark.parametrize(("operators", "phrase"), [(True, "Python and launches"), (False, "the host")])
def test_between_launches_that_are_all_that_is_known_of_the_host_nobody_knows_what_it_does(
    operators: bool, phrase: str, tmp_path: Path
) -> None:
    b = TraceBuilder(host_us=2, latency_us=0)
    for _ in range(20):
        with b.op("aten::mm") if operators else nullcontext():
            b.kernel("volta_sgemm_128x64_nn", us=10)
        b.idle(us=100)
    found = analyze(read(str(b.write(tmp_path / "t.json"))), only=["profile/*"])
    assert found.headline is not None
    assert f"the GPU waits for {phrase}" in found.headline.text


@pytest.mark.parametrize(("stopped_us", "phrase"), [(3_000, STOPPED), (50, ON_GPU["host"])])
def test_a_thread_that_is_stopped_is_not_said_to_be_in_python(stopped_us: int, phrase: str) -> None:
    """Six steps of 2 ms, the GPU busy for a fifth: in each another operator takes 3 ms more, three fifths of all idle time."""

    def build() -> TraceBuilder:
        b = TraceBuilder(host_us=2, latency_us=0)
        for number in range(6):
            with b.step():
                for at in range(20):
                    with b.op(f"aten::add{at}", us=98):
                        b.kernel("vectorized_elementwise_kernel", us=20)
                        if at == 3 * number:
                            b.idle(us=stopped_us)
                b.sync()
        return b

    said = made(build).headline
    assert said is not None
    assert phrase.format(device="GPU") in said.text
