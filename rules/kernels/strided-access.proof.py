"""Proof of kernels/strided-access: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<c10::BFloat16>>>"


def training(
    us: float = 530, turned: bool = True, *, device: str = H100, shapes: bool = True, size: int = 8192
) -> TraceBuilder:
    """Steps of a sum of two square matrices, the second one transposed where asked, and of a product of 900 us."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            sizes, types = [[size, size], [size, size], []], ["c10::BFloat16", "c10::BFloat16", "Scalar"]
            with b.op(
                "aten::add", shapes=sizes, dtypes=types, strides=[[size, 1], [1, size] if turned else [size, 1], []]
            ):
                b.kernel(NAME, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=900)
            b.sync()
    return b


@fires(cost_ms=0.53, occurrences=4, op="aten::add")
def a_sum_with_a_transposed_matrix() -> TraceBuilder:
    return training()


@quiet
def both_in_one_order() -> TraceBuilder:
    return training(turned=False)


# 403 MB, of which the cache holds 52, take 119 us at what the memory reaches: 0.4 of it is 298 us.
@edge
def two_fifths_of_what_the_memory_reaches(over: bool) -> TraceBuilder:
    return training(us=320 if over else 280)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            sizes, types = [[512, 512], [512, 512], []], ["c10::BFloat16", "c10::BFloat16", "Scalar"]
            for _ in range(20):
                with b.op("aten::add", shapes=sizes, dtypes=types, strides=[[512, 1], [1, 512], []]):
                    b.kernel(NAME, us=20 if over else 19.9)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return training(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::add", shapes=[[64, 64], [64, 64]], device=H100)
