"""Proof of kernels/narrow-reduction: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::sum_functor<float, float, float>>>"
)


def training(
    us: float = 1000, shape: tuple[int, ...] = (1 << 24, 8), dims: tuple[int, ...] = (1,), *, strides: list[int] | None = None,
    name: str = NAME, device: str = H100, shapes: bool = True, op: str = "aten::sum",
) -> TraceBuilder:  # fmt: skip
    """Steps of a sum over 537 MB, some 190 us with its result at what an H100's memory reaches, and of a product of 2 ms."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op(
                op,
                shapes=[list(shape), [], [], []],
                dtypes=["float", "ScalarList", "Scalar", ""],
                strides=[strides, [], [], []] if strides else None,
                values=["", str(list(dims)), "False", ""],
            ):
                b.kernel(name, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=2000)
            b.sync()
    return b


# At 0.18 of the rate, 80 % can go: of a third of the step 16 to 27 %.
@fires(cost_ms=1.0, occurrences=4, severity="high", op="aten::sum")
def rows_of_eight() -> TraceBuilder:
    return training()


@fires(cost_ms=1.0, op="aten::amax")
def the_largest_of_three_by_three() -> TraceBuilder:
    return training(shape=(1 << 24, 3, 3), dims=(1, 2), op="aten::amax")


# A transposed view: what lies side by side are the eight.
@fires(cost_ms=1.0)
def rows_of_eight_in_a_transposed_view() -> TraceBuilder:
    return training(shape=(8, 1 << 24), dims=(0,), strides=[1, 8])


@quiet
def over_the_long_dimension_in_front() -> TraceBuilder:
    return training(shape=(8, 1 << 24), dims=(0,))


# Eight results of millions: a bias's gradient.
@quiet
def over_the_rows() -> TraceBuilder:
    return training(dims=(0,))


@quiet
def rows_of_thirty_two() -> TraceBuilder:
    return training(shape=(1 << 22, 32))


@quiet
def a_compiled_one() -> TraceBuilder:
    return training(us=400, name="triton_per_fused_sum_0")


# Without the cache it takes 197 us, 0.6 of 329.
@edge
def six_tenths_of_the_memory_s_rate(over: bool) -> TraceBuilder:
    return training(us=340 if over else 320)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::sum")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)
