"""Sorts of everything of which few places are read: the first places by topk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import calls_in, function_around, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.results.analysis import Finding

_PARTS = {"sort": {"values": "values", "indices": "indices", "0": "values", "1": "indices"}, "argsort": {"": "indices"}}


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded sorts and takes the first places in one expression"
    dims = _dimensions(request.finding)
    for source, line in request.places():
        pieces: list[Piece] = []
        for node in matchers.findall(source.module, matchers.Subscript()):
            first, last = source.lines(node)
            if first <= line <= last and isinstance(node, cst.Subscript):
                try:
                    pieces += _topk(source, node, dims)
                except NotEditable as reason:
                    because = str(reason)
        if len(pieces) == 1:
            yield changed(source, pieces, "topk in place of a full sort")
            return
        for call in [] if pieces else calls_in(source.module):
            first, last = source.lines(call)
            if first <= line <= last:
                try:
                    pieces += _named(source, call, dims)
                except NotEditable as reason:
                    because = str(reason)
        if pieces:
            yield changed(source, pieces, "topk in place of a full sort")
            return
    raise NotEditable(because)


def _dimensions(finding: Finding) -> int | None:
    """Return how many dimensions what is sorted has, by the shapes that were recorded; None where these do not say it."""
    if "shapes" not in finding.evidence.columns:
        return None
    at = finding.evidence.columns.index("shapes")
    found = {
        len(match[1].split(","))
        for row in finding.evidence.rows
        if (match := re.match(r"\[\[([\d,]+)\]", str(row[at])))
    }
    return found.pop() if len(found) == 1 else None


def _topk(source: Source, node: cst.Subscript, dims: int | None) -> list[Piece]:
    """Return the piece that writes ``x.argsort(…)[:, :k]``, or such a part of ``x.sort(…)``, as topk; none for something else."""
    inner, part = node.value, ""
    if isinstance(inner, cst.Attribute):
        inner, part = inner.value, inner.attr.value
    elif isinstance(inner, cst.Subscript):
        inner, part = inner.value, written(inner)[len(written(inner.value)) :].strip("[]")
    if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
        return []
    method = inner.func.attr.value
    taken = _PARTS.get(method, {}).get(part)
    if taken is None or not _is_sort(source, inner):
        return []
    sliced, k = _slice(source, node)
    return [Piece(source.start(node), source.end(node), f"{_call(source, inner, node, sliced, k, dims)}.{taken}")]


def _is_sort(source: Source, call: cst.Call) -> bool:
    """Tell a call of torch's sort or argsort, as a function or a method, from one of something else."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _PARTS:
        return False
    if source.name(call.func) == f"torch.{call.func.attr.value}":
        return bool(call.args) and call.args[0].keyword is None and not call.args[0].star
    return not source.name(call.func)


def _call(source: Source, sort: cst.Call, node: cst.CSTNode, sliced: int, k: str, dims: int | None) -> str:
    """Return the call of topk for a sort of which *node* takes the first *k* places along dimension *sliced*."""
    assert isinstance(sort.func, cst.Attribute)
    args = list(sort.args)
    function = bool(source.name(sort.func))
    what = source.code(args.pop(0).value) if function else source.code(sort.func.value)
    options = _options(source, sort, args)
    dim = options.get("dim", "-1")
    if not _along(sliced, dim, dims):
        raise NotEditable(
            f"whether what is taken at {place(source, node)} lies along the sorted dimension is not certain"
        )
    largest = "" if options.get("descending") == "True" else ", largest=False"
    if function:
        return f"{_base(source, sort)}.topk({what}, {k}, dim={dim}{largest})"
    return f"{what}.topk({k}, dim={dim}{largest})"


def _named(source: Source, call: cst.Call, dims: int | None) -> list[Piece]:
    """Return the pieces that write ``values, order = x.sort(…)`` as topk, where the function reads their first places alone."""
    assign = source.parent(call)
    names = _targets(assign) if _is_sort(source, call) and isinstance(assign, cst.Assign) else []
    pair = written(call.func).endswith(".sort")
    if len(names) != 1 + pair:
        return []
    around: cst.CSTNode = function_around(source, call) or source.module
    uses = [use for name in names for use in _uses(source, around, name)]
    if not uses:
        return []
    slices = {_slice(source, use) for use in uses}
    if len(slices) != 1:
        raise NotEditable(f"different places of the sort at {place(source, call)} are taken")
    sliced, k = slices.pop()
    if not k.isdigit() and k.split(".")[0] in _given(around):
        raise NotEditable(f"whether {k} is known at {place(source, call)} is not certain")
    text = _call(source, call, uses[0], sliced, k, dims) + ("" if pair else ".indices")
    return [
        Piece(source.start(call), source.end(call), text),
        *(Piece(source.end(use.value), source.end(use), "") for use in uses),
    ]


def _targets(assign: cst.Assign) -> list[cst.Name]:
    """Return the plain names that an assignment gives a value, one or several; none where it gives another thing one."""
    if len(assign.targets) != 1:
        return []
    target = assign.targets[0].target
    names = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
    plain = [name for name in names if isinstance(name, cst.Name)]
    return plain if len(plain) == len(names) else []


def _uses(source: Source, around: cst.CSTNode, target: cst.Name) -> Sequence[cst.Subscript]:
    """Return where a name is read. Raises ``NotEditable`` unless it is given once, and each place takes a part of it."""
    out = []
    for node in matchers.findall(around, matchers.Name(target.value)):
        outer = source.parent(node)
        if node is target or (isinstance(outer, cst.Attribute) and outer.attr is node):
            continue
        if isinstance(outer, cst.Arg) and outer.keyword is node:
            continue
        if target.value == "_" and _is_target(source, node):
            continue
        stored = isinstance(outer, cst.Subscript) and _is_target(source, outer)
        if not isinstance(outer, cst.Subscript) or outer.value is not node or stored:
            raise NotEditable(f"{target.value} of {place(source, target)} is read as a whole, or given again")
        out.append(outer)
    return sorted(out, key=source.start)


def _is_target(source: Source, node: cst.CSTNode) -> bool:
    at, outer = node, source.parent(node)
    while isinstance(outer, cst.Element | cst.Tuple | cst.List):
        at, outer = outer, source.parent(outer)
    return (
        isinstance(outer, cst.AssignTarget | cst.Del)
        or (isinstance(outer, cst.AugAssign | cst.AnnAssign | cst.For | cst.CompFor) and outer.target is at)
        or (isinstance(outer, cst.NamedExpr) and outer.target is at)
    )


def _given(around: cst.CSTNode) -> set[str]:
    """Return the names that a function, or the module, gives a value itself: other than by its own parameters."""
    out: set[str] = set()
    body = around.body if isinstance(around, cst.FunctionDef) else around
    for node in matchers.findall(body, matchers.OneOf(matchers.AsName(), matchers.Param())):
        if isinstance(node, cst.AsName | cst.Param):
            out.add(written(node.name))
    for node in matchers.findall(
        body,
        matchers.OneOf(
            matchers.AssignTarget(), matchers.AugAssign(), matchers.AnnAssign(), matchers.For(), matchers.CompFor(),
            matchers.NamedExpr(),
        ),
    ):  # fmt: skip
        if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.For | cst.CompFor | cst.NamedExpr):
            out |= {written(name) for name in matchers.findall(node.target, matchers.Name())}
    return out


def _along(sliced: int, dim: str, dims: int | None) -> bool:
    """Tell whether a slice of dimension *sliced* (-1: the last) lies along *dim* of a sort of *dims* dimensions (None: unknown)."""
    if dims is None:
        return sliced == int(dim)
    return sliced % dims == int(dim) % dims


def _base(source: Source, call: cst.Call) -> str:
    return source.code(call.func.value) if isinstance(call.func, cst.Attribute) else "torch"


def _options(source: Source, call: cst.Call, args: list[cst.Arg]) -> dict[str, str]:
    """Return dimension and direction of a sort as they are written."""
    out = {}
    for at, arg in enumerate(args):
        name = arg.keyword.value if arg.keyword is not None else ("dim", "descending")[at] if at < 2 else "stable"
        if arg.star or name not in ("dim", "descending"):
            raise NotEditable(f"the sort at {place(source, call)} has arguments that topk has not")
        out[name] = written(arg.value)
    if re.fullmatch(r"-?\d", out.get("dim", "-1")) is None or out.get("descending", "False") not in ("True", "False"):
        raise NotEditable(f"dimension or direction of the sort at {place(source, call)} are not certain")
    return out


def _slice(source: Source, node: cst.Subscript) -> tuple[int, str]:
    """Return the dimension of which the first places are taken (-1: the last), and how many as text."""
    parts = [written(element) for element in node.slice]
    parts = [part.rstrip(",") for part in parts]
    ahead, last = parts[:-1], node.slice[-1].slice
    whole = ahead == ["..."] or all(part == ":" for part in ahead)
    if not whole or not isinstance(last, cst.Slice) or last.upper is None or (last.step is not None):
        raise NotEditable(f"what is taken of the sort at {place(source, node)} is more than its first places")
    if last.lower is not None and written(last.lower) != "0":
        raise NotEditable(f"what is taken of the sort at {place(source, node)} is more than its first places")
    if not isinstance(last.upper, cst.Integer | cst.Name | cst.Attribute):
        raise NotEditable(f"how many are taken of the sort at {place(source, node)} is no plain number or name")
    return (-1 if ahead == ["..."] else len(ahead)), source.code(last.upper)


EDITS = (Edit("topk", "Take the first places by topk", ("cpu/full-sort", "kernels/full-sort"), _make),)
