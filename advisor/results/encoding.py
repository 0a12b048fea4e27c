"""Results as indented JSON, safe to print."""

from __future__ import annotations

import re

import msgspec

from advisor.regex import regex

# Characters that steer a terminal or reorder text: raw in JSON they are legal, and still do so where it is printed.
_STEERING = {
    code: f"\\u{code:04x}"
    for code in (*range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
# In what is indented line breaks stand between values only, never inside a string.
_BREAK = regex(r"\n *")
_PLAIN_LIST = regex(r'\[\n(?: *(?:"(?:[^"\\\n]|\\.)*"|[-+.\w]+),?\n)+ *\]')
# A CI's runner takes these for its commands, wherever in a line they stand. As an escape the text is the same to whoever parses it.
_COMMAND = regex(r"##(?=\[|vso\[)", re.IGNORECASE)


def inert(text: str) -> str:
    """Return JSON in which no string holds a command of a CI's runner as it stands."""
    return _COMMAND.sub(r"#\\u0023", text) if "##" in text else text


def to_json(value: object) -> bytes:
    """Return *value* as indented JSON, safe to print: what could steer a terminal is escaped, lone surrogates are replaced.

    Lists of plain values stand on one line: the columns of a timeline would else be as many lines as it has events.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")
    text = _PLAIN_LIST.sub(lambda match: _BREAK.sub(" ", match[0]).replace("[ ", "[", 1)[:-2] + "]", text)
    return inert(text.translate(_STEERING)).encode("utf-8")
