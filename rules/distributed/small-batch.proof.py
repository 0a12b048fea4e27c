"""Proof of distributed/small-batch: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"


def steps(
    reduce_us: int = 30_000,
    *,
    backward_us: int = 10_000,
    kind: str = "all_reduce",
    phase: str = "backward",
    activations_us: int = 0,
    activation_bytes: int = 100_000_000,
    group: str = "tensor",
) -> TraceBuilder:
    """Four steps of 100 ms: 10 ms of forward, *backward_us* of backward, then a reduction of 100 MB in two messages.

    Before the backward pass another reduction, of *activations_us*, in *group*.
    """
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        with b.step():
            start = number * 100_000
            b.seek(start)
            with b.annotation("DistributedDataParallel.forward"), b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=10_000, at_us=start + 200)
                if phase == "forward":
                    b.collective(kind, 50_000_000, us=reduce_us, at_us=start + 50_000)
                if activations_us:
                    b.collective("all_reduce", activation_bytes, us=activations_us, at_us=start + 50_000, group=group)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=backward_us, at_us=start + 10_200)
                for message in range(2 if phase == "backward" else 0):
                    begin = start + 10_200 + backward_us + message * (reduce_us // 2)
                    b.collective(kind, 50_000_000, us=reduce_us // 2, at_us=begin)
            with b.annotation("Optimizer.step#AdamW.step"), b.op("aten::_fused_adamw_"):
                b.kernel("multi_tensor_apply_kernel", us=1_000, at_us=start + 90_000)
            b.sync()
            b.seek((number + 1) * 100_000)
    return b


# 30 of 100 ms in reductions, 21 in kernels that compute; two messages in each of four steps.
@fires(cost_ms=30.0, cost_share=0.3, occurrences=8, severity="low")
def reductions_longer_than_the_computation() -> TraceBuilder:
    return steps()


@fires(cost_ms=30.0, severity="low")
def gradients_of_shards() -> TraceBuilder:
    return steps(kind="reduce_scatter")


@quiet
def a_batch_that_takes_longer() -> TraceBuilder:
    return steps(backward_us=40_000)


# Activations that a model's parts exchange grow with the batch.
@quiet
def reductions_of_the_forward_pass() -> TraceBuilder:
    return steps(phase="forward")


# Of a model whose layers are cut into parts: each layer's activations in the forward pass, and their gradients.
@quiet
def a_group_that_also_exchanges_activations() -> TraceBuilder:
    return steps(activations_us=10_000, group="0")


# Losses are averaged for the log in the group that also reduces gradients: 4 of 100,000,000 bytes.
@fires(cost_ms=30.0, occurrences=8)
def a_group_that_also_averages_the_loss() -> TraceBuilder:
    return steps(activations_us=20, activation_bytes=4, group="0")


# 10 ms of gradients and 25 of activations, which grow with the batch; 21 are computed.
@quiet
def gradients_that_take_less_than_the_computation_beside_activations_that_take_more() -> TraceBuilder:
    return steps(10_000, activations_us=25_000)


@quiet
def exchanges_of_embeddings() -> TraceBuilder:
    return steps(kind="all_to_all")


# 30 ms in reductions; in kernels 11, and 18.9 or 19.1 of the backward pass.
@edge
def as_long_as_the_computation(over: bool) -> TraceBuilder:
    return steps(backward_us=18_900 if over else 19_100)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(GPU)
    with b.step(), b.op("MmBackward0", seq=1, fwd_thread=1):
        b.kernel("ampere_sgemm_128x64_nt", us=1_000)
    return b
