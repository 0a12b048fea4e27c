"""Division of the time in which the GPU waits for the CPU: phases, functions, ranges, operators. Worked by hand."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from support.traces import analysis as analyzed

import advisor
from advisor.report import Options, render
from advisor.report.redact import redact
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.timeline.calls import PHASES

A100 = "NVIDIA A100-SXM4-40GB"
KERNEL = "ampere_sgemm_128x64_nn"


def builder() -> TraceBuilder:
    """Calls that launch take 5 us, kernels begin where these end."""
    return TraceBuilder(A100, host_us=5, latency_us=0)


def divided(folder: Path, b: TraceBuilder) -> list[tuple[str, str, float]]:
    summary = advisor.analyze(advisor.read(str(b.write(folder / "t.json")))).summary
    return [(part.kind, part.where, round(part.ms * 1000)) for part in summary.host_time]


def test_time_is_of_the_innermost_function_that_is_the_programs_or_a_librarys(tmp_path: Path) -> None:
    """Of each step 600 us of Python: 400 in attention, of which torch's and the standard library's functions take part, 200 in run.

    A kernel of 10 us ends behind its launch: the first 10 us of what follows are not idle.
    """
    b = builder()
    for _ in range(2):
        with b.step(), b.python("app/train.py(10): run"):
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=10)
            b.idle(us=210)
            with b.python("transformers/models/bert/modeling_bert.py(181): forward"):
                with b.python("torch/nn/modules/linear.py(114): forward"):
                    b.idle(us=150)
                with b.python("/usr/lib/python3.11/inspect.py(3300): signature"):
                    b.idle(us=250)
                with b.op("aten::mm"):
                    b.kernel(KERNEL, us=10)
            b.sync()
    parts = divided(tmp_path, b)
    # The call that launches takes 5 us more of forward; that of the first kernel of a step, of run.
    assert parts[0] == ("function", "transformers/models/bert/modeling_bert.py:181 forward", 405)
    assert parts[1][:2] == ("function", "app/train.py:10 run")
    assert parts[1][2] == pytest.approx(205, abs=6)
    assert len(parts) == 2


def test_one_function_that_holds_nearly_all_is_divided_by_the_ranges_in_it(tmp_path: Path) -> None:
    """Of forward's 1,000 us 600 in attention, 300 in the MLP; the range around both, and what is outside of these, are its own."""
    b = builder()
    for _ in range(2):
        with b.step(), b.python("app/model.py(36): forward"), b.annotation("pass"):
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=10)
            b.idle(us=110)
            with b.annotation("attention"):
                b.idle(us=600)
            with b.annotation("mlp"):
                b.idle(us=300)
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=10)
            b.sync()
    found = {part[:2]: part[2] for part in divided(tmp_path, b)}
    assert found["range", "attention"] == pytest.approx(600, abs=1)
    assert found["range", "mlp"] == pytest.approx(300, abs=1)
    assert found["function", "app/model.py:36 forward"] == pytest.approx(105, abs=10)


def test_real_ranges_divide_the_forward_pass() -> None:
    """By the raw file Self-Attention is 397 + 362 of the two later steps' 839 + 789 us, and the MLP 182 + 190: 47 and 23 %."""
    shares = {part.where: part.share for part in analyzed("h100_transformer_run1").summary.host_time}
    assert shares["Self-Attention"] == pytest.approx(0.47, abs=0.05)
    assert shares["MLP"] == pytest.approx(0.22, abs=0.04)


def test_a_call_of_the_standard_library_that_takes_half_of_a_function_is_named(tmp_path: Path) -> None:
    """Of apply's 500 us 300 pass in inspect.signature and what that calls; of run's 400 a fourth in json.dumps."""
    b = builder()
    for _ in range(2):
        with b.step(), b.python("app/train.py(10): run"):
            with b.python("/usr/lib/python3.11/json/__init__.py(183): dumps"):
                b.idle(us=100)
            b.idle(us=300)
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=1)
            with b.python("transformers/pytorch_utils.py(186): apply"):
                b.idle(us=200)
                with (
                    b.python("/usr/lib/python3.11/inspect.py(3346): signature"),
                    b.python("/usr/lib/python3.11/inspect.py(2501): _signature_from_callable"),
                ):
                    b.idle(us=300)
                with b.op("aten::mm"):
                    b.kernel(KERNEL, us=1)
            b.sync()
    made = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    assert {part.where.split(" ")[1]: part.inside for part in made.summary.host_time if part.kind == "function"} == {
        "apply": "inspect.signature", "run": None,
    }  # fmt: skip
    assert "pytorch_utils.py:186 apply (inspect.signature) 5" in render("text", made, Options(width=80)).decode()


def test_a_training_step_is_divided_by_phase_before_functions(tmp_path: Path) -> None:
    """Forward 300 us in a function, backward 500, the optimizer 200; each operator idles for its part, and launches behind it."""
    b = builder()
    for number in range(3):
        with b.step():
            with b.python("app/train.py(10): forward"), b.op("aten::mm", seq=number):
                b.idle(us=300)
                b.kernel(KERNEL, us=1)
            with b.backward("MmBackward0", number), b.op("aten::mm"):
                b.idle(us=501)
                b.kernel(KERNEL, us=1)
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_"):
                b.idle(us=201)
                b.kernel(KERNEL, us=1)
            b.sync()
    parts = {where: us for _, where, us in divided(tmp_path, b)}
    assert parts == {
        "backward": pytest.approx(505, abs=3),
        "app/train.py:10 forward": pytest.approx(305, abs=3),
        "optimizer": pytest.approx(205, abs=3),
    }


def test_a_phase_names_no_function_whose_name_happens_to_have_its_number(tmp_path: Path) -> None:
    """The function is the third name of the trace, as the optimizer is the third phase; it spends its time in json.dumps."""
    b = builder()
    for _ in range(3):
        with b.python("app/train.py(10): forward"):
            with b.python("/usr/lib/python3.11/json/__init__.py(183): dumps"):
                b.idle(us=300)
            b.kernel(KERNEL, us=1)
        with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_"):
            b.idle(us=501)
            b.kernel(KERNEL, us=1)
        b.sync()
    trace = advisor.read(str(b.write(tmp_path / "t.json")))
    assert trace.context.names.index("app/train.py(10): forward") == PHASES.index("optimizer")
    inside = {part.where: part.inside for part in advisor.analyze(trace).summary.host_time}
    assert inside == {"app/train.py:10 forward": "json.dumps", "optimizer": None}


def test_without_functions_it_is_divided_by_ranges_and_operators(tmp_path: Path) -> None:
    """A range of the program's holds its operators; other time is of the outermost operator, or between operators."""
    b = builder()
    for _ in range(3):
        with b.step():
            with b.annotation("## metrics ##"), b.op("aten::sum"):
                b.idle(us=300)
                b.kernel(KERNEL, us=1)
            with b.op("aten::linear"), b.op("aten::addmm"):
                b.idle(us=201)
                b.kernel(KERNEL, us=1)
            b.idle(us=101)
            with b.op("aten::mul"):
                b.kernel(KERNEL, us=1)
            b.sync()
    parts = {(kind, where): us for kind, where, us in divided(tmp_path, b)}
    assert parts[("range", "## metrics ##")] == pytest.approx(305, abs=3)
    assert parts[("operator", "aten::linear")] == pytest.approx(205, abs=3)
    assert parts[("between", "")] == pytest.approx(100, abs=8)


def test_what_the_thread_of_another_launch_does_is_not_named(tmp_path: Path) -> None:
    """While a thread that launches nothing runs an operator, the one that launches is in Python of its own."""
    b = builder()
    for _ in range(3):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=1)
            with b.thread(77, join=False), b.op("aten::stack"):
                b.idle(us=800)
            with b.python("app/train.py(10): decode"):
                b.idle(us=900)
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=1)
            b.sync()
    parts = divided(tmp_path, b)
    assert parts[0][:2] == ("function", "app/train.py:10 decode")
    assert "aten::stack" not in [where for _, where, _ in parts]


def test_a_range_around_all_of_it_is_left_out_for_what_it_holds(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.step(), b.annotation("model_inference"):
            for name in ("aten::linear", "aten::gelu"):
                with b.op(name):
                    b.idle(us=201)
                    b.kernel(KERNEL, us=1)
            b.sync()
    parts = {(kind, where): us for kind, where, us in divided(tmp_path, b)}
    assert set(parts) == {("operator", "aten::linear"), ("operator", "aten::gelu")}
    assert parts[("operator", "aten::gelu")] == pytest.approx(205, abs=3)


def test_a_range_that_spends_its_time_in_one_within_it_gives_that_ones_name(tmp_path: Path) -> None:
    """Of the 400 us of warmup 390 lie in clear_cache; of the 400 of measure 200 do, which leaves it its own name."""
    b = builder()
    for _ in range(3):
        with b.step():
            for name, cleared in (("warmup", 390), ("measure", 200)):
                with b.annotation(name):
                    with b.annotation("clear_cache"):
                        b.idle(us=cleared)
                    b.idle(us=400 - cleared)
                    b.kernel(KERNEL, us=1)
            b.sync()
    parts = {(kind, where): us for kind, where, us in divided(tmp_path, b) if kind == "range"}
    assert set(parts) == {("range", "clear_cache"), ("range", "measure")}
    assert parts[("range", "clear_cache")] == pytest.approx(405, abs=8)


def test_the_cache_of_a_real_benchmark_is_named_and_not_the_run_around_it() -> None:
    """By the raw file the two runs take 58.0 and 60.4 ms, of which 51.5 and 47.7 lie in clear_cache."""
    first = analyzed("audited/a100_param_bench").summary.host_time[0]
    assert first.where == "[param|clear_cache]"
    assert first.share > 0.95


def test_a_range_has_the_time_that_nothing_in_it_has(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.step():
            with b.annotation("Torch-Compiled Region: 0/0"):
                b.idle(us=500)
                b.kernel(KERNEL, us=1)
            b.sync()
    ((kind, where, _),) = [part for part in divided(tmp_path, b) if part[0] != "others"]
    assert (kind, where) == ("range", "Torch-Compiled Region: 0/0")


@pytest.mark.parametrize(("name", "named"), [("hccl:all_to_all", False), ("input exchange", True)])
def test_the_range_of_an_exchange_that_lasts_names_nothing_that_is_done_meanwhile(
    name: str, named: bool, tmp_path: Path
) -> None:
    """Half of the idle time lies in two phases of which one begins behind an exchange that is over when both are."""
    b = builder()
    for _ in range(2):
        with b.step():
            with b.annotation("load"):
                b.idle(us=300)
                b.kernel(KERNEL, us=10)
            with b.annotation(name):
                for part, us in (("model", 180), ("head", 120)):
                    with b.annotation(part):
                        b.idle(us=us)
                        b.kernel(KERNEL, us=10)
            b.sync()
    assert [where for _, where, _ in divided(tmp_path, b)] == (["load", name] if named else ["load", "model", "head"])


def test_a_gpu_that_hardly_waits_and_a_cpu_program_are_not_divided(tmp_path: Path) -> None:
    busy = builder()
    for _ in range(3):
        with busy.step():
            for _ in range(50):
                with busy.op("aten::mm"):
                    busy.kernel(KERNEL, us=100)
            busy.sync()
    assert divided(tmp_path, busy) == []
    alone = TraceBuilder(None)
    for _ in range(3):
        with alone.step(), alone.op("aten::mm", us=100):
            pass
    assert divided(tmp_path, alone) == []
    lost = builder()
    for _ in range(3):
        with lost.step(), lost.op("aten::mm"):
            lost.idle(us=500)
            lost.call("cudaLaunchKernel", us=5)
    assert divided(tmp_path, lost) == []  # nothing was recorded of the GPU


@pytest.mark.parametrize(
    "name",
    ["mi300_bert_small", "h100_bert_small", "a100_dlrm_rank3of8", "v100_resnet50_workers0", "a100_switch_transformer",
     "h100_transformer_run1", "a100_megatron_tp8/rank0", "a100_particle_transformer/batch32"],
)  # fmt: skip
def test_the_parts_are_all_of_the_idle_time_that_the_host_owns(name: str) -> None:
    summary = analyzed(name).summary
    owned = summary.steady_causes.get("host", 0.0) + summary.steady_causes.get("operator", 0.0)
    assert sum(part.ms for part in summary.host_time) == pytest.approx(owned * summary.whole_ms, rel=1e-3)
    assert sum(part.share for part in summary.host_time) == pytest.approx(1)


def test_reports_name_functions_and_redacted_ones_no_folder(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.step(), b.python("/home/eve/secret/train.py(10): run"):
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=10)
            b.idle(us=500)
            b.sync()
    found: Analysis = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    text = render("text", found, Options(width=80)).decode()
    assert "µs: train.py:10 run 100 %" in text
    assert "train.py:10 run" in render("html", found).decode()
    assert "home/eve" not in render("json", found).decode()
    assert "secret" not in render("json", redact(found)).decode()


def split(folder: Path, b: TraceBuilder) -> tuple[int, int, int, int]:
    """Python, operators, launches and what lies between, in whole us of a step."""
    found = advisor.analyze(advisor.read(str(b.write(folder / "t.json")))).summary.host_split
    assert found is not None
    parts = (found.python_ms, found.operator_ms, found.launch_ms, found.between_ms)
    return tuple(round(1000 * part) for part in parts)  # type: ignore[return-value]


@pytest.mark.parametrize("stacks", [True, False])
def test_python_operators_and_launches_are_told_apart(tmp_path: Path, stacks: bool) -> None:
    """In each step 200 us of Python, 100 us in an operator, and two launches of 5 us; each kernel takes 1 us of what follows it."""
    b = builder()
    for _ in range(3):
        with b.step(), b.python("app/train.py(10): run") if stacks else nullcontext():
            with b.op("aten::mm"):
                b.kernel(KERNEL, us=1)
            b.idle(us=200)
            with b.op("aten::add"):
                b.idle(us=100)
                b.kernel(KERNEL, us=1)
    python, operators, launches, between = split(tmp_path, b)
    assert (python, between)[not stacks] == pytest.approx(199, abs=2)
    assert (python, between)[stacks] <= 2
    assert operators == pytest.approx(100, abs=2)
    assert launches == pytest.approx(9, abs=1)


def test_a_function_of_autograds_in_python_is_none_of_the_operators(tmp_path: Path) -> None:
    """100 us in Rotary's forward pass and 60 in its backward pass are Python; 30 in the node of aten::mm are an operator's."""
    b = builder()
    for _ in range(3):
        with b.step():
            with b.op("Rotary"):
                b.idle(us=100)
                with b.op("aten::mul"):
                    b.kernel(KERNEL, us=1)
            with b.op("autograd::engine::evaluate_function: RotaryBackward"), b.op("RotaryBackward"):
                b.idle(us=60)
                with b.op("aten::mul"):
                    b.kernel(KERNEL, us=1)
            with b.op("autograd::engine::evaluate_function: MmBackward0"), b.op("MmBackward0"):
                b.idle(us=30)
                with b.op("aten::mm"):
                    b.kernel(KERNEL, us=1)
    python, operators, launches, _ = split(tmp_path, b)
    assert python == pytest.approx(160, abs=3)
    assert operators == pytest.approx(30, abs=3)
    assert launches == pytest.approx(15, abs=3)


def test_the_sum_of_python_is_one_figure_beside_how_long_the_gpu_waits() -> None:
    made = analyzed("audited/a100_particle_batch4")
    found = made.summary.host_split
    assert found is not None
    total = sum(part.ms for part in made.summary.host_time)
    assert found.python_ms + found.between_ms + found.operator_ms + found.launch_ms == pytest.approx(total)
    text = render("text", made, Options(width=100)).decode()
    assert "waits for the CPU 26.4 ms (5.95 between operators, 15.8 operators, 4.69 launches):" in text
    narrow = render("text", made, Options(width=80)).decode()
    assert "waits for the CPU 26.4 ms (15.8 operators, 5.95 between them, 4.69 launches):" in narrow
    assert "waits for the CPU 26.4 ms: " in render("text", made, Options(width=60)).decode()
