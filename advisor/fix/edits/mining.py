"""Losses that look for the hardest pair of each row in a loop, as triplet losses do: by masks, for all rows at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import function_around, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible, loops_at
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_ITEM = r"(?:\.unsqueeze\(0\)|\.reshape\(1\)|\.view\(1\))?"
_NAME = r"[A-Za-z_]\w*"
_COUNT = regex(rf"{_NAME}\.(size\(0\)|shape\[0\])|len\({_NAME}\)")


@dataclass(frozen=True)
class Hardest:
    """One line of the loop: of each row of *distances* the largest or the smallest (*method*) where *mask* is *wanted*."""

    name: str
    distances: str
    mask: str
    wanted: bool
    method: str

    @property
    def text(self) -> str:
        """All rows at once: what the mask leaves out can be neither the largest nor the smallest."""
        mask = f"~{self.mask}" if self.wanted else self.mask
        sign = "-" if self.method == "max" else ""
        return f'{self.distances}.masked_fill({mask}, float("{sign}inf")).a{self.method}(dim=1)'


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded takes the largest or smallest of each row in a loop"
    loops = ((source, loop) for source, loop in loops_at(request) if "append" in source.code(loop))
    return first_possible(loops, _all_rows, because)


def _all_rows(source: Source, loop: cst.For) -> Change:
    return changed(source, _at_once(source, loop), f"the hardest of all rows at once, {place(source, loop)}")


def _at_once(source: Source, loop: cst.For) -> list[Piece]:
    """Return the pieces: the lists and the loop go, and what joins the lists becomes the rows' extremes."""
    where = place(source, loop)
    around: cst.CSTNode = function_around(source, loop) or source.module
    counted = written(loop.target)
    rows = re.fullmatch(r"range\((.*)\)", written(loop.iter))
    if rows is None or loop.orelse is not None or not _is_count(around, rows[1]):
        raise NotEditable(f"the loop at {where} is not over rows for certain")
    if "#" in source.text[source.start(loop) : _line_end(source, loop)]:
        raise NotEditable(f"a comment stands in the loop at {where}")
    found = [_hardest(line, counted, where) for line in loop.body.body]
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise NotEditable(f"the loop at {where} appends to one list twice")
    if any(not _is_truth(around, each.mask) for each in found):
        raise NotEditable(f"whether the mask at {where} is one of truth values is not certain")
    body = _body(source, loop)
    at = body.index(loop)
    pieces = [Piece(_line_start(source, loop), _line_end(source, loop), "")]
    left = set(names)
    for line in reversed(body[:at]):
        made = _lists(line)
        if made and set(made) <= left and "#" not in source.line(source.lines(line)[0]):
            pieces.append(Piece(_line_start(source, line), _line_end(source, line), ""))
            left -= set(made)
    if left:
        raise NotEditable(f"where {', '.join(sorted(left))} of {where} begin is not certain")
    joins = {each.name: _join(source, around, loop, each.name) for each in found}
    pieces += [Piece(source.start(joins[each.name]), source.end(joins[each.name]), each.text) for each in found]
    return pieces


def _is_count(around: cst.CSTNode, text: str) -> bool:
    """Tell the number of rows of a tensor, as it is written or as the function names it."""
    if _COUNT.fullmatch(text):
        return True
    values = _given(around, text) if text.isidentifier() else []
    return len(values) == 1 and _COUNT.fullmatch(values[0]) is not None


def _given(around: cst.CSTNode, name: str) -> list[str]:
    return [
        written(assign.value)
        for assign in matchers.findall(around, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == name for target in assign.targets)
    ]


def _hardest(line: cst.CSTNode, counted: str, where: str) -> Hardest:
    """Read ``far.append(dist[i][mask[i]].max().unsqueeze(0))``."""
    i = re.escape(counted)
    match = re.fullmatch(
        rf"({_NAME})\.append\(({_NAME})\[{i}\]\[(~?)({_NAME})\[{i}\](==0|==False)?\]\.(max|min)\(\){_ITEM}\)",
        written(line),
    )
    if match is None or (match[3] and match[5]):
        raise NotEditable(f"the loop at {where} does more than to take the largest or smallest of each row by a mask")
    return Hardest(match[1], match[2], match[4], not (match[3] or match[5]), match[6])


def _is_truth(around: cst.CSTNode, name: str) -> bool:
    """Tell a mask that comparisons make, once, and that is not converted."""
    values = _given(around, name)
    compared = len(values) == 1 and re.search(r"\.(eq|ne)\(.*\)$|==|!=", values[0]) is not None
    return compared and re.search(r"\.(float|double|half|long|int|byte|to|type)\(", values[0]) is None


def _body(source: Source, loop: cst.For) -> list[cst.CSTNode]:
    block = source.parent(loop)
    return list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else []


def _lists(line: cst.CSTNode) -> list[str]:
    """Return the names to which a line gives empty lists: ``near, far = [], []``."""
    match = re.fullmatch(r"([\w,]+)=(\[\](?:,\[\])*)", written(line))
    names = match[1].split(",") if match is not None else []
    return names if match is not None and len(names) == match[2].count("[]") else []


def _join(source: Source, around: cst.CSTNode, loop: cst.For, name: str) -> cst.Call:
    """Return the one call that joins a list behind the loop. Raises ``NotEditable`` where something else reads the list."""
    joins = [
        call
        for call in source.calls("torch.cat", "torch.stack")
        if len(call.args) == 1 and written(call.args[0].value) == name and source.start(call) > source.end(loop)
    ]
    where = place(source, loop)
    inside = function_around(source, loop)
    joins = [call for call in joins if function_around(source, call) is inside]
    if len(joins) != 1:
        raise NotEditable(f"{name} of {where} is not joined once behind the loop")
    assign = source.parent(joins[0])
    again = isinstance(assign, cst.Assign) and [written(target.target) for target in assign.targets] == [name]
    for node in matchers.findall(around, matchers.Name(name)):
        start = source.start(node)
        own = source.start(joins[0]) <= start < source.end(joins[0])
        target = (
            isinstance(source.parent(node), cst.AssignTarget) and source.parent(source.parent(node) or node) is assign
        )
        if start > source.end(loop) and not (own or target or (again and start > source.end(joins[0]))):
            raise NotEditable(f"{name} of {where} is read as a list, too")
    return joins[0]


def _line_start(source: Source, node: cst.CSTNode) -> int:
    return source.line_start(source.lines(node)[0])


def _line_end(source: Source, node: cst.CSTNode) -> int:
    last = max(source.lines(each)[1] for each in (node, *getattr(getattr(node, "body", None), "body", ())))
    return source.line_start(last + 1)


EDITS = (
    Edit(
        "hardest-at-once",
        "Look for the hardest pairs of all rows at once",
        ("cpu/separate-turns", "cpu/tiny-operators", "cpu/element-loop", "kernels/for-loop-indexing"),
        _make,
    ),
)
