"""Size and number format of a message, as its record says, else by its operand."""

from __future__ import annotations

import json

import numpy as np

from advisor.intervals import Ints, fetch
from advisor.regex import regex
from advisor.timeline.context import Context

_BYTES = {
    "float": 4, "int": 4, "double": 8, "long": 8, "half": 2, "bfloat16": 2, "byte": 1, "char": 1, "bool": 1, "short": 2,
}  # fmt: skip
# C++ types of operands, their spaces left out, as collectives call them.
_CALLED = {
    "float": "Float", "double": "Double", "c10::half": "Half", "c10::bfloat16": "BFloat16", "int": "Int",
    "longint": "Long", "long": "Long", "unsignedchar": "Byte", "signedchar": "Char", "bool": "Bool",
}  # fmt: skip
_SHAPE = regex(r"^\[+([\d,]*)\]")
_RECORD, _SIZED = "record_param_comms", (8, 10)
"""The operator that torch records around a collective, and how many values it takes; the last of them is the group's size."""
AROUND = 4
"""Operators around a launch among which the record of its collective is: around the annotation `nccl:...`."""
_MOST_TEXT = 100_000
_MOST_ELEMENTS = 1 << 50
"""A message of more fits no machine: its size is damage."""


def group_sizes(context: Context, teller: Ints) -> Ints:
    """Ranks in the group of each collective (-1 where unknown): as it says, else as the values of the record around it say."""
    host, inputs = context.recording.host, context.recording.recorded.inputs
    sizes = context.op_column(teller, "group_size")
    if _RECORD not in context.names or (sizes >= 0).all():
        return sizes
    record, told = context.names.index(_RECORD), dict[int, int]()
    node = np.where(sizes < 0, fetch(host.attributes.op, teller), -1)
    for _ in range(AROUND):
        found = np.flatnonzero(fetch(host.name, node) == record)
        for at, code in zip(found.tolist(), context.op_column(node[found], "concrete").tolist(), strict=True):
            if code >= 0 and code not in told:
                told[code] = _last(inputs[code])
            sizes[at] = told.get(code, -1)
        node[found] = -1
        node = fetch(host.attributes.op, fetch(host.parent, node))
    return sizes


def _last(values: bytes) -> int:
    """Return the last of a record's values, the size of the group; -1 where it is none."""
    try:
        words = json.loads(bytes(values)[:_MOST_TEXT])
    except (ValueError, RecursionError):
        return -1
    last = words[-1] if isinstance(words, list) and len(words) in _SIZED else None
    return int(last) if isinstance(last, str) and last.isascii() and last.isdigit() and 0 < len(last) < 9 else -1


def messages(context: Context, teller: Ints, launch: Ints) -> tuple[Ints, list[str | None]]:
    """Bytes sent in (-1 where unknown) and number format of each collective: as it says, else by its operand."""
    texts = context.recording.recorded.texts
    codes, elements = context.op_column(teller, "comm_dtype"), context.op_column(teller, "in_elements")
    names: list[str | None] = [(texts[code] or None) if code >= 0 else None for code in codes.tolist()]
    dims, types = context.op_column(launch, "dims"), context.op_column(launch, "types")
    shapes, formats = context.shape_texts, context.raw_dtypes
    sent = np.full(len(teller), -1, np.int64)
    for at, name in enumerate(names):
        count = int(elements[at])
        if (name is None or count < 0) and dims[at] >= 0 and types[at] >= 0:
            name = names[at] = names[at] or _CALLED.get(formats[types[at]].lower())
            count = _elements(shapes[dims[at]]) if count < 0 else count
        width = _BYTES.get(name.lower().removeprefix("c10::"), 0) if name else 0
        if 0 <= count < _MOST_ELEMENTS and width:
            sent[at] = count * width
    return sent, names


def _elements(shape: str) -> int:
    """Elements of the one operand whose shape is written so: ``[[4,2048,4096]]``; -1 where it is no such list."""
    match = _SHAPE.match(shape)
    if not match or shape.count("[") > 2 + shape.startswith("[[["):
        return -1
    total = 1
    for part in match[1].split(","):
        if not part or len(part) > 15:
            return -1
        total *= int(part)
    return total if 0 <= total < 1 << 48 else -1
