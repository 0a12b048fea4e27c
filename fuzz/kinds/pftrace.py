"""Perfetto traces, written as torch writes them: damaged in what they say, in their packets, and as bytes."""

from __future__ import annotations

from random import Random

from fuzz.builders import content, encode, number, varint
from fuzz.inputs import edited, packed
from fuzz.kinds import trace
from fuzz.seeds import Root
from fuzz.structure import damaged
from fuzz.world import Files, World

_STRUCTURE = 0.4
_HOSTILE = 0.25
TOKENS = [
    *[b"\x0a", b"\x0a\x00", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\xff" * 12],
    *[b"\x00", b"\x5a", b"\x62", b"\xaa\x03", b"\xe2\x03", b"\x48\x01", b"\x48\x02", b"\x68\x01", b"\x52\x7f", b"\x07"],
    *[b"\x40" + varint(value) for value in (0, 1, 1 << 62, (1 << 64) - 1, 1 << 60)],
]


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A trace in one of the two encodings, with damage."""
    name, root = rng.choice(world.seeds)
    stages, categories = rng.random() < 0.5, rng.random() < 0.5
    structural = rng.random() < _STRUCTURE
    document = damaged(rng, root, rng.choice(world.seeds)[1]) if structural else root
    data = _encoded(document, root, stages=stages, categories=categories)
    damage = f"{'stages' if stages else 'slices'}, {'structure' if structural else 'bytes'}"
    if rng.random() < _HOSTILE:
        data, damage = data + b"".join(rng.choice(_MAKERS)(rng) for _ in range(3)), f"{damage}, hostile"
    if not structural or rng.random() < 0.2:
        data = edited(rng, data, TOKENS)
    data, damage = packed(rng, data, damage)
    return f"{damage}: {name}", {trace.NAME: data}


def _encoded(document: Root, root: Root, *, stages: bool, categories: bool) -> bytes:
    """The document as packets; the sound one where torch's encoder could not have written the damaged one."""
    for given in (document, root):
        try:
            return encode(given, stages=stages, categories=categories)
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError, RecursionError):
            continue
    return b""


def _event(rng: Random, body: bytes) -> bytes:
    return content(1, number(8, rng.choice([0, 5_000, 1 << 60, (1 << 64) - 1])) + number(10, 1) + content(11, body))


def _nested(rng: Random) -> bytes:
    """An annotation of lists in lists."""
    value = b""
    for _ in range(rng.choice([10, 40, 400])):
        value = content(12, value)
    return _event(rng, number(9, 1) + number(11, 7) + content(4, content(10, "Input Dims") + value))


def _many(rng: Random) -> bytes:
    """Slices that begin and do not end, on many tracks."""
    return b"".join(
        _event(rng, number(9, rng.choice([1, 1, 2])) + number(11, at)) for at in range(rng.choice([20, 6000]))
    )


def _cleared(rng: Random) -> bytes:
    """Names that are given and forgotten again and again."""
    interned = content(2, number(1, 1) + content(2, "x"))
    return content(1, number(10, 1) + number(13, 1) + content(12, interned)) * rng.choice([3, 3000])


def _wide(rng: Random) -> bytes:
    """A packet of very many fields."""
    return content(1, number(10, 1) * rng.choice([100, 100_000]))


def _stage(rng: Random) -> bytes:
    """A stage of no time, of all time, on no device or one beyond any."""
    body = number(2, rng.choice([0, 1 << 62, (1 << 64) - 1])) + number(11, rng.choice([0, 300, (1 << 64) - 1]))
    body += number(14, 1) + content(
        6, content(1, "correlation") + content(2, rng.choice(["x", "1e9", "-1", "9" * 400]))
    )
    return content(1, number(8, rng.choice([0, 1 << 61])) + number(10, 1) + content(53, body))


_MAKERS = (_nested, _many, _cleared, _wide, _stage)

tried = trace.tried
