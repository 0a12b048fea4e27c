"""Copies of a project's tree, in which programs run; a copy of a killed run is removed by the next."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from advisor.errors import UsageError

_LEFT_OUT = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        ".venv",
        "venv",
        "node_modules",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    ]
)
MOST_BYTES = 4 << 30
_PREFIX = "advisor-fix-"


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A folder for copies, which goes with the block; those that killed processes left are removed first."""
    import fcntl

    base = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.stat().st_uid != os.getuid() or base.is_symlink():
        raise UsageError(f"{base}: belongs to somebody else; set TMPDIR to a folder of yours")
    for left in base.iterdir():
        _remove_left(left)
    folder = base / f"{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with this process, however that ends
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                base.rmdir()


def _remove_left(folder: Path) -> None:
    """Remove a folder whose process is gone."""
    import fcntl

    try:
        with (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except FileNotFoundError:
        # One that is just being made has no lock yet: it is left to the next.
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > 60:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return


class Tree:
    """A copy of a project in *folder*, and the way back to it after a run. Links stay links; what no program needs is left out."""

    def __init__(self, origin: Path, folder: Path) -> None:
        self.origin, self.folder = origin, folder
        self._state: dict[PurePosixPath, tuple[int, int]] = {}
        self._texts: dict[PurePosixPath, str] = {}
        total = 0
        for _path, size in _files(origin):
            total += size
            if total > MOST_BYTES:
                raise UsageError(
                    f"{origin}: more than {MOST_BYTES >> 30} GB, which is too much to copy; name a smaller folder with --root"
                )
        if total > shutil.disk_usage(folder.parent).free * 0.4:
            raise UsageError(f"{folder.parent}: no room for copies of {origin}; set TMPDIR to a larger disk")
        folder.mkdir(parents=True)
        for path, _ in _files(origin):
            self._copy(path)

    def _copy(self, path: PurePosixPath) -> None:
        source, target = self.origin / path, self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.exists():
            target.unlink()
        with contextlib.suppress(FileNotFoundError):  # it went while the tree was copied
            shutil.copy2(source, target, follow_symlinks=False)
            self._state[path] = _stamp(target)

    def put(self, path: PurePosixPath, text: str) -> None:
        """Write a text to a file of the copy; a later :meth:`restore` brings it back to this."""
        self._texts[path] = text
        target = self.folder / path
        target.write_bytes(text.encode("utf-8"))
        # Compiled code is told apart by seconds and size, which two edits may share.
        shutil.rmtree(target.parent / "__pycache__", ignore_errors=True)
        self._state[path] = _stamp(target)

    def restore(self) -> None:
        """Bring the copy back to what it was before a run: new files go, changed and lost ones come back."""
        present: set[PurePosixPath] = set()
        for path, _ in _files(self.folder):
            present.add(path)
            if path not in self._state:
                (self.folder / path).unlink(missing_ok=True)
        for path, stamp in list(self._state.items()):
            target = self.folder / path
            if path in present and _stamp(target) == stamp:
                continue
            if path in self._texts:
                target.parent.mkdir(parents=True, exist_ok=True)
                self.put(path, self._texts[path])
            else:
                self._copy(path)
        for name, *_ in os.walk(self.folder, topdown=False):
            if not (self.origin / Path(name).relative_to(self.folder)).is_dir():
                with contextlib.suppress(OSError):  # one that holds something stays
                    os.rmdir(name)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_size, found.st_mtime_ns


def _files(root: Path) -> Iterator[tuple[PurePosixPath, int]]:
    """Yield the files and links below a folder with their bytes; a folder that is linked is one link."""
    waiting = [root]
    while waiting:
        at = waiting.pop()
        with contextlib.suppress(PermissionError, FileNotFoundError), os.scandir(at) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name in _LEFT_OUT or _is_environment(entry):
                    continue
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    size = 0 if entry.is_symlink() else entry.stat(follow_symlinks=False).st_size
                    yield PurePosixPath(path.relative_to(root).as_posix()), size


def _is_environment(entry: os.DirEntry[str]) -> bool:
    """Tell a virtual environment, by the file that makes it one."""
    return entry.is_dir(follow_symlinks=False) and os.path.isfile(os.path.join(entry.path, "pyvenv.cfg"))
