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
from pathlib import Path

import msgspec

from advisor.cache import identity
from advisor.cache.identity import Facts

DEFAULT_GB = 4.0
_OFF = ("", "0", "off", "no", "none", "false")
_BEGUN = "begun-"
_ABANDONED_S = 3600
_CHECK = hashlib.sha256().digest_size
_MOST_RULES = 8


class _Known(msgspec.Struct):
    """The content that a file had when it was last looked at."""

    facts: Facts
    looked_ns: int
    content: str


class CacheError(Exception):
    """A reason why nothing can be kept."""


def folder() -> Path | None:
    """Locate the cache: as ``ADVISOR_CACHE`` says, else in the user's cache folder; None where it is off."""
    setting = os.environ.get("ADVISOR_CACHE")
    if setting is not None:
        return None if setting.strip().lower() in _OFF else Path(setting)
    try:
        if sys.platform == "win32":
            home = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            home = Path.home() / "Library" / "Caches"
        else:
            setting = os.environ.get("XDG_CACHE_HOME", "")
            home = Path(setting) if os.path.isabs(setting) else Path.home() / ".cache"
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
        """Return the content of a file that looks as it did when it was last read, and could not have changed since unseen."""
        try:
            known = msgspec.json.decode(self._known(facts).read_bytes(), type=_Known)
        except (OSError, msgspec.DecodeError):
            return None
        return known.content if known.facts == facts and facts.settled(known.looked_ns) and self._is_private() else None

    def remember(self, facts: Facts, looked_ns: int, content: str) -> None:
        """Note that a file that looks like *facts* was read from *looked_ns* on and holds *content*."""
        known = msgspec.json.encode(_Known(facts, looked_ns, content))
        with contextlib.suppress(OSError):
            self._write(self._known(facts), known)

    def _known(self, facts: Facts) -> Path:
        return self.root / "files" / hashlib.sha256(f"{facts.device}:{facts.inode}".encode()).hexdigest()[:32]

    # ---- entries

    def holds(self, prefix: str) -> bool:
        """Tell whether the name of any entry begins with *prefix*."""
        return any(entry.name.startswith(prefix) for entry in _files_in(self.root / "traces"))

    def load(self, name: str) -> bytes | None:
        """Return an entry; None where there is none, or where it is not what was written: that one is removed."""
        entry = self.root / "traces" / name
        data = self._read(entry)
        if data is not None:
            with contextlib.suppress(OSError):
                os.utime(entry)  # the last to be removed
        return data

    def save(self, name: str, data: bytes) -> None:
        """Write an entry. Raises ``CacheError``."""
        try:
            self._write(self.root / "traces" / name, hashlib.sha256(data).digest(), data)
        except OSError as error:
            raise CacheError(f"{self.root} cannot be written: {error.strerror or error}") from None

    def remove(self, name: str) -> None:
        """Take an entry away."""
        _remove(self.root / "traces" / name)

    # ---- rules that were read and checked: a megabyte each, and few

    def rules(self, name: str) -> bytes | None:
        """Return what was kept of rules; None where there is nothing, or something else than was written."""
        return self._read(self.root / "rules" / name)

    def save_rules(self, name: str, data: bytes) -> None:
        """Keep rules, in place of the oldest of :data:`_MOST_RULES`. What cannot be written is not kept."""
        with contextlib.suppress(OSError):
            self._write(self.root / "rules" / name, hashlib.sha256(data).digest(), data)
        entries = sorted(_files_in(self.root / "rules"), key=_change_and_size, reverse=True)
        for entry in entries[_MOST_RULES:]:
            _remove(entry)

    # ---- the folder

    def bound(self) -> None:
        """Remove what was used least recently, until the rest is small enough; and what dead processes and older advisors,
        whose entries were folders, left behind."""
        for entry in _files_in(self.root / "traces"):
            if entry.is_dir():
                _remove(entry)
        entries = sorted((*_change_and_size(entry), entry.name) for entry in _files_in(self.root / "traces"))
        excess = sum(size for _, size, _ in entries) - self.most_bytes
        for _, size, name in entries:
            if excess <= 0:
                break
            self.remove(name)
            excess -= size
        names = [entry.name for entry in _files_in(self.root / "traces")]
        for file in _files_in(self.root / "files"):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                known = msgspec.json.decode(file.read_bytes(), type=_Known)
                if not any(f"-{known.content}-" in name for name in names):
                    file.unlink()
        for leftover in _files_in(self.root):
            if leftover.name.startswith(_BEGUN) and time.time() - _change_and_size(leftover)[0] > _ABANDONED_S:
                _remove(leftover)

    def _read(self, path: Path) -> bytes | None:
        """Read what :meth:`_write` wrote behind its digest; None where it is not that: it is removed."""
        try:
            text = path.read_bytes()
        except OSError:
            return None
        if not self._is_private():
            return None
        data = memoryview(text)[_CHECK:]
        if hashlib.sha256(data).digest() != text[:_CHECK]:
            _remove(path)
            return None
        return bytes(data)

    def _write(self, path: Path, *parts: bytes) -> None:
        """Write a file beside its place and move it there whole. Raises ``OSError``."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._is_private():
            raise PermissionError(0, "it belongs to another user, or others may write to it")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        number, temporary = tempfile.mkstemp(prefix=_BEGUN, dir=self.root)
        try:
            with os.fdopen(number, "wb") as file:
                file.writelines(parts)
            os.replace(temporary, path)
        except BaseException:
            _remove(Path(temporary))
            raise

    def _is_private(self) -> bool:
        """Tell whether nobody else can have written what is here."""
        if not hasattr(os, "getuid"):
            return True
        try:
            facts = self.root.stat()
        except OSError:
            return False
        return facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def _remove(path: Path) -> None:
    """Take a file or a folder away, as far as it is still there."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _files_in(folder: Path) -> list[Path]:
    """List the entries of a folder; nothing where it is not there, or going."""
    try:
        return [folder / name for name in os.listdir(folder)]
    except OSError:
        return []


def _change_and_size(path: Path) -> tuple[float, int]:
    """Return the time of a file's or folder's last change, and its size in bytes; 0 and 0 where it is gone."""
    try:
        status = path.stat()
    except OSError:
        return 0.0, 0
    return status.st_mtime, status.st_size


def prefix(size: int) -> str:
    """Return how the names of entries of files of so many bytes begin."""
    return f"{size:x}-"


def may_hold(path: str) -> bool:
    """Tell whether the user's cache has an entry of a file as large as this one; False of what is no file, or where it is off."""
    root, facts = folder(), identity.facts(path)
    return root is not None and facts is not None and Store(root, int(DEFAULT_GB * 1e9)).holds(prefix(facts.size))
