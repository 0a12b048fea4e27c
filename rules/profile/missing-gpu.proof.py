"""Proof of profile/missing-gpu: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def calls(*names: str, device: str | None = "Tesla V100-SXM2-16GB") -> TraceBuilder:
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step(), b.op("aten::mm"):
            for name in names:
                b.call(name, 6)
            b.idle(1_000)
    return b


@fires(note="has no event of it")
def launches_and_no_kernels() -> TraceBuilder:
    return calls("cudaLaunchKernel")


@fires()
def graph_launches_and_no_kernels() -> TraceBuilder:
    return calls("cudaGraphLaunch")


@fires()
def launches_by_the_driver_interface() -> TraceBuilder:
    return calls("cuLaunchKernel")


@fires()
def launches_of_hip() -> TraceBuilder:
    b = TraceBuilder("AMD Instinct MI250X")
    with b.step(), b.op("aten::mm"):
        b.call("hipLaunchKernel", 6)
    return b


# No call was recorded at all, but cuDNN runs on GPUs only.
@fires()
def operators_that_run_on_gpus_only() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::conv2d"), b.op("aten::cudnn_convolution"):
        b.idle(1_000)
    return b


@quiet
def a_program_on_the_cpu() -> TraceBuilder:
    return calls(device=None)


@quiet
def calls_that_only_ask() -> TraceBuilder:
    return calls("cudaGetDeviceCount", "cudaDeviceSynchronize")


@quiet
def launches_with_their_kernels() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step(), b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@edge
def one_kernel(over: bool) -> TraceBuilder:
    b = calls("cudaLaunchKernel")
    if not over:
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
