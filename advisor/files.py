"""Files of the advisor's own: outputs that are whole or not there, and inputs of a bounded size.

Reports, exports, baselines, recordings and the cache are all written by :func:`replacing`: beside their place, and moved
there once they are whole. A full disk, Ctrl-C or a crash leaves the file that was there before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO

from advisor.errors import UsageError

BEGUN = ".advisor-"
"""Begin of the names of files that are being written."""
LOCK_S = 60.0
"""Patience for another process that updates the same file, which takes some milliseconds."""
_MOVES, _MOVE_S = 20, 0.05
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
_DEVICES = ("/dev/", "/proc/")
_PARTS = 64
_PART = r"(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')"
# A dotted key costs tomllib the square of its parts, in time and in memory: 40 kB of dots are 2 GB.
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{_PARTS}}}")


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
    the system's own may be missing. Raises ``UsageError`` where it is not to be had.
    """
    target = os.path.realpath(path)
    lock = os.path.join(os.path.dirname(target), f"{BEGUN}{os.path.basename(target)[:200]}.lock")
    end = time.monotonic() + patience_s
    while True:
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            break
        except (FileExistsError, PermissionError) as error:
            if isinstance(error, PermissionError) and not os.path.exists(lock):  # Windows says so of one that is going
                raise UsageError(f"{path}: {error.strerror or error}") from error
            if time.monotonic() >= end:
                raise UsageError(
                    f"{path}: another process updates it. If none does, one was killed there: remove {lock}"
                ) from None
            time.sleep(0.01)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(lock)


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
    import tomllib

    if key := _LONG_KEY.search(text):
        raise ValueError(f"a key of more than {_PARTS} parts: {key[0][:40]}…")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python refuses to make a number of thousands of digits
        raise ValueError("a number has too many digits") from None
