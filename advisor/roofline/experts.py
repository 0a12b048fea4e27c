"""Products of experts whose weights are no operands of any operator: their sizes follow from the kernel's name and grid.

TensorRT-LLM's generated kernels (FlashInfer's ``trtllm_*_moe``, as vLLM and SGLang call them) say the formats of the result, the
weights and the rows, the blocks of scales and the tile: ``bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256…_transOut…_swiGlu_dynBatch``.
With ``transOut`` the weights' rows lie along the grid's x, a tile's height each, the tokens' along y. The first product takes rows
as wide as the model, the second as wide as what the first gave, half of its rows where these are gated. The grid is as tall
as the batch may need: a tile for each expert, and one more for each width of a tile that is left (getMaxNumCtasInBatchDim of
trtllm's routing), which tells how many experts a token goes to. Which of them are touched stands in no trace: with tokens
that go to all alike, nearly all from some rows an expert on. No kernel is faster than its limit: where one takes less than
reading so many would, as few as one token touches are counted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from advisor.intervals import Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]

_TYPE = r"(?:Mx)?(?:E4m3|E2m1|Int4)|Bfloat16|Fp16"
_NAME = regex(
    rf"^bmm_(?P<out>{_TYPE})_(?P<weights>{_TYPE})(?P<rows>{_TYPE})?_Fp32(?:_bA(?P<block>\d+))?(?:_b[BC]\d+)*"
    r"_t(?P<high>\d+)x(?P<wide>\d+)x\d+"
)
_GATED = regex(r"swiglu|geglu", re.IGNORECASE)
_LAYERS = frozenset({"vllm::moe_forward", "vllm::moe_forward_shared"})
_AXES = 3
_BITS = {"E4m3": 8, "E2m1": 4, "Int4": 4, "Bfloat16": 16, "Fp16": 16}
_BLOCKS = {"MxE4m3": 32, "MxE2m1": 32, "MxInt4": 32, "E2m1": 16}
"""Numbers that share a scale of a byte, where the name does not say."""


class Product(NamedTuple):
    """Arithmetic and bytes of one product of a layer's experts."""

    flops: float
    bytes: float
    least_bytes: float
    """The bytes if all tokens went to the same experts."""


class Products(NamedTuple):
    """The same of rows of ``kernels``."""

    rows: Ints
    flops: Floats
    bytes: Floats
    least_bytes: Floats


def expert_products(context: Context) -> Products:
    """Find the products of experts in a trace whose layers have no weights among their operands."""
    recording, rows = context.recording, context.kernel_rows
    work, host = recording.work, recording.host
    matches = {code: match for code, name in enumerate(context.names) if (match := _NAME.match(name))}
    matches = {code: match for code, match in matches.items() if "_transOut" in context.names[code]}
    mine = np.flatnonzero(np.isin(work.name[rows], list(matches))) if matches and host.size else np.zeros(0, np.int64)
    layers = np.array([name in _LAYERS for name in context.names], np.bool_)
    around = host.nearest(work.launch[rows[mine]], (host.group == OP) & layers[host.name]) if len(mine) else mine
    found: dict[int, Product] = {}
    for layer in distinct(around[around >= 0]).tolist():
        kernels = mine[around == layer]
        kernels = kernels[np.argsort(work.start[rows[kernels]], kind="stable")]
        operands = _shapes(recording.recorded.raws[_dims(context, layer)])
        hidden, logits = operands[:2] if len(operands) > 1 else ([], [])
        if len(hidden) != 2 or len(logits) != 2 or hidden[0] != logits[0]:
            continue
        width: int | None = hidden[1]
        for kernel in kernels.tolist():
            match = matches[int(work.name[rows[kernel]])]
            grid = _grid(recording.recorded.raws[recording.tables["kernel"]["grid"][work.row[rows[kernel]]]])
            height = grid[0] * int(match["high"])
            topk = _picked(hidden[0], logits[1], grid[1], int(match["wide"]))
            if width is None or not topk or not height:
                break
            found[kernel] = _product(match, hidden[0], logits[1], topk, height, width)
            width = height // 2 if _GATED.search(match.string) else None
    at = np.array(sorted(found), np.int64)
    values = np.array([found[kernel] for kernel in at.tolist()], np.float64).reshape(-1, 3)
    return Products(at, values[:, 0], values[:, 1], values[:, 2])


def _dims(context: Context, node: int) -> int:
    """Return the code of the shapes of an operator's operands."""
    return int(context.recording.tables["op"]["dims"][context.recording.host.row[node]])


def _shapes(raw: bytes) -> list[list[int]]:
    """Return the shapes of operands; none where one is a list of tensors."""
    try:
        return msgspec.json.decode(raw, type=list[list[int]]) if raw else []
    except msgspec.DecodeError:
        return []


def _grid(raw: bytes) -> list[int]:
    """Return a grid of three; [0, 0, 0] for anything else."""
    try:
        found = msgspec.json.decode(raw, type=list[int]) if raw else []
    except msgspec.DecodeError:
        found = []
    return found if len(found) == _AXES else [0] * _AXES


def _picked(tokens: int, experts: int, tall: int, wide: int) -> int:
    """Return how many experts a token goes to, by the grid's height; 0 where none fits."""
    for topk in range(1, experts + 1):
        rows = tokens * topk
        if min(rows, experts) + max(0, rows - experts) // wide == tall:
            return topk
    return 0


def _size(kind: str, numbers: float, block: int | None = None) -> float:
    """Return the bytes of some numbers of a format, with their scales."""
    of = block or _BLOCKS.get(kind, 0)
    return numbers * _BITS[kind.removeprefix("Mx")] / 8 + (numbers / of if of else 0)


def _product(match: re.Match[str], tokens: int, experts: int, topk: int, height: int, width: int) -> Product:
    rows = tokens * topk
    weights, out = match["weights"], match["out"]
    inside = match["rows"] or weights
    matrix = _size(weights, height * width, int(match["block"]) if match["block"] else None)
    gated = _GATED.search(match.string) is not None
    # The first product reads each token's row; the second one a row for each expert that a token goes to.
    moved = _size(inside, (tokens if gated else rows) * width) + _size(out, rows * (height // 2 if gated else height))
    touched = experts * (1 - (1 - min(topk, experts) / experts) ** tokens)
    return Product(2.0 * rows * height * width, touched * matrix + moved, min(topk, experts) * matrix + moved)
