"""Proof of kernels/nms-candidates: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

NAME = "gather_keep_from_mask(bool*, unsigned long long const*, int)"


def training(us: float = 3000, *, name: str = NAME, device: str = "NVIDIA H100 80GB HBM3") -> TraceBuilder:
    """Steps of one NMS, and a product of 7 ms."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.op("torchvision::nms", shapes=[[8650, 4], [8650], []]):
                b.kernel(name, us=us, grid=(1, 1, 1), block=(64, 1, 1))
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=7000)
            b.sync()
    return b


@fires(cost_ms=3.0, occurrences=4, op="torchvision::nms")
def thousands_of_boxes() -> TraceBuilder:
    return training()


@fires(cost_ms=3.0, occurrences=4)
def on_an_older_gpu() -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB")


@quiet
def the_comparison_of_all_boxes() -> TraceBuilder:
    return training(
        name="void (anonymous namespace)::nms_kernel_impl<float>(int, double, float const*, unsigned long long*)"
    )


@edge
def a_tenth_of_a_millisecond(over: bool) -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("torchvision::nms"):
                    b.kernel(NAME, us=100 if over else 99, grid=(1, 1, 1))
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("torchvision::nms", shapes=[[4096, 4]], device="NVIDIA H100 80GB HBM3")
