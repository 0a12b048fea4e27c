"""Proof of gpu-idle/step-outlier: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, annotation, batch, layers


def steps(extra: dict[int, int], count: int = 8, *, kind: str = "host", work_ms: int = 20) -> TraceBuilder:
    """Steps of 20 ms of kernels; in some of them so many ms more of something else."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(count):
        with b.step():
            if kind == "overhead" and number in extra:
                b.overhead("Activity Buffer Request", us=1000 * extra[number])
            elif kind == "loading" and number in extra:
                b.call("cudaModuleLoadData", 1000 * extra[number])
            elif kind == "kernel" and number in extra:
                b.kernel("volta_sgemm_128x64_nn", ms=extra[number])
            elif number in extra:
                b.idle(ms=extra[number])
            b.kernel("volta_sgemm_128x64_nn", ms=work_ms)
            b.sync(us=0)
    return b


@fires(occurrences=1, severity="low")
def a_checkpoint_in_one_step() -> TraceBuilder:
    return steps({5: 60})


@fires(occurrences=2)
def two_long_batches() -> TraceBuilder:
    return steps({3: 40, 6: 50}, kind="kernel")


@quiet
def all_steps_alike() -> TraceBuilder:
    return steps({})


@quiet
def the_first_step() -> TraceBuilder:
    return steps({0: 60})


@quiet
def the_buffers_of_the_profiler() -> TraceBuilder:
    return steps({5: 60}, kind="overhead")


@quiet
def a_module_that_is_loaded() -> TraceBuilder:
    return steps({2: 60}, kind="loading")


@quiet("not_applicable")
def four_steps() -> TraceBuilder:
    return steps({2: 60}, 4)


@quiet("not_applicable")
def a_prompt_between_the_decoding_batches_of_an_engine() -> TraceBuilder:
    b = TraceBuilder()
    for number in range(12):
        name = annotation(SGLANG, prompts=1, prompt_tokens=900) if number == 6 else annotation(SGLANG, decoding=16)
        batch(b, name, layers(10, 200 if number == 6 else 10))
    return b


@edge
def half_as_long_again(over: bool) -> TraceBuilder:
    return steps({3: 10 if over else 9}, 6)


@edge
def three_per_cent_of_the_window(over: bool) -> TraceBuilder:
    # 12 ms more in one of 18 or of 20 steps of 20 ms: 12 of 372 ms are 3.2 %, 12 of 412 ms 2.9 %.
    return steps({3: 12}, 18 if over else 20)


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder()
    with b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", ms=20)
    return b


@lacks("gpu", verdict="not_applicable")
def no_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(6):
        with b.step(), b.op("aten::mm"):
            b.idle(ms=20)
    return b


@edge
def a_quarter_of_the_steps(over: bool) -> TraceBuilder:
    return steps(dict.fromkeys((2, 5), 60) if over else dict.fromkeys((2, 4, 6), 60), 8)
