"""Proof of kernels/batch-norm-layout: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SLOW = "void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, c10::BFloat16, float, float, int>"
LAST = (
    "void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::InvStd, c10::BFloat16, float, 4>"
)
OP = "aten::native_batch_norm"


def training(name: str = SLOW, us: float = 800, *, device: str = H100, shapes: bool = True) -> TraceBuilder:
    """Steps of a batch norm of 64 channels, which takes 34 us at what an H100 reaches, and of a product of 900 us."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            sizes = [[64, 64, 112, 112], [64], [64], [64], [64], [], [], []]
            types = ["c10::BFloat16", *["float"] * 4, "Scalar", "Scalar", "Scalar"]
            with b.op(OP, shapes=sizes, dtypes=types, values=["", "", "", "", "", "True", "0.1", "1e-05"]):
                b.kernel(name, us=us, grid=(64, 1, 1))
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=900)
            b.sync()
    return b


@fires(cost_ms=0.8, occurrences=4, op=OP)
def statistics_with_a_block_a_channel() -> TraceBuilder:
    return training()


@fires(cost_ms=0.8)
def on_a_gpu_of_amd() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


@quiet
def the_same_in_channels_last() -> TraceBuilder:
    return training(LAST, us=150)


# An instance norm makes its input contiguous, and runs a batch norm over a batch of one.
@quiet
def a_batch_norm_within_an_instance_norm() -> TraceBuilder:
    b = TraceBuilder(H100)
    types = ["c10::BFloat16", *["float"] * 4, "Scalar", "Scalar", "Scalar"]
    for _ in range(4):
        with b.step():
            norm = b.op("aten::instance_norm", shapes=[[2, 32, 512, 512]], dtypes=types[:1])
            with norm, b.op(OP, shapes=[[1, 64, 512, 512], [64], [64], [64], [64], [], [], []], dtypes=types):
                b.kernel(SLOW, us=800, grid=(64, 1, 1))
            b.sync()
    return b


# The 3-D input of a BatchNorm1d has no channels_last.
@quiet
def a_batch_norm_of_one_dimension() -> TraceBuilder:
    b = TraceBuilder(H100)
    types = ["c10::BFloat16", *["float"] * 4, "Scalar", "Scalar", "Scalar"]
    for _ in range(4):
        with b.step():
            with b.op(OP, shapes=[[64, 64, 12544], [64], [64], [64], [64], [], [], []], dtypes=types):
                b.kernel(SLOW, us=800, grid=(64, 1, 1))
            b.sync()
    return b


# 103 MB read and written, of which the cache holds 52, take 55 us at what the memory reaches; 0.2 of it is 273 us.
@edge
def a_fifth_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    return training(us=300 if over else 250)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    sizes = [[8, 64, 14, 14], [64], [64], [64], [64], [], [], []]
    types = ["c10::BFloat16", *["float"] * 4, "Scalar", "Scalar", "Scalar"]
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op(OP, shapes=sizes, dtypes=types):
                    b.kernel(SLOW, us=20 if over else 19.9)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[64, 64, 8, 8], [64]], device=H100)
