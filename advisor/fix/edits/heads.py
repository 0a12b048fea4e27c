"""Weights of nn.MultiheadAttention that are returned and never read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import set_to, value_of
from advisor.fix.code import calls_in, class_around, function_around, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_NAMES = ("torch.nn.MultiheadAttention", "torch.nn.modules.activation.MultiheadAttention")
_POSITION = 4


def _make(request: Request) -> Iterator[Change]:
    for source in request.sources():
        pieces: list[Piece] = []
        for call in calls_in(source.module):
            if not _is_attention(source, call) or not _is_unread(source, call):
                continue
            given = value_of(source, call, "need_weights", _POSITION)
            if given is None or source.code(given) == "True":
                pieces += set_to(source, call, "need_weights", "False", _POSITION)
        if pieces:
            yield changed(source, pieces, "nn.MultiheadAttention with need_weights=False, where they are not read")
            return
    raise NotEditable("no call of a nn.MultiheadAttention drops the weights that it asks for")


def _is_attention(source: Source, call: cst.Call) -> bool:
    """Tell a call of an attribute that its class assigns a nn.MultiheadAttention to, once."""
    owner, text = class_around(source, call), written(call.func)
    if owner is None or not text.startswith("self."):
        return False
    given = [
        assign.value
        for assign in matchers.findall(owner, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == text for target in assign.targets)
    ]
    return len(given) == 1 and isinstance(given[0], cst.Call) and source.name(given[0].func) in _NAMES


def _is_unread(source: Source, call: cst.Call) -> bool:
    """Tell ``attention(…)[0]``, and ``out, _ = attention(…)`` whose second name nothing reads."""
    holder = source.parent(call)
    if isinstance(holder, cst.Subscript):
        return written(holder).endswith(")[0]")
    function = function_around(source, call)
    if not isinstance(holder, cst.Assign) or len(holder.targets) != 1 or function is None:
        return False
    target = holder.targets[0].target
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
        return False
    second = target.elements[1].value
    if not isinstance(second, cst.Name):
        return False
    used = matchers.findall(function, matchers.Name(second.value))
    return all(_is_target(source, name) for name in used)


def _is_target(source: Source, name: cst.CSTNode) -> bool:
    """Tell a name that stands in the tuple on the left of an assignment."""
    outer = source.parent(name)
    pair = source.parent(outer) if isinstance(outer, cst.Element) else None
    return isinstance(pair, cst.Tuple) and isinstance(source.parent(pair), cst.AssignTarget)


EDITS = (
    Edit(
        "unread-weights",
        "Leave out attention weights that nothing reads",
        ("cpu/unfused-attention", "kernels/unfused-attention"),
        _make,
    ),
)
