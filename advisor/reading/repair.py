"""Mending one damaged event, and cutting damaged text into events.

The damage that real traces have (pytorch#113001, #130622, #98432, kineto's bare N/A): unescaped quotes, backslashes and
control characters inside names, invalid UTF-8, ``NaN``/``Infinity``/``N/A`` as values, trailing commas.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from advisor.reading.events import ONE, Args, Event

BOUNDARY = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|args|id|s|dur)"\s*:')
_BARE = re.compile(
    r"([:\[,]\s*)(?:[-+]?(?:NaN|nan|inf(?:inity)?|Inf(?:inity)?|INF|1\.#[A-Z]+)|N/A|None|undefined)(?=\s*[,\]}])"
)
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
# What may follow the closing quote of a string: the end of the object or list, a colon (it was a key), or a comma
# and then another key or list element.
_CLOSES = re.compile(r'\s*(?:[}\]:]|,\s*(?:["\[{\]}]|-?\d|true\b|false\b|null\b|$)|$)')
_GOOD_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_MAX_EVENT = 1 << 20


def mend_text(text: str) -> str:
    """*text* with its strings re-escaped and its bare words replaced by null; still JSON only if the damage was known."""
    out: list[str] = []
    at, end = 0, len(text)
    outside_from = 0
    while at < end:
        quote = text.find('"', at)
        if quote < 0:
            break
        out.append(_mend_outside(text[outside_from:quote]))
        out.append('"')
        at = quote + 1
        while at < end:
            plain = _PLAIN.match(text, at)
            if plain:
                out.append(plain[0])
                at = plain.end()
                continue
            char = text[at]
            if char == '"':
                if _CLOSES.match(text, at + 1):
                    at += 1
                    break
                out.append('\\"')
                at += 1
            elif char == "\\":
                good = _GOOD_ESCAPE.match(text, at)
                # A path that ends in a backslash (C:\tmp\") escapes its own closing quote.
                if good and not (good[0] == '\\"' and _closes_value(text, at + 2)):
                    out.append(good[0])
                    at = good.end()
                else:
                    out.append("\\\\")
                    at += 1
            else:
                out.append(f"\\u{ord(char):04x}")
                at += 1
        out.append('"')
        outside_from = at
    out.append(_mend_outside(text[outside_from:]))
    return "".join(out)


def _closes_value(text: str, at: int) -> bool:
    """Whether a quote just before *at* ends a value that another key follows."""
    return re.match(r'\s*,\s*"[^"\\]{1,40}"\s*:', text[at : at + 80]) is not None


def _mend_outside(text: str) -> str:
    return _TRAILING_COMMA.sub(r"\1", _BARE.sub(r"\1null", text))


def mend_event(piece: bytes) -> Event | None:
    """The event in *piece*, repaired, or None if it cannot be understood."""
    if len(piece) > _MAX_EVENT:
        return None
    try:
        return ONE.decode(piece)
    except msgspec.ValidationError:
        return loosen(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    text = mend_text(piece.decode("utf-8", "replace"))
    try:
        return ONE.decode(text)
    except msgspec.ValidationError:
        return loosen(text.encode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def loosen(piece: bytes) -> Event | None:
    """An event whose JSON is right but whose types are not: fields that do not fit are dropped."""
    try:
        raw = msgspec.json.decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return from_mapping(raw)


def from_mapping(raw: Any) -> Event | None:
    """An :class:`Event` from decoded JSON, field by field; None if it is no event."""
    if not isinstance(raw, dict):
        return None
    event = Event()
    for key in ("ph", "cat", "name"):
        value = raw.get(key)
        setattr(event, key, value if isinstance(value, str) else ("" if value is None else str(value)[:1000]))
    for key in ("pid", "tid", "ts", "dur"):
        value = raw.get(key)
        setattr(event, key, value if isinstance(value, int | float | str) and not isinstance(value, bool) else None)
    args = raw.get("args")
    if isinstance(args, dict):
        event.args = Args()
        for name, wire in _ARGS:
            value = args.get(wire)
            if name in _RAW:
                if isinstance(value, list):
                    setattr(event.args, name, msgspec.Raw(msgspec.json.encode(value)))
            elif name in _TEXT:
                if isinstance(value, str):
                    setattr(event.args, name, value)
            elif isinstance(value, int | float | str) and not isinstance(value, bool):
                setattr(event.args, name, value)
    return event


_ARGS = list(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
_RAW = {"grid", "block", "types", "dims", "dims_old"}
_TEXT = {"stack", "collective", "comm_dtype", "group_name"}
