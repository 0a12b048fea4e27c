"""Kernels of matrix products that are no library's: written by hand, or launched by an operator of the program's own."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.roofline import products
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

# A plain function, perhaps with template arguments, whose first parameter is a number or a pointer to numbers. Those of
# libraries take a struct, stand in a namespace, or have names without parameters.
_PLAIN = regex(
    r"^(?:void )?(?P<name>\w+)(?:<[^<>()]*>)?\((?:const )?(?:float|double|__half|half|__nv_bfloat16|__hip_bfloat16"
    r"|(?:unsigned )?(?:int|long|char)|bool|void)(?: const)?[ *,)]"
)
_LIBRARIES = regex(r"cublas|rocblas|hipblas|cudnn|miopen|split_?k|vllm|marlin|moe", re.IGNORECASE)
_TORCH = ("aten::", "triton_")
"""Prefixes of operators of torch's own, and of the compiler's kernels."""
# Names say all that they say at their head; a hostile one must not cost the square of its length.
_LONGEST = 400


def own_products(context: Context, rows: Ints) -> Bools:
    """Flag those of some kernels that multiply matrices, and that no operator of torch launched."""
    work, host = context.recording.work, context.recording.host
    launch, names = work.launch[rows], work.name[rows]
    flags = np.zeros(len(context.names), np.bool_)
    codes = distinct(names)
    flags[codes] = [by_hand(context.names[code]) for code in codes.tolist()]
    plain = flags[names] & ~np.isin(launch, context.graph_nodes)
    if not host.size:
        return plain
    operator = fetch(host.attributes.op, launch)
    named = (operator >= 0) & (fetch(host.group.astype(np.int64), operator) == OP)
    used = distinct(host.name[operator[named]])
    torch, own = np.zeros(len(context.names), np.bool_), np.zeros(len(context.names), np.bool_)
    torch[used] = [context.names[code].startswith(_TORCH) for code in used.tolist()]
    own[used] = [products.named(context.names[code]) is not None for code in used.tolist()]
    own &= ~torch
    out = plain.copy()
    out[named] = (plain[named] & ~torch[host.name[operator[named]]]) | own[host.name[operator[named]]]
    return out


def by_hand(name: str) -> bool:
    """Tell whether a kernel's name is that of a matrix product that someone wrote as a plain function."""
    match = _PLAIN.match(name[:_LONGEST])
    return match is not None and _LIBRARIES.search(match["name"]) is None and products.multiplies(match["name"])
