"""Proof of gpu-idle/long-gap: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(gap_us: int = 3000, *, work_us: int = 17_000, during: str = "python", loading_us: int = 0) -> TraceBuilder:
    """Steps of 17 ms of kernels behind 3 ms in which the host does something else."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step(), b.python("train.py(20): main"):
            if loading_us and not number:
                with b.op("aten::mm"):
                    b.call("cudaModuleLoadData", loading_us)
            elif during == "python":
                with b.python("report.py(5): write"):
                    b.idle(us=gap_us)
            elif during == "loader":
                with b.loader(us=gap_us):
                    pass
            with b.op("aten::mm", us=work_us):
                b.kernel("volta_sgemm_128x64_nn", us=work_us)
    return b


# 3 ms of 20, in each of four steps.
@fires(cost_ms=3, cost_share=0.15, occurrences=4, severity="medium", line="report.py:5")
def a_report_in_every_step() -> TraceBuilder:
    return steps()


@quiet
def waits_for_the_loader() -> TraceBuilder:
    return steps(during="loader")


@quiet
def short_gaps() -> TraceBuilder:
    return steps(900, work_us=2000)


# Nothing follows, and nothing is known of what the host did: the annotation of the step just goes on.
@quiet
def the_end_of_the_recording() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        with b.op("aten::mm", us=10_000):
            b.kernel("volta_sgemm_128x64_nn", ms=10)
        b.idle(ms=500)
    return b


def script(kernels: int) -> TraceBuilder:
    """So many kernels without steps, with 9 ms in the middle in which the host does something else."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.python("script.py(3): main"):
        for number in range(kernels):
            if number == kernels // 2:
                b.idle(ms=9)
            with b.op("aten::mm", us=100):
                b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def twenty_kernels_without_steps(over: bool) -> TraceBuilder:
    return script(20 if over else 19)


# 60 % of the time, of which the middle of 20 to 95 % returns a third.
@fires(severity="high", cost_share=0.6)
def a_third_of_the_step_comes_back() -> TraceBuilder:
    return steps(30_000, work_us=20_000)


# Start-up is left out row by row, and where it is most of the idle time the rule does not speak.
@quiet("not_applicable")
def mostly_start_up() -> TraceBuilder:
    return steps(loading_us=40_000)


@edge
def half_of_the_idle_is_start_up(over: bool) -> TraceBuilder:
    # Three gaps of 3 ms beside 8.9 or 9.1 ms of loading.
    return steps(loading_us=8900 if over else 9100)


@edge
def a_gap_of_a_millisecond(over: bool) -> TraceBuilder:
    return steps(1000 if over else 999, work_us=4000)


@edge
def five_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 3 ms behind 56.5 ms are 5.04 %, behind 57.5 ms 4.96 %.
    return steps(work_us=56_500 if over else 57_500)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    b = TraceBuilder()
    for start in (0, 20_000):
        b.kernel("volta_sgemm_128x64_nn", ms=10, launched=False, at_us=start)
    return b
