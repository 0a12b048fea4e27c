"""Arguments of a call in the source: which value one has, and the pieces of text that set, add or remove it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from advisor.fix.source import NotEditable, Piece, Source


def value_of(source: Source, call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
    """Return the value of an argument, given by its keyword or at its *position*; None where it is not given.

    Raises ``NotEditable`` where ``*arguments`` or ``**options`` may hold it.
    """
    arg = _find(source, call, name, position)
    return arg.value if arg is not None else None


def set_to(source: Source, call: cst.Call, name: str, value: str, position: int | None = None) -> list[Piece]:
    """Return the pieces that give an argument a value: that of a literal is replaced, a missing one is added by keyword.

    Raises ``NotEditable`` where a value other than a literal stands there, which comes from somewhere else.
    """
    return set_all(source, call, [(name, value, position)])


def set_all(source: Source, call: cst.Call, wanted: Sequence[tuple[str, str, int | None]]) -> list[Piece]:
    """Do the same for several arguments at once: name, value and position each."""
    pieces: list[Piece] = []
    missing: list[str] = []
    for name, value, position in wanted:
        arg = _find(source, call, name, position)
        if arg is None:
            missing.append(f"{name}={value}")
        elif is_literal(arg.value):
            pieces.append(Piece(source.start(arg.value), source.end(arg.value), value))
        else:
            text = _short(source.code(arg.value))
            raise NotEditable(f"{name} is {text} at {place(source, call)}: set it to {value} there")
    return [*pieces, *(_added(source, call, missing) if missing else ())]


def without(source: Source, call: cst.Call, name: str) -> list[Piece]:
    """Return the pieces that take a keyword argument out of a call, with the comma that belongs to it."""
    args = list(call.args)
    at = next((i for i, arg in enumerate(args) if arg.keyword is not None and arg.keyword.value == name), None)
    if at is None:
        raise NotEditable(f"{name} is not given by its keyword at {place(source, call)}")
    arg = args[at]
    first, last = source.line(_first_line(source, arg)), _last_line(source, arg)
    start, end = _start(source, arg), source.end(arg.value)
    behind = source.text[end : source.line_start(last + 1)]
    before = first[: start - source.line_start(_first_line(source, arg))]
    # Alone on its lines: these go as a whole, with a comment of its own.
    if not before.strip() and behind.lstrip(" ,").split("#")[0].strip() == "" and (at or len(args) > 1):
        return [Piece(source.line_start(_first_line(source, arg)), source.line_start(last + 1), "")]
    if "#" in source.text[start:end]:
        raise NotEditable(f"a comment stands inside {name} at {place(source, call)}")
    if at:
        return [Piece(source.end(args[at - 1].value), end, "")]
    if len(args) > 1:
        return [Piece(start, _start(source, args[1]), "")]
    return [Piece(start, end, "")]


def is_literal(node: cst.BaseExpression) -> bool:
    """Tell whether a value stands there as it is: a number, a text, True, False, None."""
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression)
    if isinstance(node, cst.Name):
        return node.value in ("True", "False", "None")
    return isinstance(node, cst.Integer | cst.Float | cst.SimpleString)


def place(source: Source, node: cst.CSTNode) -> str:
    """Return where *node* stands, as ``file:line``."""
    return f"{source.path}:{source.lines(node)[0]}"


def _find(source: Source, call: cst.Call, name: str, position: int | None) -> cst.Arg | None:
    given = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name]
    if given:
        return given[0]
    if any(arg.star for arg in call.args):
        stars = "".join(sorted({arg.star for arg in call.args if arg.star}))
        raise NotEditable(f"arguments come by {stars} at {place(source, call)}, {name} perhaps among them")
    plain = [arg for arg in call.args if arg.keyword is None]
    if position is not None and position < len(plain):
        return plain[position]
    return None


def _added(source: Source, call: cst.Call, texts: Sequence[str]) -> list[Piece]:
    """Add arguments behind the last: in lines of their own where the arguments have such."""
    args: Sequence[cst.Arg] = call.args
    if not args:
        inside = source.end(call) - 1
        if "\n" in source.text[source.end(call.func) : inside] or "#" in source.text[source.end(call.func) : inside]:
            raise NotEditable(f"a comment stands alone in the call at {place(source, call)}")
        return [Piece(inside, inside, ", ".join(texts))]
    last = args[-1]
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
        raise NotEditable(f"a generator is the only argument at {place(source, call)}")
    end = source.end(last.value)
    number = _first_line(source, last)
    indent = source.line(number)[: _start(source, last) - source.line_start(number)]
    closing = source.lines(call)[1]
    if indent.strip() or number == source.lines(call)[0] or closing == _last_line(source, last):
        return [Piece(end, end, "".join(f", {text}" for text in texts))]
    rest_end = source.line_start(_last_line(source, last) + 1)
    rest = source.text[end:rest_end]
    comma = rest.split("#")[0].strip().startswith(",")
    lines = f",{source.newline}".join(f"{indent}{text}" for text in texts)
    pieces = [] if comma else [Piece(end, end, ",")]
    return [*pieces, Piece(rest_end, rest_end, f"{lines}{',' if comma else ''}{source.newline}")]


def _start(source: Source, arg: cst.Arg) -> int:
    return source.start(arg.keyword) if arg.keyword is not None else source.start(arg.value) - len(arg.star)


def _first_line(source: Source, arg: cst.Arg) -> int:
    return source.lines(arg.keyword if arg.keyword is not None else arg.value)[0]


def _last_line(source: Source, arg: cst.Arg) -> int:
    return source.lines(arg.value)[1]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else f"{flat[:39]}…"
