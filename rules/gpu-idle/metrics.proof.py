"""Proof of gpu-idle/metrics: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    us: float, *, name: str = "## RecMetricModule:update ##", some: int = 3, python: bool = False
) -> TraceBuilder:
    """Three steps of 10 ms; in *some*, a range takes *us* of each, four fifths of it on the host alone."""
    b = TraceBuilder(latency_us=0)
    for number in range(3):
        taken = us if number < some else 0
        with b.step():
            with b.op("aten::linear"):
                b.kernel("volta_sgemm_128x64_nn", us=10_000 - taken, host_us=0)
            b.sync(us=0)
            if not taken:
                continue
            with b.python(name) if python else b.annotation(name), b.op("aten::mean"):
                b.idle(us=0.8 * taken)
                b.kernel("reduce_kernel", us=0.2 * taken, host_us=0)
                b.sync(us=0)
    return b


# 0.6 of 10 ms: 0.48 ms of the host, and a kernel of 0.12.
@fires(cost_ms=0.6, cost_share=0.06, severity="low", occurrences=3)
def torchrec_marks_its_update() -> TraceBuilder:
    return steps(600)


@fires(cost_ms=2.0, cost_share=0.2, severity="medium", occurrences=3)
def a_range_of_the_programs_own() -> TraceBuilder:
    return steps(2_000, name="train/metrics")


@fires(cost_ms=2.0, cost_share=0.2, severity="medium", occurrences=3)
def a_function_of_torchmetrics() -> TraceBuilder:
    return steps(2_000, name="torchmetrics/metric.py(262): forward", python=True)


@quiet
def once_in_a_while() -> TraceBuilder:
    return steps(2_000, some=1)


@quiet
def another_word() -> TraceBuilder:
    return steps(2_000, name="symmetric parametric geometry")


@quiet
def a_loss_by_metric_learning() -> TraceBuilder:
    return steps(2_000, name="metric loss")


@quiet
def a_metric_that_is_made() -> TraceBuilder:
    return steps(2_000, name="torchmetrics/metric.py(80): __init__", python=True)


@edge
def three_per_cent_come_back(over: bool) -> TraceBuilder:
    # Of 4.1 % of the step the middle of the price is 3.03 %, of 4 % 2.96.
    return steps(410 if over else 400)


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.annotation("## metrics update ##"), b.op("aten::mean"):
            b.kernel("reduce_kernel", us=100)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("reduce_kernel")
