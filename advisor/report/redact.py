"""``--redact``: results that name no folder, for a report that others are to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from advisor.regex import regex
from advisor.results.field import Cell

Result = TypeVar("Result", bound=msgspec.Struct)
Cut = Callable[[Any], Any]

# An absolute path of two parts or more, on either kind of system, not the rest of a URL or of a module path; or a
# relative one that ends in the suffix of a file that traces speak of.
_ABSOLUTE = regex(r"(?<![\w.:/\\~-])(?:[A-Za-z]:|~\w*)?[\\/](?:[^\s\\/\"'`,;:()<>|]+[\\/])+(?=[^\s\\/])")
_RELATIVE = regex(r"(?<![\w./\\:-])(?:[\w.+-]+[\\/])+(?=[\w.+-]+\.(?:py|pyx|ipynb|json|gz|so|cu|cpp|toml|pt)\b)")
_PATH_COLUMNS = ("file", "library", "path", "source", "place")


def base_name(path: str) -> str:
    """Return the last part of a path, on either kind of system: ``train.py``."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def scrub(text: str) -> str:
    """Return free text with every path in it cut down to its last part."""
    return _RELATIVE.sub("", _ABSOLUTE.sub("", text))


def redact(result: Result) -> Result:
    """Return a copy of *result* in which paths are base names. Names of functions, modules and devices stay.

    Each field says what kind of text it holds (``advisor.results.field``); of one that does not, the paths are cut.
    """
    changed: dict[str, Any] = {}
    for name, cut in _cuts(type(result)).items():
        value = getattr(result, name)
        changed[name] = _cells(value, result.columns) if cut is _cells else cut(value)  # type: ignore[attr-defined]
    return msgspec.structs.replace(result, **changed)


@cache
def _cuts(kind: type[msgspec.Struct]) -> dict[str, Callable[..., Any]]:
    """Find the redaction of each field that can hold text, by the field's name."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.name: cut for field in info.fields if (cut := _cut(field.type)) is not None}


def _cut(kind: inspect.Type, mark: str = "free") -> Callable[..., Any] | None:
    """Return the redaction of values of a type, which leaves others as they are; None where they hold no text that is cut."""
    match kind:
        case inspect.Metadata():
            return _cut(kind.type, (kind.extra or {}).get("text", mark))
        case inspect.StrType():
            return _only(str, _TEXTS[mark])
        case inspect.StructType():
            return _only(msgspec.Struct, redact)
        case inspect.ListType() if mark == "cells":
            return _cells
        case inspect.ListType():
            return _each(_cut(kind.item_type, mark))
        case inspect.TupleType():
            items = [_cut(part, mark) or _same for part in kind.item_types]
            return _only(tuple, lambda values: tuple(cut(value) for cut, value in zip(items, values, strict=True)))
        case inspect.DictType():
            key, item = _cut(kind.key_type, mark) or _same, _cut(kind.value_type, mark) or _same
            return _only(dict, lambda values: {key(name): item(value) for name, value in values.items()})
        case inspect.UnionType():
            parts = [cut for part in kind.types if (cut := _cut(part, mark)) is not None]
            return (lambda value: reduce(lambda text, cut: cut(text), parts, value)) if parts else None
        case inspect.AnyType() | inspect.RawType() | inspect.CustomType() | inspect.SetType() | inspect.VarTupleType():
            raise TypeError(f"a result cannot hold {kind}: no redaction is known for it")
    return None


def _same(value: Any) -> Any:
    return value


def _each(cut: Cut | None) -> Cut | None:
    return None if cut is None else _only(list, lambda values: [cut(value) for value in values])


def _only(kind: type, cut: Cut | None) -> Cut | None:
    return None if cut is None else lambda value: cut(value) if isinstance(value, kind) else value


def _line(text: str) -> str:
    # "transformers/models/x.py:812 forward": the folder goes, the line and the function stay
    path, colon, rest = text.partition(".py")
    return base_name(path) + colon + rest


def _event(name: str) -> str:
    # "forward (models/vit.py:812)", as the timeline writes the source's frames
    function, bracket, place = name.rpartition(" (")
    return f"{function}{bracket}{_line(place)}" if ".py:" in place else scrub(name)


def _cells(rows: Sequence[Sequence[Cell]], columns: Sequence[Any]) -> list[list[Cell]]:
    """Return the rows of a table; *columns* are their names, or headings that say them."""
    cuts = [_line if getattr(column, "name", column) in _PATH_COLUMNS else scrub for column in columns]
    return [[cut(cell) if isinstance(cell, str) else cell for cut, cell in zip(cuts, row, strict=True)] for row in rows]


_TEXTS: dict[str, Cut | None] = {
    "free": scrub,
    "name": None,
    "wording": None,
    "path": base_name,
    "line": _line,
    "event": _event,
}
