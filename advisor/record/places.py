"""Ownership of source files (the user's or a library's), by their folders, and their paths as written into a trace.

The recorder runs where the files are, so it need not guess from names: what lies in the standard library, among installed
packages, in torch or here is not the user's. Paths are written as seen from the working directory, without home directories.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from types import FrameType

from advisor.privacy import clean_path

_PACKAGES = ("site-packages/", "dist-packages/")
_DDP = "torch/nn/parallel/distributed.py"
_SYNCS = frozenset({"_sync_buffers", "_sync_module_buffers"})
"""Functions of DistributedDataParallel that broadcast buffers, before a forward pass or behind it."""
_DERIVATIVES = tuple(
    folder + path for folder in ("", *_PACKAGES) for path in ("torch/autograd/", "torch/_functorch/", "torch/func/")
)
_HOME = os.path.expanduser("~").rstrip("/")
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _folder(path: str) -> str:
    return os.path.abspath(path).replace("\\", "/").rstrip("/") + "/"


@lru_cache(maxsize=1)
def _standard() -> tuple[str, ...]:
    """Return the folders of the standard library."""
    paths = sysconfig.get_paths()
    return tuple({_folder(paths[key]) for key in ("stdlib", "platstdlib")} | {_folder(os.path.dirname(os.__file__))})


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    """Return folders of packages outside site-packages: torch's, where it is a checkout, and the advisor's own, and their names."""
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    own = [("advisor/", _folder(_HERE))]
    return tuple(own + ([("torch/", _folder(os.path.dirname(torch)))] if torch else []))


@lru_cache(maxsize=1)
def _working() -> tuple[str, ...]:
    """Return the folders that paths are relative to: the first working directory, and the script's."""
    return tuple(_folder(entry) for entry in (os.getcwd(), *sys.path[:1]) if entry)


def begin() -> None:
    """Remember where the program begins: it may change its working directory."""
    for cached in (trace_path, is_library, _working, _installed):
        cached.cache_clear()
    _working()
    _standard()  # it takes a while, which no step that is timed should


@lru_cache(maxsize=1 << 14)
def trace_path(path: str) -> tuple[str, bool]:
    """Return *path* as it is written into a trace, and True where the file is the user's own.

    A library's path keeps the folder that tells it is one.
    """
    if path.startswith("<"):
        return path, path.startswith("<ipython")
    full = os.path.abspath(path).replace("\\", "/")
    for mark in _PACKAGES:
        if mark in full:
            return mark + full.rpartition(mark)[2], False
    for name, folder in _installed():
        if full.startswith(folder):
            return name + full[len(folder) :], False
    for folder in _standard():
        if full.startswith(folder):
            return f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/{full[len(folder) :]}", False
    if (generated := clean_path(full)).startswith("torchinductor/"):
        return generated, False
    for folder in _working():
        if full.startswith(folder) and folder != "/":
            return _impersonal(full[len(folder) :]), True
    # Elsewhere: as it is imported, else its name alone. The folders above say whose they are.
    roots = [folder for entry in sys.path if entry and full.startswith(folder := _folder(entry)) and folder != "/"]
    shorter = full[len(max(roots, key=len)) :] if roots else full.rpartition("/")[2]
    return _impersonal(shorter), True


@lru_cache(maxsize=1 << 14)
def is_library(path: str) -> bool:
    """Tell whether a file is torch's, the standard library's or ours. Installed packages may hold a program's loop, and are not."""
    if path.startswith("<"):
        return path.startswith("<frozen")
    full = os.path.abspath(path).replace("\\", "/")
    if any(full.startswith(folder) for _, folder in _installed()) or "-packages/torch/" in full:
        return True
    return not any(mark in full for mark in _PACKAGES) and any(full.startswith(folder) for folder in _standard())


def _impersonal(path: str) -> str:
    """Strip *path*, relative, of a home directory in it and of all before a folder of the user's name."""
    parts = clean_path(path).split("/")
    users = {name for name in (os.environ.get("USER"), os.environ.get("LOGNAME"), os.path.basename(_HOME)) if name}
    last = max((index for index, part in enumerate(parts[:-1]) if part in users), default=-1)
    return "/".join(parts[last + 1 :])


def caller(frame: FrameType | None) -> tuple[str, int]:
    """Return file and line of the user's innermost frame at *frame* or around it; ``""`` and 0 where there is none."""
    while frame is not None:
        path, is_own = trace_path(frame.f_code.co_filename)
        if is_own:
            return path, frame.f_lineno
        frame = frame.f_back
    return "", 0


def synchronizes(frame: FrameType | None) -> bool:
    """Tell whether DistributedDataParallel calls at *frame* to broadcast buffers: it does so whatever they hold."""
    while frame is not None:
        path, is_own = trace_path(frame.f_code.co_filename)
        if is_own:
            return False
        if path.endswith(_DDP) and frame.f_code.co_name in _SYNCS:
            return True
        frame = frame.f_back
    return False


def derives(frame: FrameType | None) -> bool:
    """Tell whether torch's own functions for Jacobians and the like call at *frame*: what they do besides is no repetition."""
    while frame is not None:
        path, is_own = trace_path(frame.f_code.co_filename)
        if is_own:
            return False
        if path.startswith(_DERIVATIVES):
            return True
        frame = frame.f_back
    return False
