"""Facts that a kernel's name proves: its class, its number format, Tensor Cores, the alignment it was built for.

Names are from cuBLAS, cuDNN, CUTLASS, PyTorch, Triton, rocBLAS/Tensile and MIOpen, 2018 to 2026. What a name does not
prove stays unknown (None).
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from advisor.regex import regex
from advisor.timeline.communication_names import communicates

_CLASSES = (
    ("attention", r"fmha|flash_(?:fwd|bwd|attn)|flash::|attn_fwd|attn_bwd|attention(?!.*softmax)|\bmha_|sdpa"),
    ("embedding", r"embedding|indexSelect|index_select|pooled_embs|bounds_check_indices|permute_indices"),
    ("optimizer", r"multi_tensor_apply|fused_adam|adam_|AdamFunctor|SGDFunctor|fused_sgd|\blamb\b|adagrad"),
    ("layout", r"nchwToNhwc|nhwcToNchw|[fF]olded[nN]hwc|batched_transpose|tensorTransform|transpose_(?:NC|NH|CN)[CHW]{2}"
               r"|transpose_packed_|tensor_reorder|cudnn::.*[tT]ranspose"),
    ("normalization", r"batch_?norm|\bbn_(?:fw|bw)|layer_?norm|LayerNorm|group_?norm|rms_?norm|RowwiseMoments|GammaBeta"
                      r"|GroupNorm|MIOpenBatchNorm"),
    ("softmax", r"[sS]oft_?[mM]ax"),
    ("pooling", r"pool(?:ing)?(?![a-z])|pool_"),
    ("conv", r"scudnn|[hsi]\d{3,6}cudnn|fprop|dgrad|wgrad|conv(?!ert)|winograd|fft2d_|fft1d_|im2col|col2im|flip_filter"
             r"|scalePackedTensor|pointwise_mult_and_sum_complex|computeOffsets|gcgemm|implicit_gemm|igemm_|miopen|Igemm"
             r"|volta_cgemm|kern_precompute_indices"),
    # CUTLASS's number formats stand in kernels of every class.
    ("gemm", r"(?<!fb)[gG]emm|GEMM|gemv|cutlass(?!::(?:\w*float|half|u?int|Array|complex))|xmma|nvjet|Cijk_|matmul|splitK"
             r"|dot_kernel|cublas|mm_kernel|_mm_|wgmma|\b[bB]mm_|fused_moe_kernel|mfma_moe|[mM]arlin"),
    ("sort", r"[sS]ort|Radix|topk|TopK|unique|[Ss]can(?:Kernel|_kernel|ByKey|InitKernel)|DeviceScan"),
    ("random", r"distribution_|philox|curand|fused_dropout|masked_scale|random_from_to|uniform_|bernoulli"),
    ("copy", r"direct_copy_kernel|CatArrayBatchedCopy|copy_kernel|copyBuffer|LoadWithCast|StoreWithCast|bfloat16_copy"
             r"|float_copy|half_copy"),
    ("reduction", r"reduce_kernel|DeviceReduce|[rR]eduction|argmax|argmin|reduce_1Block|_norm_|nll_loss|cross_entropy"
                  r"|triton_red|triton_per"),
    ("elementwise", r"elementwise|[pP]ointwise|FillFunctor|triton_poi|index_kernel|gather|scatter|fill_kernel|where_kernel"
                    r"|masked_fill"),
)  # fmt: skip
# A replay that the profiler recorded as one piece of work (reading/nsys.py): anything may run in it.
_WHOLE_GRAPH = regex(r"^CUDA graph(?: \d+)?$")
_COMPILED = [(name, regex(pattern)) for name, pattern in _CLASSES]

_TENSOR = regex(
    r"tensorop|hmma|imma_|wgmma|nvjet|[hsi](?:884|1688|8816|8832|16816|16832|16864|161616)(?:gemm|cudnn|fprop|dgrad|wgrad|_)"
    r"|xmma_(?:gemm|fprop|dgrad|wgrad|new).*(?:bf16|f16f16|tf32|e4m3|e5m2|i8i8)|fmha|flash_(?:fwd|bwd)|flash::|884cudnn|1688cudnn"
    r"|\b[bB]mm_[A-Z]\w+_Fp32|cutlass3x_sm(?:90|100|103|120)_(?:bs)?tensorop|_mma_|mma_kernel|16816|sm(?:90|100)_.*wgmma",
)
_SIMT = regex(
    r"(?<![0-9a-z])sgemm|_sgemm|(?<![hsi]884)scudnn|simt|(?<![0-9])[cz]gemm|gcgemm|_convolve_sgemm|winograd"
    r"|dgrad(?:2d)?(?:_\w+)?_engine<float|engine<float"
    r"|wgrad_alg\d_engine|dgrad_alg\d_engine|dgrad2d_alg|fft[12]d_|gemv|gemmSN|gemmk1|dot_kernel|im2col|flip_filter"
    r"|scalePackedTensor"
    r"|xmma_(?:gemm|fprop|dgrad|wgrad).*_f32f32_f32|pointwise_mult_and_sum_complex|reduce_wgrad|splitKreduce|computeOffsets"
    r"|kern_precompute",
)
_BF16 = regex(r"bf16|bfloat16|BFloat16|Bfloat16|Cijk\w*_BB[SH]|Cijk\w*_B[BS]_")
# ue4m3 and ue8m0 are formats of scales.
_FP8 = regex(r"(?<![uU])[eE]4[mM]3|[eE]5[mM]2|(?<!mx)fp8|mxfp8|[fF]loat8|Cijk\w*_F8")
_FP4 = regex(r"[eE]2[mM]1|fp4|Fp4|xf4(?!\d)|\bf4gemm")
_FP16 = regex(
    r"(?<![bt])f16|fp16|__half|c10::Half|half_t|(?<![a-z])h(?:884|1688|16816)|[_\b]half\b|hgemm|Cijk\w*_H(?:H|_)|Fp16"
)
_TF32 = regex(r"tf32|tensorop_s1688|tensorop_s16816(?!gemm_[bf])|s1688(?:gemm|fprop|dgrad|wgrad)(?!_[bf]p?16)")
_FP64 = regex(r"double|dgemm|d884|Cijk\w*_DB")
_INT8 = regex(r"i8i8|i8816|i16832|imma|s8_|int8")
_FP32 = regex(r"float(?!8)|sgemm|scudnn|f32|Cijk\w*_SB?_|fp32")
# Memory-efficient attention on fp32 operands: from Ampere on its products are those of TF32's Tensor Cores.
_EFFICIENT_FP32 = regex(r"fmha_cutlass[FB]_f32_\w*sm(\d+)")
_AMPERE = 80
# cuBLAS's kernels of this name spell operands, products and results with one letter each, the operands first.
_NVJET = regex(r"nvjet_(?:sm\d+_)?([thqros])[a-z]{2,4}_")
_NVJET_OPERANDS = {"t": "bf16", "h": "fp16", "q": "fp8", "r": "fp8", "o": "fp4", "s": "tf32"}
# TensorRT-LLM's name the result, both operands, and what products add up in: bmm_Bfloat16_MxE2m1MxE4m3_Fp32. Triton's for
# experts name the result and both operands: matmul_ogs_NNT_bf16xbf16xmxfp4_16x128.
_OPERANDS = regex(r"\b[bB]mm_[A-Za-z0-9]+_([A-Za-z0-9]+)_Fp32|_matmul_ogs_[A-Z]+_\w+?x(\w+?x\w+?)_\d")
_FORMATS = {"fp64": _FP64, "bf16": _BF16, "fp16": _FP16, "fp8": _FP8, "fp4": _FP4, "int8": _INT8}
# A product runs at the rate of its wider operand. In names that do not set operands apart, the wide format is the result's.
_WIDEST = ("fp64", "bf16", "fp16", "fp8", "fp4", "int8")
_NARROWEST = ("fp8", "fp4", "int8", "bf16", "fp16", "fp64")
EXPERTS = regex(
    r"\bmoe|_moe|moe_|expert|_matmul_ogs|_matmul_scatter|combined_routing|bmm_(?:MxE|\w+_MxE)", re.IGNORECASE
)
"""Names of kernels and operators of a mixture of experts, as engines and their libraries call them."""
_ALIGN = regex(r"align(\d{1,2})")
# Names say all that they say at their head; a hostile one must not cost the square of its length.
MOST = 4000


_BUILT_FOR = regex(r"\b(?:cudnn_\w+?_)?(volta|turing|ampere)_|\bsm(\d)(\d)_|cutlass_(\d)(\d)_")
_ARCHITECTURES = {"volta": 7.0, "turing": 7.5, "ampere": 8.0}


def least_capability(name: str) -> float:
    """The compute capability that a kernel's name proves at the least; 0 where it proves none.

    A kernel built for an architecture runs on later ones too.
    """
    match = _BUILT_FOR.search(name[:MOST])
    if not match:
        return 0.0
    if match[1]:
        return _ARCHITECTURES[match[1]]
    major, minor = (match[2], match[3]) if match[2] else (match[4], match[5])
    return int(major) + int(minor) / 10


class KernelName(Struct, frozen=True):
    """Facts read from a name."""

    kind: str
    tensor_cores: bool | None
    dtype: str | None
    alignment: int | None
    pointwise: bool
    matrix: bool


@lru_cache(maxsize=16384)
def classify(name: str, vendor: str) -> KernelName:
    """Read a kernel's name. Tensor Cores are judged for NVIDIA alone: other makers' matrix units go by no such names."""
    name = name[:MOST]
    # Kernels that scatter add to what others add to, too: no compiler makes them part of a pointwise kernel.
    pointwise = ("elementwise" in name and "scatter" not in name) or name.startswith("triton_poi_")
    if _WHOLE_GRAPH.match(name):
        return KernelName("graph", None, None, None, False, False)
    if communicates(name):
        return KernelName("communication", None, None, None, False, False)
    kind = next((label for label, pattern in _COMPILED if pattern.search(name)), "other")
    if pointwise and kind not in ("copy", "random"):
        kind = "elementwise"
    if name.startswith("triton_") and kind not in ("gemm", "attention", "conv"):
        kind = "triton"
    matrix = kind in ("gemm", "conv", "attention")
    efficient = _EFFICIENT_FP32.search(name)
    tensor: bool | None = None
    if vendor == "nvidia":
        tensor = _on_tensor_cores(name) if matrix else False
        if efficient:
            tensor = int(efficient[1][:4]) >= _AMPERE
    dtype = ("tf32" if tensor else "fp32") if efficient else _dtype(name, tensor)
    alignments = _ALIGN.findall(name) if matrix else []
    return KernelName(kind, tensor, dtype, int(alignments[-1]) if alignments else None, pointwise, matrix)


def _on_tensor_cores(name: str) -> bool | None:
    """Tell whether a matrix kernel of NVIDIA's runs on Tensor Cores. No other unit multiplies numbers of 8 bits and fewer."""
    if _TENSOR.search(name):
        return True
    if _SIMT.search(name):
        return False
    return True if _FP8.search(name) or _FP4.search(name) else None


def _dtype(name: str, tensor: bool | None) -> str | None:
    nvjet, operands = _NVJET.search(name), _OPERANDS.search(name)
    if nvjet:
        return _NVJET_OPERANDS[nvjet[1]]
    text = (operands[1] or operands[2]) if operands else name
    for label in _WIDEST if operands else _NARROWEST:
        if _FORMATS[label].search(text):
            return label
    if tensor and _TF32.search(name):
        return "tf32"
    if tensor is not True and _FP32.search(name):
        return "fp32"
    return None


# Formats that a name alone proves: the operator's operands may be what is quantized on the way, or the result.
_NARROW = ("fp8", "fp4", "int8")
# Operators that hand their operands to one kernel as they are. Whatever casts first does so in an operator of its own.
_PRODUCT = regex(
    r"^aten::(?:mm|b?addb?mm_?|bmm|_addmm_activation|linear|cudnn_convolution\w*|miopen_(?:depthwise_)?convolution\w*"
    r"|mkldnn_convolution|convolution_backward|convolution_overrideable|_?slow_conv\w*|_conv_depthwise2d|conv_depthwise3d"
    r"|_scaled_dot_product_\w+|_(?:flash|efficient)_attention_\w+)$"
)


def operand_dtype(kernel: KernelName, op: str, operand: str | None) -> str | None:
    """Number format of a kernel that *op* launched on an *operand* of that C++ type: the operands', else the name's.

    A product of fp32 operands on Tensor Cores is one in TF32. Some libraries write f16 in names of kernels for either format of
    16 bits (cuDNN's attention): of the two it is what those of torch's operators are.
    """
    known = DTYPES.get(operand or "")
    if kernel.dtype is None and not kernel.matrix:
        return known
    if known is None or not kernel.matrix or kernel.dtype in _NARROW:
        return kernel.dtype
    if op.startswith("aten::") and {kernel.dtype, known} == {"fp16", "bf16"}:
        return known
    if kernel.dtype is not None and not _PRODUCT.match(op):
        return kernel.dtype
    return "tf32" if known == "fp32" and (kernel.dtype == "tf32" or kernel.tensor_cores) else known


# Number formats of operands as the profiler names C++ types.
DTYPES = {
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "double": "fp64",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "signed char": "int8",
    # torch's ScalarType, as tools that write traces of their own have it.
    "Float": "fp32",
    "Half": "fp16",
    "BFloat16": "bf16",
    "Double": "fp64",
}
