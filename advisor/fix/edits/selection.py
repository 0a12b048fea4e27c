"""Sorts of everything of which few places are read: the first places by topk."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.results.analysis import Finding

_PARTS = {"sort": {"values": "values", "indices": "indices", "0": "values", "1": "indices"}, "argsort": {"": "indices"}}


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded sorts and takes the first places in one expression"
    dims = _dimensions(request.finding)
    for spot in request.finding.where:
        source, line = request.files.at(spot.file, spot.line)
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
    if taken is None:
        return []
    function = source.name(inner.func) == f"torch.{method}"
    args = list(inner.args)
    if (function and (not args or args[0].keyword is not None)) or (not function and source.name(inner.func)):
        return []
    what = source.code(args.pop(0).value) if function else source.code(inner.func.value)
    options = _options(source, inner, args, method)
    sliced, k = _slice(source, node)
    dim = options.get("dim", "-1")
    if not _along(sliced, dim, dims):
        raise NotEditable(
            f"whether what is taken at {place(source, node)} lies along the sorted dimension is not certain"
        )
    largest = "" if options.get("descending") == "True" else ", largest=False"
    call = f"topk({k}, dim={dim}{largest}).{taken}"
    if function:
        return [
            Piece(
                source.start(node),
                source.end(node),
                f"{_base(source, inner)}.topk({what}, {call.removeprefix('topk(')}",
            )
        ]
    return [Piece(source.start(node), source.end(node), f"{what}.{call}")]


def _along(sliced: int, dim: str, dims: int | None) -> bool:
    """Tell whether a slice of dimension *sliced* (-1: the last) lies along *dim* of a sort of *dims* dimensions (None: unknown)."""
    if dims is None:
        return sliced == int(dim)
    return sliced % dims == int(dim) % dims


def _base(source: Source, call: cst.Call) -> str:
    return source.code(call.func.value) if isinstance(call.func, cst.Attribute) else "torch"


def _options(source: Source, call: cst.Call, args: list[cst.Arg], method: str) -> dict[str, str]:
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
