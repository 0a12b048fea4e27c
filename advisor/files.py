"""Files of the advisor's own: outputs that are whole or not there, and inputs of a bounded size.

Reports, exports, baselines, recordings and the cache are all written by :func:`replacing`: beside their place, and moved
there once they are whole. A full disk, Ctrl-C or a crash leaves the file that was there before.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO

from advisor.errors import UsageError
from advisor.regex import regex

BEGUN = ".advisor-"
"""Begin of the names of files that are being written."""
LOCK_S = 60.0
"""Patience for another process that updates the same file, which takes some milliseconds."""
_UNSIGNED_S = 1.0
"""Time for whoever made the file of a lock to sign it, which is the next thing it does."""
_MOVES, _MOVE_S = 20, 0.05
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
_DEVICES = ("/dev/", "/proc/")
_PARTS = 64
_PART = r"(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')"
# A dotted key costs a parser the square of its parts, in time and in memory: 40 kB of dots are 2 GB.
_LONG_KEY = regex(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{_PARTS}}}")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write that takes the place of *path* once the block has ended well, with the rights of the file there.

    A new file has the rights *mode*, less those that the umask takes away. A link stays one: what it leads to is replaced.
    What is no regular file (``/dev/null``, a pipe) is written as it is. Raises ``OSError``.
    """
    target = os.path.realpath(path)
    try:
        former = os.stat(target)
    except FileNotFoundError:
        former = None
    if (former is not None and not stat.S_ISREG(former.st_mode)) or target.startswith(_DEVICES):
        with open(target, "wb") as file:
            yield file
        return
    if former is not None and not os.access(target, os.W_OK):  # a move would ask the folder's rights alone
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    begun = os.path.join(os.path.dirname(target), f"{BEGUN}{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    number = os.open(begun, flags, mode)
    try:
        with os.fdopen(number, "wb") as file:
            if former is not None and hasattr(os, "fchmod"):
                os.fchmod(number, stat.S_IMODE(former.st_mode))
            yield file
            file.flush()
            _sync(number)
        _move(begun, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(begun)
        raise


def write(path: str | os.PathLike[str], *parts: bytes, mode: int = 0o666) -> None:
    """Write a file whole, or leave the one there. Raises ``OSError``."""
    with replacing(path, mode=mode) as file:
        file.writelines(parts)


def _sync(number: int) -> None:
    """Hand the file to the disk: some file systems find only here that they are full."""
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _move(begun: str, target: str) -> None:
    for left in reversed(range(_MOVES)):
        try:
            return os.replace(begun, target)
        except PermissionError:
            if os.name != "nt" or not left:  # on Windows a file that somebody reads cannot be replaced, for a moment
                raise
            time.sleep(_MOVE_S)
    return None


@contextlib.contextmanager
def alone(path: str | os.PathLike[str], patience_s: float = LOCK_S) -> Iterator[None]:
    """Keep other processes and threads that ask for the same *path* out while the block runs.

    The lock is a file beside it that only one can make: that holds on every system, network disks included, where locks of
    the system's own may be missing. Where they are there, the holder has one on that file too, which ends with its process:
    what a killed one leaves keeps nobody of this machine out. Raises ``UsageError`` where the lock is not to be had.
    """
    target = os.path.realpath(path)
    lock = os.path.join(os.path.dirname(target), f"{BEGUN}{os.path.basename(target)[:200]}.lock")
    end, seen = time.monotonic() + patience_s, dict[tuple[int, int], float]()
    while True:
        try:
            number = _made(lock)
            if number is None:
                number = _left(lock, seen)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        if number is not None:
            break
        if time.monotonic() >= end:
            raise UsageError(f"{path}: another process updates it. If none does, one was killed there: remove {lock}")
        time.sleep(0.01)
    try:
        yield
    finally:
        # Before the system's lock ends: who gets that one then sees that the file is gone.
        with contextlib.suppress(OSError):
            os.unlink(lock)
        os.close(number)


def _made(lock: str) -> int | None:
    """Make the file of a lock and sign it; None where there is one. Windows removes it with the process."""
    try:
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_TEMPORARY", 0), 0o600)
    except FileExistsError:
        return None
    except PermissionError:
        if not os.path.exists(lock):
            raise
        return None  # Windows says so of a file that is going
    try:
        mine = _locked(number) is not False  # else one that took it for left behind was faster
        if mine:
            os.write(number, _machine())
            _sync(number)  # so that other machines of a network disk read it
    except OSError:
        os.unlink(lock)
        os.close(number)
        raise
    if not mine:
        os.close(number)
    return number if mine else None


def _left(lock: str, seen: dict[tuple[int, int], float]) -> int | None:
    """Take over the file of a process of this machine that ended without removing it; None where it may still be at work.

    The file of another machine is never taken: a network disk may keep the locks of each machine apart. One that is not
    signed was left by a process that was killed in the middle, if it stays so: *seen* says since when.
    """
    try:
        number = os.open(lock, os.O_RDWR)
    except (FileNotFoundError, PermissionError):  # gone by now, or another user's
        return None
    mine = False
    try:
        owner, now = os.read(number, 64), os.fstat(number)
        if not owner:
            since = seen.setdefault((now.st_ino, now.st_mtime_ns), time.monotonic())
            mine = time.monotonic() - since >= _UNSIGNED_S and bool(_locked(number)) and _same(number, lock)
            if mine:
                os.write(number, _machine())
        elif owner == _machine():
            mine = bool(_locked(number)) and _same(number, lock)
    finally:
        if not mine:
            os.close(number)
    return number if mine else None


def _locked(number: int) -> bool | None:
    """Ask the system for its lock on a file, which ends with the process; None where it has none."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _same(number: int, path: str) -> bool:
    """Tell a file that is still in its place from one that its holder has removed meanwhile."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path))
    except FileNotFoundError:
        return False


@functools.cache
def _machine() -> bytes:
    """Digest of what only processes under the same kernel have in common, so that its locks hold among them."""
    import hashlib
    import platform

    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            said = file.read()
    except OSError:
        said = platform.node()
    return hashlib.sha256(said.encode()).hexdigest()[:32].encode()


def read(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Read a regular file of at most *most_bytes*. A device or a pipe, which might never end, is not read. Raises ``OSError``."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # before it is opened: opening a pipe waits for its other end
        raise OSError(errno.EINVAL, "is no file" if not os.path.isdir(path) else "is a folder")
    with open(path, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"is larger than {most_bytes >> 20} MB")
    return content


def toml(text: str) -> dict[str, object]:
    """Parse TOML. Raises ``ValueError`` with the reason, also for what the parser itself would take all memory for."""
    import tomli

    # A key stands in one line: only lines of so many dots need the search, which takes longer than all the parsing.
    lines = [line for line in text.split("\n") if line.count(".") >= _PARTS]
    if key := next(filter(None, map(_LONG_KEY.search, lines)), None):
        raise ValueError(f"a key of more than {_PARTS} parts: {key[0][:40]}…")
    try:
        return tomli.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    except tomli.TOMLDecodeError:
        raise
    except ValueError:  # Python refuses to make a number of thousands of digits
        raise ValueError("a number has too many digits") from None
