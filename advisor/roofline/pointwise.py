"""Pointwise operators: one operation an element of the output, whatever the function.

Sources: native_functions.yaml for the number of operands, https://docs.pytorch.org/docs/stable/tensor_attributes.html
for the output's type, and torch.broadcast_tensors for its shape. A function (exp, gelu) counts one operation: they run on units
of their own, and moving the elements takes longer. Bytes: each operand as it is stored (one that is broadcast or expanded
once), and the output; what works in place reads and writes it.
"""

from __future__ import annotations

from advisor.roofline.signature import Shape, Signature, Tensor
from advisor.roofline.types import is_floating, promote
from advisor.roofline.work import Formula, Hints, Work, dense, finish

_UNARY = """abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh angle
bitwise_not ceil celu clip clamp clamp_max clamp_min conj_physical cos cosh deg2rad digamma dropout elu erf erfc erfinv exp exp2
expm1 fix floor frac gelu glu hardshrink hardsigmoid hardswish hardtanh i0 isfinite isinf isnan isneginf isposinf leaky_relu
lgamma log log10 log1p log2 logical_not log_sigmoid log_sigmoid_forward logit mish nan_to_num neg negative pow rad2deg
reciprocal relu relu6 round rsqrt selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink special_erf
special_expit special_log1p sqrt square tan tanh threshold trunc _conj_physical special_entr polygamma rrelu_with_noise"""
_BINARY = """__and__ __or__ __xor__ __iand__ __ior__ __lshift__ __rshift__ __rsub__ add and atan2 arctan2 bitwise_and bitwise_or
bitwise_xor bitwise_left_shift bitwise_right_shift copysign div divide eq equal_elements floor_divide fmax fmin fmod ge gcd
greater greater_equal gt heaviside hypot isclose lcm ldexp le less less_equal logaddexp logaddexp2 logical_and logical_or
logical_xor lt max_elements maximum minimum mul multiply ne nextafter not_equal prelu _prelu_kernel remainder rsub sub subtract
true_divide xlogy
elu_backward gelu_backward glu_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward
logit_backward mish_backward native_dropout_backward _masked_scale sigmoid_backward silu_backward softplus_backward
softshrink_backward tanh_backward threshold_backward masked_fill hardshrink_backward"""
_TERNARY = """addcdiv addcmul lerp where _prelu_kernel_backward log_sigmoid_backward rrelu_with_noise_backward
clamp_tensors"""
_BOOLEAN = """eq ge greater greater_equal gt isclose isfinite isinf isnan isneginf isposinf le less less_equal logical_and
logical_not logical_or logical_xor lt ne not_equal signbit"""
# Operators that give fractions of whole numbers.
_FRACTIONS = """acos acosh asin asinh atan atan2 atanh cos cosh div true_divide divide erf erfc exp exp2 expm1 lgamma log log10
log1p log2 logit reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh xlogy"""
# Operators of one tensor whose second operand may be another.
_PAIRS = frozenset(("pow", "clamp", "clamp_min", "clamp_max", "clip"))
# Operations an element, where they are more than one: addcmul multiplies twice and adds.
_OPERATIONS = {
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
    "isclose": 3,
    "glu": 2,
    "native_dropout_backward": 2,
    "_masked_scale": 2,
}


def broadcast(shapes: list[Shape]) -> Shape | None:
    """The shape that shapes have together; None where they do not fit."""
    out: list[int] = []
    for shape in shapes:
        size = max(len(out), len(shape))
        left, right = [1] * (size - len(out)) + out, (1,) * (size - len(shape)) + shape
        if any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
            return None
        out = [b if a == 1 else a for a, b in zip(left, right, strict=True)]
    return tuple(out)


def result_type(name: str, tensors: list[Tensor]) -> str | None:
    """The format of a pointwise operator's output; None where an operand's is not known."""
    if name in _BOOLEAN.split():
        return "bool"
    # Tensors without dimensions take part only where they are of another sort, as numbers do.
    full = [tensor for tensor in tensors if tensor.shape] or tensors
    if name in ("where", "masked_fill"):
        full = [tensor for tensor in full if tensor.type != "bool"] or full
    kinds = [tensor.type for tensor in full if tensor.type is not None]
    if len(kinds) != len(full):
        return None
    kind = promote(kinds)
    fraction = name in _FRACTIONS or any(is_floating(t.type) for t in tensors if not t.shape and t.type)
    return "float32" if kind is not None and fraction and not is_floating(kind) else kind


def _formula(name: str, arity: int, in_place: bool) -> Formula:
    operations = _OPERATIONS.get(name, 1)

    def formula(signature: Signature, hints: Hints) -> Work | None:
        read = [tensor for tensor in map(signature.tensor, range(arity)) if tensor is not None]
        if not read:
            return None
        if name in ("eq", "ne") and len(read) == 2 and read[0] == read[1]:
            read = read[:1]  # x != x finds the NaN: one tensor may be both
        out = next((o.tensor for o in signature.operands[arity:] if o.tensor is not None), None)
        if in_place:
            out = signature.tensor(0)
        if out is None:
            shape = broadcast([tensor.shape for tensor in read])
            if shape is None:
                return None
            out = dense((*shape[:-1], shape[-1] // 2) if name == "glu" and shape else shape, result_type(name, read))
        return finish("pointwise", operations * out.elements, [*read, out], hints, arithmetic=_computed(read, hints))

    return formula


def _computed(read: list[Tensor], hints: Hints) -> str | None:
    return promote([tensor.type for tensor in read if tensor.type and tensor.shape]) or read[0].type or hints.type


def _all_forms(words: str, arity: int) -> dict[str, Formula]:
    out = {}
    for word in words.split():
        places = 2 if word in _PAIRS else arity
        places = 3 if word in ("clamp", "clip") else places
        out[f"aten::{word}"] = _formula(word, places, in_place=False)
        if not word.endswith("_"):
            out[f"aten::{word}_"] = _formula(word, places, in_place=True)
    return out


FORMULAS: dict[str, Formula] = {
    **_all_forms(_UNARY, 1),
    **_all_forms(_BINARY, 2),
    **_all_forms(_TERNARY, 3),
    "aten::polar": _formula("polar", 2, in_place=False),
    "aten::complex": _formula("complex", 2, in_place=False),
}
