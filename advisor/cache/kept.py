"""One trace file and what the cache holds of it."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from advisor.cache import identity, snapshot
from advisor.cache.store import CacheError, Store

if TYPE_CHECKING:
    from advisor.reading.stream import Recorded
    from advisor.timeline.calls import Host
    from advisor.timeline.recording import Recording

# Text of a trace below which reading it anew takes no time.
LEAST_BYTES = 20_000_000
# gzip makes text smaller by this much at most.
_RATIO = 40
# The version stands in the package itself.
_DECIDES = ("__init__.py", "reading", "frames", "cache", "intervals.py")


class Kept:
    """What the cache holds of the file at *path*: found before it is read, added to afterwards."""

    def __init__(self, store: Store, path: str, libraries: Iterable[str]) -> None:
        self._store, self._path = store, path
        self._libraries = tuple(libraries)
        self._looked_ns = time.time_ns()
        self._facts = identity.facts(path)
        self._content: str | None = None
        self._hashing: identity.Hashing | None = None
        self._has_columns = self._has_host = False
        self._code = ""
        if self._facts is not None:
            code = _code() if self._facts.size * _RATIO >= LEAST_BYTES else None
            self._code, self._facts = code or "", self._facts if code else None

    def recorded(self) -> Recorded | None:
        """The columns of the file as it is now, where they are kept."""
        facts = self._facts
        if facts is None or not self._store.holds(f"{facts.size:x}-"):
            return None
        self._content = self._store.known(facts)
        if self._content is None:
            self._content = identity.content(self._path)
            if self._content is None or identity.facts(self._path) != facts:
                self._facts = None
                return None
            self._store.remember(facts, self._looked_ns, self._content)
        found = self._store.load(self._name("columns"))
        if found is None:
            return None
        try:
            recorded = snapshot.to_recorded(found)
        except (msgspec.DecodeError, ValueError, KeyError, TypeError):
            self._store.remove(self._name("columns"))
            return None
        self._has_columns = True
        return recorded

    def host(self, recorded: Recorded) -> Host | None:
        """The forest of *recorded*, where it is kept."""
        if not self._has_columns or (found := self._store.load(self._name("host"))) is None:
            return None
        try:
            host = snapshot.to_host(found, recorded, self._libraries)
        except (msgspec.DecodeError, ValueError, KeyError, TypeError):
            self._store.remove(self._name("host"))
            return None
        self._has_host = True
        return host

    def see(self, block: bytes) -> None:
        """The next bytes of the file, as they are read."""
        if self._facts is None or self._content is not None:
            return
        if self._hashing is None:
            self._hashing = identity.Hashing()
        self._hashing.update(block)

    def done(self) -> None:
        """No more bytes come."""
        if self._hashing is not None:
            self._hashing.close()

    def keep(self, recording: Recording) -> str:
        """Write what is not there yet. Returns why that cannot be, in words; '' where all is well or nothing is to be done."""
        facts, recorded = self._facts, recording.recorded
        host = vars(recording).get("host")
        missing = not self._has_columns or (host is not None and not self._has_host)
        if facts is None or recorded.size < LEAST_BYTES or not missing:
            return ""
        if self._content is None and self._hashing is not None:
            self._content = self._hashing.content(facts.size)
        if self._content is None or identity.facts(self._path) != facts:
            return ""
        try:
            if not self._has_columns:
                self._store.save(self._name("columns"), snapshot.of_recorded(recorded))
                self._has_columns = True
            if host is not None and not self._has_host:
                self._store.save(self._name("host"), snapshot.of_host(host))
                self._has_host = True
        except snapshot.Unkept:
            pass
        except CacheError as error:
            return str(error)
        self._store.remember(facts, self._looked_ns, self._content)
        self._store.bound()
        return ""

    def _name(self, what: str) -> str:
        """The name of an entry: size and content of the file, what decides how it is read, and what the entry holds."""
        size = self._facts.size if self._facts else 0
        if what == "host":
            told = "\0".join(sorted(set(self._libraries)))
            what += "-" + hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        return f"{size:x}-{self._content}-{self._code}-{what}"


@lru_cache(maxsize=1)
def _code(root: Path = Path(__file__).parents[1]) -> str | None:
    """A digest of what decides the columns, besides the file: the package's code below *root* and what it runs on.

    None where the code is not there to be looked at; then nothing is kept.
    """
    import numpy as np

    parts = [platform.python_version(), sys.platform, sys.byteorder, np.__version__, msgspec.__version__]
    digest = hashlib.sha256("\0".join(parts).encode())
    try:
        for name in _DECIDES:
            path = root / name
            for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
    except OSError:
        return None
    return digest.hexdigest()[:16]
