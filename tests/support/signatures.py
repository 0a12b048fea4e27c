"""Signatures for tests, written as the profiler writes operands."""

from __future__ import annotations

import json
from typing import Any

from advisor.roofline.families import work
from advisor.roofline.signature import Signature, read
from advisor.roofline.work import Hints, Work

HALF, BF16, FLOAT = "c10::Half", "c10::BFloat16", "float"


def tensor(*shape: int, type: str = FLOAT, strides: list[int] | None = None) -> dict[str, Any]:
    """A tensor among the operands."""
    return {"dims": list(shape), "type": type, "strides": strides or [], "value": ""}


def tensors(*shapes: tuple[int, ...]) -> dict[str, Any]:
    """A list of tensors; the profiler does not write their types."""
    return {
        "dims": [list(shape) for shape in shapes],
        "type": "TensorList",
        "strides": [[1] * len(s) for s in shapes],
        "value": "",
    }


def value(text: object) -> dict[str, Any]:
    """A number, a flag or a list of them; ``None`` for an optional operand that was left out."""
    written = "" if text is None else str(text)
    kind = "" if text is None else "ScalarList" if isinstance(text, list) else "Scalar"
    return {"dims": [], "type": kind, "strides": [], "value": written}


def signature(name: str, *operands: dict[str, Any], strided: bool = False, valued: bool = True) -> Signature:
    """The signature of a call; without *valued* as from a trace that has no concrete inputs, without *strided* no strides."""

    def column(key: str) -> bytes:
        return json.dumps([operand[key] for operand in operands]).encode()

    found = read(
        name, column("dims"), column("type"), column("strides") if strided else b"", column("value") if valued else b""
    )
    assert found is not None
    return found


def work_of(
    name: str,
    *operands: dict[str, Any],
    near: tuple[tuple[int, ...], ...] = (),
    type: str | None = None,
    strided: bool = False,
    valued: bool = True,
) -> Work:
    """The work of a call, which must be known to a family."""
    found = work(signature(name, *operands, strided=strided, valued=valued), Hints(near, type))
    assert found is not None
    return found
