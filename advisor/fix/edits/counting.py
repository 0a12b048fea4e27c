"""Counts that a loop writes element by element, as of a confusion matrix: index_put_ of all of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import class_around, function_around, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible, loops_at
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_FLAT = regex(r"\.(view\(-1\)|flatten\(\)|reshape\(-1\)|ravel\(\))$")
_LATER = regex(r"\.(tolist\(\)|long\(\)|int\(\)|cpu\(\)|detach\(\)|to\(torch\.(long|int64)\))$")
_MADE = ("torch.zeros", "torch.ones", "torch.full", "torch.zeros_like", "torch.ones_like", "torch.full_like")
_MOVES = ("to", "cuda", "cpu", "long", "int", "float", "double")


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded counts the elements of tensors in a loop"
    loops = ((source, loop) for source, loop in loops_at(request) if not matchers.findall(loop.body, matchers.For()))
    return first_possible(loops, _at_once, because)


def _at_once(source: Source, loop: cst.For) -> Change:
    return changed(source, [_counted(source, loop)], f"index_put_ in place of a loop, {place(source, loop)}")


def _counted(source: Source, loop: cst.For) -> Piece:
    """Return the piece that writes ``for t, p in zip(…): counts[t, p] += 1`` as one operator."""
    where = place(source, loop)
    block = loop.body
    line = block.body[0] if len(block.body) == 1 else None
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        line = line.body[0]
    if not isinstance(line, cst.AugAssign) or not isinstance(line.operator, cst.AddAssign) or loop.orelse is not None:
        raise NotEditable(f"the loop at {where} does more than to count")
    if not isinstance(line.target, cst.Subscript) or written(line.value) not in ("1", "1.0"):
        raise NotEditable(f"the loop at {where} adds something else than ones")
    counts, picked = _picked(line.target)
    targets = [written(name) for name in _elements(loop.target)]
    if sorted(targets) != sorted(picked) or len(set(targets)) != len(targets):
        raise NotEditable(f"the loop at {where} counts other places than what it goes through")
    given = dict(zip(targets, _gone_through(source, loop, len(targets)), strict=True))
    _check_counts(source, loop, counts)
    _check_behind(source, loop, set(targets))
    if "#" in source.text[source.start(loop) : source.end(loop)]:
        raise NotEditable(f"a comment stands in the loop at {where}")
    moved = f".to({counts}.device)" if re.search(r"\bcuda\b|device", source.text) else ""
    texts = [given[name] for name in picked]
    texts = [text if text.endswith(".long()") else f"{text}.long()" for text in texts]
    places = ", ".join(f"{text}{moved}" for text in texts) + ("," if len(texts) == 1 else "")
    text = f"{counts}.index_put_(({places}), {counts}.new_ones(()), accumulate=True)"
    return Piece(source.start(loop), source.end(loop), text)


def _elements(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]


def _picked(target: cst.Subscript) -> tuple[str, list[str]]:
    """Return the counts, and the places in them, of ``counts[t, p]`` or ``counts[t][p]``."""
    places: list[str] = []
    at: cst.BaseExpression = target
    while isinstance(at, cst.Subscript):
        parts = [written(element).rstrip(",") for element in at.slice]
        places = [*(_bare(part) for part in parts), *places]
        at = at.value
    return written(at), places


def _bare(text: str) -> str:
    """Return an index without what makes a number of it: ``int(t)``, ``t.item()``, ``t.long()``."""
    match = re.fullmatch(r"int\((.*)\)", text)
    text = match[1] if match is not None else text
    return re.sub(r"\.(item|long|int|cpu)\(\)", "", text)


def _gone_through(source: Source, loop: cst.For, count: int) -> list[str]:
    """Return the tensors that the loop goes through. Raises ``NotEditable`` unless each is of one dimension for certain."""
    where = place(source, loop)
    given: list[cst.BaseExpression] = [loop.iter]
    if count > 1:
        zipped = isinstance(loop.iter, cst.Call) and written(loop.iter.func) == "zip"
        args = [arg for arg in loop.iter.args if not _says_strict(arg)] if isinstance(loop.iter, cst.Call) else []
        if not zipped or len(args) != count or any(arg.star or arg.keyword is not None for arg in args):
            raise NotEditable(f"what the loop at {where} goes through is no zip of tensors")
        given = [arg.value for arg in args]
    return [_flat(source, loop, value) for value in given]


def _says_strict(arg: cst.Arg) -> bool:
    """Tell zip's ``strict=True`` or ``strict=False``: of lengths that differ, index_put_ raises an error in any case."""
    return arg.keyword is not None and arg.keyword.value == "strict" and written(arg.value) in ("True", "False")


def _flat(source: Source, loop: cst.For, value: cst.BaseExpression) -> str:
    text = source.code(value)
    while (shorter := re.sub(r"\.tolist\(\)$", "", text)) != text:
        text = shorter
    made = text
    if text.isidentifier():
        around: cst.CSTNode = function_around(source, loop) or source.module
        values = [
            assign.value
            for assign in matchers.findall(around, matchers.Assign())
            if isinstance(assign, cst.Assign) and any(written(target.target) == text for target in assign.targets)
        ]
        made = written(values[0]) if len(values) == 1 else ""
    while (shorter := _LATER.sub("", made)) != made:
        if shorter.endswith(".numpy()"):
            break
        made = shorter
    if _FLAT.search(made) is None or "numpy" in made or "np." in made or ".tolist()" in text:
        raise NotEditable(f"whether {text} at {place(source, loop)} is a tensor of one dimension is not certain")
    return text


def _check_counts(source: Source, loop: cst.For, counts: str) -> None:
    """Raise ``NotEditable`` unless the counts are made by torch, wherever the function or class makes them."""
    where = place(source, loop)
    around: cst.CSTNode | None = function_around(source, loop)
    if counts.startswith("self."):
        around = class_around(source, loop)
    values = [
        assign.value
        for assign in matchers.findall(around or source.module, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == counts for target in assign.targets)
    ]
    if not values or not all(_is_made(source, value) for value in values):
        raise NotEditable(f"whether {counts} at {where} is a tensor is not certain")


def _is_made(source: Source, value: cst.BaseExpression) -> bool:
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if value.func.attr.value not in _MOVES or not isinstance(value.func.value, cst.Call):
            break
        value = value.func.value
    if not isinstance(value, cst.Call) or source.name(value.func) not in _MADE:
        return False
    return "requires_grad" not in source.code(value)


def _check_behind(source: Source, loop: cst.For, names: set[str]) -> None:
    around: cst.CSTNode = function_around(source, loop) or source.module
    for node in matchers.findall(around, matchers.Name()):
        if source.start(node) > source.end(loop) and source.code(node) in names:
            raise NotEditable(f"what the loop at {place(source, loop)} counts is read behind it")


EDITS = (
    Edit(
        "counts-at-once",
        "Count all elements by one operator",
        ("cpu/element-loop", "cpu/separate-turns", "cpu/tiny-operators", "kernels/for-loop-indexing"),
        _make,
    ),
)
