"""Operators that are no library's, and whose name says that they only move memory: a softmax, a normalization, an activation.

What they read is in their operands. What they write is not, so that about half of their bytes are known at the least.
"""

from __future__ import annotations

from advisor.regex import regex
from advisor.roofline.signature import Signature
from advisor.roofline.work import Formula, Hints, Work, finish

_KINDS = {
    "softmax": regex("softmax"),
    "normalization": regex("(?:layer|rms|group|batch|instance)norm|(?<!spectral)(?<!weight)(?<!grad)norm(?:alize|$)"),
    "pointwise": regex("gelu|silu|relu|swiglu|geglu|swish|mish|sigmoid|tanh|dropout|residual"),
}
# They do more than move their operands, or read parts of them; the gradients of autograd's functions are not all they read.
_OTHERS = regex(
    "matmul|gemm|linear|mlp|ffn|conv|attention|attn|flash|mha|sdpa|moe|expert|lstm|gru|loss|entropy|embedding|gather|scatter"
    "|index|cache|paged|sparse|quant|reduce|clip|sampl|triton|backward|bmm|(?:^|_)mm(?:_|$)"
)
_SIGNS = regex(r"[\W\d_]+")
_LONGEST = 200
_TORCH = ("aten::", "autograd::", "c10d::", "prims::", "nn.Module")


def named(name: str) -> Formula | None:
    """The formula of an operator by its name; None for others, and for those of torch."""
    if len(name) > _LONGEST or name.startswith(_TORCH):
        return None
    last = name.rpartition("::")[2].lower()
    if _OTHERS.search(last):
        return None
    compact = _SIGNS.sub("", last)
    kind = next((kind for kind, pattern in _KINDS.items() if pattern.search(compact)), None)
    if kind is None:
        return None

    def formula(signature: Signature, hints: Hints) -> Work | None:
        tensors = [tensor for tensor in signature.tensors if tensor.elements]
        return finish(kind, None, tensors, hints, exact=False) if tensors else None

    return formula
