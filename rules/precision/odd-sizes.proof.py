"""Proof of precision/odd-sizes: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

PLAIN = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT"
HALF = ["c10::Half", "c10::Half"]


def training(
    shapes: tuple[tuple[int, int], tuple[int, int]] = ((1024, 768), (768, 50257)),
    us: float = 300,
    name: str = PLAIN,
    *,
    record_shapes: bool = True,
    device: str = "NVIDIA H100 80GB HBM3",
) -> TraceBuilder:
    """Steps of 600 us of products with even sizes, and one product of *shapes*."""
    b = TraceBuilder(device, record_shapes=record_shapes)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[4096, 768], [768, 3072]], dtypes=HALF):
                b.kernel(PLAIN, us=600)
            with b.op("aten::mm", shapes=[list(shape) for shape in shapes], dtypes=HALF):
                b.kernel(name, us=us)
            b.sync()
    return b


@fires(cost_ms=0.3, occurrences=4, severity="high", op="aten::mm")
def a_vocabulary_of_50257() -> TraceBuilder:
    return training()


@fires(cost_ms=0.3)
def an_odd_shared_dimension_in_the_forward_pass() -> TraceBuilder:
    return training(((4096, 1705), (1705, 512)))


@fires(cost_ms=3.0)
def odd_sizes_on_an_mi300x() -> TraceBuilder:
    tensile = "Cijk_Ailk_Bljk_HHS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN"
    return training(((4096, 4097), (4097, 4097)), 3000, tensile, device="AMD Instinct MI300X")


# 2 x 1024 x 768 x 50257 operations in 0.1 ms are 790 TFLOP/s: nothing is lost to the odd width.
@quiet
def a_product_that_is_near_its_limit_with_odd_sizes() -> TraceBuilder:
    return training(us=100)


@quiet
def the_vocabulary_padded() -> TraceBuilder:
    return training(((4096, 768), (768, 50304)))


@quiet
def an_odd_number_of_tokens() -> TraceBuilder:
    return training(((4097, 768), (768, 3072)))


# The gradient of a weight sums over the tokens: their number is the shared dimension, and both factors have even rows.
@quiet
def an_odd_number_of_tokens_in_the_backward_pass() -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        product = b.op("aten::mm", shapes=[[768, 4097], [4097, 3072]], dtypes=HALF)
        with b.step(), b.thread(4001), b.backward("MmBackward0", seq=1), product:
            b.kernel(PLAIN, us=300)
    return b


@quiet
def a_kernel_that_says_how_it_is_aligned() -> TraceBuilder:
    return training(name="cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align2")


@quiet
def a_product_of_a_matrix_and_a_vector() -> TraceBuilder:
    return training(((4096, 768), (768, 1)), name="void gemv2T_kernel_val<int, int, __half, __half>")


@quiet("not_applicable")
def a_gpu_without_tensor_cores() -> TraceBuilder:
    b = TraceBuilder("Tesla P100-PCIE-16GB", capability=(6, 0))
    with b.step(), b.op("aten::mm", shapes=[[64, 65], [65, 65]], dtypes=HALF):
        b.kernel("maxwell_fp16_sgemm_fp16_128x64_nn", us=300)
    return b


# 2 % of about 640 us is 12.8. Of this board the rates are not known.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(us=14.5 if over else 11, device="NVIDIA TITAN V")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(record_shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=[[64, 65], [65, 65]], device="NVIDIA H100 80GB HBM3")
