"""Proof of distributed/unbucketed-gradients: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ENGINE = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def training(
    count: int = 100,
    us: int = 100,
    *,
    gradients: int = 0,
    products: bool = False,
    ddp: bool = False,
    loop: bool = False,
    device: str = GPU,
) -> TraceBuilder:
    """Four steps of 100 ms: a product forward, one backward, and *count* all-reduces, none of them hidden.

    *gradients* marks of autograd's engine lie beside them, *products* between them; *loop* runs them after the backward pass.
    """
    b = TraceBuilder(device, rank=0, world_size=8)
    for number in range(4):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=20_000, at_us=start + 200)
            if ddp:
                with b.annotation("DistributedDataParallel.forward"):
                    b.idle(us=10)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=30_000, at_us=start + 20_200)
                if not loop:
                    reductions(b, count, us, start, products)
                for _ in range(gradients):
                    with b.op(ENGINE, us=1):
                        pass
            if loop:
                reductions(b, count, us, start, products)
            b.seek((number + 1) * 100_000)
    return b


def reductions(b: TraceBuilder, count: int, us: int, start: int, products: bool) -> None:
    for index in range(count):
        if products:
            for _ in range(4):
                with b.op("aten::mm"):
                    b.kernel("ampere_sgemm_128x64_tn", us=1, at_us=start + 100)
        with b.op("c10d::allreduce_"):
            b.kernel(REDUCE, us=us, stream=20, at_us=start + 50_200 + index * us)


# 100 of 0.1 ms in each step of 100 ms, for 100 gradients. The host takes its 100 ms whatever the device does: a note.
@fires(cost_ms=10.0, cost_share=0.1, occurrences=400, severity="note")
def one_for_each_gradient() -> TraceBuilder:
    return training(gradients=100, products=True)


# The profiler did not see the engine's thread: but there is nothing between them.
@fires(cost_ms=10.0)
def a_loop_behind_the_backward_pass() -> TraceBuilder:
    return training(loop=True)


@fires(cost_ms=10.0)
def a_loop_on_an_amd_gpu() -> TraceBuilder:
    return training(loop=True, device="AMD Instinct MI300X")


@quiet
def the_buckets_of_ddp() -> TraceBuilder:
    return training(gradients=100, ddp=True)


# Two for each layer of eight parameters and more, with its products between.
@quiet
def tensor_parallelism() -> TraceBuilder:
    return training(gradients=400, products=True)


@quiet
def tensor_parallelism_of_which_no_gradients_were_seen() -> TraceBuilder:
    return training(products=True)


@edge
def half_as_many_as_gradients(over: bool) -> TraceBuilder:
    return training(100, gradients=200 if over else 201, products=True)


@edge
def fifty_a_step(over: bool) -> TraceBuilder:
    return training(50 if over else 49, 200, gradients=50)


@edge
def one_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(50, 20 if over else 19, gradients=50)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)
