"""The layers of a ResNet-18, and what their kernels are called on a V100."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PARAMETERS = 11_689_512
IMAGE = (3, 224, 224)
PIXELS = 3 * 224 * 224


@dataclass(frozen=True)
class Layer:
    """A layer of the network, or the bounds of a block ("block", "end")."""

    kind: str
    index: int = 0
    inputs: int = 0
    channels: int = 0
    window: int = 0
    size: int = 0  # of the output, in pixels
    last: str = ""  # of a norm: what follows it before the next convolution


def network() -> Iterator[Layer]:
    """ResNet-18 as torchvision builds and calls it."""
    conv = norm = 0
    yield Layer("conv", 0, 3, 64, 7, 112)
    yield Layer("norm", 0, 64, 64, 0, 112, "relu")
    yield Layer("relu", 0, 64, 64, 0, 112)
    yield Layer("pool", 0, 64, 64, 3, 56)
    before = 64
    for block in range(8):
        channels, size = 64 << block // 2, 56 >> block // 2
        yield Layer("block", block, before, channels, 0, size)
        for half in range(2):
            conv, norm = conv + 1, norm + 1
            yield Layer("conv", conv, before if half == 0 else channels, channels, 3, size)
            yield Layer("norm", norm, channels, channels, 0, size, "add_relu" if half else "relu")
            if half == 0:
                yield Layer("relu", block + 1, channels, channels, 0, size)
        if before != channels:
            conv, norm = conv + 1, norm + 1
            yield Layer("conv", conv, before, channels, 1, size)
            yield Layer("norm", norm, channels, channels, 0, size)
        yield Layer("add", block, channels, channels, 0, size)
        yield Layer("relu", block + 1, channels, channels, 0, size)
        yield Layer("end", block, before, channels, 0, size)
        before = channels
    yield Layer("mean", 0, 512, 512, 7, 1)
    yield Layer("linear", 0, 512, 1000, 1, 1)


def parameters(layer: Layer) -> list[int]:
    """Sizes of a layer's parameter tensors."""
    if layer.kind == "conv":
        return [layer.inputs * layer.channels * layer.window**2]
    if layer.kind == "norm":
        return [layer.channels, layer.channels]
    return [layer.inputs * layer.channels, layer.channels] if layer.kind == "linear" else []


# Names of the Tensor Core kernels by pass, then those of fp32; the first layer of a half-precision model has three input
# channels, too few for Tensor Cores, and runs on the latter's kind.
TENSOR = {
    "forward": "volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1",
    "dgrad": "volta_fp16_s884cudnn_fp16_128x128_ldg8_dgrad_f2f_exp_interior_nhwc2nchw_tt_v1",
    "wgrad": "volta_fp16_s884cudnn_fp16_128x128_ldg8_wgrad_idx_exp_interior_nhwc_nt_v1",
}
TRANSPOSE = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)2>(int)"
_FORWARD = {
    1: "volta_scudnn_128x128_relu_medium_nn_v1",
    3: "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
    7: "volta_scudnn_128x64_relu_xregs_large_nn_v1",
}
SOFTMAX = "void (anonymous namespace)::softmax_warp_{}<float, float, float, 10, true, false>(float*)"
LOSS = "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)"
_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{{lambda()#2}}::operator()() const::{{lambda({})#1}}"
)
_LISTS = "at::native::(anonymous namespace)::TensorListMetadata<2>"


def plain_convolution(layer: Layer, pass_: str, *, half: bool) -> str:
    """A convolution without Tensor Cores."""
    real = "__half" if half else "float"
    if pass_ == "forward":
        half_name = (
            "void implicit_convolve_sgemm<__half, __half, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int)"
        )
        return half_name if half else _FORWARD[layer.window]
    if pass_ == "dgrad":
        return f"void cudnn::detail::dgrad_engine<{real}, 512, 6, 5, 3, 3, 3, false>(int, int, int)"
    return f"void wgrad_alg0_engine<{real}, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int)"


def pointwise(functor: str, arrays: int) -> str:
    """PyTorch's kernel that applies a functor to every element."""
    array = f"at::detail::Array<char*, {arrays}>"
    return f"void at::native::vectorized_elementwise_kernel<4, {functor}, {array} >(int, {functor}, {array})"


def binary(kind: str, operation: str) -> str:
    """The functor of an operation on a tensor and a scalar."""
    return f"at::native::BUnaryFunctor<{kind}, {kind}, {kind}, at::native::binary_internal::{operation}<float> >"


def copy_to(kind: str) -> str:
    """The functor that turns one number format into another."""
    return _COPY.format(kind)


def foreach(functor: str) -> str:
    """PyTorch's kernel over lists of tensors."""
    full = f"{functor}<float, 2, 2, 0>"
    return f"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<{_LISTS}, {full} >({_LISTS}, {full})"
