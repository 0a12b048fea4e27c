"""Draws that go over all candidates each time: which call it is, and whether it draws so few that this takes most of its time.

The call is read off the source, once the steps are over: the names and numbers that it is given. What these were is kept of the
first look: whole numbers, and how long lists and arrays are.
"""

from __future__ import annotations

import ast
import dis
import linecache
import math
from types import CodeType, FrameType
from typing import Any

from advisor.record.sample_work import let_go

_ARGUMENTS = {"choice": ("a", "size", "replace", "p"), "choices": ("population",)}
"""Functions that draw, and what they are given by position."""
_PREPARES = {"choice": {"p": 64, "replace": 4}, "choices": {"weights": 128}}
"""Arguments for which they go over all candidates, and of how many one is drawn at most: with more drawn, that takes the time.

From there on the other way took half as long or less (100,000 candidates, NumPy 2 and Python 3.11).
"""
NAMES = _PREPARES.keys()


def sizes(frame: FrameType) -> dict[str, int]:
    """Return the whole numbers among a frame's variables, and the lengths of lists and arrays."""
    if not frame.f_code.co_flags & 1:
        return {}  # a module's: they are there when the steps are over
    known = frame.f_locals
    found = {name: size for name, value in known.items() if (size := _size(value)) is not None}
    let_go(frame, known)
    return found


def draw(code: CodeType, last: int, name: str, known: dict[str, int], scope: dict[str, Any]) -> str:
    """Return the call *name* at the instruction *last*, with what makes it go over all; empty where that is little of it.

    A call of which source or numbers are not known is told of.
    """
    words = sorted(_PREPARES.get(name, {}).keys() & set(_keywords(code, last)))
    if not words:
        return ""
    call = _call(code, last)
    if call is not None and name in _ARGUMENTS:
        given = dict(zip(_ARGUMENTS[name], call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        always = given.get("replace")
        if words == ["replace"] and isinstance(always, ast.Constant) and always.value:
            return ""
        size = given.get("size", given.get("k"))
        drawn = 1 if size is None else _value(size, known, scope)
        held = [_candidates(given[each], known, scope) for each in ("a", "population", "p", "weights") if each in given]
        candidates = next((each for each in held if each is not None), None)
        if drawn is not None and candidates is not None and drawn * _PREPARES[name][words[0]] > candidates:
            return ""
    return f"{name}({', '.join(words)}=…)"


def _keywords(code: CodeType, last: int) -> tuple[str, ...]:
    """Return the names of the arguments that the call at *last* is given by name."""
    before = [
        each for each in dis.get_instructions(code) if each.offset <= last and each.opname not in ("PRECALL", "CACHE")
    ]
    if len(before) < 2 or before[-1].offset != last:
        return ()
    names, call = before[-2:]
    if names.opname == "KW_NAMES" and names.arg is not None:  # before Python 3.13
        return tuple(map(str, code.co_consts[names.arg]))
    return (
        tuple(map(str, names.argval)) if call.opname.startswith("CALL_KW") and isinstance(names.argval, tuple) else ()
    )


def _call(code: CodeType, last: int) -> ast.Call | None:
    """Return the call at an instruction, as its source has it; None without that."""
    at = next((each.positions for each in dis.get_instructions(code) if each.offset == last), None)
    if at is None or at.lineno is None or at.end_lineno is None or at.col_offset is None or at.end_col_offset is None:
        return None
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[at.lineno - 1 : at.end_lineno]]
    if len(lines) <= at.end_lineno - at.lineno:
        return None
    lines[-1] = lines[-1][: at.end_col_offset]
    lines[0] = lines[0][at.col_offset :]
    try:
        found = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return found if isinstance(found, ast.Call) else None


def _value(node: ast.expr, known: dict[str, int], scope: dict[str, Any]) -> int | None:
    """Return a whole number, or the length of what a name stands for; None where it cannot be told."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name):
        return known[node.id] if node.id in known else _size(scope.get(node.id))
    if isinstance(node, ast.Call):
        length = isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1
        return _value(node.args[0], known, scope) if length else None
    parts: list[ast.expr] = []
    if isinstance(node, ast.Tuple | ast.List):
        parts = node.elts
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        parts = [node.left, node.right]
    values = [value for part in parts if (value := _value(part, known, scope)) is not None]
    return math.prod(values) if parts and len(values) == len(parts) else None


def _candidates(node: ast.expr, known: dict[str, int], scope: dict[str, Any]) -> int | None:
    """Return how many candidates an argument stands for: its value, or the longest of what it names, as in ``p / p.sum()``."""
    value = _value(node, known, scope)
    if value is not None:
        return value
    named = (_value(each, known, scope) for each in ast.walk(node) if isinstance(each, ast.Name))
    return max((each for each in named if each is not None), default=None)


def _size(value: object) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, list | tuple | range):
        return len(value)
    shape = getattr(value, "shape", None) if type(value).__module__ in ("numpy", "torch") else None
    return int(shape[0]) if shape else None
