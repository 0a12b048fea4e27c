"""Work that a loop or a copy repeats for nothing: state_dict() of each round, tensors made on the CPU and copied."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import calls_in, line_before, unused_name, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_ENTRIES = (".items()", ".keys()", ".values()", ".state_dict()", ".named_parameters()", ".named_buffers()")
_REPLACING = regex(r"load_state_dict|\.to\(|\.data\s*=|\.step\(|register_")
_FACTORIES = ("zeros", "ones", "full", "empty", "arange", "eye")
_DEVICE = regex(r"[\w.]*\bdev(ice)?|[\w.]+\.device|[\"']cuda(:\d+)?[\"']|torch\.device\(.*\)", re.IGNORECASE)


def _once(request: Request) -> Iterator[Change]:
    """Take state_dict() before a loop over its entries: its tensors are the model's own, whatever is written into them."""
    because = "no line that was recorded calls state_dict() in a loop over entries"
    found = (
        (source, call)
        for source, line in request.places()
        for call in source.method_calls("state_dict")
        if source.lines(call)[0] <= line <= source.lines(call)[1] and not call.args
    )
    return first_possible(found, _hoisted, because)


def _hoisted(source: Source, call: cst.Call) -> Change:
    what = f"{written(call)} once, before the loop at {place(source, call)}"
    return changed(source, _before_loop(source, call), what)


def _before_loop(source: Source, call: cst.Call) -> list[Piece]:
    inner: cst.CSTNode = call
    loop: cst.For | None = None
    for outer in source.around(call):
        if isinstance(outer, cst.FunctionDef | cst.Lambda | cst.While):
            break
        if isinstance(outer, cst.For) and inner is outer.body:
            loop = outer
            break
        inner = outer
    where = place(source, call)
    if loop is None or not written(loop.iter).endswith(_ENTRIES) or loop.asynchronous is not None:
        raise NotEditable(f"no loop over entries runs {written(call)} at {where}")
    owner = written(call.func).removesuffix(".state_dict")
    root = re.split(r"[.\[(]", owner)[0]
    targets = [node for node in matchers.findall(loop, matchers.AssignTarget()) if written(node).rstrip("=") == root]
    counted = {written(node) for node in matchers.findall(loop.target, matchers.Name())}
    if re.fullmatch(r"[\w.]+", owner) is None or targets or root in counted:
        raise NotEditable(f"the loop around {where} may change what state_dict() is taken of")
    if _REPLACING.search(source.code(loop.body)):
        raise NotEditable(f"the loop around {where} may replace the tensors")
    name = unused_name(source, "state", "current_state", "entries")
    same = [each for each in calls_in(loop.body) if written(each) == written(call)]
    pieces = [Piece(source.start(each), source.end(each), name) for each in same]
    return [line_before(source, loop, f"{name} = {source.code(call)}"), *pieces]


def _on_device(request: Request) -> Iterator[Change]:
    """Make a tensor where it is needed: ``torch.zeros(n).to(device)`` with ``device=``."""
    because = "no line that was recorded makes a tensor of known values and copies it in one expression"
    for source, line in request.places():
        pieces: list[Piece] = []
        for call in calls_in(source.module):
            first, last = source.lines(call)
            if (
                first <= line <= last
                and isinstance(call.func, cst.Attribute)
                and call.func.attr.value in ("to", "cuda")
            ):
                try:
                    pieces += _made_there(source, call, call.func.value)
                except NotEditable as reason:
                    because = str(reason)
        if pieces:
            yield changed(source, pieces, "tensors made on the device")
            return
    raise NotEditable(because)


def _made_there(source: Source, call: cst.Call, made: cst.BaseExpression) -> list[Piece]:
    if not isinstance(made, cst.Call) or source.name(made.func) not in [f"torch.{name}" for name in _FACTORIES]:
        return []
    where = place(source, call)
    taken = {arg.keyword.value for arg in made.args if arg.keyword is not None}
    if taken & {"device", "out", "pin_memory"} or any(arg.star == "**" for arg in made.args) or not made.args:
        raise NotEditable(f"where the tensor at {where} is made is said already, or by other arguments")
    device = _device(source, call)
    last = source.end(made.args[-1].value)
    return [Piece(last, last, f", device={device}"), Piece(source.end(made), source.end(call), "")]


def _device(source: Source, call: cst.Call) -> str:
    """Return the device that ``.to(…)`` or ``.cuda()`` copies to, as text. Raises ``NotEditable`` where it is not certain."""
    where = place(source, call)
    args = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != "non_blocking"]
    cuda = isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda"
    if len(args) != (0 if cuda else 1) or any(arg.star or arg.keyword is not None for arg in args):
        raise NotEditable(f"the tensor at {where} is not only copied to a device")
    device = '"cuda"' if cuda else source.code(args[0].value)
    if _DEVICE.fullmatch(device) is None:
        raise NotEditable(f"whether {device} at {where} is a device is not certain")
    return device


EDITS = (
    Edit("state-dict-once", "Take state_dict() once, before the loop", ("cpu/state-dict-in-loop",), _once),
    Edit("made-on-device", "Make the tensor on the device", ("transfer/cpu-created-tensor",), _on_device),
)
