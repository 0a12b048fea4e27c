"""What the host does besides launching, on traces small enough to work out by hand. Times in us unless they say ns."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from support import traces

from advisor.pipeline import analyze
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

FRAMES = ("compiles", "functions", "python", "gaps", "loader", "steps", "copies")


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def fast(device: str | None = "Tesla V100-SXM2-16GB", *, with_stack: bool = True) -> TraceBuilder:
    return TraceBuilder(device, host_us=0, latency_us=0, with_stack=with_stack)


def fired(trace: Trace) -> set[str]:
    return {finding.rule for finding in analyze(trace).findings}


# ---- compiles


def test_a_compilation_is_its_outermost_span_and_carries_its_own_number(tmp_path: Path) -> None:
    b = fast()
    with b.step():
        b.kernel("gemm", us=100)
        b.idle(us=200)
        with b.op("dynamo"), b.op("entire_frame_compile"), b.op("_compile.compile_inner (dynamo_timed)"):
            with b.annotation("dynamo_data: compile_id=3/2"):
                pass
            b.idle(us=1000)
        with b.op("Torch-Compiled Region: 3/2", us=50):
            b.kernel("triton_poi_fused_0", us=500)
    trace = trace_of(b, tmp_path)
    rows = trace.compiles
    assert rows["kind"].tolist() == ["recompilation", "region"]
    assert rows["region"].tolist() == ["3/2", "3/2"]
    assert rows["recompiles"].tolist() == [2, 2]
    # The device is done after 100 us: it idles through all of the compilation, which owns that.
    assert rows["cost_ns"].tolist() == [1_000_000, 0]
    assert rows["idle_ns"].tolist()[0] == 1_000_000
    assert trace.ledger.by_cause()["compile"] == 1_000_000


def test_a_compilation_without_a_number_has_that_of_the_region_right_behind_it(tmp_path: Path) -> None:
    b = fast()
    with b.step():
        for number, later in (("0/0", 0), ("0/1", 20)):
            with b.op("_compile.<locals>.compile_inner (dynamo_timed)"):
                b.idle(us=100)
            b.idle(ms=later)
            with b.op(f"Torch-Compiled Region: {number}", us=10):
                pass
        b.kernel("gemm", us=10)
    rows = trace_of(b, tmp_path).compiles
    # The second region runs 20 ms later: whether it is what was compiled, nobody knows.
    assert rows["kind"].tolist()[:2] == ["compilation", "compilation"]
    assert rows["region"].iloc[0] == "0/0"
    assert rows["region"].isna().tolist() == [False, True, False, False]
    assert rows["recompiles"].isna().tolist() == [False, True, False, False]


def test_two_threads_that_compile_are_told_apart(tmp_path: Path) -> None:
    b = fast()
    with b.step():
        with b.op("dynamo"):
            b.idle(us=100)
            with b.thread(77), b.op("entire_backward_compile"):
                with b.annotation("entire_backward_compile_data: fn_name=backward._backward_impl, compile_id=5/1"):
                    pass
                b.idle(us=30)
        with b.op("Torch-Compiled Region: 4/0", us=10):
            b.kernel("gemm", us=10)
    rows = trace_of(b, tmp_path).compiles
    by_region = rows.set_index("region")["kind"].to_dict()
    assert by_region["5/1"] == "recompilation"
    assert rows[rows["kind"] == "compilation"]["region"].tolist() == ["4/0"]


def broken(b: TraceBuilder) -> TraceBuilder:
    """A region of one graph (100 us), a break of 300 us with an operator in its middle, and a region within (100 us)."""
    with b.step(), b.python("train.py(40): step"):
        b.idle(us=1)
        with b.op("Torch-Compiled Region: 0/0"):
            b.idle(us=5)
            with b.annotation("## Call CompiledFxGraph fabc ##", us=100):
                b.kernel("triton_a", us=100)
            b.idle(us=200)
            with b.op("aten::unique", us=50):
                pass
            b.idle(us=44)
            with b.op("TorchDynamo Cache Lookup", us=6):
                pass
            with b.op("Torch-Compiled Region: 1/0"):
                b.idle(us=3)
                resumed = b.python("net.py(12): torch_dynamo_resume_in_forward_at_12")
                with resumed, b.annotation("## Call CompiledFxGraph fdef ##", us=100):
                    b.kernel("triton_b", us=100)
    return b


def test_a_graph_break_is_the_stretch_from_the_end_of_one_graph_to_the_next_region(tmp_path: Path) -> None:
    rows = trace_of(broken(fast()), tmp_path).compiles
    assert rows["kind"].tolist() == ["region", "graph-break"]
    row = rows.iloc[1]
    # 1 + 5 + 100 us until the first graph ends; 200 + 50 + 44 + 6 until the region begins.
    assert (row["start_ns"], row["dur_ns"]) == (106_000, 300_000)
    assert (row["reason"], row["file"], row["line"]) == ("aten::unique", "net.py", 12)
    # The device is done at 106 us, and its next kernel begins 3 us into the region: 303 us, of which most is the break.
    assert row["cost_ns"] == 303_000
    assert row["idle_ns"] == 300_000


def test_what_compiling_runs_breaks_no_graph(tmp_path: Path) -> None:
    b = fast()
    with b.step(), b.op("Torch-Compiled Region: 0/0"):
        with b.annotation("## Call CompiledFxGraph fabc ##", us=100):
            pass
        with b.op("_compile.<locals>.compile_inner (dynamo_timed)"), b.op("dynamo"):
            b.idle(us=50)
        with b.op("Torch-Compiled Region: 1/0", us=10):
            b.kernel("triton_a", us=10)
    rows = trace_of(b, tmp_path).compiles
    broken = rows[rows["kind"] == "graph-break"]
    assert (len(broken), broken["reason"].isna().all()) == (1, True)


def test_regions_side_by_side_are_no_graph_break(tmp_path: Path) -> None:
    b = fast()
    with b.step():
        for number in range(4):
            b.idle(us=100)
            with b.op(f"Torch-Compiled Region: {number}/0", us=50):
                b.kernel("triton_a", us=50)
    assert trace_of(b, tmp_path).compiles["kind"].tolist() == ["region"] * 4


def test_launch_bound_leaves_graph_breaks_their_time(tmp_path: Path) -> None:
    b = fast()
    for _ in range(4):
        with b.step(), ExitStack() as nested:
            for number in range(6):
                nested.enter_context(b.op(f"Torch-Compiled Region: {number}/0"))
                with b.annotation("## Call CompiledFxGraph fabc ##", us=100):
                    b.kernel("triton_a", us=100)
                b.idle(us=100)
    analysis = analyze(trace_of(b, tmp_path))
    cost = {finding.rule: finding.cost_share for finding in analysis.findings}
    assert cost["compile/graph-breaks"] == pytest.approx(20 * 100 / (24 * 200), abs=0.001)
    # What is left to it is the end of each step: 100 of 1200 us, and under its own threshold.
    assert "gpu-idle/launch-bound" not in cost


# ---- the loader


def epoch_end(b: TraceBuilder) -> TraceBuilder:
    for number in range(3):
        with b.step(), b.python("train.py(9): main"):
            if number == 1:
                with b.loader(us=500, workers=2):
                    pass
                with b.python("torch/utils/data/dataloader.py(492): __iter__"):
                    with b.op("aten::random_", us=5):
                        pass
                    b.idle(us=295)
            with b.loader(us=700, workers=2):
                pass
            with b.op("aten::mm", us=1000):
                b.kernel("gemm", us=1000)
    return b


def test_new_workers_are_two_waits_with_no_training_between(tmp_path: Path) -> None:
    rows = trace_of(epoch_end(fast()), tmp_path).loader
    assert rows["restart"].tolist() == [False, True, True, False]
    # The first wait of the new workers begins with the making of their iterator: 5 + 295 us before it.
    assert rows["dur_ns"].tolist() == [700_000, 500_000, 1_000_000, 700_000]


def test_without_stacks_the_making_of_the_iterator_is_not_known(tmp_path: Path) -> None:
    rows = trace_of(epoch_end(fast(with_stack=False)), tmp_path).loader
    assert rows["restart"].tolist() == [False, True, True, False]
    assert rows["dur_ns"].tolist() == [700_000, 500_000, 700_000, 700_000]


def test_a_sampler_that_draws_much_is_no_training(tmp_path: Path) -> None:
    """torch 2.13 with shuffle=True: 24 operators between the two waits, and four of the program's own."""
    b = fast()
    with b.step():
        with b.loader(us=700, workers=2):
            pass
        for name in ["aten::randperm", "aten::empty", "aten::resize_", "aten::resolve_conj"] * 6 + ["aten::add"] * 4:
            with b.op(name, us=5):
                pass
        with b.loader(us=900, workers=2):
            pass
        with b.op("aten::mm", us=1000):
            b.kernel("gemm", us=1000)
    assert trace_of(b, tmp_path).loader["restart"].tolist() == [True, True]


def test_a_step_of_two_batches_is_no_restart(tmp_path: Path) -> None:
    b = fast()
    for _ in range(2):
        with b.step():
            for _ in range(2):
                with b.loader(us=700, workers=2):
                    pass
                with b.op("aten::mm", us=1000):
                    b.kernel("gemm", us=1000, host_us=5)
    assert not trace_of(b, tmp_path).loader["restart"].any()


def test_no_two_rules_of_the_loader_own_the_same_wait(tmp_path: Path) -> None:
    analysis = analyze(trace_of(epoch_end(fast()), tmp_path))
    cost = {finding.rule: finding.cost_share for finding in analysis.findings if finding.category == "data-loading"}
    # Steps of 1.7, 0.5 + 0.3 + 0.7 + 1.0 and 1.7 ms: 5.9 ms, of which 1.5 are the restart and 1.4 the other waits.
    assert cost == {
        "data-loading/worker-restart": pytest.approx(1.5 / 5.9, abs=0.001),
        "data-loading/loader-stall": pytest.approx(1.4 / 5.9, abs=0.001),
    }


# ---- Python


def test_a_function_is_known_by_name_and_by_where_it_is_called(tmp_path: Path) -> None:
    b = fast()
    with b.step():
        b.idle(us=1)
        for caller, us in (("data.py(3): a", 10), ("data.py(8): b", 20), ("data.py(8): b", 30)):
            with b.python(caller):
                b.idle(us=1)
                with b.python("<built-in method tensor of type object at 0x7f>"):
                    b.idle(us=us)
                    with b.op("aten::to", us=4):
                        pass
        b.kernel("gemm", us=10)
    rows = trace_of(b, tmp_path).functions
    built = rows[rows["kind"] == "builtin"].sort_values("line")
    assert built[["line", "calls", "dur_ns", "self_ns"]].values.tolist() == [
        [3, 1, 14_000, 10_000],
        [8, 2, 58_000, 50_000],
    ]
    assert built["loader_share"].isna().all()


def test_of_a_wait_each_function_holds_what_runs_inside_it_and_itself_once(tmp_path: Path) -> None:
    b = fast()
    with b.step(), b.python("train.py(9): main"):
        with b.loader(us=1), b.python("torch/utils/data/_utils/fetch.py(49): fetch"):
            b.idle(us=10)
            with b.python("data.py(14): __getitem__"):
                b.idle(us=10)
                with b.python("tree.py(5): walk"):
                    b.idle(us=20)
                    with b.python("tree.py(5): walk"):
                        b.idle(us=40)
                with b.python("PIL/Image.py(2300): resize"):
                    b.idle(us=20)
        b.kernel("gemm", us=10)
    rows = trace_of(b, tmp_path).functions.set_index("name")
    shares = rows.loc[["data.py(14): __getitem__", "tree.py(5): walk", "PIL/Image.py(2300): resize"]]
    assert shares["loader_share"].tolist() == pytest.approx([0.9, 0.6, 0.2])
    assert shares["inner_share"].tolist() == pytest.approx([0.6, 0.0, 0.0])
    assert rows.loc["train.py(9): main", "loader_share"] == 0
    assert rows.loc["torch/utils/data/_utils/fetch.py(49): fetch", "loader_share"] == 0
    # Where a library's function is the matter, the place is the line of the user's that leads to it.
    assert rows.loc["PIL/Image.py(2300): resize", "file"] == "data.py"


def test_python_of_a_gap_is_what_lies_in_no_operator_and_not_in_the_profiler(tmp_path: Path) -> None:
    b = fast()
    with b.step(), b.python("train.py(9): main"):
        b.kernel("gemm", us=10)
        b.idle(us=40)
        with b.op("aten::add", us=25):
            pass
        with b.python("torch/profiler/profiler.py(880): step"):
            b.idle(us=15)
        b.kernel("gemm", us=10)
        b.idle(us=10)
    trace = trace_of(b, tmp_path)
    inner = trace.gaps[trace.gaps["position"] == "inner"]
    # From 10 to 80 us: 30 us of Python, 25 of an operator, 15 of the profiler.
    assert inner[["dur_ns", "python_ns"]].values.tolist() == [[70_000, 30_000]]
    assert trace_of(broken(fast(with_stack=False)), tmp_path).gaps["python_ns"].isna().all()


def test_pauses_of_the_collector_are_a_feature_of_the_recording(tmp_path: Path) -> None:
    b = fast()
    with b.step(), b.python("train.py(9): main"):
        b.gc(ms=2)
        b.kernel("gemm", us=10)
    trace = trace_of(b, tmp_path)
    assert "gc" in trace.features
    assert trace.python[trace.python["kind"] == "gc"]["cost_ns"].tolist() == [2_000_000]
    assert "gc" not in trace_of(broken(fast()), tmp_path).features


# ---- steps and copies


def test_a_long_step_names_the_cause_that_grew(tmp_path: Path) -> None:
    b = fast()
    for number in range(7):
        with b.step():
            with b.loader(ms=10 if number == 4 else 1):
                pass
            with b.op("aten::mm", us=5000):
                b.kernel("gemm", ms=5)
    rows = trace_of(b, tmp_path).steps
    assert rows["outlier"].tolist() == [False] * 4 + [True] + [False] * 2
    row = rows.iloc[4]
    assert (row["excess_ns"], row["excess_cause"], row["excess_cause_ns"]) == (9_000_000, "loader", 9_000_000)
    assert rows["excess_cause"].isna().tolist() == [True] * 4 + [False] + [True] * 2
    assert not rows["startup_ns"].any()


def test_a_copy_leads_where_no_kernel_of_its_step_ran_before(tmp_path: Path) -> None:
    b = fast()
    for _ in range(2):
        with b.step():
            b.copy("HtoD", 1 << 20, us=10, pinned=True, host_us=1)
            b.kernel("gemm", us=100, host_us=1)
            b.copy("HtoD", 1 << 20, us=10, pinned=True, host_us=1)
            b.kernel("gemm", us=100, host_us=1)
    assert trace_of(b, tmp_path).copies["leads"].tolist() == [True, False, True, False]


# ---- whatever comes


def empty(*, device: str | None) -> TraceBuilder:
    b = TraceBuilder(device)
    b.event(
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}, us=10
    )
    return b


def only_kernels() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("gemm", us=10, launched=False)
    return b


def no_python() -> TraceBuilder:
    b = TraceBuilder(None, with_stack=False)
    with b.step(), b.loader(us=5, workers=1), b.op("Torch-Compiled Region: 0/0"):
        pass
    return b


def odd_names() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("Torch-Compiled Region: 99999999999999999999/99999999999999999999"):
        with b.op("Torch-Compiled Region"), b.op("Torch-Compiled Region: x/y"), b.op("(dynamo_timed)"):
            b.kernel("gemm", us=10)
        with b.annotation("dynamo_data: compile_id="), b.python("<built-in method tensor of type object at 0x7f>"):
            pass
    return b


@pytest.mark.parametrize(
    "build",
    [lambda: empty(device=None), lambda: empty(device="Tesla T4"), only_kernels, no_python, odd_names],
    ids=["nothing", "nothing on a GPU", "kernels alone", "no python", "odd names"],
)
def test_frames_and_rules_cope_with_whatever_is_missing(build, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    trace = trace_of(build(), tmp_path)
    for frame in FRAMES:
        table = trace.frame(frame)
        assert len(table.columns) > 3
    assert not analyze(trace).verdicts.error


# ---- real traces


@pytest.mark.real
def test_owlv2_one_function_of_scipy_holds_the_loading() -> None:
    found = traces.analysis("h100_owlv2_large")
    (finding,) = [f for f in found.findings if f.rule == "data-loading/slow-collate-or-transform"]
    row = dict(zip(finding.evidence.columns, finding.evidence.rows[0], strict=True))
    assert str(row["name"]).startswith("scipy/ndimage/_interpolation.py")
    assert row["percent_of_loading"] == pytest.approx(85.8, abs=0.1)
    assert finding.cost_ms == 0  # the single-process loader's, which comes first
    # One image goes five times through the processor and the model, once for each label: 965 of 1,211 ms by an auditor's count.
    again, loader = found.findings[:2]
    assert again.rule == "inference/label-parts"
    assert again.cost_ms == pytest.approx(965, rel=0.03)
    assert again.occurrences == 4
    assert loader.rule == "data-loading/single-process-loader"


@pytest.mark.real
@pytest.mark.parametrize("name", ["a100_megatron_tp8/rank0", "mi300_compile_triton", "triton_example"])
def test_compiled_programs_without_a_break_are_told_of_none(name: str) -> None:
    trace = traces.trace(name)
    assert set(trace.compiles["kind"]) == {"region"}
    assert not [found.rule for found in traces.analysis(name).findings if found.rule.startswith("compile/")]
