"""Proof of cpu/gpu-left-idle: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

A100 = "NVIDIA A100-SXM4-40GB"


def forward(
    us: float = 8_000, *, device: str | None = A100, backward: bool = False, launching: bool = False
) -> TraceBuilder:
    """Ten ms on the host, *us* of them in a convolution; the rest is no operator. With *launching* its work runs on the GPU."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=us):
                if launching:
                    b.kernel("ampere_sgemm_128x64_nn", us=us)
            if backward:
                with b.op("ConvolutionBackward0"), b.op("aten::mkldnn_convolution_backward", us=0):
                    pass
            b.idle(us=10_000 - us)
    return b


@fires(cost_ms=8.0, cost_share=0.8, severity="high", fix="Put the model and its data on the GPU")
def convolutions_of_the_cpu_beside_an_a100() -> TraceBuilder:
    return forward()


@fires(cost_ms=8.0, fix="Put the model and its data on the GPU")
def training_beside_a_gpu_of_amd() -> TraceBuilder:
    return forward(device="AMD Instinct MI300X", backward=True)


@quiet("not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return forward(device=None)


@quiet("not_applicable")
def the_same_operators_launch_kernels() -> TraceBuilder:
    return forward(launching=True)


# Of 10 ms: three tenths in the model's operators are enough to say that it runs there.
@edge
def three_tenths_of_the_window(over: bool) -> TraceBuilder:
    return forward(3_000 if over else 2_990)


@lacks("host", verdict="not_applicable")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
