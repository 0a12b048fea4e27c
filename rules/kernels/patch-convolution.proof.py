"""Proof of kernels/patch-convolution: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x128_32x3_nhwc_align4>"
OP = "aten::cudnn_convolution"
VALUES = ["", "", "[0, 0]", "[{0}, {0}]", "[1, 1]", "1", "False", "False", "True"]


def training(us: float = 380, stride: int = 16, *, device: str = H100, shapes: bool = True) -> TraceBuilder:
    """Steps of a convolution of 16 by 16 on 64 images, and of a product of 600 us."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            sizes = [[64, 3, 224, 224], [768, 3, 16, 16], [], [], [], [], [], [], []]
            types = ["c10::BFloat16", "c10::BFloat16", *["ScalarList"] * 3, *["Scalar"] * 4]
            values = [value.format(stride) for value in VALUES]
            with b.op(OP, shapes=sizes, dtypes=types, values=values):
                b.kernel(NAME, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=600)
            b.sync()
    return b


@fires(cost_ms=0.38, occurrences=4, op=OP)
def the_patches_of_a_vision_transformer() -> TraceBuilder:
    return training()


@quiet
def windows_that_overlap() -> TraceBuilder:
    return training(stride=8)


# 64 x 196 x 768 x 768 products take 19 us at what the device reaches: 38 us is half of that.
@edge
def half_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            sizes = [[64, 3, 224, 224], [768, 3, 16, 16], [], [], [], [], [], [], []]
            types = ["c10::BFloat16", "c10::BFloat16", *["ScalarList"] * 3, *["Scalar"] * 4]
            with b.op(OP, shapes=sizes, dtypes=types, values=[value.format(16) for value in VALUES]):
                b.kernel(NAME, us=42 if over else 34)
    return b


@edge
def kernels_of_10_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                sizes = [[1, 3, 32, 32], [64, 3, 16, 16], [], [], [], [], [], [], []]
                types = ["c10::BFloat16", "c10::BFloat16", *["ScalarList"] * 3, *["Scalar"] * 4]
                with b.op(OP, shapes=sizes, dtypes=types, values=[value.format(16) for value in VALUES]):
                    b.kernel(NAME, us=10 if over else 9.9)
    return b


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[1, 3, 32, 32], [64, 3, 16, 16]], device=H100)
