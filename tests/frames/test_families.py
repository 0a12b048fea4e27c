"""Families of kernels: by the operator, else by the name, and by the order of operators. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import advisor
from advisor import trace
from advisor.report import step_time
from advisor.testing import TraceBuilder

POINTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
)
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>"
MEAN = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >"
LAYER_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
GEMM = "ampere_sgemm_128x64_nn"


def family(folder: Path, op: str, kernel: str, dtypes: list[str] | None = None) -> str:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    with b.op(op, shapes=[[8, 8], [8, 8]], dtypes=dtypes):
        b.kernel(kernel, us=10)
    (found,) = trace.read(str(b.write(folder / "t.json"))).kernels["family"]
    return str(found)


def test_work_of_an_embeddings_operator_is_embedding_whatever_sorts_or_adds_in_it(tmp_path: Path) -> None:
    """Its backward pass sorts the rows that were asked for; a sort of the program's own is a sort."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    name = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<long, long>"
    with b.op("split_embedding_backward_codegen_rowwise_adagrad"), b.op("aten::sort"):
        b.kernel(name, us=10)
    with b.op("aten::sort"):
        b.kernel(name, us=10)
    assert list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["family"]) == ["embedding", "sort"]


def test_attention_in_steps_is_one_family(tmp_path: Path) -> None:
    """Product, scale, softmax, product; a product elsewhere is one."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    with b.op("aten::addmm", shapes=[[64], [256, 64], [64, 64]]):
        b.kernel(GEMM, us=10)
    for op, kernel, shapes in (
        ("aten::bmm", GEMM, [[8, 64, 32], [8, 32, 64]]),
        ("aten::mul", POINTWISE, [[8, 64, 64], []]),
        ("aten::_softmax", "void cunn_SoftMaxForward<8, float, float, float>", [[8, 64, 64], [], []]),
        ("aten::bmm", GEMM, [[8, 64, 64], [8, 64, 32]]),
    ):
        with b.op(op, shapes=shapes):
            b.kernel(kernel, us=10)
    found = list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["family"])
    assert found == ["matrix products", *["unfused attention"] * 4]


def test_casts_inside_of_attention_are_casts(tmp_path: Path) -> None:
    """Product, cast, softmax, cast, product, as autocast runs it."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for op, kernel, shapes in (
        ("aten::bmm", GEMM, [[8, 64, 32], [8, 32, 64]]),
        ("aten::copy_", COPY, [[8, 64, 64], [8, 64, 64]]),
        ("aten::_softmax", "void cunn_SoftMaxForward<8, float, float, float>", [[8, 64, 64], [], []]),
        ("aten::copy_", COPY, [[8, 64, 64], [8, 64, 64]]),
        ("aten::bmm", GEMM, [[8, 64, 64], [8, 64, 32]]),
    ):
        with b.op(op, shapes=shapes, dtypes=["float", "c10::Half"] if op == "aten::copy_" else None):
            b.kernel(kernel, us=10)
    found = list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["family"])
    assert found == ["unfused attention", "casts", "unfused attention", "casts", "unfused attention"]


def test_a_softmax_of_a_librarys_is_of_attention_too(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for op, kernel, shapes in (
        ("aten::baddbmm", GEMM, [[8, 64, 64], [8, 64, 32], [8, 32, 64]]),
        (
            "ScaledUpperTriangMaskedSoftmax",
            "void scaled_upper_triang_masked_softmax_warp_forward<float>",
            [[8, 64, 64]],
        ),
        ("aten::bmm", GEMM, [[8, 64, 64], [8, 64, 32]]),
    ):
        with b.op(op, shapes=shapes):
            b.kernel(kernel, us=10)
    assert list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["family"]) == ["unfused attention"] * 3


def masked_attention(folder: Path) -> str:
    """A mask of 20 us and its cast of 5, attention of four kernels of 10, the mean of its weights; around it other work."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    half = ["float", "c10::Half"]
    for op, kernel, shapes, us in (
        ("aten::mul", POINTWISE, [[8, 64, 32], []], 10),  # of a factor of the product, not of the scores
        ("aten::add", POINTWISE, [[8, 64, 64], [8, 1, 64]], 20),
        ("aten::copy_", COPY, [[8, 64, 64], [8, 64, 64]], 5),
        ("aten::baddbmm", GEMM, [[8, 64, 64], [8, 64, 32], [8, 32, 64]], 10),
        ("aten::_softmax", "void cunn_SoftMaxForward<8, float, float, float>", [[8, 64, 64], [], []], 10),
        ("aten::dropout", POINTWISE, [[8, 64, 64]], 10),
        ("aten::bmm", GEMM, [[8, 64, 64], [8, 64, 32]], 10),
        ("aten::add", POINTWISE, [[8, 64, 64], [8, 64, 64]], 10),  # behind the products, and no average
        ("aten::mean", MEAN, [[2, 4, 64, 64], []], 40),
    ):
        with b.op(op, shapes=shapes, dtypes=half if op == "aten::copy_" else None):
            b.kernel(kernel, us=us)
    return str(b.write(folder / "t.json"))


def test_what_makes_a_mask_and_averages_weights_is_of_attention(tmp_path: Path) -> None:
    found = list(trace.read(masked_attention(tmp_path)).kernels["family"])
    unfused = "unfused attention"
    assert found == ["elementwise", unfused, "casts", *[unfused] * 4, "elementwise", unfused]


def test_an_average_of_weights_goes_with_a_fused_attention_and_a_mask_stays(tmp_path: Path) -> None:
    """Softmax and dropout, 10 us each, and the mean of 40 are its own; of the mask nothing is."""
    (row,) = trace.read(masked_attention(tmp_path)).frame("patterns").query("kind == 'attention'").to_dict("records")
    assert row["own_ns"] == 60_000


def test_the_time_of_attention_is_said_with_its_casts(tmp_path: Path) -> None:
    """Of 125 us 100 are attention's, and 5 those of the cast: a twentieth, of which nothing is said. At 20 it is."""
    found = advisor.analyze(advisor.read(masked_attention(tmp_path))).summary
    (part,) = [part for part in found.kernel_time if part.family == "unfused attention"]
    assert round(part.ms * 1000) == 100
    assert round(part.casts_ms * 1000) == 5
    total = sum(one.ms for one in found.kernel_time)
    assert step_time.with_casts(part, total) == ""
    assert step_time.with_casts(replace(part, casts_ms=0.02), total) == " (96 % with casts)"


@pytest.mark.parametrize(
    ("op", "kernel", "expected"),
    [
        ("aten::addmm", GEMM, "matrix products"),
        # A convolution that runs as a product is one; turning its layout is not.
        ("aten::cudnn_convolution", GEMM, "convolutions"),
        (
            "aten::cudnn_convolution",
            "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>",
            "layout changes",
        ),
        # What libraries run around one: fills and casts of a workspace; by an operator or in a replay.
        ("aten::miopen_convolution", "SubTensorOpWithCastTensor1d", "convolution helpers"),
        ("", "SubTensorOpWithScalar1d", "convolution helpers"),
        ("aten::_efficient_attention_forward", "fmha_cutlassF_f32_aligned_64x64_rf_sm80", "attention"),
        ("aten::_softmax", "void cunn_SoftMaxForward<8, float, float, float>", "softmax"),
        ("aten::native_layer_norm", LAYER_NORM, "layer norm"),
        ("aten::native_batch_norm", POINTWISE, "batch norm"),
        (
            "aten::cat",
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int>",
            "concatenation",
        ),
        ("aten::index", POINTWISE, "indexing"),
        ("aten::add", POINTWISE, "elementwise"),
        ("aten::sum", MEAN, "reductions"),
        ("aten::native_dropout", POINTWISE, "dropout"),
        (
            "aten::nll_loss_forward",
            "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d",
            "loss",
        ),
        ("aten::fill_", POINTWISE, "fills"),
        # Names of engines' kernels, in replays and in operators of their own.
        ("_C::rotary_embedding", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "rotary embedding"),
        ("vllm::moe_forward", "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256", "experts (MoE)"),
        # FBGEMM's name does not make each of its kernels a product.
        ("fbgemm::permute_sparse_features", "void fbgemm_gpu::permute_lengths_kernel<long>", "embedding"),
        (
            "sgl::silu_and_mul",
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16EEEEvPS3_PS4_i",
            "activations",
        ),
        ("decode", "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePass", "RMS norm"),
        (
            "_C::static_scaled_fp8_quant",
            "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>(int)",
            "quantization",
        ),
        # Products of several matrices, each with rows of its own.
        (
            "aten::_grouped_mm",
            "cutlass::device_kernel<GemmUniversal<GroupProblemShape<cute::tuple<int, int, int>>>>",
            "experts (MoE)",
        ),
        ("aten::gelu", POINTWISE, "activations"),
        ("aten::threshold_backward", POINTWISE, "activations"),
        ("aten::sigmoid", POINTWISE, "elementwise"),
        # An addition that casts what it reads is no copy.
        (
            "aten::add_",
            "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, LoadWithCast<2>>",
            "elementwise",
        ),
        # What Inductor fused, by its operators; and one of before torch 2.2, by the operator around it.
        ("", "triton_per_fused_add_native_layer_norm_4", "layer norm"),
        ("", "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3", "RMS norm"),
        ("", "triton_poi_fused_add_cat_mul_neg_7", "rotary embedding"),
        ("", "triton_poi_fused__unsafe_view_mul_silu_2", "activations"),
        ("", "triton_per_fused__softmax_add_1", "softmax"),
        ("", "triton_poi_fused_add_mul_5", "elementwise"),
        ("", "triton_red_fused_abs_amax_6", "reductions"),
        ("", "triton_poi_fused__to_copy_view_8", "casts"),
        ("", "triton_poi_fused_clone_9", "copies"),
        ("", "triton_poi_fused_cat_clone_2", "concatenation"),
        ("", "triton_poi_fused_add_cat_2", "elementwise"),
        ("", "triton_poi_fused__to_copy_div_empty_like_zeros_20", "elementwise"),
        ("triton_poi_fused_add_gelu_0", "triton__0d1d2d3de", "activations"),
        ("CompiledFunction", "triton__0d1d2d3de", "Triton kernels"),
        # Of accelerators whose kernels have names of their own.
        ("aten::mm", "fc-dtype_Float", "matrix products"),
    ],
)
def test_family_of_a_kernel(op: str, kernel: str, expected: str, tmp_path: Path) -> None:
    assert family(tmp_path, op, kernel) == expected


@pytest.mark.parametrize(
    ("dtypes", "kernel", "expected"),
    [
        (["float", "c10::BFloat16"], COPY, "casts"),
        (["float", "float"], COPY, "copies"),
        # Without types the kernel's name says it.
        (
            ["", ""],
            "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::T&)>",
            "casts",
        ),
        (["", ""], COPY, "copies"),
    ],
)
def test_a_copy_that_changes_the_type_is_a_cast(dtypes: list[str], kernel: str, expected: str, tmp_path: Path) -> None:
    assert family(tmp_path, "aten::copy_", kernel, dtypes) == expected


@pytest.mark.parametrize(
    ("outer", "op", "kernel", "expected"),
    [
        # Under autocast a norm computes in fp32, and casts what it takes and gives: these go with other casts.
        ("aten::layer_norm", "aten::copy_", COPY, "casts"),
        ("aten::linear", "aten::copy_", COPY, "casts"),
        ("aten::relu", "aten::clamp_min", POINTWISE, "activations"),
        ("aten::clamp", "aten::clamp_min", POINTWISE, "elementwise"),
    ],
)
def test_an_operator_around_another_tells(outer: str, op: str, kernel: str, expected: str, tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    with b.op(outer), b.op(op, shapes=[[8, 8], [8, 8]], dtypes=["float", "c10::BFloat16"]):
        b.kernel(kernel, us=10)
    assert families(b, tmp_path) == [expected]


def test_modules_and_functions_tell_what_is_computed_in_steps(tmp_path: Path) -> None:
    """An RMS norm of another order, an activation in steps, a rotation, and products of experts, but not those of their router."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    with b.module("LlamaRMSNorm_0"):
        called(b, "square", "mean", "div")
    with b.module("NewGELUActivation_0"):
        called(b, "mul", "tanh")
    with b.python("modeling_llama.py(150): apply_rotary_pos_emb"):
        called(b, "mul", "add")
    with b.module("MixtralSparseMoeBlock_0"):
        for name in ("Linear_0", "SwitchRouter_0", "MixtralBlockSparseTop2MLP_0"):
            with b.module(name), b.op("aten::mm"):
                b.kernel(GEMM, us=10)
    called(b, "mul")
    assert families(b, tmp_path) == [
        *["RMS norm"] * 3, *["activations"] * 2, *["rotary embedding"] * 2, *["matrix products"] * 2, "experts (MoE)",
        "elementwise",
    ]  # fmt: skip


def families(b: TraceBuilder, folder: Path) -> list[str]:
    kernels = trace.read(str(b.write(folder / "t.json"))).kernels
    return list(kernels.sort_values("start_ns")["family"].astype(str))


def called(b: TraceBuilder, *ops: str) -> None:
    for op in ops:
        with b.op(f"aten::{op}"):
            b.kernel(COPY if op == "copy_" else MEAN if op == "mean" else POINTWISE, us=10)


def test_normalization_and_rotation_by_hand(tmp_path: Path) -> None:
    """LlamaRMSNorm with its casts is 8 kernels, q * cos + rotate_half(q) * sin 5; a mul before and an add behind are neither."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    called(b, "mul", "copy_", "pow", "mean", "add", "rsqrt", "mul", "copy_", "mul", "add")
    called(b, "mul", "neg", "cat", "mul", "add", "silu")
    assert families(b, tmp_path) == [
        "elementwise", *["RMS norm"] * 8, "elementwise", *["rotary embedding"] * 5, "activations",
    ]  # fmt: skip


def test_the_optimizer_is_one_family_whatever_it_computes(tmp_path: Path) -> None:
    """Shampoo's products are the optimizer's, the same product outside its step is none."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for name in ("Optimizer.step#Shampoo.step", "## other ##"):
        with b.annotation(name), b.op("aten::mm"):
            b.kernel(GEMM, us=10)
    assert families(b, tmp_path) == ["optimizer", "matrix products"]


def test_what_the_kernels_of_a_step_are_made_of(tmp_path: Path) -> None:
    """Two steps of 10 ms: 4 of products, 2 of softmax, and 1 of additions beside the products on another stream."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for _ in range(2):
        with b.step():
            with b.op("aten::mm"):
                product = b.kernel(GEMM, ms=4)
            with b.op("aten::add"):
                b.kernel(POINTWISE, ms=1, stream=9)
            with b.op("aten::_softmax"):
                b.kernel("void cunn_SoftMaxForward<8, float, float, float>", ms=2, after=(product,))
            b.sync()
            b.idle(ms=4)
    summary = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary
    # The addition lies wholly beside the product, which started before it: it owns nothing.
    assert [(part.family, round(part.ms, 2), round(part.share, 3)) for part in summary.kernel_time] == [
        ("matrix products", 4.0, 0.667),
        ("softmax", 2.0, 0.333),
    ]
    assert sum(part.ms for part in summary.kernel_time) == pytest.approx(
        summary.steady_causes["compute"] * summary.whole_ms
    )


def test_the_kernels_time_is_of_a_step_in_the_mean(tmp_path: Path) -> None:
    """Steps of 10 ms with products of 4, and one of 13 with 7: 23 over five, where the median step has 4."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0)
    for number in range(5):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, ms=7 if number == 3 else 4)
            b.sync()
            b.idle(ms=6)
    summary = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json")))).summary
    assert [(part.family, round(part.ms, 2)) for part in summary.kernel_time] == [("matrix products", 4.6)]
    assert summary.steady_ms == pytest.approx(10.0, abs=0.1)
    assert summary.steady_mean_ms == pytest.approx(10.6, abs=0.1)


def test_sums_of_gradients_are_named_by_what_makes_them(tmp_path: Path) -> None:
    """The engine adds to a .grad that is there, and sums what comes from several uses of a tensor; an add of a node is its own."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    engine = "autograd::engine::evaluate_function: "
    store = "torch::autograd::AccumulateGrad"
    with b.op(f"{engine}MulBackward0", seq=1, fwd_thread=1):
        with b.op("MulBackward0", seq=1, fwd_thread=1), b.op("aten::add"):
            b.kernel(POINTWISE, us=10)
        with b.op("aten::add_"):
            b.kernel(POINTWISE, us=10)
    with b.op(f"{engine}{store}"), b.op(store):
        with b.op("aten::add_"):
            b.kernel(POINTWISE, us=10)
        with b.op("Optimizer.step#SGD.step"), b.op("aten::add_"):
            b.kernel(POINTWISE, us=10)
    with b.op("aten::add_"):
        b.kernel(POINTWISE, us=10)
    found = list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["family"])
    assert found[:3] == ["elementwise", "gradient sums", "adding to .grad"]
    assert not {"gradient sums", "adding to .grad"} & set(found[3:])


def test_few_sums_of_gradients_are_elementwise(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    store = "torch::autograd::AccumulateGrad"
    with b.op("aten::mm"):
        b.kernel(GEMM, us=200)
    with b.op(f"autograd::engine::evaluate_function: {store}"), b.op(store), b.op("aten::add_"):
        b.kernel(POINTWISE, us=10)
    assert list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["family"]) == ["matrix products", "elementwise"]
