"""Tables of TOML read into structs: a field's type and ``Meta`` are its reader, its checks and its JSON Schema.

Beside what msgspec itself knows of ``Meta``, three things are read from it: ``extra["must"]`` puts what a value must be into
words, ``extra["code"]`` keeps the spaces at both ends of a text, and of ``extra_json_schema`` the keys ``enum`` and
``uniqueItems`` hold for the reader too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from advisor.errors import nearest
from advisor.privacy import excerpt
from advisor.regex import regex

S = TypeVar("S", bound=msgspec.Struct)

_BARE = regex(r"[\w-]+")
_FEW = 12
_LONGEST = 60
_LONGEST_KEY, _LONGEST_PROBLEM = 100, 450
_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}


class Reader:
    """Reads tables into structs and keeps every problem, as ``(key, problem)``; a value with a problem is left blank."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def report(self, key: str, problem: str) -> None:
        """Keep a problem of the value at *key*; an empty key stands for the file."""
        self.problems.append((key, problem))

    def is_sound(self, *keys: str) -> bool:
        """Check that nothing at or below any of *keys* has a problem so far."""
        return not any(at == key or at.startswith(f"{key}.") for at, _ in self.problems for key in keys)

    def texts(self, where: str = "") -> list[str]:
        """Write the problems as lines, each with its key, behind *where*; what they quote of the file is made fit for that."""
        told = [(excerpt(key, _LONGEST_KEY), excerpt(problem, _LONGEST_PROBLEM)) for key, problem in self.problems]
        return [": ".join(part for part in (where, *problem) if part) for problem in told]

    def struct(self, kind: type[S], table: Mapping[str, Any], at: str = "") -> S:
        """Read *table* into a struct of *kind*; *at* is its key in the file. Keys that *kind* does not have are problems."""
        fields = _fields(kind)
        for key in table:
            if key not in fields:
                near = nearest(key.replace("-", "_"), fields) or f". Known keys: {', '.join(fields)}"
                self.report(key_path(at, key), f"no such key{near}")
        values = {}
        for key, field in fields.items():
            if key in table:
                values[field.name] = self.value(field.type, table[key], key_path(at, key))
            elif field.required:
                self.report(key_path(at, key), "is missing")
                values[field.name] = _blank(field.type)
        return kind(**values)

    def value(self, kind: Any, value: Any, at: str) -> Any:
        """Read one value of the annotated type *kind*."""
        base, meta, origin, arguments = _parts(kind)
        if isinstance(base, type) and issubclass(base, msgspec.Struct) and isinstance(value, dict):
            return self.struct(base, value, at)
        if origin in (Union, UnionType) and (table := _one_or_several(base)):
            return self._one_or_several(table, value, at)
        if origin is dict and isinstance(value, dict):
            return self._entries(arguments[0], arguments[1], value, at)
        if origin is tuple and isinstance(value, list):
            if meta.get("uniqueItems") and any(value.count(item) > 1 for item in value):
                self.report(at, "names something twice")
            return tuple(self.value(arguments[0], item, at) for item in value)
        if base is str and isinstance(value, str):
            value = value.strip("\n") if meta.get("code") else value.strip()
        if problem := problem_of(kind, value):
            self.report(at, problem)
            return _blank(base)
        # A number of a union keeps its own type: 65536 stays whole where text is allowed as well.
        as_it_is = base is str or origin in (Literal, Union, UnionType)
        return value if as_it_is else msgspec.convert(value, kind)

    def _one_or_several(self, table: type[msgspec.Struct], value: Any, at: str) -> Any:
        """Read one table, or a list of them, each with its number, from 1, in its key."""
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return tuple(self.struct(table, item, f"{at}.{place}") for place, item in enumerate(value, 1))
        return self.value(table, value, at)

    def _entries(self, key_kind: Any, kind: Any, table: Mapping[str, Any], at: str) -> dict[str, Any]:
        """Read a table whose keys are the user's names."""
        base, meta = _unwrap(key_kind)
        words = _choices(base, meta)
        entries = {}
        for key, value in table.items():
            here = key_path(at, key)
            if words and key not in words:
                self.report(here, f"no such key{nearest(key, words)}")
            elif "pattern" in meta and not re.search(meta["pattern"], key):
                self.report(here, f"its name must be {meta['must']}")
            else:
                entries[key] = self.value(kind, value, here)
        return entries


def key_path(at: str, key: str) -> str:
    """Write the key of a value in a table, in quotes where TOML asks for them: ``limits."a/b".min_bytes``."""
    name = key if _BARE.fullmatch(key) else f'"{key}"'
    return f"{at}.{name}" if at else name


def problem_of(kind: Any, value: Any) -> str:
    """Say what is wrong with a value that is no table and no list; empty where nothing is."""
    base, meta, _, _ = _parts(kind)
    if base is str and value == "" and meta.get("min_length"):
        return "is empty"
    words = _words(kind)
    if words and value and isinstance(value, str) and value not in words:
        listed = f"'{value}' is none of {', '.join(words)}" if len(words) <= _FEW else f"there is no '{value}'"
        return listed + nearest(value, words)
    if isinstance(value, str) and (value in words or (base is str and "pattern" not in meta)):
        return ""
    try:
        msgspec.convert(value, kind)
        fits = not isinstance(value, float) or math.isfinite(value)
    except (msgspec.ValidationError, OverflowError):  # a whole number that no float holds
        fits = False
    return "" if fits else f"must be {meta.get('must') or _in_words(base)}, not {_quote(value)}"


def schema_text(kind: type[msgspec.Struct], title: str, description: str) -> str:
    """Write the JSON Schema of a file that holds a table of *kind*, as it lies in ``docs/``."""
    (_, components) = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    components = {name: _without_null(part) for name, part in components.items()}
    head = components.pop(kind.__name__)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **head,
        "title": title,
        "description": description,
        "$defs": dict(sorted(components.items())),
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _without_null(node: Any) -> Any:
    """Leave null out of a schema: TOML has none, a key that may be left out is written or is not there."""
    if not isinstance(node, dict):
        return node
    schema = {key: _without_null(part) for key, part in node.items() if not (key == "default" and part is None)}
    parts = [part for part in schema.pop("anyOf", ()) if part != {"type": "null"}]
    return {**schema, **(parts[0] if len(parts) == 1 else {"anyOf": parts} if parts else {})}


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """List the fields of a struct by their keys in a file."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


@cache
def _unwrap(kind: Any) -> tuple[Any, dict[str, Any]]:
    """Take a type out of ``Annotated`` and ``None``, with what its ``Meta`` say for the reader."""
    meta: dict[str, Any] = {}
    while get_origin(kind) is Annotated or (get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)):
        kind, *notes = (part for part in get_args(kind) if part is not NoneType)
        for note in notes:
            limits = {"min_length": note.min_length, "pattern": note.pattern}
            meta |= {key: value for key, value in limits.items() if value is not None}
            meta |= (note.extra_json_schema or {}) | (note.extra or {})
    return kind, meta


@cache
def _parts(kind: Any) -> tuple[Any, dict[str, Any], Any, tuple[Any, ...]]:
    """Take a type apart once: what :func:`_unwrap` gives, its origin and its arguments."""
    base, meta = _unwrap(kind)
    return base, meta, get_origin(base), get_args(base)


@cache
def _words(kind: Any) -> tuple[str, ...]:
    """List the words that a value of the annotated type may be; empty where any will do."""
    return _choices(*_unwrap(kind))


def _one_or_several(kind: Any) -> type[msgspec.Struct] | None:
    """Return the table of a type that is one or a list of the same: ``Fix | tuple[Fix, ...]``; None for other types."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else ()
    tables = [part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)]
    return tables[0] if len(parts) == 2 and len(tables) == 1 else None


def _choices(base: Any, meta: Mapping[str, Any]) -> tuple[str, ...]:
    """List the words that a value may be; empty where any will do."""
    return get_args(base) if get_origin(base) is Literal else tuple(meta.get("enum", ()))


def _blank(kind: Any) -> Any:
    """Make the value that stands for one that is missing or wrong: empty text, no rows, no entries."""
    base, _ = _unwrap(kind)
    base = _one_or_several(base) or base
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        return Reader().struct(base, {})
    return {str: "", float: 0.0, dict: {}, tuple: (), Literal: ""}.get(get_origin(base) or base)


def _in_words(base: Any) -> str:
    origin, arguments = get_origin(base) or base, get_args(base)
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        required = ", ".join(key for key, field in _fields(base).items() if field.required)
        return f"a table with {required}" if required else "a table"
    if origin is tuple:
        inner = _unwrap(arguments[0])[0]
        return "a list of texts" if inner is str else f"a list, each {_in_words(inner)}"
    return f"one of {', '.join(arguments)}" if origin is Literal else _WORDS[origin]


def _quote(value: object) -> str:
    if isinstance(value, list | dict):
        return _WORDS[type(value)]
    text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
