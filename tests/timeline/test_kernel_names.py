"""What kernels' names prove, on names as cuBLAS, cuDNN, CUTLASS, PyTorch, Triton and rocBLAS write them."""

from __future__ import annotations

import pytest

from advisor.timeline.kernel_names import classify, least_capability, operand_dtype

NVIDIA = [
    # name, class, Tensor Cores, number format, alignment
    ("volta_sgemm_128x64_nn", "gemm", False, "fp32", None),
    ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "gemm", True, "fp16", None),
    ("volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1", "conv", True, "fp16", None),
    ("volta_scudnn_128x64_relu_interior_nn_v1", "conv", False, "fp32", None),
    ("cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v0", "conv", False, "fp32", None),
    ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", "conv", False, "fp32", None),
    ("ampere_sgemm_32x128_tn", "gemm", False, "fp32", None),
    ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn", "gemm", True, "fp16", None),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_kernel", "gemm", False, "fp32", None),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "gemm", True, "bf16", None),
    ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x16_kernel", "gemm", True, "tf32", None),
    # Its letters spell fp16 operands, sums in fp32 and a result in fp16; they were not read.
    ("nvjet_hsh_128x128_64x6_1x2_h_bz_TNT", "gemm", True, "fp16", None),
    ("nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT", "gemm", True, "bf16", None),
    ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "gemm", True, "fp8", None),
    ("nvjet_sm100_ootst_128x128_256x7_4x1_2cta_v_bx_Avec16UE4M3_Bvec16UE4M3_TNT", "gemm", True, "fp4", None),
    ("nvjet_sss_tf32_128x256_TNT", "gemm", True, "tf32", None),
    # Products of 8 and 4 bits, by their operands: 8 with 4 run as 8.
    ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_swiGlu_dynBatch_sm100f", "gemm", True, "fp8", None),
    ("bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16_t128x8x512_s5_sm100f", "gemm", True, "fp4", None),
    ("bmm_Bfloat16_Bfloat16MxE2m1_Fp32_t128x8x512_sm100f", "gemm", True, "bf16", None),
    (
        "cutlass3x_sm100_bstensorop_s256x192x64_gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32_f16_f16",
        "gemm",
        True,
        "fp4",
        None,
    ),
    ("void deep_gemm::sm100_fp8_gemm_1d1d_impl<128u, 7168u>(float*)", "gemm", True, "fp8", None),
    (
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "attention",
        True,
        "fp8",
        None,
    ),
    # On fp32 operands, Tensor Cores multiply in TF32: from Ampere on.
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "attention", True, "tf32", None),
    ("fmha_cutlassB_f32_aligned_64x64_k64_sm70(PyTorchMemEffAttention::Params)", "attention", False, "fp32", None),
    # A number format of CUTLASS makes no product.
    (
        "void moe::dev::finalize::finalizeKernelVecLoad<KernelParams<cutlass::bfloat16_t, 4> >(P)",
        "other",
        False,
        "bf16",
        None,
    ),
    ("void copy4(float4*, float4 const*)", "other", False, "fp32", None),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(P)", "gemm", True, "tf32", 4),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_nn_align1>(P)", "gemm", True, "bf16", 1),
    ("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_tn_align8>(P)", "gemm", True, "fp16", 8),
    ("void pytorch_flash::flash_fwd_kernel<Traits<64, 128, cutlass::bfloat16_t> >(P)", "attention", True, "bf16", None),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)", "attention", True, "bf16", None),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)",
        "elementwise",
        False,
        "fp32",
        None,
    ),
    ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>()", "copy", False, None, None),
    ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float>(int)", "layout", False, "fp16", None),
    ("void (anonymous namespace)::cunn_SoftMaxForward<4, c10::BFloat16, float>()", "softmax", False, "bf16", None),
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>()",
        "normalization",
        False,
        "fp32",
        None,
    ),
    (
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >()",
        "optimizer",
        False,
        "fp32",
        None,
    ),
    ("triton_poi_fused_add_relu_0", "triton", False, None, None),
    ("triton_red_fused_mean_1", "triton", False, None, None),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "communication", None, None, None),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>()", "communication", None, None, None),
    ("void multimem_all_reduce_kernel<16>()", "communication", None, None, None),
    ("some_vendor_gemm_thing", "gemm", None, None, None),
]


@pytest.mark.parametrize(("name", "kind", "tensor", "dtype", "alignment"), NVIDIA)
def test_nvidia(name: str, kind: str, tensor: bool | None, dtype: str | None, alignment: int | None) -> None:
    told = classify(name, "nvidia")
    assert (told.kind, told.tensor_cores, told.dtype, told.alignment) == (kind, tensor, dtype, alignment)


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1", "gemm", "bf16"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x8x1", "gemm", "fp16"),
        ("attn_fwd", "attention", None),
        ("batched_transpose_32x32_half", "layout", "fp16"),
        ("transpose_CNHW2NCHW_V2_2D_WG_off64", "layout", None),
        ("transpose_NCHW2CNHW_V2_2D_WG_off64", "layout", None),
        # Weights alone have 4 bits: the product is one of 16.
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "gemm", "bf16"),
        ("mfma_moe2_afp4_wfp4_bf16_cshuffle_t64x128x256_vs", "gemm", "fp4"),
    ],
)
def test_on_amd_tensor_cores_are_unknown(name: str, kind: str, dtype: str | None) -> None:
    told = classify(name, "amd")
    assert (told.kind, told.tensor_cores, told.dtype) == (kind, None, dtype)


def test_a_pointwise_kernel_is_told_by_its_name() -> None:
    assert classify("void at::native::elementwise_kernel<128, 4>()", "nvidia").pointwise
    assert classify("triton_poi_fused_add_relu_0", "nvidia").pointwise
    assert not classify("triton_red_fused_mean_1", "nvidia").pointwise


@pytest.mark.parametrize(
    ("name", "op", "operand", "dtype"),
    [
        # The operands of a product say more than the name of its kernel.
        ("volta_scudnn_128x64_relu_interior_nn_v1", "aten::cudnn_convolution", "c10::Half", "fp16"),
        ("some_vendor_gemm_f32_thing", "aten::addmm", "c10::BFloat16", "bf16"),
        ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "aten::mm", "float", "tf32"),
        ("nvjet_sss_128x256_TNT", "aten::bmm", "float", "tf32"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(P)", "aten::_efficient_attention_forward", "float", "tf32"),
        ("volta_sgemm_128x64_nn", "aten::mm", "float", "fp32"),
        ("volta_sgemm_128x64_nn", "aten::mm", "double", "fp64"),
        # f16 stands for either format of 16 bits in the names of cuDNN's attention; an operator of others' may cast before it.
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
            "aten::_cudnn_attention_forward",
            "c10::BFloat16",
            "bf16",
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7",
            "mine::attention",
            "c10::BFloat16",
            "fp16",
        ),
        # Quantized on the way: what the operator was given is not what is multiplied.
        ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "aten::mm", "c10::BFloat16", "fp8"),
        ("bmm_E2m1_E2m1E2m1_Fp32_t128x8x512", "aten::bmm", "c10::BFloat16", "fp4"),
        # An operator of many kernels may cast before the product, and a kernel of no product may add up in fp32.
        ("ampere_bf16_s16816gemm_bf16_128x64", "CompiledFunction", "float", "bf16"),
        ("volta_sgemm_128x64_nn", "MyLinearFunction", "c10::Half", "fp32"),
        ("void vectorized_elementwise_kernel<4, MulFunctor<float> >()", "aten::mul", "c10::BFloat16", "fp32"),
        # Where one of the two says nothing, the other does.
        ("attn_fwd", "CompiledFunction", "c10::BFloat16", "bf16"),
        ("volta_sgemm_128x64_nn", "aten::mm", "", "fp32"),
        ("volta_sgemm_128x64_nn", "", None, "fp32"),
        ("my_kernel", "aten::mul", "c10::Half", "fp16"),
    ],
)
def test_the_operands_of_a_product_before_its_kernels_name(name: str, op: str, operand: str | None, dtype: str) -> None:
    assert operand_dtype(classify(name, "nvidia"), op, operand) == dtype


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("volta_sgemm_128x64_nn", 7.0),
        ("cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1", 7.0),
        ("ampere_sgemm_32x128_tn", 8.0),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 9.0),
        ("void cutlass::Kernel<cutlass_75_tensorop_s1688gemm>(P)", 7.5),
        ("void at::native::vectorized_elementwise_kernel<4>()", 0.0),
    ],
)
def test_the_least_capability_that_a_name_proves(name: str, least: float) -> None:
    assert least_capability(name) == least


def test_a_hostile_name_costs_no_square() -> None:
    for part in ("attention", "xmma_gemm", "Cijk_", "cudnn_"):
        assert classify(part * 100_000 + "softmax", "nvidia").dtype is None
