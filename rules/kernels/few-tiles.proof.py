"""Proof of kernels/few-tiles: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
HALF = ["c10::BFloat16", "c10::BFloat16"]
NAME = "nvjet_sm90_tst_64x64_64x13_2x1_v_bz_NNT"


def inference(
    rows: int = 512, us: float = 60, *, device: str = H100, stream: int = 7, shapes: bool = True
) -> TraceBuilder:
    """Steps of a product of so many rows by 2,048 by 512, and of one of 8,192 cubed that fills the GPU for 1,450 us."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[rows, 2048], [2048, 512]], dtypes=HALF):
                b.kernel(NAME, us=us)
            if stream != 7:
                with b.op("aten::relu"):
                    b.kernel("elementwise_kernel", us=us, stream=stream, at_us=b.last.start / 1e3)
            with b.op("aten::mm", shapes=[[4096, 4096], [4096, 2048]], dtypes=HALF):
                b.kernel(NAME, us=100)
            b.sync()
    return b


# 16 tiles for 132 multiprocessors.
@fires(cost_ms=0.06, occurrences=4, op="aten::mm")
def a_product_of_sixteen_tiles() -> TraceBuilder:
    return inference()


@fires(op="aten::mm")
def the_same_on_a_gpu_of_amd() -> TraceBuilder:
    return inference(device="AMD Instinct MI300X")


@quiet
def as_many_rows_as_fill_it() -> TraceBuilder:
    return inference(16384)


# 512 by 2,048 by 512 takes 1.4 us at what the device reaches: 1.7 us is above 0.8 of it.
@quiet
def one_near_its_limit() -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step(), b.op("aten::mm", shapes=[[512, 65536], [65536, 512]], dtypes=HALF):
            b.kernel(NAME, us=50)
    return b


@edge
def a_gpu_at_work_for_half_of_the_time(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step(), b.op("aten::mm", shapes=[[512, 1024], [1024, 512]], dtypes=HALF):
            for _ in range(20):
                b.kernel(NAME, us=20)
            b.idle(us=200 if over else 900)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return inference(device="Accelerator 9000")


# Four rows of tiles each 512: 16 columns of tiles make 64 of 132, 17 make 68.
@edge
def half_a_block_per_multiprocessor(over: bool) -> TraceBuilder:
    return inference(2048 if over else 2176, us=90)


@edge
def kernels_of_4_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step(), b.op("aten::mm", shapes=[[512, 1024], [1024, 512]], dtypes=HALF):
            for _ in range(20):
                b.kernel(NAME, us=4 if over else 3.9)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return inference(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=[[64, 65], [65, 65]], device=H100)
