"""The fifteen kinds of fault that an audit found, and the built traces of two vendors, dialects or orders that show each mended.

Kinds, and their tests below ``tests``:

1. start-up is not recognised and hides the rest:
   timeline/test_startup.py::test_the_first_launch_of_each_kernel
   timeline/test_startup.py::test_programs_without_start_up
   views/test_headline.py::test_start_up_comes_first_where_it_is_most_of_the_recording
   replay/test_without_startup.py::test_300_ms_of_start_up_change_no_price
2. the ends of a recording are read as the program:
   timeline/test_ends.py::test_a_first_synchronization_drains_what_was_queued_before
   timeline/test_ends.py::test_unlinked_kernels_while_the_host_runs_ahead
   timeline/test_ends.py::test_the_tail_of_the_last_step_that_the_others_lack
3. long gaps have no owner:
   rules/test_kinds.py::test_3_a_gap_has_an_owner
   timeline/test_owners.py::test_the_place_is_the_deepest_function_of_which_one_call_holds_half
   timeline/test_owners.py::test_ddps_buffers_are_owned_until_the_last_broadcast_before_the_model
   timeline/test_stalls.py::test_stalls_at_three_places
4. idle is called the host's, or nobody's:
   rules/test_kinds.py::test_4_an_operators_time_on_the_cpu_is_not_pythons
   timeline/test_replays.py::test_what_lies_before_a_late_launch_is_the_hosts_without_operators
   reading/test_accelerators.py::test_mtia_without_device_properties
5. views count as work:
   rules/test_kinds.py::test_5_views_of_float64_are_no_arithmetic
   timeline/test_operator_names.py::test_a_gap_under_views_holds_no_work_of_the_cpu
6. prices against their own basis:
   rules/test_kinds.py::test_6_and_7_prices_severities_and_order_agree
   replay/test_prices.py::test_no_price_is_above_its_basis_though_launches_go_with_the_kernels
   replay/test_prices.py::test_no_copy_is_faster_than_the_link
7. severity and order contradict the price:
   rules/test_kinds.py::test_6_and_7_prices_severities_and_order_agree
   engine/test_ranking.py::test_findings_are_arranged_by_what_they_return_and_those_that_return_nothing_stand_last
8. the fix is for another program:
   rules/test_fix_variants.py::test_a_finding_holds_the_fix_for_its_program
   rules/test_kinds.py::test_8_inference_is_shown_no_training
9. communication has other names:
   timeline/test_communication_names.py::test_tokens_on_their_way_to_experts_are_communication
   timeline/test_communication_names.py::test_an_all_reduce_of_an_engine_on_amd
10. nothing on what a busy GPU could do:
   (the issue "speed of light" adds it)
11. steps can be found:
   timeline/test_steps_found.py::test_a_step_ends_with_its_optimizer
   timeline/test_steps_found.py::test_batches
   timeline/test_steps_found.py::test_iterations_of_engines
   timeline/test_steps_found.py::test_a_range_that_repeats
12. a zero is not a measurement:
   frames/test_kernels.py::test_a_zero_beside_many_warps_is_no_occupancy
   frames/test_kernels.py::test_a_zero_for_every_kernel_is_not_recorded
13. an empty or foreign recording is a diagnosis:
   cli/test_inconclusive.py::test_analyze_diagnoses_it_and_has_no_verdict
   reading/test_unreadable.py::test_what_is_no_trace_is_refused_with_a_reason
14. kernels without a correlation:
   reading/test_links.py::test_kernels_without_a_correlation
   reading/test_links.py::test_an_arrow_counts_before_an_external_id_that_contradicts_it
15. wording:
   views/test_headline.py::test_it_fits_two_lines_whatever_the_names_are
   views/test_headline.py::test_no_report_is_silent_where_time_is_lost

Kind 10 is the next issue's. Of kind 15 the headline is built; how long a report is a later issue measures on readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import headlines as built
from support.paths import ROOT
from support.prices import owned_ms
from support.traces import rules

from advisor.pipeline import analyze
from advisor.results.analysis import Analysis, Finding
from advisor.testing import TraceBuilder
from advisor.trace import read

V100, MI300 = "Tesla V100-SXM2-16GB", "AMD Instinct MI300X"
GEMM = {V100: "volta_sgemm_128x64_nn", MI300: "Cijk_Ailk_Bljk_SB_MT64x64x8"}
SEVERITIES = ("note", "low", "medium", "high")
both = pytest.mark.parametrize(("device", "dialect"), [(V100, "kineto"), (V100, "2021"), (MI300, "kineto")])


def builder(device: str, dialect: str = "kineto", **options: object) -> TraceBuilder:
    return TraceBuilder(device, dialect=dialect, host_us=0, latency_us=0, **options)  # type: ignore[arg-type]


def analysis(b: TraceBuilder, folder: Path) -> Analysis:
    return analyze(read(str(b.write(folder / "trace.json"))), rules())


def found(result: Analysis) -> dict[str, Finding]:
    return {finding.rule: finding for finding in result.findings}


def test_each_kind_names_tests_that_are_there() -> None:
    kinds = {int(number) for number in re.findall(r"^(\d+)\. ", __doc__ or "", re.MULTILINE)}
    assert kinds == set(range(1, 16))
    named = re.findall(r"(\w+/test_\w+\.py)::(test_\w+)", __doc__ or "")
    assert len(named) >= 2 * 14
    for file, test in named:
        assert f"\ndef {test}(" in (ROOT / "tests" / file).read_text(), f"{file} has no {test}"


def preprocessing(device: str, file: str) -> TraceBuilder:
    """Three batches that a library prepares for 40 ms each, for 10 ms of the GPU."""
    b = builder(device)
    for _ in range(3):
        with b.step(), b.python("infer.py(12): main"):
            with b.python(file):
                b.idle(ms=40)
            with b.op("aten::linear", us=10_000):
                b.kernel(GEMM[device], us=10_000)
    return b


@pytest.mark.parametrize(
    ("device", "file"),
    [
        (V100, "transformers/image_transforms.py(390): normalize"),
        (MI300, "torchvision/transforms/functional.py(350): normalize"),
    ],
)
def test_3_a_gap_has_an_owner(device: str, file: str, tmp_path: Path) -> None:
    result = analysis(preprocessing(device, file), tmp_path)
    first = result.findings[0]
    assert first.rule == "gpu-idle/processor"
    # 40 of 50 ms, and no word of boards or checkpoints.
    assert first.cost_share == pytest.approx(0.8, abs=0.01)
    assert not re.search("SummaryWriter|add_histogram|torch.save", first.fix.before + first.fix.after)


@both
@pytest.mark.parametrize("name", ["aten::normal_", "aten::randperm"])
def test_4_an_operators_time_on_the_cpu_is_not_pythons(device: str, dialect: str, name: str, tmp_path: Path) -> None:
    b = builder(device, dialect)
    for _ in range(4):
        with b.step():
            with b.op(name, us=8000):
                pass
            with b.op("aten::linear", us=2000):
                b.kernel(GEMM[device], us=2000)
    causes = read(str(b.write(tmp_path / "trace.json"))).ledger.by_cause()
    assert (causes["operator"], causes["host"], causes["unknown"]) == (32_000_000, 0, 0)


@both
@pytest.mark.parametrize("name", ["aten::slice", "aten::as_strided", "aten::expand", "aten::unfold"])
def test_5_views_of_float64_are_no_arithmetic(device: str, dialect: str, name: str, tmp_path: Path) -> None:
    b = builder(device, dialect)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op(name, shapes=[[4096, 4096]], dtypes=["double"], us=300):
                    pass
            with b.op("aten::linear", us=4000):
                b.kernel(GEMM[device], us=4000)
    result = analysis(b, tmp_path)
    assert not {"precision/float64", "cpu/float64", "cpu/work-off-the-gpu"} & set(found(result))
    # 300 us in a view are the host's, not a computation's.
    assert result.summary.steady_causes.get("operator", 0) == 0


def batched(device: str, dialect: str) -> TraceBuilder:
    """Training that waits for its batch, copies it from pageable memory, reads a scalar back, and computes in fp32."""
    b = builder(device, dialect)
    for _ in range(5):
        with b.step():
            with b.loader(ms=8):
                pass
            b.copy("HtoD", nbytes=19_267_584, us=1650)
            for layer in range(10):
                with b.op("aten::mm", seq=layer):
                    b.kernel(GEMM[device], us=900)
            for layer in range(10):
                with b.backward("MmBackward0", layer), b.op("aten::mm"):
                    b.kernel(GEMM[device], us=900)
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(100):
                    with b.op("aten::add_", us=20):
                        b.kernel("vectorized_elementwise_kernel<4, float>", us=4)
            b.item()
    return b


def launching(device: str, dialect: str) -> TraceBuilder:
    """Inference of tiny kernels behind the launches of each."""
    b = builder(device, dialect)
    for _ in range(4):
        with b.step():
            for _ in range(300):
                with b.op("aten::linear", us=60):
                    b.kernel(GEMM[device], us=4)
    return b


def copying(device: str, dialect: str) -> TraceBuilder:
    """Scores read back one by one, and large copies both ways: another order of events."""
    b = builder(device, dialect)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                b.item()
                with b.op("aten::mul", us=100):
                    b.kernel("vectorized_elementwise_kernel<4, float>", us=100)
            b.copy("DtoH", nbytes=64 << 20, us=20_000)
            b.copy("HtoD", nbytes=64 << 20, us=20_000)
    return b


@both
@pytest.mark.parametrize("program", [batched, launching, copying], ids=lambda program: str(program.__name__))
def test_6_and_7_prices_severities_and_order_agree(
    program: Callable[[str, str], TraceBuilder], device: str, dialect: str, tmp_path: Path
) -> None:
    result = analysis(program(device, dialect), tmp_path)
    assert result.findings
    ranks = [SEVERITIES.index(finding.severity) for finding in result.findings]
    assert ranks == sorted(ranks, reverse=True)
    for finding in result.findings:
        saving = finding.saving
        if saving is None:
            assert finding.severity != "high", finding.rule
            continue
        assert 0 <= saving.low_ms <= saving.high_ms, finding.rule
        assert saving.low_ms <= owned_ms(finding, result.findings) * 1.001, finding.rule
        if finding.severity == "high":
            assert saving.low_share + saving.high_share >= 0.1, finding.rule
    # A plan returns what its steps return: it goes down, and never below nothing.
    after = [step.step_ms_after for step in result.plan]
    for way in ("low", "high"):
        falling = [step[way] for step in after]
        assert falling == sorted(falling, reverse=True)
        assert all(ms > 0 for ms in falling)


@both
@pytest.mark.parametrize("program", [launching, copying], ids=lambda program: str(program.__name__))
def test_8_inference_is_shown_no_training(
    program: Callable[[str, str], TraceBuilder], device: str, dialect: str, tmp_path: Path
) -> None:
    result = analysis(program(device, dialect), tmp_path)
    assert result.findings
    for finding in result.findings:
        code = finding.fix.before + finding.fix.after
        assert not re.search(r"\.backward\(|GradScaler|optim\.|zero_grad|DistributedDataParallel", code), finding.rule


@pytest.mark.parametrize("options", [{}, {"device": "NVIDIA H100 80GB HBM3"}], ids=["v100", "h100"])
def test_15_a_headline_says_what_bounds_it(options: dict[str, str], tmp_path: Path) -> None:
    result = analysis(built.launch_bound(2, **options), tmp_path)
    assert result.headline is not None
    assert result.headline.first == "gpu-idle/launch-bound"
    assert "90 % of the steady 4 ms a step the GPU waits" in result.headline.text
