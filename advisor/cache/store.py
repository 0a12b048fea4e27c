"""The cache's folder: entries that are written once, found by their key, checked when they are read, and bounded in size.

A process that dies, two that write the same, a disk that is full, a byte that was lost: each costs a reading anew, never
a wrong figure.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from advisor.cache import columns
from advisor.cache.columns import Column
from advisor.cache.identity import Facts
from advisor.cache.snapshot import Snapshot

DEFAULT_GB = 4.0
_OFF = ("", "0", "off", "no", "none", "false")
_BEGUN = "begun-"
_ABANDONED_S = 3600
_CHECK = hashlib.sha256().digest_size
_CONTENTS = "contents"


class _Contents(msgspec.Struct):
    """What an entry holds: its columns, the hash of each file, and the facts."""

    columns: list[Column]
    files: dict[str, bytes]
    facts: bytes


class _Known(msgspec.Struct):
    """The content that a file had when it was last looked at."""

    facts: Facts
    looked_ns: int
    content: str


class CacheError(Exception):
    """Nothing can be kept: why."""


def folder() -> Path | None:
    """Where the cache lies: as ``ADVISOR_CACHE`` says, else in the user's cache folder; None where it is off."""
    told = os.environ.get("ADVISOR_CACHE")
    if told is not None:
        return None if told.strip().lower() in _OFF else Path(told)
    try:
        if sys.platform == "win32":
            home = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            home = Path.home() / "Library" / "Caches"
        else:
            told = os.environ.get("XDG_CACHE_HOME", "")
            home = Path(told) if os.path.isabs(told) else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        return None
    return home / "trace-advisor"


class Store:
    """The entries below *root*, which are to take no more than *most_bytes* together."""

    def __init__(self, root: Path, most_bytes: int) -> None:
        self.root = root.absolute()
        self.most_bytes = most_bytes

    # ---- which content a file has

    def known(self, facts: Facts) -> str | None:
        """The content of a file that looks as it did when it was last read, and could not have changed since unseen."""
        try:
            known = msgspec.json.decode(self._known(facts).read_bytes(), type=_Known)
        except (OSError, msgspec.DecodeError):
            return None
        return known.content if known.facts == facts and facts.settled(known.looked_ns) and self._mine() else None

    def remember(self, facts: Facts, looked_ns: int, content: str) -> None:
        """A file that looks like *facts* was read from *looked_ns* on and holds *content*."""
        with contextlib.suppress(OSError), self._begun() as begun:
            file = begun / "known"
            file.write_bytes(msgspec.json.encode(_Known(facts, looked_ns, content)))
            path = self._known(facts)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            file.replace(path)

    def _known(self, facts: Facts) -> Path:
        return self.root / "files" / hashlib.sha256(f"{facts.device}:{facts.inode}".encode()).hexdigest()[:32]

    # ---- entries

    def holds(self, prefix: str) -> bool:
        """Whether the name of any entry begins so."""
        return any(entry.name.startswith(prefix) for entry in _files_in(self.root / "traces"))

    def load(self, name: str) -> Snapshot | None:
        """An entry; None where there is none, or where it is not what was written: that one is removed."""
        import duckdb

        entry = self.root / "traces" / name
        try:
            text = (entry / _CONTENTS).read_bytes()
        except OSError:
            self.remove(name)  # what is left of it would keep another from being written
            return None
        if not self._mine():
            return None
        try:
            if hashlib.sha256(text[_CHECK:]).digest() != text[:_CHECK]:
                raise ValueError(_CONTENTS)
            contents = msgspec.msgpack.decode(text[_CHECK:], type=_Contents)
            for file, check in contents.files.items():
                if hashlib.sha256((entry / file).read_bytes()).digest() != check:
                    raise ValueError(file)
            snapshot = Snapshot(columns.read(entry, contents.columns), contents.facts)
        except (OSError, ValueError, KeyError, duckdb.Error):
            self.remove(name)
            return None
        with contextlib.suppress(OSError):
            os.utime(entry)  # the last to be removed
        return snapshot

    def save(self, name: str, snapshot: Snapshot) -> None:
        """Write an entry, unless another process was first. Raises ``CacheError``."""
        import duckdb

        try:
            with self._begun() as begun:
                written = columns.write(begun, snapshot.arrays)
                names = {column.file for column in written}
                files = {file: hashlib.sha256((begun / file).read_bytes()).digest() for file in names}
                text = msgspec.msgpack.encode(_Contents(written, files, snapshot.facts))
                (begun / _CONTENTS).write_bytes(hashlib.sha256(text).digest() + text)
                entry = self.root / "traces" / name
                entry.parent.mkdir(mode=0o700, exist_ok=True)
                if not entry.exists():
                    with contextlib.suppress(FileExistsError):
                        _rename(begun, entry)
        except OSError as error:
            raise CacheError(f"{self.root} cannot be written: {error.strerror or error}") from None
        except duckdb.Error as error:
            raise CacheError(f"{self.root} cannot be written: {str(error).splitlines()[0]}") from None

    def remove(self, name: str) -> None:
        """Take an entry away."""
        shutil.rmtree(self.root / "traces" / name, ignore_errors=True)

    # ---- the folder

    def bound(self) -> None:
        """Remove what was used least recently, until the rest is small enough; and what dead processes left behind."""
        entries = sorted((_changed(entry), entry.name, _size(entry)) for entry in _files_in(self.root / "traces"))
        excess = sum(size for _, _, size in entries) - self.most_bytes
        for _, name, size in entries:
            if excess <= 0:
                break
            self.remove(name)
            excess -= size
        held = [entry.name for entry in _files_in(self.root / "traces")]
        for file in _files_in(self.root / "files"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                known = msgspec.json.decode(file.read_bytes(), type=_Known)
                if not any(f"-{known.content}-" in name for name in held):
                    file.unlink()
        for begun in _files_in(self.root):
            if begun.name.startswith(_BEGUN) and time.time() - _changed(begun) > _ABANDONED_S:
                shutil.rmtree(begun, ignore_errors=True)

    @contextlib.contextmanager
    def _begun(self) -> Iterator[Path]:
        """A folder to write in, gone afterwards unless it was renamed."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._mine():
            raise PermissionError(0, "it belongs to another user, or others may write to it")
        begun = Path(tempfile.mkdtemp(prefix=_BEGUN, dir=self.root))
        try:
            yield begun
        finally:
            shutil.rmtree(begun, ignore_errors=True)

    def _mine(self) -> bool:
        """Whether nobody else can have written what is here."""
        if not hasattr(os, "getuid"):
            return True
        try:
            facts = self.root.stat()
        except OSError:
            return False
        return facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def _rename(begun: Path, entry: Path) -> None:
    try:
        begun.rename(entry)
    except OSError:
        if not entry.exists():  # else another process wrote it meanwhile
            raise


def _files_in(folder: Path) -> list[Path]:
    """What is in a folder; nothing where it is not there, or going."""
    try:
        return [folder / name for name in os.listdir(folder)]
    except OSError:
        return []


def _changed(path: Path) -> float:
    """When a file or folder was last changed; 0 where it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(entry: Path) -> int:
    """Bytes of the files of an entry, as far as they are still there."""
    total = 0
    for file in _files_in(entry):
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total
