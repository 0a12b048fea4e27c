"""Proof of kernels/slow-operator: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(us: float = 400, op: str = "aten::sort", *, places: int = 1) -> TraceBuilder:
    """Steps of a product of 600 us, and an operator of *us*, in calls from one line or from more."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=600)
            for place in range(places):
                with b.python(f"train.py({70 + place}): rank"), b.op(op):
                    b.kernel("void cub::DeviceRadixSortOnesweepKernel<long>", us=us / places)
            b.sync()
    return b


def called(op: str, kernel: str, shapes: list[list[int]], dtypes: list[str], *, us: float = 580) -> TraceBuilder:
    """Steps of one operator on an H100, whose kernel takes 580 us."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with b.step():
            with b.op(op, shapes=shapes, dtypes=dtypes):
                b.kernel(kernel, us=us)
            b.sync()
    return b


# One sort of 400 us in each step, 40 % of the kernel time.
@fires(cost_ms=0.4, occurrences=4, severity="low", op="aten::sort", line="train.py:70")
def a_sort_of_two_fifths() -> TraceBuilder:
    return training()


# A product of bf16 by fp32 in 580 us, where an H100 moves its 670 MB in 220: one type is what helps, not a sort's.
@fires(fix="Bring the operands of that call to one type, once", op="aten::mul")
def a_product_of_mixed_types() -> TraceBuilder:
    kernel = "void at::native::unrolled_elementwise_kernel<MulFunctor<float>>"
    return called("aten::mul", kernel, [[8192, 8192]] * 2, ["c10::BFloat16", "float"])


# 16 million keys of 64 bits: in 32 a sort takes half the passes.
@fires(fix="Sort keys of 32 bits: these are of 64, which take twice the passes", op="aten::sort")
def a_sort_of_long_integers() -> TraceBuilder:
    kernel = "void cub::DeviceRadixSortOnesweepKernel<long>"
    return called("aten::sort", kernel, [[1 << 24], [], []], ["long int", "Scalar", "Scalar"])


@fires(fix="Look at that sort: topk or kthvalue, or keys of fewer bits", op="aten::sort")
def a_sort_of_floats() -> TraceBuilder:
    kernel = "void cub::DeviceRadixSortOnesweepKernel<float>"
    return called("aten::sort", kernel, [[1 << 24], [], []], ["float", "Scalar", "Scalar"])


# No topk for a copy: an H100 copies 268 MB in 100 us.
@fires(fix="Look at that copy: a view, another order of the dimensions, or a compiled block", op="aten::copy_")
def a_copy_out_of_another_order() -> TraceBuilder:
    kernel = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
    return called("aten::copy_", kernel, [[8192, 8192], [8192, 8192], []], ["c10::BFloat16", "c10::BFloat16", "Scalar"])


@fires(fix="Look at those indices: fewer, longer or sorted rows", op="aten::index_add_")
def additions_at_indices() -> TraceBuilder:
    shapes = [[1024, 64], [], [1 << 16], [1 << 16, 64], []]
    return called(
        "aten::index_add_", "void indexFuncLargeIndex<float>", shapes, ["float", "Scalar", "long int", "float", ""]
    )


# A scan has no form of its own that is known to be cheaper: no code.
@fires(fix="Look at that call: a cheaper operator, less data, or a compiled block", op="aten::cumsum")
def a_scan() -> TraceBuilder:
    kernel = "void at::native::tensor_kernel_scan_outer_dim<float>"
    return called("aten::cumsum", kernel, [[8192, 4096], [], []], ["float", "Scalar", ""])


# Copies that another finding takes leave products at 99 % of what the memory reaches: of these nothing is promised.
@quiet
def an_operator_near_the_limit() -> TraceBuilder:
    kernel = "void at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16>>"
    return called("aten::mul", kernel, [[65536, 1024]] * 2, ["c10::BFloat16"] * 2, us=140)


@quiet
def a_short_sort() -> TraceBuilder:
    return training(60)


@quiet
def sorts_from_many_places() -> TraceBuilder:
    return training(places=4)


@quiet
def a_product_of_two_fifths() -> TraceBuilder:
    return training(op="aten::addmm")


# 201 of 801 us are 25.1 % of the kernel time, 199 of 799 are 24.9 %.
@edge
def a_quarter_of_the_kernel_time(over: bool) -> TraceBuilder:
    return training(201 if over else 199)


# 512 MiB read twice and written once, 1.6 GB, take 512 us at what an H100's memory reaches.
@quiet
def an_addition_near_the_memory_s_rate() -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with b.step():
            with b.op("aten::add", shapes=[[1 << 28], [1 << 28], []], dtypes=["c10::Half", "c10::Half", "Scalar"]):
                b.kernel("vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half>>", us=600)
            b.sync()
    return b


# 33.5 MB read and 33.5 written take 22 us at what an H100's memory reaches: a cache of 50 MB does not make 9 of that. Of 52 us
# in a step of 1 ms nothing is left that a program could count on.
@quiet
def a_copy_of_what_the_cache_could_hold_in_part() -> TraceBuilder:
    kernel = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
    shapes, dtypes = [[256, 1024, 64], [256, 1024, 64], []], ["c10::BFloat16", "c10::BFloat16", "Scalar"]
    return called("aten::copy_", kernel, shapes, dtypes, us=26)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::sort", device="NVIDIA A100-PCIE-40GB")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("void cub::DeviceRadixSortOnesweepKernel<long>", device="NVIDIA A100-PCIE-40GB")
