"""Proof of compile/recompilation: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Compiled
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    first: int = 8,
    *,
    again: tuple[int, ...] = (0, 1, 2, 3),
    ms: int = 30,
    busy: bool = False,
    steps: int = 4,
    gpu: bool = True,
) -> TraceBuilder:
    """Steps of 70 ms of kernels; in those that *again* names, the region is compiled anew for so many ms first.

    *first* is how often it had been compiled before: from eight on the limit was raised, and it need not end.
    """
    b = TraceBuilder(latency_us=0) if gpu else TraceBuilder(None)
    k = first
    for number in range(steps):
        with b.step():
            if busy and gpu:
                b.kernel("before", ms=70, host_us=0)
            with b.op("TorchDynamo Cache Lookup"):
                pass
            if number in again:
                k += 1
                with b.op("dynamo"), b.op("_compile.compile_inner (dynamo_timed)"):
                    with b.annotation(f"dynamo_data: compile_id=0/{k}"):
                        pass
                    b.idle(ms=ms)
            with b.op(f"Torch-Compiled Region: 0/{k}"):
                if gpu:
                    b.kernel("triton_poi_fused_relu_0", ms=70, host_us=0)
                    b.sync(us=0)
                else:
                    b.idle(ms=70)
    return b


# Each of four steps compiles for 30 ms on an idle device and then works for 70: 30 ms of 100.
@fires(cost_ms=30, cost_share=0.3, occurrences=4, severity="high")
def a_shape_that_changes_in_every_step() -> TraceBuilder:
    return steps()


# Two of four steps, the first of them outside the median; the median step is 70 ms, the share 60 of 340 ms.
@fires(cost_share=60 / 340, occurrences=2, severity="high")
def in_two_steps_of_four() -> TraceBuilder:
    return steps(again=(1, 3))


# The same four times 30 ms, but for the fourth to the seventh variant: Dynamo gives up at eight, so it is start-up, and no step's.
# The first step, which start-up fills, is not counted.
@fires(cost_ms=0, cost_share=0, occurrences=3, severity="medium")
def variants_within_the_limit_end_by_themselves() -> TraceBuilder:
    return steps(2)


@fires(cost_ms=0, occurrences=3, severity="medium")
def on_a_cpu_they_end_as_well() -> TraceBuilder:
    return steps(2, gpu=False, again=(1, 2, 3))


# Named by the region that runs behind it, as older versions do that write no compile_id.
@fires(cost_ms=30, occurrences=4)
def without_annotations() -> TraceBuilder:
    b = TraceBuilder(latency_us=0)
    for k in range(9, 13):
        with b.step():
            with b.op("_compile.<locals>.compile_inner (dynamo_timed)"):
                b.idle(ms=30)
            with b.op(f"Torch-Compiled Region: 0/{k}"):
                b.kernel("triton_poi_fused_relu_0", ms=70, host_us=0)
                b.sync(us=0)
    return b


@fires(cost_share=0.3, occurrences=4)
def on_a_machine_without_a_gpu() -> TraceBuilder:
    return steps(gpu=False)


@quiet
def one_late_compilation() -> TraceBuilder:
    return steps(0, again=(2,))


@quiet
def a_first_compilation() -> TraceBuilder:
    return steps(-1, again=(0,))


# The device works on what was queued before for longer than the compilation takes.
@quiet
def behind_the_work_of_the_device() -> TraceBuilder:
    return steps(busy=True)


@quiet("not_applicable")
def an_eager_program() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step(), b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", ms=70)
    return b


@edge
def the_third_recompilation_of_one_code(over: bool) -> TraceBuilder:
    return steps(2 if over else 1, again=(2,))


@edge
def one_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 70 ms of work per step: 0.72 ms are 1.02 % of the step, 0.69 ms 0.98 %.
    b = TraceBuilder(latency_us=0)
    for k in range(1, 5):
        with b.step():
            with b.op("dynamo"), b.annotation(f"dynamo_data: compile_id=0/{k}"):
                b.idle(us=720 if over else 690)
            with b.op(f"Torch-Compiled Region: 0/{k}"):
                b.kernel("triton_poi_fused_relu_0", ms=70, host_us=0)
                b.sync(us=0)
    return b


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder()
    for k in range(1, 4):
        with b.op("dynamo"):
            b.idle(ms=30)
        with b.op(f"Torch-Compiled Region: 0/{k}"):
            b.kernel("triton_poi_fused_relu_0", ms=70)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("triton_poi_fused_relu_0")


@fires(cost_ms=30, setting="torch.compile(dynamic=False) at train.py:20 → None")
def a_call_of_compile_that_fixes_shapes() -> TraceBuilder:
    return steps().ran_with(compiled=[Compiled(dynamic=False, file="train.py", line=20)])
