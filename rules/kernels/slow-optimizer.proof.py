"""Proof of kernels/slow-optimizer: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.accelerators import Accelerator
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import GEMM


def steps(
    us: int = 10_000, *, name: str = "Shampoo", op: str = "aten::linalg_eigh", wait: bool = True, work_us: int = 10_000,
    device: str = "Tesla V100-SXM2-16GB",
) -> TraceBuilder:  # fmt: skip
    """Steps of 10 ms of products, waited for, and so many us of the optimizer, in which the host waits for its kernels."""
    b = TraceBuilder(device, host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", us=1):
                b.kernel(GEMM, us=work_us)
            if wait:
                b.sync(us=0)
            with b.annotation(f"Optimizer.step#{name}.step"):
                with b.op(op):
                    b.kernel("syevj_kernel", us=us)
                b.sync(us=0)
    return b


# Half of the step is the optimizer's.
@fires(cost_ms=10, cost_share=0.5, occurrences=4, severity="high")
def preconditioners_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_ms=5, cost_share=1 / 3, severity="high")
def muon_on_amd() -> TraceBuilder:
    return steps(5000, name="Muon", device="AMD Instinct MI300X")


# 10 ms of the step's 20, and of another price: see tests/rules/test_fix_variants.py.
@fires(
    cost_ms=10,
    severity="high",
    fix="Take all parameters in one step: the foreach or the fused form, and compile what is left",
)
def a_loop_over_parameters() -> TraceBuilder:
    return steps(name="Adam", op="aten::addcmul_")


# Thirty operators of 100 us in each step of 4 ms: the host's, but for 10 of a kernel.
@fires(
    cost_ms=3,
    severity="high",
    fix="Compile the optimizer's step: lists of tensors may run one by one on this device",
)
def a_loop_over_parameters_on_an_accelerator() -> TraceBuilder:
    b = Accelerator()
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.job("mm_kernel", 980, waits=True)
            with b.annotation("Optimizer.step#Adam.step"):
                for _ in range(30):
                    with b.op("aten::addcmul_"):
                        b.idle(us=80)
                        b.job("addcmul_kernel", 10)
    return b


@quiet
def the_fused_form() -> TraceBuilder:
    return steps(name="AdamW", op="aten::_fused_adamw_")


# The host is in the step for 10.5 of 10.5 ms, of which 10 are the backward pass's: 0.5 ms is 5 %.
@quiet
def waits_for_the_work_before_it() -> TraceBuilder:
    return steps(500, wait=False)


@edge
def a_quarter_of_the_time(over: bool) -> TraceBuilder:
    # 3.34 ms beside 10 ms are 25.04 %, 3.33 ms 24.98 %.
    return steps(3340 if over else 3330)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm", annotation="Optimizer.step#Shampoo.step")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(GEMM)
