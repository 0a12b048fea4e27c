"""Proof of gpu-idle/distribution-checks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

CHECK = "torch/distributions/distribution.py(280): _validate_sample"
SAMPLE = "torch/distributions/categorical.py(144): sample"


def training(us: float = 1000, frame: str = CHECK, *, stacks: bool = True) -> TraceBuilder:
    """Steps of 8 ms of kernels that the host waits for, us of Python in *frame*, and 1 ms of kernels."""
    b = TraceBuilder(with_stack=stacks)
    for _ in range(4):
        with b.step():
            with b.op("aten::addmm"):
                b.kernel("volta_sgemm_128x64_nn", us=8000)
            b.sync()
            with b.python("ppo.py(53): act"), b.python(frame):
                b.idle(us=us)
            with b.op("aten::addmm"):
                b.kernel("volta_sgemm_128x64_nn", us=1000)
            b.sync()
    return b


# 1 of some 10 ms in each of four steps.
@fires(cost_ms=1.0, severity="medium")
def a_tenth_of_the_step_is_checks() -> TraceBuilder:
    return training()


@fires(cost_ms=2.0, severity="high")
def the_constructor_s_checks() -> TraceBuilder:
    return training(2000, "torch/distributions/distribution.py(46): __init__")


@fires(cost_ms=1.0)
def a_constraint_s_own() -> TraceBuilder:
    return training(frame="torch/distributions/constraints.py(366): check")


@quiet
def sampling_is_no_check() -> TraceBuilder:
    return training(frame=SAMPLE)


@quiet
def a_function_of_the_user_s_own() -> TraceBuilder:
    return training(frame="checks.py(280): _validate_sample")


# 2 % of some 9.2 ms is 184 us.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(200 if over else 160)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return training(stacks=False)


@lacks("host")
def kernels_without_a_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
