"""Mending one damaged event.

The damage that real traces have (pytorch#113001, #130622, #98432, kineto's bare N/A): unescaped quotes, backslashes and
control characters inside names, invalid UTF-8, ``NaN``/``Infinity``/``N/A`` as values, trailing commas.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from advisor.reading.events import BROKEN, FIELDS, ONE, Args, Event
from advisor.regex import regex

T = TypeVar("T")

_BARE = regex(
    r"([:\[,]\s*)(?:[-+]?(?:NaN|nan|inf(?:inity)?|Inf(?:inity)?|INF|1\.#[A-Z]+)|N/A|None|undefined)(?=\s*[,\]}])"
)
_ODD = regex(r",\s*[\]}]|[NI#]|nan|inf|und")
_TRAILING_COMMA = regex(r",(\s*[\]}])")
# What may follow the closing quote of a key, of a value in an object (its end, or another key) and of a list's element.
_KEY_CLOSES = regex(r"\s*:")
# White space is never given back: a quarter of a megabyte of it would else be tried in as many ways squared.
_VALUE_CLOSES = regex(r'\s*+(?:,\s*+"(?:[^"\\]|\\.){0,80}"\s*+:|(?:,\s*+)?\}\s*+(?:[,\]}]|$)|$)')
_ELEMENT_CLOSES = regex(r'\s*+(?:,\s*+(?:["\[{\]]|-?\d|true\b|false\b|null\b|$)|\]|$)')
# Half a surrogate pair is no character: it stays as the six characters that it is written with.
_GOOD_ESCAPE = regex(
    r'\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})'
)
_ESCAPE = regex(r"\\u[0-9a-fA-F]{4}")
_PLAIN = regex(r'[^"\\\x00-\x1f]+')
_NEXT_KEY = regex(r'\s*,\s*"[^"\\]{1,40}"\s*:')
# Mending goes character by character; no real event and no real root object is so long.
MOST_MENDED = 1 << 18
MOST_ROOT = 4 << 20


def mend_text(text: str) -> str:
    """*text* with its strings re-escaped and its bare words replaced by null; still JSON only if the damage was known."""
    out: list[str] = []
    nesting: list[str] = []
    at = outside_from = 0
    while (quote := text.find('"', at)) >= 0:
        outside = text[outside_from:quote]
        closes = _closing(outside, nesting)
        plain = _PLAIN.match(text, quote + 1)
        at = plain.end() if plain else quote + 1
        if text[at : at + 1] == '"' and closes.match(text, at + 1):
            out += [_mend_outside(outside), text[quote : at + 1]]
            at += 1
        else:
            out += [_mend_outside(outside), '"']
            at = _mend_string(text, quote + 1, closes, out)
            out.append('"')
        outside_from = at
    out.append(_mend_outside(text[outside_from:]))
    return "".join(out)


def _closing(outside: str, nesting: list[str]) -> re.Pattern[str]:
    """Return the pattern of what must follow the string that begins behind *outside*, and keep track of the *nesting*."""
    for char in outside:
        if char in "{[":
            nesting.append(char)
        elif char in "}]" and nesting:
            nesting.pop()
    if nesting and nesting[-1] == "[":
        return _ELEMENT_CLOSES
    return _KEY_CLOSES if outside.rstrip()[-1:] in ("{", ",") else _VALUE_CLOSES


def _mend_string(text: str, at: int, closes: re.Pattern[str], out: list[str]) -> int:
    """Write the string that begins at *at*, re-escaped; returns where the text goes on behind its closing quote."""
    escapes: list[int] = []
    literal = False
    while at < len(text):
        plain = _PLAIN.match(text, at)
        if plain:
            out.append(plain[0])
            at = plain.end()
            continue
        char = text[at]
        at += 1
        if char == '"':
            if closes.match(text, at):
                break
            out.append('\\"')
        elif char == "\\":
            good = _GOOD_ESCAPE.match(text, at - 1)
            # A path that ends in a backslash (C:\tmp\") escapes its own closing quote.
            if good and not (good[0] == '\\"' and closes is _VALUE_CLOSES and _NEXT_KEY.match(text, at + 1)):
                escapes.append(len(out))
                out.append(good[0])
                at = good.end()
            else:
                literal = literal or not _ESCAPE.match(text, at - 1)
                out.append("\\\\")
        else:
            out.append(f"\\u{ord(char):04x}")
    if literal:
        # Where one backslash stands for itself, so do the others: C:\new has no line break in it.
        for index in escapes:
            if out[index] not in ('\\"', "\\\\", "\\/"):
                out[index] = out[index].replace("\\", "\\\\")
    return at


def _mend_outside(text: str) -> str:
    if not _ODD.search(text):
        return text
    return _TRAILING_COMMA.sub(r"\1", _BARE.sub(r"\1null", text))


def mend(text: bytes) -> bytes:
    """The same for bytes: what is no UTF-8 is replaced. Too much text stays as it is."""
    return mend_text(text.decode("utf-8", "replace")).encode() if len(text) <= MOST_ROOT else text


def mend_event(piece: bytes, *, again: bool = True) -> tuple[Event, bytes] | None:
    """The event in *piece*, repaired where it must be, and its text as it was understood; None if it is no event.

    *again*: text that is not right JSON is mended and looked at once more.
    """
    try:
        return ONE.decode(piece), piece
    except msgspec.ValidationError:
        loose = loosen(piece)
        return None if loose is None else (loose, piece)
    except BROKEN:
        return mend_event(mend(piece), again=False) if again and len(piece) <= MOST_MENDED else None


def loosen(piece: bytes) -> Event | None:
    """An event whose JSON is right but whose types are not: fields that do not fit are dropped."""
    fields = _decode(piece, FIELDS)
    if fields is None:
        return None
    event = Event()
    for key in ("ph", "cat", "name"):
        setattr(event, key, _text(fields.get(key)))
    for key in ("pid", "tid"):
        setattr(event, key, _decode(fields.get(key), _NUMBER))
    for key in ("ts", "dur"):
        setattr(event, key, _decode(fields.get(key), _TIME))
    args = _decode(fields.get("args"), FIELDS)
    if args is not None:
        event.args = Args()
        for name, wire in _ARGS:
            raw = args.get(wire)
            if raw is None:
                continue
            decoder: msgspec.json.Decoder[Any] = _STRING if name in _TEXT else _NUMBER
            setattr(event.args, name, raw if name in _RAW else _decode(raw, decoder))
    return event


def _decode(raw: bytes | msgspec.Raw | None, decoder: msgspec.json.Decoder[T]) -> T | None:
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except BROKEN:
        return None


def _text(raw: msgspec.Raw | None) -> str:
    if raw is None or bytes(raw) == b"null":
        return ""
    text = _decode(raw, _STRING)
    if text is not None:
        return text
    # A number or a word is as good as a name. An object or a list is none, and may hold the environment.
    return "" if bytes(raw)[:1] in (b"{", b"[") else bytes(raw)[:1000].decode("utf-8", "replace")


_NUMBER: msgspec.json.Decoder[int | float | str | None] = msgspec.json.Decoder(int | float | str | None)
_TIME: msgspec.json.Decoder[Decimal | None] = msgspec.json.Decoder(Decimal | None)
_STRING: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_ARGS = list(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
_RAW = {field.name for field in msgspec.structs.fields(Args) if field.type is msgspec.Raw}
_TEXT = {field.name for field in msgspec.structs.fields(Args) if field.type == (str | None)}
