"""Regular expressions that are compiled when they are first used.

The advisor knows hundreds, most of them for names that a given trace does not hold. To compile one takes Python a tenth of a
millisecond and more, all of them as long as to read a small trace.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, AnyStr, cast


class _Uncompiled:
    """Stand-in for a ``re.Pattern`` until its first use: what is asked of it is kept on it, so that a search costs no detour."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    @cached_property
    def _pattern(self) -> re.Pattern[Any]:
        return re.compile(self._text, self._flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._pattern, name)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return f"regex({self._text!r}, {self._flags})"


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression, compiled at its first use; one that is no regular expression raises ``re.error`` there."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(text, flags))
