"""Proof of gpu-idle/host-function: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind

HOOKS = "/venv/lib/python3.12/site-packages/diffusers/hooks/hooks.py(248): reset_stateful_hooks"


def calling(frame: str = "report.py(5): write", us: int = 3000, *, op: str = "") -> Part:
    """A function of so many us that launches nothing; with *op* all of it is an operator."""

    def part(b: TraceBuilder) -> None:
        with b.python(frame):
            if op:
                with b.op(op, us=us):
                    pass
            else:
                b.idle(us=us)

    return part


# 3 ms of 20, in each of four steps.
@fires(cost_ms=3, cost_share=0.15, occurrences=4, severity="high", line="report.py:5")
def a_report_in_every_step() -> TraceBuilder:
    return behind(calling())


# The place is the caller's, the function the library's: the fix names it.
@fires(
    cost_ms=9,
    cost_share=0.9,
    severity="high",
    line="train.py:20",
    fix="Call reset_stateful_hooks outside the step, or not at all",
)
def a_library_walks_its_hooks() -> TraceBuilder:
    return behind(calling(HOOKS, 9000), work_us=1000, device="AMD Instinct MI300X")


# torch's own code around each block: there is nothing to call once.
@fires(
    cost_ms=3,
    severity="medium",
    line="train.py:20",
    fix="Let checkpoint keep no random state (preserve_rng_state=False)",
)
def a_checkpoint_that_saves_the_state_of_random_numbers() -> TraceBuilder:
    return behind(calling("torch/utils/checkpoint.py(1491): _checkpoint_without_reentrant_generator"))


# Both are priced, so the fix names both; the third takes under a tenth.
@fires(
    cost_ms=10.5,
    severity="high",
    fix="Call reset_stateful_hooks and write outside the step, or not at all",
)
def three_functions() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        for call in (calling(HOOKS, 6000), calling(us=3500), calling("report.py(30): flush", 1000)):
            call(b)
            with b.op("aten::mm", us=10):
                b.kernel("volta_sgemm_128x64_nn", us=10)

    return behind(part)


# One launch of a graph is all the work that it replays.
@quiet
def a_function_that_launches_a_graph() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        with b.python("model.py(264): forward"):
            b.idle(us=3000)
            b.graph([("volta_sgemm_128x64_nn", 10)] * 20)
            b.idle(us=10)

    return behind(part)


@quiet
def short_gaps() -> TraceBuilder:
    return behind(calling(us=900), work_us=2000)


@quiet
def waits_for_the_loader() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        with b.loader(us=3000):
            pass

    return behind(part)


# Its own rule speaks of it.
@quiet
def an_operator_that_computes_on_the_cpu() -> TraceBuilder:
    return behind(calling(op="aten::sort"))


# The loop's own code, between launches of its own: gpu-idle/python-code's.
@quiet
def a_loop_that_launches_before_and_behind() -> TraceBuilder:
    b = TraceBuilder()
    with b.python("loop.py(9): epoch"):
        for _ in range(6):
            with b.step():
                for _ in range(3):
                    with b.op("aten::mm"):
                        b.kernel("volta_sgemm_128x64_nn", us=4000)
                b.sync()
                b.idle(us=6000)
    return b


# One call of 30 ms sets something up; the others take a hundredth of the step.
@quiet
def the_first_call() -> TraceBuilder:
    done: list[int] = []

    def part(b: TraceBuilder) -> None:
        calling(us=200 if done else 30_000)(b)
        done.append(1)

    return behind(part)


# Nothing follows, and nothing is known of what the host did: the annotation of the step just goes on.
@quiet
def the_end_of_the_recording() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        with b.python("train.py(20): main"), b.op("aten::mm", us=10_000):
            b.kernel("volta_sgemm_128x64_nn", ms=10)
        b.idle(ms=500)
    return b


@edge
def twenty_kernels_with_fewer_steps(over: bool) -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(20 if over else 19):
        if number == 10:
            calling(us=9000)(b)
        with b.op("aten::mm", us=100):
            b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def a_gap_of_a_millisecond(over: bool) -> TraceBuilder:
    return behind(calling(us=1000 if over else 999), work_us=4000)


@edge
def three_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 3 ms behind 96 ms are 3.03 %, behind 98 ms 2.97 %.
    return behind(calling(), work_us=96_000 if over else 98_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


@lacks("stacks")
def no_stacks() -> TraceBuilder:
    return behind(calling(), with_stack=False)
