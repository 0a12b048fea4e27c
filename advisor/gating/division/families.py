"""Families of operators: names by which the same work goes in another backend, another version, or a compiled program."""

from __future__ import annotations

import re
from functools import lru_cache

from advisor.regex import regex
from advisor.results.sites import Site

WORK = frozenset({"compute", "communication", "copy", "memset"})
"""Causes of work; all others are waits."""
_PREFIX = regex(r"^(?:autograd::engine::evaluate_function: )?(?:torch::autograd::)?")
_BACKWARD = regex(r"^(?:Cudnn|Miopen|Native|Mkldnn|Thnn|Slow|Mps|Fused)?(\w+?Backward)\d*$")
_MEMORY = regex(r" \(.*\)$")
_NUMBER = regex(r"(?:_\d+)+$")
_COMPILED = regex(r"^(?:CompiledFunction\w*|CompiledBackward\w*|Torch-Compiled Region.*|## Call CompiledFxGraph.*)$")
_COMPILER = regex(r"^(?:CompiledFunction|CompiledBackward|Torch-Compiled Region|TorchDynamo|AOTDispatcher)")
_UNITS = (
    ("attention", r"attention|sdpa|fmha|flash_attn|mha_"),
    ("convolution", r"conv(?!ert)"),
    ("matmul", r"(?:^|[:_])(?:b?add)?b?mm|matmul|linear|einsum|gemm|addmv|(?:^|:)dot"),
    ("normalization", r"norm"),
    ("softmax", r"soft_?max|nll_loss|cross_entropy"),
    ("pooling", r"pool"),
    ("recurrent", r"lstm|gru|rnn"),
    ("indexing", r"embedding|index|gather|scatter|EmbeddingBag"),
    ("random", r"dropout|bernoulli|uniform|normal_|randperm|rand"),
    ("copies", r"::(?:_?to|_to_copy|copy|clone|contiguous|cat|stack|pin_memory|repeat)\w*$|(?:Copy|Cat|Clone)Backward"),
    ("sorting", r"sort|topk|unique|cumsum"),
)  # fmt: skip
_PATTERNS = [(family, regex(pattern, re.IGNORECASE)) for family, pattern in _UNITS]
_KINDS = {
    "gemm": "matmul", "conv": "convolution", "attention": "attention", "normalization": "normalization", "softmax": "softmax",
    "pooling": "pooling", "embedding": "indexing", "sort": "sorting", "random": "random", "copy": "copies", "layout": "copies",
    "optimizer": "optimizer", "communication": "communication", "matmul": "matmul", "convolution": "convolution",
    "recurrent": "recurrent", "indexing": "indexing", "reduction": "pointwise", "elementwise": "pointwise", "triton": "pointwise",
}  # fmt: skip
PRODUCTS = frozenset({"matmul", "convolution", "attention", "recurrent"})
_OWN = frozenset({"optimizer", "zero_grad", "communication", "copy", "memset"})


@lru_cache(maxsize=16384)
def _unit(unit: str, op: str, kernel: str) -> str:
    text = _PREFIX.sub("", unit or op or kernel)
    if _COMPILED.match(text):
        text = op if op and not _COMPILED.match(_PREFIX.sub("", op)) else kernel
    if text.startswith(("triton_", "cpp_fused_")):
        return _NUMBER.sub("", text)
    if backward := _BACKWARD.match(text):
        return backward[1]
    return text.rstrip("_") if "::" in text else text


def unit_of(site: Site) -> str:
    """Return the operator that stands for a site, without what backends and versions add to its name."""
    if site.cause not in WORK:
        return site.unit
    if site.cause == "copy":
        return _MEMORY.sub("", site.kernel)
    return _unit(site.unit, site.op, site.kernel)


@lru_cache(maxsize=16384)
def _family(unit: str, kind: str) -> str:
    if unit.startswith(("triton_poi", "triton_red", "triton_per", "cpp_fused_")) or _COMPILER.match(unit):
        return "pointwise"
    for family, pattern in _PATTERNS:
        if pattern.search(unit):
            return family
    return _KINDS.get(kind, "pointwise")


def family_of(site: Site) -> str:
    """Return the family of a site's work: products, normalization, pointwise work and so on; of a wait its cause."""
    if site.cause != "compute":
        return site.cause
    if site.phase in ("optimizer", "zero_grad"):
        return site.phase
    return _family(unit_of(site), site.kind)


def is_compiled(unit: str) -> bool:
    """Tell whether an operator is what a compiler made of several, or what runs that."""
    return unit.startswith(("triton_", "cpp_fused_")) or _COMPILER.match(unit) is not None


def kin_of(site: Site) -> str:
    """Return what a compiler may make one kernel of: all that is no product, as opposed to products, each family by itself."""
    family = family_of(site)
    return family if family in PRODUCTS or family in _OWN else "memory-bound"


@lru_cache(maxsize=16384)
def sizes_beside(shapes: str) -> str:
    """Return shapes with the batch left open: the first size of the first operand, wherever another operand begins with it."""
    operands = re.findall(r"\[[^\[\]]*\]", shapes)
    sizes = [operand[1:-1].split(",") for operand in operands]
    lead = next((dims[0] for dims in sizes if dims[0]), "")
    return " ".join(",".join(["*", *dims[1:]] if dims[0] == lead else dims) for dims in sizes)
