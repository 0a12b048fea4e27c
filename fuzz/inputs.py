"""One trace: its bytes, from the seed of the run and its number alone."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzz.structure import Root, damaged
from fuzz.values import TOKENS

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_STRUCTURE = 0.55  # of all inputs; the others are damaged as bytes
_PACKED = 0.15
_PACKED_DAMAGED = 0.7
_BOTH_SHARE = 0.1

LAYOUTS: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"indent": 1}, {"sort_keys": True}]


def make(rng: Random, seeds: list[tuple[str, Root]]) -> tuple[str, bytes]:
    """Damage a seed; return the damage with the name of the seed, and the resulting file."""
    name, root = rng.choice(seeds)
    structural = rng.random() < _STRUCTURE
    document = damaged(rng, root, rng.choice(seeds)[1]) if structural else root
    text = encode(document, rng)
    damage = "structure" if structural else "bytes"
    if not structural or rng.random() < _BOTH_SHARE:
        text = edited(rng, text)
    text, damage = packed(rng, text, damage)
    return f"{damage}: {name}", text


def packed(rng: Random, data: bytes, damage: str) -> tuple[bytes, str]:
    """In some of the inputs the file as gzip, mostly damaged as such; and the damage."""
    if rng.random() >= _PACKED:
        return data, damage
    data = gzip.compress(data, 1, mtime=0)
    return (edited(rng, data), f"{damage}, gzip") if rng.random() < _PACKED_DAMAGED else (data, damage)


def encode(root: Any, rng: Random) -> bytes:
    """*root* as JSON, in one of the layouts that exporters have; lone surrogates stay escaped."""
    layout = rng.choice(LAYOUTS)
    text = json.dumps(root, **layout) if not layout.get("sort_keys") else json.dumps(root)
    return text.encode()


def edited(rng: Random, text: bytes, tokens: Sequence[bytes] = TOKENS) -> bytes:
    """*text* with some of its bytes flipped, cut, doubled, moved or replaced, by one of the *tokens* for instance."""
    out = bytearray(text)
    for _ in range(rng.choice([1, 1, 2, 3, 8, 30])):
        if out:
            rng.choice(EDITS)(rng, out, tokens)
    return bytes(out)


def _place(rng: Random, out: bytearray) -> tuple[int, int]:
    """Draw the begin and the end of a stretch: mostly a short one."""
    start = rng.randrange(len(out))
    return start, min(len(out), start + rng.choice([1, 1, 2, 8, 64, 1000, len(out) // 4 + 1]))


def _flip(rng: Random, out: bytearray, _tokens: Sequence[bytes]) -> None:
    out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)


def _cut(rng: Random, out: bytearray, _tokens: Sequence[bytes]) -> None:
    start, end = _place(rng, out)
    del out[start:end]


def _end(rng: Random, out: bytearray, _tokens: Sequence[bytes]) -> None:
    del out[rng.randrange(len(out)) :]


def _double(rng: Random, out: bytearray, _tokens: Sequence[bytes]) -> None:
    start, end = _place(rng, out)
    out[start:start] = out[start:end] * rng.choice([1, 1, 3])


def _move(rng: Random, out: bytearray, _tokens: Sequence[bytes]) -> None:
    start, end = _place(rng, out)
    piece = out[start:end]
    del out[start:end]
    to = rng.randrange(len(out) + 1)
    out[to:to] = piece


def _insert(rng: Random, out: bytearray, tokens: Sequence[bytes]) -> None:
    start = rng.randrange(len(out))
    out[start:start] = rng.choice(tokens)


def _overwrite(rng: Random, out: bytearray, tokens: Sequence[bytes]) -> None:
    start = rng.randrange(len(out))
    token = rng.choice(tokens)
    out[start : start + len(token)] = token


def _noise(rng: Random, out: bytearray, _tokens: Sequence[bytes]) -> None:
    start, end = _place(rng, out)
    out[start:end] = rng.randbytes(min(end - start, 5000))


def _renumber(rng: Random, out: bytearray, tokens: Sequence[bytes]) -> None:
    match = _NUMBER.search(out, rng.randrange(len(out)))
    if match:
        out[match.start() : match.end()] = rng.choice(tokens)


EDITS: list[Callable[[Random, bytearray, Sequence[bytes]], None]] = [
    *[_flip, _flip, _cut, _end, _double, _move, _insert, _insert, _overwrite, _noise, _renumber, _renumber]
]
