"""Proof of gpu-idle/buffer-sync: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind

SYNC = "/venv/lib/python3.12/site-packages/torch/nn/parallel/distributed.py(2080): _sync_buffers"


def forward(
    us: int = 2000, *, broadcast: str = "c10d::broadcast_", stacks: bool = False, model_first: bool = False
) -> Part:
    """The beginning of DDP's forward: the host gathers the buffers and broadcasts them, in so many us."""

    def part(b: TraceBuilder) -> None:
        with b.annotation("DistributedDataParallel.forward"):
            if model_first:
                with b.op("aten::conv2d"):
                    b.kernel("implicit_convolve_sgemm", us=1)
            if stacks:
                with b.python(SYNC):
                    b.idle(us=us)
            else:
                b.idle(us=us // 2)
                with b.op(broadcast, us=us - us // 2):
                    pass

    return part


# 2 ms of 19, in each of four steps.
@fires(cost_ms=2, cost_share=2 / 19, severity="medium")
def buffers_are_broadcast_in_every_forward() -> TraceBuilder:
    return behind(forward())


@fires(cost_ms=2, cost_share=2 / 19)
def known_by_the_functions_alone() -> TraceBuilder:
    return behind(forward(stacks=True))


@fires(cost_ms=4, cost_share=0.8, severity="high")
def on_amd_by_the_name_of_the_collective() -> TraceBuilder:
    return behind(forward(4000, broadcast="nccl:broadcast"), work_us=1000, device="AMD Instinct MI300X")


@quiet
def no_broadcast() -> TraceBuilder:
    return behind(forward(broadcast="aten::empty"))


# The model itself broadcasts behind its first operator.
@quiet
def the_models_own_broadcast() -> TraceBuilder:
    return behind(forward(model_first=True))


@quiet
def a_broadcast_outside_ddp() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        with b.op("c10d::broadcast_", us=2000):
            pass

    return behind(part)


@edge
def one_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 174 us beside 17 ms are 1.01 %, 170 us 0.99 %.
    return behind(forward(174 if over else 170))


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm", annotation="DistributedDataParallel.forward")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
