"""Proof of distributed/micro-batch-reduction: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"


def accumulation(reduce_us: int, *, micro: int = 2, sync_every: bool = True, hidden: bool = False) -> TraceBuilder:
    """Four steps of 100 ms: *micro* forward and backward passes of DDP, each with its reduction, then the optimizer."""
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        with b.step():
            for batch in range(micro):
                start, seq = number * 100_000 + batch * 40_000, number * micro + batch
                b.seek(start)
                with b.annotation("DistributedDataParallel.forward"), b.op("aten::mm", seq=seq):
                    b.kernel("ampere_sgemm_128x64_tn", us=10_000, at_us=start + 200)
                with b.op("MmBackward0", seq=seq, fwd_thread=1):
                    b.kernel("ampere_sgemm_128x64_nt", us=12_000, at_us=start + 10_200)
                    if sync_every or batch == micro - 1:
                        begin = start + (10_200 if hidden else 22_200)
                        b.collective("all_reduce", 50_000_000, us=reduce_us, at_us=begin)
            with b.annotation("Optimizer.step#AdamW.step"), b.op("aten::_fused_adamw_"):
                b.kernel("multi_tensor_apply_kernel", us=1_000, at_us=number * 100_000 + 90_000)
            b.seek((number + 1) * 100_000)
    return b


# Of two reductions of 6 ms a step, the first is not needed: 6 ms of 100 ms, once in each of four steps.
@fires(cost_ms=6.0, cost_share=0.06, occurrences=4, severity="medium", op="record_param_comms")
def every_micro_batch_is_reduced() -> TraceBuilder:
    return accumulation(6_000)


@quiet
def only_the_last_is_reduced() -> TraceBuilder:
    return accumulation(6_000, sync_every=False)


@quiet
def one_batch_a_step() -> TraceBuilder:
    return accumulation(6_000, micro=1)


@quiet
def reductions_that_the_backward_pass_hides() -> TraceBuilder:
    return accumulation(6_000, hidden=True)


@edge
def one_percent_of_the_step(over: bool) -> TraceBuilder:
    return accumulation(1_005 if over else 995)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(GPU)
    with b.step(), b.op("MmBackward0", seq=1, fwd_thread=1):
        b.kernel("ampere_sgemm_128x64_nt", us=1_000)
    return b


@fires(cost_ms=6.0, setting="backward passes per optimizer step=2")
def a_known_number_of_micro_batches() -> TraceBuilder:
    return accumulation(6_000).ran_with(backwards_per_step=2)
