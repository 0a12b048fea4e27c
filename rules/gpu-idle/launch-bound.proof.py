"""Proof of gpu-idle/launch-bound: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.reading.program_settings import Compiled
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    host_us: int = 10,
    kernel_us: int = 10,
    *,
    launches: int = 20,
    wait: str = "",
    graphs: int = 0,
    steps: int = 4,
    with_host: bool = True,
) -> TraceBuilder:
    """Steps of operators that take the host 20 us each, and whose kernels take 10: the device idles for the other 10."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(steps):
        with b.step() if with_host else nullcontext():
            for _ in range(launches):
                if wait == "loader":
                    with b.loader(us=host_us):
                        pass
                elif with_host:
                    with b.op("aten::relu"):
                        b.call("cudaGetDevice", 1)  # an operator that asks the driver computes nothing on the CPU
                        b.idle(us=host_us - 1)
                b.kernel("elementwise_kernel", us=kernel_us, launched=with_host)
                b.idle(us=kernel_us)
            if graphs:
                b.graph([("elementwise_kernel", 1)] * graphs)
                b.idle(us=graphs)
    return b


# 20 times a step the device idles for 10 us and works for 10.
@fires(cost_ms=0.2, cost_share=0.5, occurrences=80, severity="high", op="aten::relu")
def small_kernels() -> TraceBuilder:
    return steps()


def gathered(calls: int) -> TraceBuilder:
    """Steps as before, with so many masks turned into indices."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            for number in range(20):
                with b.op("aten::nonzero" if number < calls else "aten::relu"):
                    b.idle(us=10)
                b.kernel("elementwise_kernel", us=10)
                b.idle(us=10)
    return b


@fires(fix="Take out sizes that depend on data, then compile what is between")
def experts_whose_tokens_a_mask_finds() -> TraceBuilder:
    return gathered(4)


@fires(fix="Launch less: compile the model, with CUDA graphs where shapes are fixed")
def a_few_masks() -> TraceBuilder:
    return gathered(3)


@quiet
def kernels_longer_than_their_launches() -> TraceBuilder:
    b = TraceBuilder(host_us=10, latency_us=0)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("aten::relu"):
                    b.kernel("elementwise_kernel", us=100)
    return b


@quiet
def waits_for_the_loader() -> TraceBuilder:
    return steps(wait="loader")


@quiet("not_applicable")
def most_kernels_come_from_graphs() -> TraceBuilder:
    return steps(graphs=40)


@edge
def gaps_of_a_millisecond(over: bool) -> TraceBuilder:
    return steps(999 if over else 1000, 1000)


@edge
def ten_gaps(over: bool) -> TraceBuilder:
    return steps(launches=5 if over else 3, steps=2 if over else 3)


@edge
def ten_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 10 us of idle before each kernel: of 89 us, 10.1 % are idle; of 91 us, 9.9 %.
    return steps(10, 89 if over else 91)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::relu")


@lacks("host")
def no_host() -> TraceBuilder:
    return steps(with_host=False)


# A replay whose kernels are missing from the trace: its idle is not to be trusted.
@lacks("idle")
def replays_without_their_kernels() -> TraceBuilder:
    b = steps()
    with b.step():
        b.call("cudaGraphLaunch", 10)
        b.kernel("elementwise_kernel", us=10)
    return b


@fires(cost_ms=0.2, setting="torch.compile(mode='default') at train.py:20 → 'reduce-overhead'")
def a_call_of_compile_without_graphs() -> TraceBuilder:
    return steps().ran_with(compiled=[Compiled(file="train.py", line=20)])


@fires(cost_ms=0.2, setting="torch.compile(mode='reduce-overhead') at train.py:20")
def a_call_of_compile_with_graphs() -> TraceBuilder:
    return steps().ran_with(compiled=[Compiled("reduce-overhead", file="train.py", line=20)])


@fires(fix="Remove the graph breaks, then replay the model as CUDA graphs")
def compiled_blocks_that_check_a_value_each() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                with b.op("Torch-Compiled Region: 1/0"):
                    with b.op("CompiledFunction"):
                        for _ in range(4):
                            b.idle(us=10)
                            with b.op("triton_poi_fused_relu_0"):
                                b.kernel("triton_poi_fused_relu_0", us=5)
                    with b.op("aten::item", us=5):
                        pass
    return b
