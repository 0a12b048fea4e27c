"""Proof of distributed/unbucketed-wait: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def training(
    count: int = 60,
    us: float = 100,
    *,
    products: bool = False,
    ddp: bool = False,
    waits: int = 60,
    device: str = GPU,
    compiled: bool = False,
) -> TraceBuilder:
    """Four steps: a product forward, one backward, and behind it *count* all-reduces of 10 us, each *us* of the host.

    It takes that for *waits* of them; the others are queued at once. *products* lie between them.
    """
    b = TraceBuilder(device, rank=0, world_size=8, host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=2_000)
            if ddp:
                with b.annotation("DistributedDataParallel.forward"):
                    b.idle(us=10)
            with b.op("CompiledFunctionBackward" if compiled else "MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=3_000)
            b.sync()
            for index in range(count):
                if products:
                    for _ in range(4):
                        with b.op("aten::mm"):
                            b.kernel("ampere_sgemm_128x64_tn", us=1)
                with b.op("c10d::allreduce_", us=us if index < waits else 0):
                    b.kernel(REDUCE, us=10, stream=20)
            b.sync()
    return b


# 60 reductions of 10 us a step, each 100 us behind the one before: 90 us idle between two of them, 59 times.
@fires(cost_ms=59 * 0.09)
def a_loop_behind_the_backward_pass() -> TraceBuilder:
    return training()


@fires(cost_ms=59 * 0.09)
def a_loop_in_a_compiled_graph_on_an_amd_gpu() -> TraceBuilder:
    return training(compiled=True, device="AMD Instinct MI300X")


@quiet
def the_buckets_of_ddp() -> TraceBuilder:
    return training(ddp=True)


@quiet
def tensor_parallelism() -> TraceBuilder:
    return training(products=True)


@quiet
def the_host_is_ahead() -> TraceBuilder:
    return training(us=0)


@quiet
def forty_nine_messages() -> TraceBuilder:
    return training(49)


# 25 of the 60 take their time after the launch, and the GPU waits behind each for the next.
@edge
def half_of_the_loop_waits(over: bool) -> TraceBuilder:
    return training(waits=25 if over else 24)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)
