"""Proof of precision/fp32-with-tf32: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels

TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x32_stage3"
BF16 = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"


def training(*products: tuple[str, float], device: str = "NVIDIA A100-PCIE-40GB") -> TraceBuilder:
    """Steps of these kernels, each with its us, on a device that has TF32."""
    return kernels(*products, device=device)


# Products of 5 ms in TF32 of a step of 10.
@fires(cost_ms=5.0, occurrences=4, severity="high", op="aten::addmm")
def products_in_tf32() -> TraceBuilder:
    return training((TF32, 5000), (POINTWISE, 5000))


# Attention on fp32 operands multiplies on the Tensor Cores as well, and gains from 16 bits.
@fires(cost_ms=5.0)
def attention_on_fp32_operands() -> TraceBuilder:
    return training(("fmha_cutlassF_f32_aligned_64x64_rf_sm80(P)", 5000), (POINTWISE, 5000))


# Named after the format it adds up in, but launched on fp32 operands: TF32.
@fires(cost_ms=5.0)
def a_product_known_by_its_operands() -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[512, 512], [512, 512]], dtypes=["float", "float"]):
                b.kernel("void cutlass::Kernel2<cutlass_90_tensorop_gemm_128x128_nn_align4>(P)", us=5000)
            with b.op("aten::add"):
                b.kernel(POINTWISE, us=5000)
    return b


@quiet
def the_same_under_autocast() -> TraceBuilder:
    return training((BF16, 3000), (POINTWISE, 4000))


@quiet("not_applicable")
def a_volta_that_has_neither() -> TraceBuilder:
    return training(("volta_sgemm_128x64_tn", 5000), device="Tesla V100-SXM2-16GB")


# Of 5 ms of products 200 us in 16 bits are 4 %, 300 are 6 %: some of the model runs in 16 bits already.
@edge
def a_twentieth_in_16_bits(over: bool) -> TraceBuilder:
    half = 200 if over else 300
    return training((TF32, 5000 - half), (BF16, half), (POINTWISE, 5000))


@edge
def a_tenth_of_the_step(over: bool) -> TraceBuilder:
    return training((TF32, 1030 if over else 970), (POINTWISE, 9000))


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::addmm", device="NVIDIA A100-PCIE-40GB")


@fires(cost_ms=5.0, setting="torch.autocast=never entered → bfloat16")
def products_known_to_run_without_autocast() -> TraceBuilder:
    return training((TF32, 5000), (POINTWISE, 5000)).ran_with()
