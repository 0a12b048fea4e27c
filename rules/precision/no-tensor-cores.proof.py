"""Proof of precision/no-tensor-cores: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Autocast
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels as training

FP32, FP16 = "volta_sgemm_128x64_nn", "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"


# 8 ms of products of a step of 10: what a third to two thirds of can go.
@fires(cost_ms=8.0, occurrences=4, severity="high", op="aten::addmm")
def products_in_fp32_on_a_v100() -> TraceBuilder:
    return training((FP32, 8000), (POINTWISE, 2000))


# Gradients without any step of an optimizer, as the forces of a simulation: no loss curve to compare.
@fires(cost_ms=8.0, fix="Let these products run in TF32, or the forward pass under bf16 autocast")
def gradients_that_no_optimizer_takes() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", seq=1):
                b.kernel("ampere_sgemm_128x64_nn", us=4000)
            with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=4000)
            with b.thread(4001), b.backward("torch::autograd::AccumulateGrad", seq=0), b.op("aten::add"):
                b.kernel(POINTWISE, us=2000)
            b.sync()
    return b


@quiet
def the_same_under_autocast() -> TraceBuilder:
    return training((FP16, 3000), (POINTWISE, 1500))


@quiet
def products_in_float64() -> TraceBuilder:
    return training(("volta_dgemm_128x64_nn", 8000), (POINTWISE, 2000))


@quiet
def products_whose_names_do_not_tell() -> TraceBuilder:
    return training(("cutlass_kernel_of_my_own", 8000), (FP32, 2000))


# Experts in MXFP4 on MXFP8: Tensor Cores are what multiplies numbers of 8 bits and fewer.
@quiet
def experts_in_fp4_and_fp8() -> TraceBuilder:
    experts = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_swiGlu_dynBatch_sm100f"
    return training((experts, 6000), (FP32, 2000), device="NVIDIA H100 80GB HBM3")


# Memory-efficient attention in fp32: no Tensor Cores before Ampere.
@fires(cost_ms=8.0)
def attention_in_fp32_on_a_v100() -> TraceBuilder:
    return training(("fmha_cutlassF_f32_aligned_64x64_rf_sm70(P)", 6000), (FP32, 2000), (POINTWISE, 2000))


@quiet("not_applicable")
def a_turing_without_tensor_cores() -> TraceBuilder:
    b = TraceBuilder("NVIDIA GeForce GTX 1660 Ti", capability=(7, 5))
    with b.step(), b.op("aten::addmm"):
        b.kernel("turing_sgemm_128x64_nn", us=8000)
    return b


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training(("Cijk_Ailk_Bljk_SB_MT64x64x16", 8000), device="AMD Instinct MI300X")


# Of 10 ms of products 450 us on Tensor Cores are 4.5 %, and 550 are 5.5 %.
@edge
def a_twentieth_on_tensor_cores(over: bool) -> TraceBuilder:
    return training((FP32, 9550), (FP16, 450)) if over else training((FP32, 9450), (FP16, 550))


@edge
def a_tenth_of_the_kernel_time(over: bool) -> TraceBuilder:
    return training((FP32, 1050), (POINTWISE, 8950)) if over else training((FP32, 950), (POINTWISE, 9050))


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::addmm")


@fires(cost_ms=8.0, setting="torch.autocast=never entered → float16")
def a_v100_known_to_run_without_autocast() -> TraceBuilder:
    return training((FP32, 8000), (POINTWISE, 2000)).ran_with()


@fires(cost_ms=8.0, setting="torch.autocast=never entered → bfloat16")
def an_a100_known_to_run_without_autocast() -> TraceBuilder:
    return training(("ampere_sgemm_128x64_nn", 8000), (POINTWISE, 2000), device="NVIDIA A100-PCIE-40GB").ran_with()


# A region of the CPU is none for the GPU; these products run outside of the region that there is.
@fires(cost_ms=8.0, setting="torch.autocast=float16 at train.py:30")
def products_outside_of_the_region() -> TraceBuilder:
    regions = [Autocast("cpu", "bfloat16", "eval.py", 3), Autocast("cuda", "float16", "train.py", 30)]
    return training((FP32, 8000), (POINTWISE, 2000)).ran_with(autocast=regions)
