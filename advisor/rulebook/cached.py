"""Rules that were read and checked once, kept in the cache's folder: reading them anew takes longer than reading a small trace.

Kept is what msgspec encodes of them, and it is decoded into their types: data, never code. What the rules came from stands in
the entry's name: the files, the user's limits, the columns of the frames, the code that reads rules, and the libraries.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import duckdb
import msgspec

from advisor.cache.store import Store, folder
from advisor.results.version import __version__
from advisor.rulebook.rule import Rule


@cache
def _code() -> bytes:
    """Digest what makes rules of files: this package, and the libraries that it parses with."""
    digest = hashlib.sha256(f"{__version__} {msgspec.__version__} {duckdb.__version__}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def name_of(parts: Iterable[object]) -> str:
    """Return the name of the entry for rules that came from *parts*, each told by its ``repr``; empty where the cache is off."""
    if folder() is None:
        return ""
    digest = hashlib.sha256(_code())
    for part in parts:
        text = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _store() -> Store | None:
    root = folder()
    return Store(root, 0) if root is not None else None


def read(name: str) -> tuple[Rule, ...] | None:
    """Return the rules of an entry; None where there is none, or the cache is off."""
    store = _store()
    data = store.rules(name) if store is not None else None
    try:
        return msgspec.msgpack.decode(data, type=tuple[Rule, ...]) if data is not None else None
    except (ValueError, TypeError, RecursionError):
        return None


def write(name: str, rules: tuple[Rule, ...]) -> None:
    """Keep rules, where the cache is not off and can be written."""
    if (store := _store()) is None:
        return
    with contextlib.suppress(OverflowError):  # a limit of more than 64 bits is kept by nobody
        store.save_rules(name, msgspec.msgpack.encode(rules))
