"""Prices of recorded programs: of the step without the profiler, where the recorder timed such steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.paths import ROOT
from support.traces import rules, sample

from advisor.pipeline import analyze
from advisor.reading.program_settings import Loader, Uneven
from advisor.replay.pricing import Replay
from advisor.report import Options, render
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.timeline.unprofiled import unprofiled
from advisor.trace import read

GEMM = "volta_sgemm_128x64_nn"
GPUS = ["Tesla V100-SXM2-16GB", "AMD Instinct MI300X"]


def launches(device: str, *bare_ms: float) -> TraceBuilder:
    """Six steps of 100 operators that take 0.1 ms each on the host, with kernels of 12 us: 10 ms a step, 8.8 of them idle."""
    b = TraceBuilder(device)
    b.ran_with(unprofiled_step_ms=bare_ms)
    for _ in range(6):
        with b.step():
            for _ in range(100):
                with b.op("aten::linear", us=100):
                    b.kernel(GEMM, us=12)
    b.sync()
    return b


def loading(device: str, *bare_ms: float) -> TraceBuilder:
    """Six steps of a 10 ms kernel behind 20 ms of waiting for workers."""
    b = TraceBuilder(device)
    b.ran_with(unprofiled_step_ms=bare_ms)
    for _ in range(6):
        with b.step():
            with b.loader(ms=20, workers=True):
                pass
            with b.op("aten::linear", us=100):
                b.kernel(GEMM, us=10_000)
            b.item()
    b.sync()
    return b


def analysis(b: TraceBuilder, folder: Path) -> Analysis:
    return analyze(read(str(b.write(folder / "trace.json"))), rules())


@pytest.mark.parametrize("device", GPUS)
def test_a_step_that_the_profiler_made_longer(device: str, tmp_path: Path) -> None:
    """The bare step is 6 of 10 ms: 4 of the 8.8 idle ms were the profiler's, and no price counts them."""
    found = analysis(launches(device, 7.0, 6.0, 5.0), tmp_path)
    plain = analysis(launches(device), tmp_path)
    assert (found.summary.unprofiled_ms, found.summary.unprofiled_steps) == (6.0, 3)
    assert found.summary.priced_ms == 6.0
    assert plain.summary.unprofiled_ms is None
    assert plain.summary.priced_ms == plain.summary.steady_ms == pytest.approx(10.0, rel=0.02)
    (mine,) = [one for one in found.findings if one.rule == "gpu-idle/launch-bound"]
    (usual,) = [one for one in plain.findings if one.rule == "gpu-idle/launch-bound"]
    assert mine.saving is not None
    assert usual.saving is not None
    # What the trace shows is as recorded; what a fix returns is of the bare step.
    assert mine.cost_ms == pytest.approx(usual.cost_ms)
    assert mine.saving.high_ms == pytest.approx(usual.saving.high_ms * 4.8 / 8.8, rel=0.1)
    assert mine.saving.high_share == pytest.approx(mine.saving.high_ms / 6.0)
    assert found.plan[0].step_ms_before == 6.0
    assert found.plan[0].step_ms_after["low"] >= 1.2  # the kernels
    assert "of 6.00 ms a step" in str(render("text", found, Options(verbosity=1)))
    assert found.headline is not None
    assert "(6 ms without the profiler)" in found.headline.text


def padded(us: float, *bare_ms: float) -> TraceBuilder:
    """Six steps of 50 lookups and 20 other operators, each of 0.1 ms on the host; it waits for the device behind both.

    A lookup takes the device *us*, four fifths of it for padding.
    """
    b = TraceBuilder(GPUS[0])
    one = Uneven(rows=32, widths=(512, 512), padding=0.9, squares=0.99)
    b.ran_with(unprofiled_step_ms=bare_ms, uneven=(one,), batch_width=512, batch_longest=70, batch_bytes=131_072)
    for _ in range(6):
        with b.step():
            for _ in range(50):
                with b.op("aten::embedding", us=100, shapes=[[1000, 64], [32, 512]]):
                    b.kernel("gather", us=us)
            b.sync()
            for _ in range(20):
                with b.op("aten::relu", us=100):
                    b.kernel("relu", us=5)
            b.sync()
    return b


@pytest.mark.parametrize(
    ("us", "bare_ms", "host"),
    [
        # The device takes 7.5 ms of lookups: with a host of half the time the step is 8.6 ms, and may well be the one of 9 ms.
        (150, 9.0, 0.5),
        # It takes 2.5 ms of them: such a host would be done in 3.6 of the 5 ms.
        (50, 5.0, None),
    ],
)
def test_steps_that_the_device_fills_say_little_of_the_host(
    us: float, bare_ms: float, host: float | None, tmp_path: Path
) -> None:
    trace = read(str(padded(us, bare_ms, bare_ms, bare_ms).write(tmp_path / "trace.json")))
    replay = Replay(trace.context)
    assert [supposed.share for supposed in replay._supposed] == ([] if host is None else [host])
    found = analyze(trace, rules())
    assert found.summary.unprofiled_ms == bare_ms
    (saving,) = [one.saving for one in found.findings if one.rule == "kernels/padded-batches"]
    assert saving is not None
    if host is None:
        assert saving.alone_ms == {"low": 0.0, "high": 0.0}
        return
    # Of narrow batches the host sets the pace: 7 ms of it at 0.7 make 4.9 ms of the 9, at 0.5 3.6 of 8.6.
    assert 3.5 < saving.low_ms < 4.3
    assert 4.8 < saving.high_ms < 5.5


def test_steps_that_were_not_slowed_down(tmp_path: Path) -> None:
    assert analysis(launches(GPUS[0], 9.9, 9.9, 9.9), tmp_path).summary.unprofiled_ms is None


def test_steps_longer_than_the_recorded_ones(tmp_path: Path) -> None:
    assert analysis(launches(GPUS[0], 15.0, 15.0, 15.0), tmp_path).summary.unprofiled_ms is None


def test_two_steps_are_no_median(tmp_path: Path) -> None:
    assert analysis(launches(GPUS[0], 6.0, 6.0), tmp_path).summary.unprofiled_ms is None


def test_steps_that_took_less_than_the_kernels_did_something_else(tmp_path: Path) -> None:
    """The kernels alone take 1.2 ms."""
    assert analysis(launches(GPUS[0], 0.5, 0.5, 0.5), tmp_path).summary.unprofiled_ms is None


def test_batches_that_lay_ready_before_the_recording_are_no_profiler(tmp_path: Path) -> None:
    """The first steps found their batches ready: 10 ms each. The wait of 20 ms is the workers', not the profiler's."""
    found = analysis(loading(GPUS[0], 10.2, 10.2, 10.2), tmp_path)
    assert found.summary.unprofiled_ms is None
    assert found.findings[0].category == "data-loading"


STALL = "data-loading/loader-stall"
FED_MS, PACE_MS = 6.0, 16.0


def behind_slow_workers(device: str, *bare: tuple[float, float], waits_ms: float = 1.0) -> TraceBuilder:
    """Six steps of 11 ms: 1 of waiting for a batch, and 10 in which the host launches 100 kernels of 12 us.

    *bare* are steps without the profiler, and the waits in them. The four workers held eight batches ready.
    """
    b = TraceBuilder(device)
    b.ran_with(
        loaders=[Loader(4, prefetch=2, file="train.py", line=3)],
        cores=16,
        unprofiled_step_ms=[step for step, _ in bare],
        unprofiled_wait_ms=[wait for _, wait in bare],
    )
    for _ in range(6):
        with b.step():
            with b.loader(ms=waits_ms, workers=4):
                pass
            for _ in range(100):
                with b.op("aten::linear", us=100):
                    b.kernel(GEMM, us=12)
    b.sync()
    return b


READY = [(FED_MS, 0.1)] * 8
LATE = [(PACE_MS, 10.1)] * 4


@pytest.mark.parametrize("device", GPUS)
def test_workers_that_keep_up_behind_the_profiler_alone(device: str, tmp_path: Path) -> None:
    """Without it a step takes 6 ms, and its batch 16 to come: 10 are waited, of which the recording shows 1."""
    found = analysis(behind_slow_workers(device, *READY, *LATE), tmp_path)
    assert (found.summary.unprofiled_ms, found.summary.unprofiled_steps) == (PACE_MS, 4)
    first = found.findings[0]
    assert first.rule == STALL
    assert first.saving is not None
    assert first.saving.high_ms == pytest.approx(PACE_MS - FED_MS, rel=0.05)
    assert found.headline is not None
    assert "63 % of the 16 ms a step without the profiler the GPU waits for the next batch" in found.headline.text
    # Launches alone return nothing: the batch comes no sooner. Behind the workers, what the kernels leave of 6 ms.
    (launch,) = [one for one in found.findings if one.rule == "gpu-idle/launch-bound"]
    assert launch.saving is not None
    assert launch.saving.high_ms <= FED_MS - 1.2 + 0.1
    evidence = dict(zip(first.evidence.columns, first.evidence.rows[0], strict=True))
    assert evidence["wait_without_profiler_ms"] == pytest.approx(10.1)


def test_as_many_workers_as_keep_up(tmp_path: Path) -> None:
    """Four give a batch in 16 ms: for one in 6 it takes 10.7 of them."""
    found = analysis(behind_slow_workers(GPUS[0], *READY, *LATE), tmp_path)
    advised = {one.name: one.advice for one in found.findings[0].settings}
    assert advised["num_workers"] == "11"


def test_steps_fed_by_ready_batches_tell_nothing_of_the_workers(tmp_path: Path) -> None:
    """Eight of six ms alone: they are the program's, and no wait is known but the recorded one."""
    found = analysis(behind_slow_workers(GPUS[0], *READY), tmp_path)
    assert found.summary.unprofiled_ms == FED_MS
    assert STALL not in [one.rule for one in found.findings if one.saving and one.saving.high_ms > 1.1]


def test_waits_as_long_as_the_recorded_ones_change_nothing(tmp_path: Path) -> None:
    with_waits = analysis(behind_slow_workers(GPUS[0], *[(7.0, 1.0)] * 12), tmp_path)
    trace = behind_slow_workers(GPUS[0], *[(7.0, 1.0)] * 12)
    trace.ran_with(loaders=[Loader(4, prefetch=2, file="train.py", line=3)], cores=16, unprofiled_step_ms=[7.0] * 12)
    without = analysis(trace, tmp_path)
    assert with_waits.summary.unprofiled_ms == without.summary.unprofiled_ms == 7.0
    assert [(one.rule, one.saving) for one in with_waits.findings] == [
        (one.rule, one.saving) for one in without.findings
    ]


@pytest.mark.parametrize("device", GPUS)
def test_a_loader_in_the_main_process_that_the_profiler_slows_down(device: str, tmp_path: Path) -> None:
    """Steps of 30 ms, 20 in the loader, 8.8 of the rest idle: without the profiler 18, of which 12 load."""
    b = TraceBuilder(device)
    b.ran_with(loaders=[Loader(0)], unprofiled_step_ms=[18.0] * 4, unprofiled_wait_ms=[12.0] * 4)
    for _ in range(6):
        with b.step():
            with b.loader(ms=20):
                pass
            for _ in range(100):
                with b.op("aten::linear", us=100):
                    b.kernel(GEMM, us=12)
    b.sync()
    found = analysis(b, tmp_path)
    assert found.summary.unprofiled_ms == 18.0
    (loading,) = [one for one in found.findings if one.rule == "data-loading/single-process-loader"]
    assert loading.saving is not None
    assert loading.saving.high_ms == pytest.approx(12.0, rel=0.05)


def test_older_analyses_have_none(tmp_path: Path) -> None:
    summary = analysis(launches(GPUS[0]), tmp_path).summary
    assert replace(summary, unprofiled_ms=None).priced_ms == summary.whole_ms


# What the recorder takes for a step is a call of the model or one of several optimizer steps; or few steps hold an epoch's end.
OTHER_STEPS = {"latent_guidance", "ppo_observations", "story_penalty", "organs_unet3d"}
RECORDED = sorted((ROOT / "sample_traces" / "h100" / "programs").glob("*.json.gz"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.name).partition(".")[0])
def test_recorded_programs_promise_no_more_than_their_step_takes(path: Path) -> None:
    """As timed by other processes without a profiler, of which the recorder knows nothing; within a fifth, as runs differ."""
    import json

    measured = json.loads((path.parent / "measured.json").read_text())[path.name.partition(".")[0]]
    found = sample(path)
    if path.name.partition(".")[0] not in OTHER_STEPS:
        assert found.summary.priced_ms == pytest.approx(measured["before_ms"], rel=0.35)
    promised = sum(one.saving.high_ms for one in found.findings if one.saving)
    assert promised <= found.summary.priced_ms * (1 + 1e-9)


@pytest.mark.parametrize(("bare_ms", "left"), [(9.0, 1.0), (2.0, 0.8 / 3)])
def test_the_drivers_time_gives_way_after_the_hosts(bare_ms: float, left: float, tmp_path: Path) -> None:
    """Steps of 13 ms: 10 as above, 8.8 of them idle, and 3 in cudaMalloc.

    Steps of 9 ms take 4 of the 8.8. Of 2 ms take all of them, and 2.2 of the 3.
    """
    b = TraceBuilder(GPUS[0])
    b.ran_with(unprofiled_step_ms=(bare_ms,) * 3)
    for _ in range(6):
        with b.step():
            for _ in range(100):
                with b.op("aten::linear", us=100):
                    b.kernel(GEMM, us=12)
            b.malloc(1 << 21, 3000)
    b.sync()
    context = read(str(b.write(tmp_path / "trace.json"))).context
    bare = unprofiled(context)
    assert bare is not None
    driver = context.ledger.counted & context.ledger.through("allocator")
    assert context.ledger.dur_ns[driver].sum() > 0
    share = bare.dur_ns[driver].sum() / context.ledger.dur_ns[driver].sum()
    assert share == pytest.approx(left, abs=0.05)


@pytest.mark.parametrize("device", GPUS)
def test_what_holds_few_recorded_calls_may_keep_its_time(device: str, tmp_path: Path) -> None:
    """A step of 6 ms of Python in one function, and 200 launches of 40 us each: 14 ms, 10 without the profiler.

    Faster throughout, a host at 10/14 leaves 4.3 ms of the function. By the call, 400 operators and launches take 10 us less
    each, and the function stays as long as it is: 6 ms.
    """
    b = TraceBuilder(device, host_us=0, latency_us=0)
    b.ran_with(unprofiled_step_ms=(10.0, 10.0, 10.0))
    for _ in range(6):
        with b.step():
            with b.python("train.py(5): describe"):
                b.idle(us=6_000)
            for _ in range(200):
                with b.op("aten::relu"):
                    b.idle(us=40)
                    b.kernel("vectorized_elementwise_kernel_relu", us=4)
    b.sync()
    result = analysis(b, tmp_path)
    saving = next(found.saving for found in result.findings if found.rule == "gpu-idle/host-function")
    assert saving is not None
    assert saving.low_ms <= 0.4 * 4.3 * 1.05
    assert saving.high_ms == pytest.approx(6.0, rel=0.06)


def test_without_steps_or_stacks_a_host_may_be_faster_by_what_recording_its_calls_takes(tmp_path: Path) -> None:
    """40 launches of 60 us, a read-back, 30 more: with 5 us less for each operator and each launch they take 50.

    From one read-back's end to the next: 30 launches, then 40 with their kernels, of 400 us the first and of 50 the others. As
    recorded the last of those is launched at 2,400 and ends at 2,450 us; at 50 us a launch it ends at 50 + 400 + 39 * 50 = 2,400.
    """
    b = TraceBuilder("Tesla V100-SXM2-16GB", host_us=0, latency_us=0, with_stack=False)
    for _ in range(6):
        with b.step():
            for at in range(70):
                if at == 40:
                    b.item()
                with b.op("aten::mm"):
                    b.idle(us=60)
                    b.kernel(GEMM, us=50 if at else 400)
    b.sync()
    replay = Replay(read(str(b.write(tmp_path / "trace.json"))).context)
    assert [(host.share, host.call_ns) for host in replay._hosts] == [(1.0, 0.0), (1.0, 5_000)]
    recorded, faster = (replay.run(replay.with_host(host))[1].step_ns for host in replay._hosts)
    assert recorded - faster == pytest.approx(30 * 10_000 + 50_000, rel=0.01)


def test_a_figure_that_supposes_a_faster_host_says_what_the_recorded_one_allows(tmp_path: Path) -> None:
    """Kernels of 60 us behind launches of 55: Tensor Cores leave 7.5 us of a kernel, and the recorded host 55 us of a launch.

    100 of them a step: 0.5 ms as recorded. With 5 us less for the operator and 5 for the launch it is 1.5 ms.
    """
    b = TraceBuilder("Tesla V100-SXM2-16GB", host_us=0, latency_us=0, with_stack=False)
    for _ in range(6):
        with b.step():
            for _ in range(100):
                with b.op("aten::mm"):
                    b.idle(us=55)
                    b.kernel(GEMM, us=60)
    b.sync()
    result = analysis(b, tmp_path)
    found = next(found for found in result.findings if found.rule == "precision/no-tensor-cores")
    assert found.saving is not None
    assert found.saving.recorded_ms == pytest.approx(0.5, rel=0.1)
    assert found.saving.high_ms == pytest.approx(1.5, rel=0.1)
    assert "with the one recorded it is" in found.saving.basis
    explained = " ".join(render("text", result, Options(verbosity=1)).decode().split())
    assert f"with the one recorded it is {found.saving.recorded_ms * 1000:.0f} µs" in explained


@pytest.mark.parametrize(("event_ns", "left_ms"), [(2_000.0, 0.992), (None, 1.5 * 5.5 / 6.5)])
def test_recording_small_operators_takes_as_long_as_recording_large_ones(
    event_ns: float | None, left_ms: float, tmp_path: Path
) -> None:
    """A convolution of 5 ms and 100 calls of two operators in 15 us each: 6.5 ms, 5.5 without the profiler.

    At 2 us an event the calls lose 0.4 ms and the convolution 2 us, and all of it its part of the remaining 0.598 ms:
    1.1 * 5.5 / 6.098 = 0.992 ms. Where no event was measured all is a sixth shorter.
    """
    b = TraceBuilder(None, host_us=0, latency_us=0)
    b.ran_with(unprofiled_step_ms=(5.5, 5.5, 5.5), event_ns=event_ns)
    for _ in range(6):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=5_000):
                pass
            for _ in range(100):
                b.idle(us=5)
                with b.op("aten::select"), b.op("aten::as_strided", us=10):
                    pass
    context = read(str(b.write(tmp_path / "trace.json"))).context
    bare = unprofiled(context)
    assert bare is not None
    small = context.ledger.counted & (context.ledger.dur_ns < 1_000_000)
    steps = context.ledger.counted_ns / context.step_ns
    assert context.ledger.dur_ns[small].sum() / steps == pytest.approx(1.5e6, rel=0.01)
    assert bare.dur_ns[small].sum() / steps == pytest.approx(left_ms * 1e6, rel=0.01)
    assert bare.counted_ns / steps == pytest.approx(5.5e6, rel=0.001)


@pytest.mark.parametrize(("event_ns", "loading_ms"), [(2_000.0, 1.3), (None, 1.5)])
def test_loading_in_the_program_is_as_long_as_without_its_events(
    event_ns: float | None, loading_ms: float, tmp_path: Path
) -> None:
    """A batch of 100 operators in 15 us each, and a convolution of 5 ms: 6.5 ms, 5.8 without the profiler.

    At 2 us an event loading loses 0.2 ms, and the convolution what is left of 0.7. A wait loses nothing else: where no event was
    measured, loading takes what it took.
    """
    b = TraceBuilder(None, host_us=0, latency_us=0)
    b.ran_with(unprofiled_step_ms=(5.8, 5.8, 5.8), event_ns=event_ns)
    for _ in range(6):
        with b.step():
            with b.loader():
                for _ in range(100):
                    b.idle(us=5)
                    with b.op("aten::select", us=10):
                        pass
            with b.op("aten::mkldnn_convolution", us=5_000):
                pass
    context = read(str(b.write(tmp_path / "trace.json"))).context
    bare = unprofiled(context)
    assert bare is not None
    loads = context.ledger.counted & context.ledger.through("loader")
    steps = context.ledger.counted_ns / context.step_ns
    assert context.ledger.dur_ns[loads].sum() / steps == pytest.approx(1.5e6, rel=0.01)
    assert bare.dur_ns[loads].sum() / steps == pytest.approx(loading_ms * 1e6, rel=0.01)
    assert bare.counted_ns / steps == pytest.approx(5.8e6, rel=0.001)


@pytest.mark.parametrize(
    ("ends_ms", "bare_ms", "step_ms"),
    [
        # Five of 10 ms and one of 70; bare: a cold one, and nine of 5. 60 ms in 15 steps, the cold one left out.
        (60, (40.0, *[5.0] * 9), 5 + 60 / 15),
        # One of the bare ones is as long: twice in 15 steps.
        (60, (40.0, *[5.0] * 8, 65.0), 5 + 120 / 15),
        (0, (40.0, *[5.0] * 8, 65.0), 5.0),  # nothing of the kind was recorded: the median is what prices are of
    ],
)
def test_what_comes_once_in_several_steps_is_in_the_mean(
    ends_ms: int, bare_ms: tuple[float, ...], step_ms: float, tmp_path: Path
) -> None:
    b = TraceBuilder(None, host_us=0)
    b.ran_with(unprofiled_step_ms=bare_ms)
    for number in range(6):
        with b.step():
            if number == 5:
                b.idle(us=1000 * ends_ms)
            with b.op("aten::mkldnn_linear", us=10_000):
                pass
    found = unprofiled(read(str(b.write(tmp_path / "trace.json"))).context)
    assert found is not None
    assert found.step_ms == pytest.approx(step_ms)


@pytest.mark.parametrize("bare_ms", [(10.0, 10.0, 10.0), ()])
def test_a_saving_above_what_its_rows_take_says_why(bare_ms: tuple[float, ...], tmp_path: Path) -> None:
    """An argsort for a rank takes 4 of 10 ms: 92 to 100 % of them go, and up to 50 % more where the bare step is known."""
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    if bare_ms:
        b.ran_with(unprofiled_step_ms=bare_ms)
    for _ in range(6):
        with b.step():
            scores = {
                "shapes": [[64, 4096], [], []],
                "dtypes": ["float", "Scalar", "Scalar"],
                "values": ["", "1", "True"],
            }
            with b.op("aten::argsort", **scores), b.op("aten::sort", **scores, us=4_000):
                pass
            with b.op("aten::eq", shapes=[[64, 4096], [64, 1]], dtypes=["long int", "long int"], us=1):
                pass
            with b.op("aten::mm", us=6_000):
                pass
    found = {finding.rule: finding for finding in analysis(b, tmp_path).findings}["cpu/rank-sort"]
    assert found.cost_ms == pytest.approx(4.0, rel=0.01)
    assert found.saving is not None
    assert found.saving.high_ms == pytest.approx(6.0 if bare_ms else 4.0, rel=0.01)
    assert ("up to 50 % more at the upper end" in found.saving.basis) == bool(bare_ms)


@pytest.mark.parametrize(
    ("python_us", "low_ms", "high_ms"),
    [
        # 60 % is 3 ms and all of it 5: up to 50 % more is 7.5, but no more than a third of the step above the low end.
        (5_000, 3.0, 3.0 + 10 / 3),
        # 4.8 to 8 ms: no third of the step, and little is added.
        (8_000, 4.8, 4.8 + 10 / 3),
        # 5.7 to 9.5 ms lie further apart than a third of the step: the low end is that much less than the high one.
        (9_500, 9.5 - 10 / 3, 9.5),
    ],
)
def test_no_range_is_wider_than_a_third_of_the_step(
    python_us: int, low_ms: float, high_ms: float, tmp_path: Path
) -> None:
    """Python in a step of 10 ms: 60 to 100 % of it may go."""
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    b.ran_with(unprofiled_step_ms=(10.0, 10.0, 10.0))
    for _ in range(6):
        with b.step(), b.python("train.py(8): encode"):
            b.idle(us=python_us)
            with b.op("aten::mkldnn_linear", us=10_000 - python_us):
                pass
    saving = {finding.rule: finding for finding in analysis(b, tmp_path).findings}["cpu/python-time"].saving
    assert saving is not None
    assert (saving.low_ms, saving.high_ms) == (pytest.approx(low_ms, rel=0.01), pytest.approx(high_ms, rel=0.01))


def test_what_may_return_nothing_keeps_its_range(tmp_path: Path) -> None:
    """A loader's wait of 8 of 10 ms: nothing to 90 % of it, and a fifth more: nobody knows it to a third of the step."""
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    b.ran_with(unprofiled_step_ms=(10.0, 10.0, 10.0))
    for _ in range(6):
        with b.step():
            with b.loader():
                b.idle(us=8_000)
            with b.op("aten::mkldnn_linear", us=2_000):
                pass
    saving = {finding.rule: finding for finding in analysis(b, tmp_path).findings}["cpu/loader-wait"].saving
    assert saving is not None
    assert (saving.low_ms, saving.high_ms) == (0.0, pytest.approx(0.9 * 8 * 1.2, rel=0.01))


def test_a_tenth_of_what_is_beside_the_rows_stays(tmp_path: Path) -> None:
    """A collection in each step takes 8 of 10 ms: 50 % more would be all of the step; of the other 2 ms a tenth stays."""
    b = TraceBuilder(None, host_us=0)
    b.ran_with(unprofiled_step_ms=(10.0, 10.0, 10.0))
    for _ in range(6):
        with b.step(), b.python("train.py(12): train_step"):
            b.gc(ms=8)
            with b.op("aten::mkldnn_linear", us=2_000):
                pass
    saving = {finding.rule: finding for finding in analysis(b, tmp_path).findings}["cpu/gc-pause"].saving
    assert saving is not None
    assert (saving.low_ms, saving.high_ms) == (pytest.approx(7.2, rel=0.01), pytest.approx(9.8, rel=0.01))


@pytest.mark.parametrize(("event_ns", "low_ms"), [(4_000, 0.75 * 2.4 * 8.0 / 8.4), (None, 0.75 * 3.2)])
def test_the_upper_end_is_that_of_a_profiler_that_slows_all_alike(
    event_ns: float | None, low_ms: float, tmp_path: Path
) -> None:
    """Elements picked one by one take 4 of 10 recorded ms, and the step 8 without the profiler.

    At 4 us an event they lose 1.6 ms, and 0.4 ms are taken of the 8.4 that are left of the step. Where all lost a fifth, they
    keep 3.2 ms: so much, and 50 % more, may go at most, where
    that is no more than a third of the step above the lower end.
    """
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    b.ran_with(unprofiled_step_ms=(8.0, 8.0, 8.0), event_ns=event_ns)
    for _ in range(6):
        with b.step():
            with b.python("train.py(8): count"):
                for _ in range(400):
                    with b.op("aten::select", us=10):
                        pass
            with b.op("aten::mkldnn_linear", us=6_000):
                pass
    saving = {finding.rule: finding for finding in analysis(b, tmp_path).findings}["cpu/element-loop"].saving
    assert saving is not None
    assert (saving.low_ms, saving.high_ms) == (
        pytest.approx(low_ms, rel=0.01),
        pytest.approx(min(1.5 * 3.2, low_ms + 8 / 3), rel=0.01),
    )


@pytest.mark.parametrize("bare_ms", [10.0, 14.0])
def test_what_recording_operators_took_is_no_price_where_bare_steps_were_as_long(
    bare_ms: float, tmp_path: Path
) -> None:
    """Elements picked one by one take 4 of 10 recorded ms. On a busy machine the steps without the profiler took as long.

    At 4 us an event 1.6 of these ms are the profiler's, by the processor's time: of 8.4 ms 2.4 are left, or 3.36 where all was
    slowed alike.
    """
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    b.ran_with(unprofiled_step_ms=(bare_ms, bare_ms, bare_ms), event_ns=4_000)
    for _ in range(6):
        with b.step():
            with b.python("train.py(8): count"):
                for _ in range(400):
                    with b.op("aten::select", us=10):
                        pass
            with b.op("aten::mkldnn_linear", us=6_000):
                pass
    result = analysis(b, tmp_path)
    saving = {finding.rule: finding for finding in result.findings}["cpu/element-loop"].saving
    assert saving is not None
    assert (result.summary.priced_ms, result.summary.unprofiled_steps) == (pytest.approx(8.4, rel=0.01), 0)
    assert (saving.low_ms, saving.high_ms) == (
        pytest.approx(0.75 * 2.4, rel=0.01),
        pytest.approx(0.75 * 2.4 + 8.4 / 3, rel=0.01),
    )


def test_a_step_of_few_operators_is_priced_as_recorded_where_bare_steps_were_as_long(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    b.ran_with(unprofiled_step_ms=(10.0, 10.0, 10.0), event_ns=4_000)
    for _ in range(6):
        with b.step(), b.python("train.py(8): encode"):
            b.idle(us=5_000)
            with b.op("aten::mkldnn_linear", us=5_000):
                pass
    assert analysis(b, tmp_path).summary.unprofiled_ms is None
