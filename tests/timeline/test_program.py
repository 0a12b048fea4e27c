"""What a program is: each fact on two built traces of differing dialect, and on one that does not show it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.hardware import abilities
from advisor.testing import TraceBuilder
from advisor.timeline.program import Program
from advisor.trace import read

V100, A100, MI300 = "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X"
Facts = Callable[[TraceBuilder], Program]


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return lambda builder: read(str(builder.write(tmp_path / "trace.json"))).program


def trace(
    *ops: str,
    device: str | None = A100,
    annotations: tuple[str, ...] = (),
    python: tuple[str, ...] = (),
    kernels: tuple[tuple[str, float], ...] = (),
    dialect: str = "kineto",
    **options: object,
) -> TraceBuilder:
    """Operators one after the other, each with a product on the GPU; then annotations, Python frames and other kernels."""
    b = TraceBuilder(device, dialect=dialect, **options)  # type: ignore[arg-type]
    for name in ops:
        with b.op(name, us=20):
            if device and not name.startswith("Optimizer"):
                b.kernel("ampere_sgemm_128x64_nn", us=100)
    for name in annotations:
        with b.annotation(name, us=10):
            pass
    for name in python:
        with b.python(name, us=10):
            pass
    for name, us in kernels:
        b.kernel(name, us=us)
    return b


def forward(**named: object) -> TraceBuilder:
    return trace("aten::linear", "aten::addmm", **named)  # type: ignore[arg-type]


# ---- training or inference


@pytest.mark.parametrize(
    ("builder", "kind"),
    [
        (trace("aten::linear", "autograd::engine::evaluate_function: AddmmBackward0"), "training"),
        (trace("aten::linear", "AddmmBackward", dialect="2021"), "training"),
        (trace("CompiledFunction", "CompiledFunctionBackward"), "training"),  # compiled by AOTAutograd
        (forward(annotations=("Optimizer.step#SGD.step",)), "training"),
        (trace("aten::linear", "aten::_amp_update_scale_"), "training"),
        (forward(), "inference"),
        (trace("aten::conv2d", "aten::cudnn_convolution", dialect="2021"), "inference"),
        (trace("aten::copy_", "aten::empty"), "unknown"),
        (trace("aten::matmul", "aten::mm"), "unknown"),  # products may be anything
        (trace("aten::mm", "aten::relu"), "inference"),
        (trace("Torch-Compiled Region: 0/0"), "unknown"),  # a function of any sort
        (trace("Torch-Compiled Region: 0/0", "aten::mm"), "inference"),
        (trace("aten::mm", python=("nn.Module: Linear_0",)), "inference"),
    ],
    ids=[
        "autograd",
        "2021",
        "compiled",
        "optimizer",
        "scaler",
        "forward",
        "forward 2021",
        "copies",
        "products",
        "layers",
        "compiled alone",
        "compiled products",
        "modules",
    ],
)
def test_kind(builder: TraceBuilder, kind: str, facts: Facts) -> None:
    assert facts(builder).kind == kind


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("void batch_norm_backward_kernel<float>", "training"),
        ("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", "training"),
        ("ampere_sgemm_128x64_nn", "unknown"),  # a forward pass, or a slice of a training
        ("xmma_dgrad_implicit_gemm_f32f32", "unknown"),  # transposed convolutions run it forward
    ],
)
def test_kind_of_a_recording_of_the_gpu_alone(kernel: str, kind: str, facts: Facts) -> None:
    b = TraceBuilder(A100)
    b.kernel(kernel, us=100, launched=False)
    assert facts(b).kind == kind


def test_an_engine_infers_where_graphs_hide_its_operators(facts: Facts) -> None:
    b = TraceBuilder(MI300)
    with b.annotation("step[DECODE bs=32]"):
        b.kernel("Cijk_Ailk_Bljk_BBS_BH_MT64x64", us=100)
    found = facts(b)
    assert (found.kind, found.framework, found.engine) == ("inference", "sglang", True)


# ---- optimizer


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (forward(annotations=("Optimizer.step#AdamW.step",)), ("AdamW", "single", True, True)),
        (trace("Optimizer.step#SGD.step", "aten::_foreach_add_", dialect="2021"), ("SGD", "foreach", True, True)),
        (trace("aten::linear", "aten::_fused_adamw_"), ("AdamW", "fused", True, True)),
        (forward(annotations=("Optimizer.step#RMSprop.step",)), ("RMSprop", "single", False, True)),
        (forward(annotations=("Optimizer.step#FusedAdam.step",)), ("FusedAdam", "fused", None, None)),
        (
            forward(annotations=("Optimizer.step#Adam.step", "Optimizer.step#Lion.step")),
            ("Adam, Lion", "single", None, None),
        ),
        (
            forward(kernels=(("multi_tensor_apply_kernel<DepthFour, AdamFunctor<float>>", 50),)),
            ("FusedAdam", "fused", None, None),
        ),
        (forward(), (None, None, None, None)),
    ],
    ids=["AdamW", "SGD 2021", "fused operator", "RMSprop", "apex", "two", "apex kernel", "none"],
)
def test_optimizers(builder: TraceBuilder, expected: tuple[object, ...], facts: Facts) -> None:
    found = facts(builder)
    assert (found.optimizers, found.optimizer_form, found.fused_possible, found.foreach_possible) == expected


# ---- number formats


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ((("ampere_sgemm_128x64_nn", 60), ("ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn", 50)), "fp32"),
        ((("ampere_sgemm_128x64_nn", 60), ("ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn", 70)), "fp16"),
        ((("bmm_MxE4m3_MxE2m1_Fp32", 60), ("nvjet_tst_128x64_bf16", 50)), "fp4"),
        ((("vectorized_elementwise_kernel<4, c10::Half>", 900), ("Cijk_Ailk_Bljk_BBS_BH_MT64x64", 50)), "bf16"),
        ((("vectorized_elementwise_kernel<4, float>", 60),), None),  # no product
    ],
)
def test_precision_is_that_of_most_matrix_time(
    kernels: tuple[tuple[str, float], ...], expected: str | None, facts: Facts
) -> None:
    assert facts(trace(kernels=kernels)).precision == expected


def test_a_kernel_named_f16_on_bf16_operands_is_one_in_bf16(facts: Facts) -> None:
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    operands = [[2, 16, 1024, 64]] * 3
    with b.step(), b.op("aten::_cudnn_attention_forward", shapes=operands, dtypes=["c10::BFloat16"] * 3):
        b.kernel("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1", us=100)
    assert facts(b).precision == "bf16"


def test_precision_on_the_cpu_is_that_of_the_operands(facts: Facts) -> None:
    b = TraceBuilder(None)
    for dtype, us in (("double", 30), ("c10::BFloat16", 50), ("float", 40)):
        with b.op("aten::mm", shapes=[[8, 8], [8, 8]], dtypes=[dtype] * 2, us=us):
            pass
    assert facts(b).precision == "bf16"


def autocast(outer: str, conversion: str, inner: str) -> TraceBuilder:
    b = TraceBuilder(A100)
    with b.op(outer):
        with b.op(conversion, us=5):
            pass
        with b.op(inner):
            b.kernel("ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn", us=100)
    return b


@pytest.mark.parametrize(
    ("builder", "seen"),
    [
        (autocast("aten::linear", "aten::to", "aten::linear"), True),
        (autocast("aten::conv2d", "aten::_to_copy", "aten::conv2d"), True),
        (autocast("aten::linear", "aten::to", "aten::addmm"), False),  # a conversion by hand
        (autocast("aten::linear", "aten::t", "aten::linear"), False),
    ],
)
def test_autocast(builder: TraceBuilder, seen: bool, facts: Facts) -> None:
    assert facts(builder).autocast_seen == seen


@pytest.mark.parametrize("name", ["aten::_amp_foreach_non_finite_check_and_unscale_", "aten::_amp_update_scale_"])
def test_grad_scaler(name: str, facts: Facts) -> None:
    assert facts(trace("aten::linear", name)).grad_scaler
    assert not facts(forward()).grad_scaler


# ---- how the work is divided


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (forward(annotations=("DistributedDataParallel.forward",), world_size=4, rank=0), ("ddp",)),
        (trace("torch.distributed.ddp.reducer::copy_bucket_to_grad", "c10d::allreduce_"), ("ddp",)),
        (forward(annotations=("FSDP::all_gather",)), ("fsdp",)),
        (forward(annotations=("FullyShardedDataParallel.forward", "nccl:_all_gather_base")), ("fsdp",)),
        (trace("aten::linear", "_ReduceFromModelParallelRegion", "c10d::allreduce_"), ("tensor",)),
        (trace("All2All_Pooled_Req", "c10d::alltoall_base_"), ("embedding",)),
        (trace("aten::linear", "c10d::send", "c10d::recv_"), ("pipeline",)),
        (trace("Scatter", "Broadcast", "aten::linear", "Gather"), ("data-parallel",)),
        (trace("aten::linear", "c10d::allreduce_"), ("collectives",)),
        (forward(annotations=("gloo:all_reduce",)), ("collectives",)),
        (trace("aten::linear", "c10d::allreduce_", world_size=1, rank=0), ()),  # of one process
        (forward(), ()),
    ],
    ids=[
        "ddp",
        "reducer",
        "fsdp2",
        "fsdp1",
        "tensor",
        "embedding",
        "pipeline",
        "data-parallel",
        "by hand",
        "gloo",
        "one",
        "none",
    ],
)
def test_parallelism(builder: TraceBuilder, expected: tuple[str, ...], facts: Facts) -> None:
    assert facts(builder).parallelism == expected


def test_world_size(facts: Facts) -> None:
    assert facts(forward(rank=1, world_size=8)).world_size == 8
    assert facts(forward()).world_size is None


# ---- compiled or eager


def region(name: str, us: float, *, outside_us: float = 0, kernel: str = "ampere_sgemm_128x64_nn") -> TraceBuilder:
    b = TraceBuilder(A100)
    with b.op(name), b.op("aten::mm"):
        b.kernel(kernel, us=us)
    if outside_us:
        with b.op("aten::mm"):
            b.kernel("ampere_sgemm_128x64_nn", us=outside_us)
    return b


@pytest.mark.parametrize(
    ("builder", "compiler", "share"),
    [
        (region("Torch-Compiled Region: 0/0", 30, outside_us=70, kernel="triton_poi_fused_add_0"), "inductor", 0.3),
        (region("CompiledFunction", 40, kernel="triton__0d1d2d"), "inductor", 1.0),  # of torch 2.0
        (region("CompiledFunction", 60, outside_us=40), "aot", 0.6),  # nothing fused
        (region("Torch-Compiled Region", 50), "dynamo", 1.0),
        (region("prim::TensorExprGroup", 25, outside_us=75), "torchscript", 0.25),
        (region("tensorrt::execute_engine", 90, outside_us=10), "tensorrt", 0.9),
        (region("aten::linear", 50), None, 0.0),
        (region("triton_attention", 50, kernel="triton_attention_kernel"), None, 0.0),  # a kernel of one's own
    ],
    ids=["inductor", "inductor 2.0", "aot", "dynamo", "torchscript", "tensorrt", "eager", "own triton"],
)
def test_compiler(builder: TraceBuilder, compiler: str | None, share: float, facts: Facts) -> None:
    found = facts(builder)
    assert (found.compiler, found.compiled_share) == (compiler, pytest.approx(share))


def test_one_scripted_function_that_was_specialized_makes_no_scripted_program(facts: Facts) -> None:
    """It takes 150 and 140 ms once, and 15 us of some 4 ms later: 0.4 %."""
    b = TraceBuilder(A100, host_us=5, latency_us=0)
    for own in (150_000, 140_000, 5, 5, 5):
        with b.op("delta"):
            b.idle(us=own)
            with b.op("fused_neg_pow_1234567890123456789"):
                b.kernel("fused_neg_pow_1234567890123456789", us=10)
        for _ in range(40):
            with b.op("aten::mul", us=20):
                b.kernel("elementwise", us=10)
    assert (facts(b).compiler, facts(b).compiled_share) == (None, 0.0)


def test_compiled_share_on_the_cpu_is_of_operators_time(facts: Facts) -> None:
    b = TraceBuilder(None)
    with b.op("Torch-Compiled Region: 0/0"), b.op("graph_0_cpp_fused_add_0", us=75):
        pass
    with b.op("aten::mkldnn_linear", us=25):
        pass
    found = facts(b)
    assert (found.compiler, found.compiled_share) == ("inductor", pytest.approx(0.75))


# ---- framework and model


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (trace("vllm::unified_attention", "aten::linear"), ("vllm",)),
        (forward(annotations=("execute_context_1(888)_generation_0(0)",)), ("vllm",)),
        (
            forward(python=("vllm/v1/engine/core.py(200): step", "transformers/models/bert.py(1): f")),
            ("vllm", "transformers"),
        ),
        (forward(python=("/usr/lib/python3/dist-packages/sglang/srt/managers/scheduler.py(9): run",)), ("sglang",)),
        (trace("trtllm::attention", "aten::linear"), ("tensorrt-llm",)),
        # What another engine took over from it names it in kernels.
        (trace("vllm::moe", kernels=(("void tensorrt_llm::kernels::moe", 10),)), ("vllm",)),
        (forward(python=("diffusers/pipelines/flux/pipeline_flux.py(600): __call__",)), ("diffusers",)),
        (forward(python=(r"C:\\py\\Lib\\site-packages\\transformers\\trainer.py(2000): train",)), ("transformers",)),
        (forward(annotations=("[pl][profile]run_training_batch",)), ("lightning",)),
        (trace("fbgemm::split_embedding_codegen_lookup"), ("torchrec",)),
        (forward(annotations=("## sparse_data_dist ##",)), ("torchrec",)),
        (forward(python=("fairseq/trainer.py(700): train_step",)), ("fairseq",)),
        (forward(python=("train.py(54): transformers",)), ()),  # a function of one's own
        (forward(), ()),
    ],
)
def test_frameworks(builder: TraceBuilder, expected: tuple[str, ...], facts: Facts) -> None:
    found = facts(builder)
    assert (found.frameworks, found.framework) == (expected, expected[0] if expected else None)


def test_a_framework_in_stacks_that_were_recorded_apart(facts: Facts) -> None:
    """`advisor record` writes stacks onto the operators, not as events."""
    b = TraceBuilder()
    stack = "transformers/models/bert/modeling_bert.py(164): forward;train.py(9): train"
    with b.op("aten::linear", args={"Call stack": stack}):
        b.kernel("gemm", us=10)
    assert facts(b).framework == "transformers"


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("transformers/pipelines/zero_shot_object_detection.py(176): preprocess", (True, True)),
        (r"C:\py\site-packages\transformers\pipelines\question_answering.py(300): preprocess", (True, True)),
        ("transformers/pipelines/image_classification.py(120): preprocess", (True, False)),
        ("question_answering.py(300): preprocess", (False, False)),
    ],
)
def test_pipelines_that_cut_inputs_into_parts(file: str, found: tuple[bool, bool], facts: Facts) -> None:
    told = facts(forward(python=(file,)))
    assert (told.hf_pipeline, told.hf_chunks) == found


@pytest.mark.parametrize(
    ("file", "slow"),
    [
        ("transformers/image_transforms.py(390): normalize", True),
        ("transformers/models/videomae/image_processing_videomae.py(134): resize", True),
        ("transformers/models/vit/image_processing_vit_fast.py(50): resize", False),
        ("transformers/models/vit/modeling_vit.py(50): forward", False),
    ],
)
def test_slow_image_processors(file: str, slow: bool, facts: Facts) -> None:
    assert facts(forward(python=(file,))).slow_image_processor == slow


@pytest.mark.parametrize(
    ("frames", "own"),
    [
        (("transformers/models/owlv2/modeling_owlv2.py(410): forward",), True),
        (
            (
                "transformers/models/qwen2/modeling_qwen2.py(160): forward",
                "transformers/integrations/sdpa_attention.py(20): sdpa_attention_forward",
            ),
            False,
        ),
        (
            (
                "transformers/models/bert/modeling_bert.py(160): forward",
                "transformers/models/bert/modeling_bert.py(110): eager_attention_forward",
            ),
            False,
        ),
        (("model.py(10): forward",), False),
    ],
)
def test_attention_that_a_model_class_computes_itself(frames: tuple[str, ...], own: bool, facts: Facts) -> None:
    assert facts(forward(python=frames)).own_attention == own


def test_generation(facts: Facts) -> None:
    assert facts(forward(python=("transformers/generation/utils.py(2000): _sample",))).generates
    assert not facts(
        forward(python=("transformers/models/bert.py(20): forward", "my/generation/loop.py(3): f"))
    ).generates


@pytest.mark.parametrize(
    ("queries", "keys", "said"),
    [
        (1, (65, 66, 67, 68), True),  # a cache whose memory is there from the start
        (1, (65, 66, 67), False),
        (1, (65, 65, 65, 65), False),  # a learned query that pools
        (4, (65, 66, 67, 68), False),  # sentences of many lengths
    ],
)
def test_single_queries_against_keys_that_grow(queries: int, keys: tuple[int, ...], said: bool, facts: Facts) -> None:
    b = TraceBuilder(None)
    for length in keys:
        shapes = [[2, 4, queries, 16], [2, 4, length, 16], [2, 4, length, 16]]
        with b.op("aten::scaled_dot_product_attention", us=10, shapes=shapes):
            pass
    assert facts(b).generates == said


@pytest.mark.parametrize(
    ("ops", "model"),
    [
        (("aten::embedding", "aten::linear", "aten::scaled_dot_product_attention"), "language"),
        (("aten::embedding", "aten::bmm", "aten::_softmax"), "language"),
        (("aten::conv2d", "aten::linear"), "vision"),
        (("aten::embedding_bag", "aten::linear", "aten::_softmax"), "recommender"),
        (("aten::embedding", "aten::_softmax", "aten::conv2d"), None),  # both text and images
        (("aten::linear", "aten::relu"), None),
    ],
)
def test_model(ops: tuple[str, ...], model: str | None, facts: Facts) -> None:
    assert facts(trace(*ops)).model == model


# ---- devices


@pytest.mark.parametrize(
    ("vendor", "name", "capability", "proven", "expected"),
    [
        ("nvidia", V100, 7.0, None, (False, False, False, True)),
        ("nvidia", A100, 8.0, None, (True, True, False, True)),
        ("nvidia", "NVIDIA H100", 9.0, None, (True, True, True, True)),
        ("nvidia", "Tesla P100", 6.0, None, (False, False, False, False)),
        ("nvidia", None, None, 8.0, (True, True, None, True)),  # at the least
        ("nvidia", None, None, 7.0, (None, None, None, True)),
        ("amd", MI300, None, None, (True, None, True, True)),
        ("amd", "AMD Instinct MI210", None, None, (True, None, False, True)),
        ("amd", "AMD Radeon Graphics", None, None, (None, None, None, True)),
        ("intel", "Intel Arc", None, None, (None, None, None, None)),
    ],
)  # fmt: skip
def test_abilities(
    vendor: str, name: str | None, capability: float | None, proven: float | None, expected: tuple[object, ...]
) -> None:
    assert abilities(vendor, name, capability, proven) == expected


@pytest.mark.parametrize(
    ("kernel", "runs"),
    [
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE", True),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256E", True),
        ("void aiter::paged_attention_kernel", True),
        # Composable Kernel's attention is in torch and flash-attn too.
        ("_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelE", False),
        ("kernel_raiter", False),
    ],
)
def test_aiter(kernel: str, runs: bool, facts: Facts) -> None:
    assert facts(forward(device=MI300, kernels=((kernel, 10.0),))).aiter == runs


def test_the_device_that_works(facts: Facts) -> None:
    found = facts(forward(device=V100))
    assert (found.device_name, found.vendor, found.capability, found.bf16) == (V100, "nvidia", 7.0, False)
    found = facts(forward(device=MI300))
    assert (found.device_name, found.vendor, found.capability, found.bf16) == (MI300, "amd", None, True)
    # A container without the host's list of names: units and memory say which it is, and so what it can do.
    found = facts(forward(device="AMD Radeon Graphics", sms=304, memory_bytes=206_141_652_992))
    assert (found.device_name, found.vendor, found.bf16, found.fp8) == (MI300, "amd", True, True)
    found = facts(trace("aten::mkldnn_convolution", device=None))
    assert (found.device_name, found.vendor, found.capability) == (None, "cpu", None)


def on_cpu(op: str, us: float, *, device: str | None = A100, kernel_us: float = 0) -> TraceBuilder:
    """A model of one operator of *us* in 100, beside a GPU that works for *kernel_us* in another."""
    b = TraceBuilder(device)
    with b.op(op, us=us):
        pass
    if kernel_us:
        with b.op("aten::copy_"):
            b.kernel("direct_copy_kernel", us=kernel_us)
    b.idle(us=100 - us)
    with b.op("aten::empty"):
        pass
    return b


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (on_cpu("aten::mkldnn_convolution", 80), True),
        (on_cpu("aten::mkldnn_convolution", 80, device=MI300), True),
        (on_cpu("aten::addmm", 80, kernel_us=2), True),  # a copy of something runs on the GPU
        (on_cpu("aten::mkldnn_convolution", 20), False),  # a fifth of the time
        (on_cpu("aten::mkldnn_convolution", 80, device=None), False),  # no GPU to use
        (forward(), False),  # its operators launch kernels
    ],
)
def test_model_on_cpu(builder: TraceBuilder, expected: bool, facts: Facts) -> None:
    assert facts(builder).model_on_cpu == expected


# ---- training mode without a backward pass


def batch_norm(*, counts: bool, dtype: str = "long int", kernel: str = "bn_fw_inf_1C11_kernel_NCHW") -> TraceBuilder:
    b = TraceBuilder(A100)
    with b.op("aten::conv2d"):
        b.kernel("ampere_sgemm_128x64_nn", us=100)
    if counts:
        with b.op("aten::add_", shapes=[[], []], dtypes=[dtype, "Scalar"], us=5):
            pass
    with b.op("aten::batch_norm"), b.op("aten::_batch_norm_impl_index"), b.op("aten::cudnn_batch_norm"):
        b.kernel(kernel, us=20)
    return b


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (batch_norm(counts=True), True),
        (batch_norm(counts=True, dtype="float"), False),  # a residual, added in place
        (batch_norm(counts=False, kernel="bn_fw_tr_1C11_singleread"), True),
        (batch_norm(counts=False, kernel="MIOpenBatchNormFwdTrainSpatial"), True),
        (batch_norm(counts=False), False),
    ],
)
def test_batch_norms_in_training_mode(builder: TraceBuilder, expected: bool, facts: Facts) -> None:
    assert facts(builder).train_mode == expected


@pytest.mark.parametrize(
    ("outer", "inner", "backward", "expected"),
    [
        ("aten::dropout", "aten::native_dropout", False, True),
        ("aten::dropout", "aten::bernoulli_", False, True),  # on the CPU, and in torch of 2021
        ("aten::feature_dropout", "aten::bernoulli_", False, True),
        ("aten::dropout", "", False, False),  # evaluation hands its input on
        ("aten::dropout", "aten::native_dropout", True, False),  # training
    ],
)
def test_dropout_in_training_mode(outer: str, inner: str, backward: bool, expected: bool, facts: Facts) -> None:
    b = trace("aten::linear", *(["AddmmBackward0"] if backward else []))
    with b.op(outer):
        if inner:
            with b.op(inner), b.op("aten::empty_like", us=5):
                pass
    assert facts(b).train_mode == expected
