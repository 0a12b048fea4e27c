"""Proof of kernels/partial-wave: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
KERNEL = "nvjet_sm90_tst_96x192_64x5_1x2_h_bz_NNN"


def products(
    rows: int = 2176, us: float = 61, *, grid: tuple[int, int, int] = (2, 66, 1), shapes: bool = True
) -> TraceBuilder:
    """Steps of ten products of *rows* by 8,192 by 1,024: 36.5 GFLOP of 2,176 rows, 46 us at what an H100 reaches."""
    b = TraceBuilder(H100, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                with b.op("aten::mm", shapes=[[rows, 8192], [8192, 1024]], dtypes=["c10::BFloat16"] * 2):
                    b.kernel(KERNEL, us=us, grid=grid)
            b.sync()
    return b


# 17 by 8 tiles are 136 on 132 multiprocessors.
@fires(cost_ms=0.61, occurrences=40, severity="medium", op="aten::mm")
def four_tiles_more_than_multiprocessors() -> TraceBuilder:
    return products()


@quiet
def one_wave() -> TraceBuilder:
    return products(2048)


# 33 by 8 tiles are two whole waves.
@quiet
def two_whole_waves() -> TraceBuilder:
    return products(4224, 122)


@quiet
def a_product_near_what_the_device_reaches() -> TraceBuilder:
    return products(us=50)


# The library took other tiles: two waves, of which 95 % are filled.
@quiet
def a_grid_that_fills_its_waves() -> TraceBuilder:
    return products(grid=(250, 1, 1))


@edge
def products_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                with b.op("aten::mm", shapes=[[2176, 2048], [2048, 1024]], dtypes=["c10::BFloat16"] * 2):
                    b.kernel(KERNEL, us=20 if over else 19.9, grid=(2, 66, 1))
            b.sync()
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return products(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=[[2176, 8192], [8192, 1024]], device=H100)
