"""Folders below which the server reads: every path of a client is resolved, symlinks included, and must lie in one of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from advisor.errors import UsageError
from advisor.privacy import is_url


class Roots:
    """The folders, resolved once; relative paths are tried below each in turn."""

    def __init__(self, folders: Sequence[str | Path]) -> None:
        self.folders = [Path(os.path.realpath(folder)) for folder in folders]
        for given, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise UsageError(f"--root {given}: no such folder")

    def file(self, path: str) -> Path:
        """Return the file at *path*. Raises ``UsageError`` where there is none within the roots."""
        found = self.existing(path)
        if os.path.isdir(found):
            raise UsageError(f"{path}: is a folder; name a file in it")
        return found

    def existing(self, path: str) -> Path:
        """Return the file or folder at *path*, resolved. Raises ``UsageError`` where there is none within the roots."""
        inside = self._inside(path)
        for candidate in inside:
            if os.path.exists(candidate):  # which also answers where no file can have that name
                return candidate
        raise UsageError(f"{path}: no such file below the server's roots; paths are relative to {self.named}")

    def target(self, path: str) -> Path:
        """Return where a file of this name may be written: its folder is there, and within the roots."""
        for candidate in self._inside(path):
            if os.path.isdir(candidate.parent):
                return candidate
        raise UsageError(f"{path}: there is no such folder below the server's roots; make it first")

    def shown(self, path: Path) -> str:
        """Return a path as answers name it: from the root that holds it."""
        for folder in self.folders:
            if path.is_relative_to(folder):
                relative = path.relative_to(folder).as_posix()
                return relative if relative != "." else folder.name
        return path.name

    def holding(self, path: Path) -> Path:
        """Return the root that a resolved path lies in."""
        return next(folder for folder in self.folders if path.is_relative_to(folder))

    @property
    def named(self) -> str:
        """The roots in words, without the folders above them."""
        names = [folder.name or "/" for folder in self.folders]
        return f"the folder {names[0]}" if len(names) == 1 else f"the folders {', '.join(names)}"

    def _inside(self, path: str) -> list[Path]:
        """Return the places that *path* can mean, within the roots. Raises ``UsageError`` where none is: it says no more."""
        if is_url(path) or path == "-":
            raise UsageError(f"{path}: this server reads files below its roots only; copy the trace there")
        if "\0" in path or not path:
            raise UsageError("the path is empty, or holds a NUL byte; name a file below the server's roots")
        try:
            places = [Path(os.path.realpath(folder / path)) for folder in self.folders]
        except (OSError, ValueError) as error:
            raise UsageError(f"the path cannot be resolved: {error}") from error
        inside = [place for place in places if any(place.is_relative_to(folder) for folder in self.folders)]
        if not inside:
            raise UsageError(
                f"{path}: lies outside of the server's roots ({self.named}), or a symlink in it leads there. "
                "Copy the file below them, or ask whoever starts the server to add --root FOLDER."
            )
        return list(dict.fromkeys(inside))
