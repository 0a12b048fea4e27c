"""Proof of kernels/odd-channels: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_128x64_32x5_nhwc_align1>"
OP = "aten::cudnn_convolution"
VALUES = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"]


def training(
    channels: int = 65,
    us: float = 230,
    *,
    device: str = H100,
    capability: tuple[int, int] = (9, 0),
    shapes: bool = True,
    times: int = 1,
) -> TraceBuilder:
    """Steps of a convolution of so many channels on 64 images of 56 by 56, and of a product of 400 us."""
    b = TraceBuilder(device, capability=capability, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            sizes = [[64, channels, 56, 56], [channels, channels, 3, 3], [], [], [], [], [], [], []]
            types = ["c10::BFloat16", "c10::BFloat16", *["ScalarList"] * 3, *["Scalar"] * 4]
            for _ in range(times):
                with b.op(OP, shapes=sizes, dtypes=types, values=VALUES):
                    b.kernel(NAME, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=400)
            b.sync()
    return b


@fires(cost_ms=0.23, occurrences=4, op=OP)
def sixty_five_channels() -> TraceBuilder:
    return training()


@quiet
def seventy_two_channels() -> TraceBuilder:
    return training(72)


# The first layer of most networks: padding its input gained nothing.
@quiet
def three_channels() -> TraceBuilder:
    return training(3)


# 2 x 64 x 3,136 x 65 x 65 x 9 operations take 20 us at what the device reaches, the bytes 16 us: half of it is 39 us.
@edge
def half_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    return training(us=44 if over else 36, times=6)


@edge
def volta_is_the_first(over: bool) -> TraceBuilder:
    return training(
        us=900, device="Tesla V100-SXM2-16GB" if over else "Tesla P100-PCIE-16GB", capability=(7, 0) if over else (6, 0)
    )


@edge
def kernels_of_10_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                sizes = [[1, 65, 14, 14], [65, 65, 3, 3], [], [], [], [], [], [], []]
                types = ["c10::BFloat16", "c10::BFloat16", *["ScalarList"] * 3, *["Scalar"] * 4]
                with b.op(OP, shapes=sizes, dtypes=types, values=VALUES):
                    b.kernel(NAME, us=10 if over else 9.9)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[1, 65, 32, 32], [64, 65, 3, 3]], device=H100)
