"""Signs that a program trains, or calls modules, before it does: what comes first is then not taken for what it is for."""

from __future__ import annotations

import os
import sys
import time

from advisor.record.places import is_library
from advisor.regex import regex

_NAMES = regex(
    r"\boptim\b|\bDataLoader\b|\bnn\.(?:Module|Sequential|Linear|Conv\w+|Embedding|parallel)\b|\bTrainer\b|from_pretrained"
    r"|\btorch\.(?:load|hub|jit|export)\b|\btorchvision\.models\b"
    r"|\bimport (?:lightning|pytorch_lightning|transformers|diffusers|timm)\b"
)
"""Text of a program that has an optimizer, a loader or a module."""
_LONGEST_S = 20.0
"""Seconds from its start for which such a program is waited for."""
_FIRST_S = 0.2
"""Seconds from its start in which the program may not have begun."""
_SETTLED_S = 2.0
"""Seconds without a sign of a step, after which one that was no step, such as a single call of a module, no longer counts."""
_MOST_FILES, _MOST_BYTES = 200, 1 << 20


class Training:
    """Tells whether there is no sign of steps by :meth:`none`; *stop*: the program is to end once it is recorded."""

    def __init__(self, stop: bool) -> None:
        self._stop = stop
        self._began = 0.0
        self._signs: tuple[int, ...] = ()
        self._changed = 0.0
        self._named = False
        self._modules = 0
        """Modules when the program's text was read: it may import what trains later."""

    def begin(self) -> None:
        """Note the start of the program."""
        self._began = time.monotonic()

    def none(self, signs: tuple[int, ...]) -> bool:
        """Tell whether nothing tells of steps: neither *signs*, which counts what may, nor the text of the program."""
        now = time.monotonic()
        if signs != self._signs:
            self._signs, self._changed = signs, now
        if any(signs) and now - self._changed < _SETTLED_S:
            return False
        if now - self._began < _FIRST_S:
            return False
        if not self._named and len(sys.modules) != self._modules:
            self._modules, self._named = len(sys.modules), _names()
        return not self._named or (not self._stop and now - self._began > _LONGEST_S)


def _names() -> bool:
    """Tell whether the script, or a module beside it, names an optimizer, a loader or a module."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(main, str) or is_library(main):
        return False
    folder = os.path.dirname(os.path.abspath(main)) + os.sep
    files = [_file(module) for module in list(sys.modules.values())]
    own = [file for file in files if isinstance(file, str) and file.startswith(folder) and "-packages" not in file]
    for file in dict.fromkeys([main, *own[:_MOST_FILES]]):
        try:
            with open(file, encoding="utf-8", errors="replace") as text:
                if _NAMES.search(text.read(_MOST_BYTES)):
                    return True
        except OSError:
            continue
    return False


def _file(module: object) -> object:
    """Return the file of a module, of which nothing is asked: one that is loaded late would be, here and now."""
    try:
        return object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return None
