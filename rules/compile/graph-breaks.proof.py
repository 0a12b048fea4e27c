"""Proof of compile/graph-breaks: traces on which it fires, and traces on which it does not."""

from contextlib import ExitStack

from advisor.reading.program_settings import Compiled
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def model(
    breaks: int = 3,
    *,
    between_us: int = 300,
    nested: bool = True,
    with_stack: bool = True,
    gpu: bool = True,
    steps: int = 4,
) -> TraceBuilder:
    """Graphs of 100 us of kernels, and *between_us* of Python behind each break, 100 more behind the first; the regions nest."""
    b = (
        TraceBuilder(host_us=0, latency_us=0, with_stack=with_stack)
        if gpu
        else TraceBuilder(None, with_stack=with_stack)
    )
    for _ in range(steps):
        with b.step(), b.python("train.py(40): step"), ExitStack() as stack:
            for number in range(breaks + 1):
                if number == 2:
                    with b.op("aten::histc", us=between_us):
                        pass
                elif number:
                    b.idle(us=between_us + 100 * (number == 1))
                region = b.op(f"Torch-Compiled Region: {number}/0")
                with ExitStack() as alone:
                    (stack if nested else alone).enter_context(region)
                    if number:
                        b.idle(us=1)
                        line = 10 + number
                        frame = b.python(f"net.py({line}): torch_dynamo_resume_in_forward_at_{line}")
                        (stack if nested else alone).enter_context(frame)
                    with b.annotation("## Call CompiledFxGraph fabc ##"):
                        if gpu:
                            b.kernel("triton_poi_fused_relu_0", us=100)
                        b.idle(us=100)
    return b


# Each step: four graphs of 0.1 ms, and stretches of 0.4, 0.3 and 0.3 ms in which the device idles, 1 us more for the
# entrance of each region. 1.0 ms of 1.4.
@fires(cost_ms=1.0, occurrences=12, severity="high", line="net.py:11")
def three_breaks_in_every_step() -> TraceBuilder:
    return model()


@fires(cost_ms=1.0, occurrences=12)
def without_stacks() -> TraceBuilder:
    return model(with_stack=False)


@fires(occurrences=12)
def on_a_machine_without_a_gpu() -> TraceBuilder:
    return model(gpu=False)


# Functions compiled one by one and called one after another: as many regions, and no break.
@quiet
def compiled_block_by_block() -> TraceBuilder:
    return model(nested=False)


@quiet
def one_graph() -> TraceBuilder:
    return model(0)


@quiet("not_applicable")
def an_eager_program() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", ms=70)
    return b


@edge
def three_graphs_and_two(over: bool) -> TraceBuilder:
    return model(2 if over else 1)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("triton_poi_fused_relu_0")


@fires(cost_ms=1.0, setting="torch.compile(fullgraph=False) at train.py:20 → True")
def a_call_of_compile_that_lets_graphs_break() -> TraceBuilder:
    return model().ran_with(compiled=[Compiled(file="train.py", line=20)])


def guarded(blocks: int = 3, *, in_graph: bool = False) -> TraceBuilder:
    """Blocks compiled by themselves, each of which checks a value behind its graph: 100 us of kernels, 300 of Python and wrappers.

    Four steps. In the region of each: 50 us, the graph (100 us), 50 us and the check. The next begins 50 us later.
    """
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(40): step"):
            for _ in range(blocks):
                with b.python("net.py(9): forward"), b.op("Torch-Compiled Region: 1/0"):
                    b.idle(us=50)
                    with b.op("CompiledFunction"):
                        with b.op("triton_poi_fused_relu_0"):
                            b.kernel("triton_poi_fused_relu_0", us=100)
                            b.idle(us=100)
                        if in_graph:
                            with b.op("aten::item", us=5):
                                pass
                    if not in_graph:
                        b.idle(us=50)
                        with b.op("aten::item", us=5):
                            pass
                b.idle(us=50)
    return b


# Each step: behind the first and the second block 50 us, the check's 5, 50 more, and 50 to the next graph's first operator; behind
# the last the 55 to its region's end (the device idles on to the next step, and what lies mostly outside is not a break's).
@fires(occurrences=12, line="net.py:9")
def checks_of_values_behind_each_graph() -> TraceBuilder:
    return guarded()


@quiet
def values_that_are_read_inside_a_graph() -> TraceBuilder:
    return guarded(in_graph=True)


@quiet
def one_check_in_a_step() -> TraceBuilder:
    return guarded(1)
