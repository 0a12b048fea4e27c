"""Entries of one trace file: what was read of it (``columns``), and the host's forest (``host``); found, decoded, written."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from advisor.cache import codec, identity
from advisor.cache.codec import Array
from advisor.cache.store import CacheError, Store, prefix
from advisor.errors import AdvisorError
from advisor.privacy import scrub_all
from advisor.reading.stream import Recorded
from advisor.timeline.calls import Attributes, Host
from advisor.timeline.source import LIBRARIES, Place

if TYPE_CHECKING:
    from advisor.timeline.recording import Recording

Value = TypeVar("Value")

# Text of a trace below which reading it anew takes no time.
LEAST_BYTES = 20_000_000
# gzip makes text smaller by this much at most.
_RATIO = 40
_FORMAT = 2
"""Of the entries' bytes; the first was folders of Parquet."""
_DECIDES = ("results/version.py", "reading", "timeline", "cache", "intervals.py", "privacy.py")
# Notes that tell of the file's name, not of its content.
_OF_THE_NAME = frozenset(["not-gzip"])
# Of the forest: what others hold, and what only its making needs.
_NOT_KEPT = frozenset(["_recorded", "_place_index", "libraries"])


class Unkept(Exception):
    """Something that has no plain form."""


class Forest(msgspec.Struct):
    """The attributes of a :class:`Host` by name and kind."""

    arrays: dict[str, Array] = {}
    attributes: dict[str, Attributes] = {}
    tables: dict[str, dict[str, Array]] = {}
    lists: dict[str, list[Array]] = {}
    places: dict[str, list[Place]] = {}
    plain: dict[str, int | list[int | str]] = {}


class Kept:
    """Entries of the file at *path*: found before it is read, added to afterwards."""

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
        """Return the columns of the file as it is now, where they are kept."""
        facts = self._facts
        if facts is None or not self._store.holds(prefix(facts.size)):
            return None
        self._content = self._store.known(facts)
        if self._content is None:
            self._content = identity.content(self._path)
            if self._content is None or identity.facts(self._path) != facts:
                self._facts = None
                return None
            self._store.remember(facts, self._looked_ns, self._content)
        recorded = self._load("columns", Recorded)
        self._has_columns = recorded is not None
        return recorded

    def host(self, recorded: Recorded) -> Host | None:
        """Return the forest of *recorded*, where it is kept."""
        forest = self._load("host", Forest) if self._has_columns else None
        self._has_host = forest is not None
        return None if forest is None else to_host(forest, recorded, self._libraries)

    def _load(self, what: str, kind: type[Value]) -> Value | None:
        """Read an entry; one that holds something else is removed."""
        data = self._store.load(self._name(what))
        try:
            return None if data is None else codec.decode(data, kind, compressed=True)
        except AdvisorError:
            self._store.remove(self._name(what))
            return None

    def see(self, block: bytes) -> None:
        """Take in the next bytes of the file, as they are read."""
        if self._facts is None or self._content is not None:
            return
        if self._hashing is None:
            self._hashing = identity.Hashing()
        self._hashing.update(block)

    def done(self) -> None:
        """Take note that no more bytes come."""
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
                self._store.save(self._name("columns"), of_recorded(recorded))
                self._has_columns = True
            if host is not None and not self._has_host:
                self._store.save(self._name("host"), of_host(host))
                self._has_host = True
        except Unkept:
            pass
        except CacheError as error:
            return str(error)
        self._store.remember(facts, self._looked_ns, self._content)
        self._store.bound()
        return ""

    def _name(self, what: str) -> str:
        """Return the name of an entry: size and content of the file, what decides how it is read, and what the entry holds."""
        size = self._facts.size if self._facts else 0
        if what == "host":
            names = "\0".join(sorted(set(self._libraries)))
            what += "-" + hashlib.sha256(names.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        return f"{prefix(size)}{self._content}-{self._code}-{_FORMAT}-{what}"


def of_recorded(recorded: Recorded) -> bytes:
    """Return the columns as read. Raises ``Unkept``."""
    if recorded.part is not None or any(code in _OF_THE_NAME for code, _ in recorded.notes):
        raise Unkept("not the content of the file alone")
    # Texts are kept as the frames show them, and are cleaned once more when they are read again.
    if any(scrub_all(table) != table for table in (recorded.names, recorded.stacks, recorded.texts)):
        raise Unkept("texts that cleaning does not leave alone")
    tables = {group: {key: table[key] for key in table} for group, table in recorded.tables.items()}
    return _encode(replace(recorded, tables=tables))


def of_host(host: Host) -> bytes:
    """Return the forest, however its attributes are called. Raises ``Unkept`` for one of a kind that is not known here."""
    forest = Forest()
    for name, value in vars(host).items():
        if name not in _NOT_KEPT:
            getattr(forest, _kind(name, value))[name] = value
    return _encode(forest)


def to_host(forest: Forest, recorded: Recorded, libraries: Iterable[str]) -> Host:
    """Return the forest of *recorded* again, without working it out."""
    host = Host.__new__(Host)
    vars(host).update(_recorded=recorded, libraries=LIBRARIES | frozenset(libraries))
    for values in msgspec.structs.asdict(forest).values():
        vars(host).update(values)
    return host


def _kind(name: str, value: object) -> str:
    """Return the field of :class:`Forest` that holds such an attribute."""
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    same = {type(item) for item in items}
    if isinstance(value, np.ndarray):
        return "arrays"
    if isinstance(value, Attributes):
        return "attributes"
    if isinstance(value, dict) and same <= {np.ndarray}:
        return "tables"
    if type(value) is int or (isinstance(value, list) and (same <= {int} or same <= {str})):
        return "plain"
    if isinstance(value, list) and same in ({np.ndarray}, {Place}):
        return "places" if same == {Place} else "lists"
    raise Unkept(f"{name}: {type(value).__name__}")


def _encode(value: object) -> bytes:
    try:
        return codec.encode(value, compress=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise Unkept(str(error)) from None


@lru_cache(maxsize=1)
def _code(root: Path = Path(__file__).parents[1]) -> str | None:
    """Return a digest of what decides the columns, besides the file: the package's code below *root* and what it runs on.

    None where the code is not there to be looked at; then nothing is kept.
    """
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
