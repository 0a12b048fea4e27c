"""Proof of inference/scheduler-gap: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, layers

SCHEDULERS = {
    VLLM: "vllm/v1/core/sched/scheduler.py(180): schedule",
    SGLANG: "sglang/srt/managers/scheduler.py(700): get_next_batch_to_run",
    TENSORRT: "tensorrt_llm/_torch/pyexecutor/scheduler.py(180): schedule_request",
}
H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"


def serving(
    engine: str = VLLM,
    device: str = H100,
    *,
    batches: int = 6,
    between_us: float = 2000,
    ahead: bool = False,
    inside: bool = False,
    idle: bool = False,
) -> TraceBuilder:
    """Decoding batches of 1 ms that replay a graph, and 2 ms of the scheduler's Python behind each but the last."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    name = annotation(engine, decoding=16)
    last = None
    for number in range(batches):
        with b.annotation(name):
            if inside and number:
                with b.python("vllm/v1/worker/gpu_model_runner.py(900): _prepare_inputs"):
                    b.idle(us=between_us)
            works = b.graph(layers(5, 50))
        # With the scheduler a batch ahead, the host waits for the batch before.
        b.sync(after=([last] if last else []) if ahead else None)
        last = works[-1]
        if idle:
            b.call("cudaStreamSynchronize", between_us)
        elif not inside:
            with b.python(SCHEDULERS[engine]):
                b.idle(us=between_us)
    return b


# Behind each batch but the last the scheduler takes 2 ms: five times in 16.006 ms.
@fires(cost_share=0.6248, fix="Overlap the scheduler with the GPU (async_scheduling=True)")
def vllm_without_asynchronous_scheduling() -> TraceBuilder:
    return serving()


@fires(fix="Overlap the scheduler with the GPU (disable_overlap_schedule=False)")
def sglang_without_overlap() -> TraceBuilder:
    return serving(SGLANG, MI300)


@fires(fix="Overlap the scheduler with the GPU (disable_overlap_scheduler=False)")
def tensorrt_llm_without_overlap() -> TraceBuilder:
    return serving(TENSORRT)


@quiet
def a_scheduler_that_is_a_batch_ahead() -> TraceBuilder:
    return serving(between_us=600, ahead=True)


@quiet
def inputs_that_a_batch_prepares() -> TraceBuilder:
    return serving(inside=True)


@quiet
def a_host_that_waits() -> TraceBuilder:
    return serving(idle=True)


@edge
def three_percent_of_the_time(over: bool) -> TraceBuilder:
    return serving(between_us=60 if over else 35)


@edge
def four_batches(over: bool) -> TraceBuilder:
    return serving(batches=4 if over else 3)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
