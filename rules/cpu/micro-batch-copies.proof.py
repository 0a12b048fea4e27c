"""Proof of cpu/micro-batch-copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

DDP = "DistributedDataParallel.forward"


def training(us: float = 500, *, each: int = 4, last_only: bool = False, work_us: float = 2000) -> TraceBuilder:
    """Three steps of *each* micro-batches of 2 ms, whose gradients are copied to a bucket and back, in all or in the last alone."""
    b = TraceBuilder(None, host_us=0, world_size=2, rank=0, backend="gloo")
    for step in range(3):
        with b.step():
            for batch in range(each):
                number = 100 * step + batch
                with b.annotation(DDP), b.op("aten::mkldnn_linear", seq=number, us=work_us / 2):
                    pass
                with b.backward("AddmmBackward0", number), b.op("aten::mm", us=work_us / 2):
                    pass
                if not last_only or batch == each - 1:
                    with b.op("torch::distributed::reducer::mul_out"), b.op("aten::mul", us=us):
                        pass
                    with b.op("torch.distributed.ddp.reducer::copy_bucket_to_grad"), b.op("aten::copy_", us=us):
                        pass
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=10):
                pass
    return b


# In 3 of 4 micro-batches of each step of 12.01 ms, 0.5 ms there and 0.5 ms back.
@fires(cost_ms=3, cost_share=0.24979, occurrences=36, severity="high")
def four_micro_batches() -> TraceBuilder:
    return training()


@quiet
def the_last_alone_is_copied() -> TraceBuilder:
    return training(last_only=True)


@quiet
def a_backward_pass_a_step() -> TraceBuilder:
    return training(each=1)


@edge
def a_hundredth_of_the_step(over: bool) -> TraceBuilder:
    # Of two micro-batches of 10 ms one there and back: 0.22 of 20.45 ms are 1.08 %, 0.19 of 20.39 ms 0.93 %; nineteen twentieths.
    return training(110 if over else 95, each=2, work_us=10_000)


@lacks("host", verdict="not_applicable")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
