"""The user's project: its folder, which of its files may be edited, and how what is kept is written to them."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from advisor.errors import UsageError
from advisor.fix.source import NotEditable

_LIBRARIES = ("site-packages", "dist-packages")
_GIT = ("git", "--no-optional-locks")


class Project:
    """A folder that holds a program. *root* is its git repository, else the working folder that holds it, else its own folder."""

    def __init__(self, script: Path | None, *, root: Path | None = None, force: bool = False) -> None:
        here = Path.cwd().resolve()
        self.script = script.resolve() if script is not None else None
        self.force = force
        start = self.script.parent if self.script is not None else here
        top = _git(start, "rev-parse", "--show-toplevel")
        self.git = Path(top) if top else None
        if root is not None:
            self.root = root.resolve()
        elif self.git is not None:
            self.root = self.git.resolve()
        else:
            self.root = here if start.is_relative_to(here) and not _too_wide(here) else start
        if _too_wide(self.root):
            raise UsageError(f"{self.root}: too wide to be a project; name its folder with --root")
        self.folder = here if here.is_relative_to(self.root) else self.root
        """The folder that the program is run in."""

    @property
    def script_path(self) -> PurePosixPath | None:
        """The script below the root; None where it lies outside, or there is none."""
        if self.script is None or not self.script.is_relative_to(self.root):
            return None
        return PurePosixPath(self.script.relative_to(self.root).as_posix())

    def find(self, name: str) -> PurePosixPath | None:
        """Return the path below the root of a file as a trace names it; None where there is none, or it is no file of the project.

        A trace names files as seen from the working folder, from the script's, or from a folder that is imported from.
        """
        plain = PurePosixPath(name.replace("\\", "/"))
        if plain.is_absolute() or ".." in plain.parts:
            return None
        folders = [
            self.folder,
            *([self.script.parent] if self.script is not None else []),
            self.root,
            self.root / "src",
        ]
        for folder in folders:
            path = (folder / plain).resolve()
            if path.is_file() and path.is_relative_to(self.root):
                found = PurePosixPath(path.relative_to(self.root).as_posix())
                return None if any(part in _LIBRARIES or part == ".git" for part in found.parts) else found
        return None

    def check(self, path: PurePosixPath, *, writes: bool = True) -> None:
        """Raise ``NotEditable`` where a file must not be edited: a library's, or a link.

        Where it is to be written also one that is read-only, or has uncommitted changes.
        """
        full = self.root / path
        if any(part in _LIBRARIES for part in full.parts):
            raise NotEditable(f"{path} is a library's")
        if full.is_symlink() or not full.resolve().is_relative_to(self.root):
            raise NotEditable(f"{path} is a link, or lies outside the project")
        if not writes:
            return
        if not os.access(full, os.W_OK):
            raise NotEditable(f"{path} cannot be written to")
        if self.git is not None and not self.force and _git(self.git, "status", "--porcelain", "--", str(full)):
            raise NotEditable(f"{path} has changes that are not committed; commit them, or give --force")

    def write(self, path: PurePosixPath, before: str, after: str) -> None:
        """Write a kept edit to the user's file, whole or not at all. Raises ``NotEditable`` where it is not what it was.

        What is begun lies where git does not look, and a move ends it: a kill leaves the file as it was, or edited.
        """
        full = self.root / path
        if full.read_bytes() != before.encode("utf-8"):
            raise NotEditable(f"{path} was changed meanwhile, and is left as it is; the patch has the edit")
        rights = stat.S_IMODE(full.stat().st_mode)
        number, begun = tempfile.mkstemp(prefix="advisor-fix-", dir=self._beside(full))
        try:
            with os.fdopen(number, "wb") as file:
                file.write(after.encode("utf-8"))
                file.flush()
                os.fchmod(file.fileno(), rights)
                os.fsync(file.fileno())
            os.replace(begun, full)
        except BaseException:
            if os.path.exists(begun):
                os.unlink(begun)
            raise

    def _beside(self, full: Path) -> Path:
        """Return a folder on the file's disk that is no part of the tree: git's own, else the system's for temporary files."""
        disk = full.stat().st_dev
        inner = _git(self.git, "rev-parse", "--absolute-git-dir") if self.git is not None else ""
        for folder in (*([Path(inner)] if inner else []), Path(tempfile.gettempdir())):
            if folder.is_dir() and folder.stat().st_dev == disk and os.access(folder, os.W_OK):
                return folder
        return full.parent

    def commit(self, branch: str, edits: list[tuple[str, PurePosixPath, str]]) -> None:
        """Make a branch with a commit for each (message, path, text), beside the working tree, index and HEAD, which stay."""
        if self.git is None:
            raise UsageError("--branch: the project is no git repository")
        if _git(self.git, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"):
            raise UsageError(f"--branch {branch}: there is such a branch")
        at = _git(self.git, "rev-parse", "--verify", "--quiet", "HEAD")
        if not at:
            raise UsageError("--branch: the repository has no commit yet")
        with tempfile.TemporaryDirectory(prefix="advisor-fix-index-") as folder:
            env = {**os.environ, "GIT_INDEX_FILE": str(Path(folder) / "index")}
            _must(self.git, env, None, "read-tree", at)
            for message, path, text in edits:
                inside = (self.root / path).resolve().relative_to(self.git.resolve()).as_posix()
                mode = _must(self.git, env, None, "ls-files", "--stage", "--", inside).split(" ")[0]
                blob = _must(self.git, env, text.encode("utf-8"), "hash-object", "-w", "--stdin")
                _must(
                    self.git, env, None, "update-index", "--add", "--cacheinfo", f"{mode or '100644'},{blob},{inside}"
                )
                tree = _must(self.git, env, None, "write-tree")
                at = _must(self.git, env, None, "commit-tree", tree, "-p", at, "-m", message)
            _must(self.git, env, None, "update-ref", f"refs/heads/{branch}", at, "")


def _too_wide(folder: Path) -> bool:
    return folder == Path(folder.anchor) or folder == Path.home().resolve()


def _git(folder: Path, *arguments: str) -> str:
    """Return what git answers; empty where there is no git, no repository, or no answer."""
    try:
        done = subprocess.run([*_GIT, "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _must(folder: Path, env: Mapping[str, str], given: bytes | None, *arguments: str) -> str:
    done = subprocess.run(
        [*_GIT, "-C", str(folder), *arguments], capture_output=True, input=given, env=env, check=False
    )
    if done.returncode:
        raise UsageError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode().strip()
