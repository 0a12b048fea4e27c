"""Proof of kernels/normalization-chain: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

V100 = "Tesla V100-SXM2-32GB"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>>"
NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>(cudnnTensorStruct)"
BACK = "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(float, float)"
CONVOLUTION = "cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1"
X, CHANNELS = [32, 256, 56, 56], [256]
Call = tuple[str, str, list[list[int]], float]
CONV: Call = ("aten::cudnn_convolution", CONVOLUTION, [X, [256, 256, 3, 3]], 600)
COUNT: Call = ("aten::add_", POINTWISE.format("CUDAFunctorOnSelf_add").replace("float", "long"), [[], []], 2)
BN: Call = ("aten::cudnn_batch_norm", NORM, [X, CHANNELS, CHANNELS], 100)
RELU: Call = ("aten::clamp_min_", POINTWISE.format("launch_clamp_scalar"), [X, []], 50)
ADD: Call = ("aten::add_", POINTWISE.format("CUDAFunctor_add"), [X, X, []], 50)


def steps(*calls: Call, shapes: bool = True, device: str = V100) -> TraceBuilder:
    """Steps of these calls, with a kernel each."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            for op, kernel, dims, us in calls:
                known = {"shapes": dims, "dtypes": ["float"] * len(dims)} if shapes else {}
                with b.op(op, **known):
                    b.kernel(kernel, us=us)
            b.sync()
    return b


# Batch norm, the addition of the shortcut and ReLU: 100 + 50 + 50 us of each step of 800. The count of batches is none of it.
@fires(
    cost_ms=0.2,
    occurrences=12,
    severity="medium",
    fix="Compile the model, batch norms folded into the convolutions before them",
)
def a_batch_norm_with_addition_and_relu() -> TraceBuilder:
    return steps(CONV, COUNT, BN, ADD, RELU)


@fires(cost_ms=0.2, occurrences=12)
def without_shapes_too() -> TraceBuilder:
    return steps(CONV, COUNT, BN, ADD, RELU, shapes=False)


# Without a host: 150 of 750 us, four times over.
@fires(cost_share=0.2, occurrences=8)
def on_a_gpu_recorded_alone() -> TraceBuilder:
    b = TraceBuilder("AMD Instinct MI210")
    at = 0
    for _ in range(4):
        for name, us in (
            ("igemm_fwd_gtcx2_nhwc_bf16", 600),
            ("void at::native::batch_norm_transform_input_kernel<c10::BFloat16, c10::BFloat16, float, true, int>", 100),
            (POINTWISE.format("launch_clamp_scalar"), 50),
        ):
            b.kernel(name, us=us, launched=False, at_us=at)
            at += us
    return b


@quiet
def a_batch_norm_between_two_convolutions() -> TraceBuilder:
    return steps(CONV, COUNT, BN, CONV)


# What follows takes a tensor of another size.
@quiet
def a_neighbour_that_reads_something_else() -> TraceBuilder:
    return steps(CONV, ("aten::native_layer_norm", NORM, [[64, 512], [512], [512]], 100), RELU)


@quiet
def a_library_s_fused_normalization() -> TraceBuilder:
    return steps(
        CONV, ("FusedLayerNormAffineFunction", "void cuApplyLayerNorm<float, float, float>(float*)", [X], 100), RELU
    )


@quiet
def the_same_compiled() -> TraceBuilder:
    return steps(
        CONV, ("triton_per_fused_native_batch_norm_relu_0", "triton_per_fused_native_batch_norm_relu_0", [X], 120)
    )


# Pointwise work in chains of three is kernels/elementwise-chain's, and the norm's own 20 us of 1 ms return too little.
@quiet
def a_chain_of_pointwise_kernels_behind_it() -> TraceBuilder:
    tail: list[Call] = [(op, POINTWISE.format("F"), [X], 60) for op in ("aten::mul", "aten::gelu", "aten::sigmoid")]
    return steps(CONV, CONV, (*BN[:3], 20), *tail)


# ReLU and its batch norm in a backward pass return half of what they do in a forward pass: the edge lies at twice as much.
@quiet
def as_much_in_the_backward_pass() -> TraceBuilder:
    return backward(25)


@fires(
    cost_ms=0.12,
    severity="low",
    fix="Compile the model, so that normalizations fuse with their neighbours",
)
def twice_as_much_in_the_backward_pass() -> TraceBuilder:
    return backward(60)


def backward(us: float) -> TraceBuilder:
    """Steps whose backward pass has a ReLU and a batch norm of *us* each, beside 900 us of convolution."""
    b = TraceBuilder(V100)
    for _ in range(4):
        with b.step():
            with b.op("aten::conv2d"), b.op("aten::cudnn_convolution"):
                b.kernel(CONVOLUTION, us=900)
            with b.thread(4001), b.backward("CudnnBatchNormBackward0", seq=1):
                for op, name in (
                    ("aten::threshold_backward", POINTWISE.format("threshold_kernel_impl")),
                    ("aten::cudnn_batch_norm_backward", BACK),
                ):
                    with b.op(op):
                        b.kernel(name, us=us)
            b.sync()
    return b


# 32.5 % of 4.62 % are 1.5 %: 2 of 21 us beside 870 us and the launches, or of 19.
@edge
def four_and_a_half_percent_of_the_step(over: bool) -> TraceBuilder:
    us = 24 if over else 18
    return steps((*CONV[:3], 900), (*BN[:3], us), (*RELU[:3], us))


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::cudnn_batch_norm", device=V100)
