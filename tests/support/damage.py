"""Fixtures of the tests of damage: sound events, kinds of damage, and everything that a report asks of a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from hypothesis import settings

import advisor.trace
from advisor import views as viewing
from advisor.frames import SCHEMAS
from advisor.reading import stream
from advisor.results.views import Views
from support.reading import event, mixture

SETTINGS = settings(derandomize=True, deadline=None, max_examples=60)
GOOD = [event(f"op{index}", ts=20 * index + 1, args={"Sequence number": index}) for index in range(3)]


def codes(recorded: stream.Recorded) -> list[str]:
    return [code for code, _ in recorded.notes]


def build_all(trace: advisor.trace.Trace) -> None:
    """Everything that a report asks of a trace."""
    claims: dict[str, Any] = {}
    for name in SCHEMAS:
        rows = np.ones(len(trace.frame(name)), np.bool_)
        rule = SimpleNamespace(match=SimpleNamespace(frame=name))
        claims[name] = SimpleNamespace(rule=rule, rows=rows, segments=trace.claims(name, rows))
    views = viewing.build(trace, claims, list(claims))
    assert msgspec.json.decode(msgspec.json.encode(views), type=Views) == views
    repr((trace.quality, trace.features, trace.span_ns, trace.step_ms, trace.gpu_expected, trace.ledger.by_cause()))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A bound that only a hang or a quadratic loop can miss on a slow machine."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < seconds


SMALL, LARGE = 3, 400


def among(damaged: bytes, size: int) -> tuple[bytes, int, int]:
    """A file of sound events with *damaged* in the middle; the damaged one's number and byte."""
    good = [json.dumps(e).encode() for e in mixture(size // 7 + 1)[:size]]
    text = bytearray(b'{"schemaVersion": 1, "traceEvents": [\n')
    for item in good:
        text += item + b",\n"
    place = len(text)
    for item in [damaged, *good]:
        text += item + b",\n"
    return bytes(text[:-2]) + b'\n], "deviceProperties": [{"id": 0, "name": "A100"}]}', size + 1, place


def op(name: str, **fields: Any) -> dict[str, Any]:
    return event(name, **fields)


def raw(name: bytes, rest: bytes = b'"ts": 10, "dur": 2, "args": {}') -> bytes:
    return b'{"ph": "X", "cat": "cpu_op", "name": ' + name + b', "pid": 1, "tid": 7, ' + rest + b"}"


FIVE = {"Sequence number": 5}
# Args that hold what looks like events, and the same as text.
DECOYS = {"x": [{"a": 1}, {"name": "decoy", "ts": 3}, {"ph": "X", "name": "decoy"}, {"args": {}}]}
LIKE_EVENTS = b'"ts": 10, "dur": 2, "args": ' + json.dumps(DECOYS).encode()
# What is written, and the event that it is read as.
MENDED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "unescaped quote": (raw(rb'"a/b.py(3): say "hi""'), op('a/b.py(3): say "hi"')),
    "unescaped quotes and commas": (raw(rb'"f("a", 1, "b")"'), op('f("a", 1, "b")')),
    "unescaped quote before a brace": (raw(rb'"{"a"}"'), op('{"a"}')),
    "backslashes": (raw(rb'"C:\Users\new\train.py(3): f"'), op("C:\\Users\\new\\train.py(3): f")),
    "backslash at the end": (raw(rb'"C:\tmp\"'), op("C:\\tmp\\")),
    "line break": (raw(b'"a\nb\r\nc"'), op("a\nb\r\nc")),
    "tab and NUL": (raw(b'"a\tb\x00c\x1f"'), op("a\tb\x00c\x1f")),
    "invalid UTF-8": (raw(b'"caf\xe9 \xff\xfe"'), op("caf\ufffd \ufffd\ufffd")),
    "cut UTF-8": (raw(b'"\xf0\x9f\x9a"'), op("\ufffd")),
    "half a surrogate pair": (raw(rb'"a\ud800b \ud83d\ude80"'), op("a\\ud800b \U0001f680")),
    "bare N/A": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": N/A, "Sequence number": 5}'), op("a", args=FIVE)),
    "NaN and Infinity": (raw(b'"a"', b'"ts": 10, "dur": NaN, "args": {"x": [Infinity, -Infinity, nan, -inf]}'), op("a", dur=0)),
    "None and undefined": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": None, "y": undefined}'), op("a")),
    "trailing commas": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": [1, 2,],},'), op("a")),
    "a quote before args that look like events": (raw(rb'"say "hi""', LIKE_EVENTS), op('say "hi"', args=DECOYS)),
    "no closing brace": (raw(b'"a"')[:-1], op("a")),
    "name is a number": (raw(b"5"), op("5")),
    # What stands in it is no name: arguments, of which one may be the environment, as a fuzzer found.
    "name is an object": (raw(b'{"env": {"HOME": "/home/alice"}}'), op("")),
    "name is a list": (raw(b'["a"]'), op("")),
    "args is a list": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": [1, 2]'), op("a")),
    "tid is true": (raw(b'"a"', b'"ts": 10, "dur": 2, "tid": true'), op("a", tid=None)),
    "a stack of numbers": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"Call stack": 7, "Sequence number": 5}'), op("a", args=FIVE)),
    "a quote in a list": (raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"Input type": ["""]}'), op("a", args={"Input type": ['"']})),
}  # fmt: skip
LOST: dict[str, bytes] = {
    "no value": raw(b""),
    "colons": raw(b'::: "a"'),
    "cut in a name": raw(b'"a/b.py(3): f"')[:50],
    "cut in a number": raw(b'"a"')[:70],
    "a bracket never closed": raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": [1, 2}'),
    "a bracket too many": raw(b'"a"', b'"ts": 10, "dur": 2, "args": {"x": [1, 2]]}'),
    "a string never closed": raw(b'"a')[:-20],
    "noise": bytes(range(1, 200)),
    "colons before args that look like events": raw(b'::: "a"', LIKE_EVENTS),
    "colons before a list that looks like events": raw(
        b'::: "a"', b'"x": [{"a": 1}, {"name": "decoy"}, {"name": "decoy"}]'
    ),
    "cut inside args that look like events": raw(b'"a"', LIKE_EVENTS)[:-20],
    "not an object": b"[1, 2, 3]",
    "a word": b"oops",
    "nested beyond all bounds": raw(b'"a"', b'"ts": 10, "args": ' + b'{"a": ' * 20_000 + b"1" + b"}" * 20_000),
}
