"""Proof of kernels/depthwise-layout: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SLOW = "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, c10::BFloat16, int>"
LAST = "conv2d_c1_k1_nhwc_specialized_kernel"


def training(
    name: str = SLOW, us: float = 300, *, device: str = H100, capability: tuple[int, int] = (9, 0)
) -> TraceBuilder:
    """Steps of a depthwise convolution and of a product of 600 us."""
    b = TraceBuilder(device, capability=capability)
    for _ in range(4):
        with b.step():
            with b.op(
                "aten::_conv_depthwise2d", shapes=[[64, 384, 56, 56], [384, 1, 3, 3]], dtypes=["c10::BFloat16"] * 2
            ):
                b.kernel(name, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=600)
            b.sync()
    return b


@fires(cost_ms=0.3, occurrences=4, op="aten::_conv_depthwise2d")
def torch_s_own_kernel() -> TraceBuilder:
    return training()


@fires(cost_ms=0.3)
def its_gradient() -> TraceBuilder:
    return training("void at::native::(anonymous namespace)::conv_depthwise2d_backward_kernel<7, 1, float, int>")


@quiet
def cudnn_in_channels_last() -> TraceBuilder:
    return training(LAST)


# Of the 3-D tensors of a Conv1d there is no channels_last: torch gives its kernels a height of 1.
@quiet
def a_convolution_of_one_dimension() -> TraceBuilder:
    b = TraceBuilder(H100, capability=(9, 0))
    for _ in range(4):
        with (
            b.step(),
            b.op("aten::convolution", shapes=[[8, 1024, 16384], [1024, 1, 4]], dtypes=["c10::BFloat16"] * 2),
            b.op(
                "aten::_conv_depthwise2d", shapes=[[8, 1024, 1, 16384], [1024, 1, 1, 4]], dtypes=["c10::BFloat16"] * 2
            ),
        ):
            b.kernel(SLOW, us=300)
    return b


@quiet("not_applicable")
def a_gpu_before_volta() -> TraceBuilder:
    return training(device="Tesla P100-PCIE-16GB", capability=(6, 0))


@edge
def volta_is_the_first(over: bool) -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB" if over else "NVIDIA TITAN Xp", capability=(7, 0) if over else (6, 1))


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step(), b.op("aten::_conv_depthwise2d"):
            for _ in range(20):
                b.kernel(SLOW, us=20 if over else 19.9)
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::_conv_depthwise2d", device=H100)
