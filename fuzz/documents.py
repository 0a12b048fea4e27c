"""Damage to a document that is no trace: a tree of tables, lists and values, as JSON or TOML, and the text of it."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzz.values import ATTACKS, MARK, NUMBERS, ODD, SECRET

Container = dict[str, Any] | list[Any]

KEYS = [
    "",
    " ",
    "x",
    "a.b",
    "__class__",
    "schema_version",
    "0",
    "\x1b[2J",
    f"{MARK}>",
    "é" * 300,
    "\u202ekey",
    "k" * 5000,
]
SECRETS = [f"password={SECRET}", f"https://user:{SECRET}@host.example/x?token={SECRET}", f"/home/{SECRET}/x/train.py"]
_ALIKE = 0.4
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE = re.compile(r"[^\n]*\n?")


def damaged(rng: Random, document: Any, values: Sequence[Any] = (), alike: float = _ALIKE) -> Any:
    """A copy of *document* with one to six kinds of damage; *values* are what its own reader would be misled by.

    In the share *alike* every value keeps its type, so that most readers let it pass.
    """
    document = copy.deepcopy(document)
    damages = [_same_type] if rng.random() < alike else DAMAGES
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        place = _place(rng, document)
        if place is not None:
            rng.choice(damages)(rng, *place, values)
    return document


def reworded(rng: Random, document: Any, free: Sequence[tuple[str, ...]]) -> Any:
    """A copy of *document* with other words and numbers in one to four of the *free* keys; ``*`` is every key."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 2, 4])):
        *path, last = rng.choice(free)
        holder = document
        for name in path:
            key: Any = name
            if isinstance(holder, list):
                key = rng.randrange(len(holder)) if holder else None
            elif name == "*" and holder:
                key = rng.choice(list(holder))
            holder = holder[key] if key in (holder if isinstance(holder, dict) else range(len(holder))) else {}
        if isinstance(holder, dict) and (last in holder or (last == "*" and holder)):
            key = rng.choice(list(holder)) if last == "*" else last
            number = isinstance(holder[key], int | float)
            holder[key] = (
                rng.choice([rng.choice(NUMBERS), 0, 0.01, 0.5, 1.0, 3, 1e9])
                if number
                else rng.choice([*ATTACKS, *SECRETS])
            )
    return document


def _place(rng: Random, document: Any) -> tuple[Container, Any] | None:
    """Draw a container and one of its keys, at any depth: a document's long lists do not hide its few tables."""
    found = None
    while isinstance(document, dict | list) and document:
        key: Any = rng.choice(list(document)) if isinstance(document, dict) else rng.randrange(len(document))
        found, document = (document, key), document[key]
        if rng.random() < 0.3:
            break
    return found


def _value(rng: Random, values: Sequence[Any]) -> Any:
    pools = [NUMBERS, ODD, ATTACKS, SECRETS, *([values] * 3 if values else [])]
    return copy.deepcopy(rng.choice(rng.choice(pools)))


def _same_type(rng: Random, holder: Any, key: Any, values: Sequence[Any]) -> None:
    """Another number for a number, another text for a text, and lists with the same items in other numbers and orders."""
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int | float):
        pool = [other for other in [*NUMBERS, *values] if isinstance(other, type(value)) and other is not True]
        holder[key] = rng.choice([*pool, -value, value + type(value)(1)])
    elif isinstance(value, str):
        holder[key] = rng.choice(
            [rng.choice([*ATTACKS, *SECRETS]), rng.choice([v for v in [*values, value] if isinstance(v, str)])]
        )
    elif isinstance(value, list) and value:
        holder[key] = rng.choice(
            [value[::-1], value[:1], value + value, value * 20, value[1:], [value[0]] * len(value)]
        )
    elif isinstance(value, dict) and isinstance(holder, dict) and rng.random() < 0.3:
        holder[rng.choice([*ATTACKS, *SECRETS])] = copy.deepcopy(value)


def _drop(_rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    del holder[key]


def _set(rng: Random, holder: Any, key: Any, values: Sequence[Any]) -> None:
    holder[key] = _value(rng, values)


def _scale(rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    """A number grows out of all bounds; other values become one."""
    value = holder[key]
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    holder[key] = value * rng.choice([0, -1, 1e-12, 1.5, 1e9, 1e300]) if known else rng.choice(NUMBERS)


def _rename(rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    if isinstance(holder, dict):
        holder[rng.choice([*KEYS, *ATTACKS, str(key).upper(), f"{key}x"])] = holder.pop(key)
    else:
        holder.insert(0, holder.pop(key))


def _add(rng: Random, holder: Any, key: Any, values: Sequence[Any]) -> None:
    if isinstance(holder, dict):
        holder[rng.choice([*KEYS, *ATTACKS])] = rng.choice([holder[key], _value(rng, values)])
    else:
        holder.insert(key, _value(rng, values))


def _swap(rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    """Two values take each other's place."""
    other = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    holder[key], holder[other] = holder[other], holder[key]


def _wrap(rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    """A list in place of a value, a value in place of a list, or either nested deeply."""
    value = holder[key]
    if isinstance(value, list) and value and rng.random() < 0.5:
        holder[key] = value[0]
        return
    for _ in range(rng.choice([1, 1, 3, 40])):
        value = [value] if rng.random() < 0.7 else {"a": value}
    holder[key] = value


def _empty(rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    value = holder[key]
    holder[key] = type(value)() if isinstance(value, dict | list | str) else rng.choice([[], {}, "", None])


def _repeat(rng: Random, holder: Any, key: Any, _values: Sequence[Any]) -> None:
    """A list many times as long, a table with a hundred entries, a text of a hundred thousand characters."""
    value = holder[key]
    if isinstance(value, list) and value:
        holder[key] = (value * (1 + rng.choice([2, 50, 2000]) // len(value)))[:4000]
    elif isinstance(value, dict):
        value |= {f"{name}{number}": copy.deepcopy(value[name]) for name in list(value)[:3] for number in range(30)}
    else:
        text = str(value) or "x"
        holder[key] = (text * (100_000 // len(text) + 1))[: rng.choice([300, 5000, 100_000])]


DAMAGES: list[Callable[[Random, Any, Any, Sequence[Any]], None]] = [
    *[_drop, _drop, _set, _set, _set, _set, _scale, _scale, _rename, _add, _swap, _wrap, _empty, _repeat]
]

TOML_TOKENS: list[bytes] = [
    *[b'"', b"'", b'"""', b"'''", b"\\", b"[", b"]", b"[[", b"]]", b"{", b"}", b"=", b".", b",", b"#", b"\n", b"\r"],
    *[b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"nan", b"inf", b"-inf", b"1e999", b"9" * 5000, b"0x", b"1_0"],
    *[b"true", b"2027-01-31", b"07:32:00", b"1979-05-27T07:32:00Z", b"\\u0000", b"\\ud800", b"\\e", b"[" * 2000, b"x." * 70],
    *[b"a." * 3000 + b"a = 1\n", b"\n[a]\n[a]\n", b"\n[[match]]\n", b"\n[limits]\n", b"$nothing", b"<fuzz onload=x>", b"\x1b[2J"],
]  # fmt: skip


def lines_moved(rng: Random, text: str) -> str:
    """*text* with lines left out, doubled or in another order: each is right, and what they say together is not."""
    lines = _LINE.findall(text)
    for _ in range(rng.choice([1, 1, 2, 5])):
        start = rng.randrange(len(lines))
        piece = lines[start : start + rng.choice([1, 1, 2, 10])]
        if rng.random() < 0.6:
            del lines[start : start + len(piece)]
        place = rng.randrange(len(lines) + 1)
        if rng.random() < 0.6:
            lines[place:place] = piece
        lines = lines or ["\n"]
    return "".join(lines)


def toml(document: Any) -> bytes:
    """A table as TOML, what it holds inline; of what TOML has no way to say, something close."""
    return "".join(f"{_toml_key(key)} = {_toml_value(value)}\n" for key, value in document.items()).encode(
        "utf-8", "replace"
    )


def _toml_key(key: Any) -> str:
    text = str(key)
    return text if _BARE.fullmatch(text) else _toml_value(text)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml_value(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=not value.isprintable()).replace("\x7f", "\\u007f")
    if isinstance(value, bool) or value is None:
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else str(value)  # dates are as they are
