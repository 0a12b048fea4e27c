"""Proof of precision/tf32-disabled: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels

FP32 = "ampere_sgemm_128x64_tn"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x32_stage3"
FP16 = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
FP64 = "cutlass_80_tensorop_d884gemm_64x64_16x3_nn_align1"


def training(*products: tuple[str, float], device: str = "NVIDIA A100-PCIE-40GB") -> TraceBuilder:
    """Steps of these kernels, each with its us, on a device that has TF32."""
    return kernels(*products, device=device)


# Products of 4 ms in fp32 in each step, beside others in fp16.
@fires(cost_ms=4.0, occurrences=4, severity="high", op="aten::addmm")
def fp32_products_beside_fp16() -> TraceBuilder:
    return training((FP32, 4000), (FP16, 6000))


# There TF32 is no faster than fp32: nothing is to be had.
@quiet("not_applicable")
def a_geforce_card() -> TraceBuilder:
    return training((FP32, 4000), (FP16, 6000), device="NVIDIA GeForce RTX 3090")


@quiet
def the_same_products_in_tf32() -> TraceBuilder:
    return training((TF32, 1500), (FP16, 6000))


@quiet
def products_of_a_matrix_and_a_vector() -> TraceBuilder:
    return training(("void gemv2T_kernel_val<int, int, float, float, float, float>", 4000), (FP16, 6000))


@quiet
def products_in_float64() -> TraceBuilder:
    return training((FP64, 4000), (FP16, 6000))


@quiet("not_applicable")
def a_volta_that_has_no_tf32() -> TraceBuilder:
    return training(("volta_sgemm_128x64_tn", 4000), device="Tesla V100-SXM2-16GB")


# One TF32 product proves that TF32 is allowed: 0.9 % of the fp32 products' time is under the limit, 1.1 % over it.
@edge
def a_hundredth_in_tf32(over: bool) -> TraceBuilder:
    return training((FP32, 4000), (TF32, 36 if over else 44), (FP16, 6000))


# An A100's TF32 is 8 times as fast as its fp32: the middle of 40.5 and 87.5 % of 1.17 % of the step are 0.75 %.
@edge
def a_little_over_a_percent_of_the_step(over: bool) -> TraceBuilder:
    return training((FP32, 122 if over else 112), (FP16, 9880))


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::addmm", device="NVIDIA A100-PCIE-40GB")


@fires(cost_ms=4.0, setting="torch.backends.cuda.matmul.allow_tf32=False → True")
def tf32_known_to_be_off() -> TraceBuilder:
    return training((FP32, 4000), (FP16, 6000)).ran_with(tf32_matmul=False)


# Then the library has chosen the fp32 kernel.
@quiet
def tf32_known_to_be_on() -> TraceBuilder:
    return training((FP32, 4000), (FP16, 6000)).ran_with(tf32_matmul=True)
