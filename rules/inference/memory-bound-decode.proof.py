"""Proof of inference/memory-bound-decode: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_NNT"
HALF = ["c10::BFloat16", "c10::BFloat16"]


def decoding(
    rows: int = 1, us: float = 46, *, device: str = H100, backward: bool = False, shapes: bool = True
) -> TraceBuilder:
    """Steps of ten products of so many rows with 8,192 by 8,192 weights: 134 MB, 44 us at 3,063 GB/s."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                with b.op("aten::linear"), b.op("aten::mm", shapes=[[rows, 8192], [8192, 8192]], dtypes=HALF):
                    b.kernel(NAME, us=us)
            if backward:
                with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                    b.kernel(NAME, us=40)
            b.sync()
    return b


@fires(cost_ms=0.46, occurrences=40, severity="high", op="aten::mm")
def one_row() -> TraceBuilder:
    return decoding()


@quiet
def a_thousand_rows() -> TraceBuilder:
    return decoding(1024, us=180)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return decoding(backward=True)


@edge
def sixteen_rows(over: bool) -> TraceBuilder:
    return decoding(16 if over else 17)


@edge
def half_of_the_memory_s_rate(over: bool) -> TraceBuilder:
    return decoding(us=86 if over else 90)


@edge
def kernels_of_5_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("aten::linear"), b.op("aten::mm", shapes=[[1, 4096], [4096, 4096]], dtypes=HALF):
                    b.kernel(NAME, us=5 if over else 4.9)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return decoding(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return decoding(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=[[1, 4096], [4096, 4096]], device=H100)
