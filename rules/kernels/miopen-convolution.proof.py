"""Proof of kernels/miopen-convolution: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

MI300X = "AMD Instinct MI300X"
NAME = "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8"
BF16 = ["c10::BFloat16", "c10::BFloat16", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"]
VALUES = ["", "", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"]
"""Padding, stride, dilation and groups, as miopen_convolution takes them."""


def training(us: float = 1000, *, device: str = MI300X, shapes: bool = True, name: str = NAME) -> TraceBuilder:
    """Steps of a 1x1 convolution of 64 images, 256 to 1,024 channels, 56x56 pixels, and of a product of 1 ms.

    The convolution's 105 GFLOP take 0.149 ms at what the device reaches.
    """
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op(
                "aten::miopen_convolution",
                shapes=[[64, 256, 56, 56], [1024, 256, 1, 1], [], [], [], [], []],
                dtypes=BF16,
                values=VALUES,
            ):
                b.kernel(name, us=us)
            with b.op("aten::mm"):
                b.kernel("Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN", us=1000)
            b.sync()
    return b


@fires(cost_ms=1.0, occurrences=4, op="aten::miopen_convolution")
def a_convolution_at_a_seventh_of_what_the_device_reaches() -> TraceBuilder:
    return training()


@fires(cost_ms=1.0)
def a_naive_kernel() -> TraceBuilder:
    return training(name="naive_conv_ab_nonpacked_fwd_nchw_half")


@quiet
def one_at_four_fifths() -> TraceBuilder:
    return training(185)


@edge
def half_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    return training(330 if over else 280)


@edge
def kernels_of_10_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(MI300X)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                shapes = [[304, 64, 8, 8], [64, 64, 1, 1], [], [], [], [], []]
                with b.op("aten::miopen_convolution", shapes=shapes, dtypes=BF16, values=VALUES):
                    b.kernel(NAME, us=10.2 if over else 9.9)
    return b


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training(device="NVIDIA H100 80GB HBM3")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::miopen_convolution", shapes=[[64, 65]], device=MI300X)
