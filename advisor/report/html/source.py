"""Lines of the user's own source around a place, read only from below the folder that was given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from advisor.report.plain import clean
from advisor.results.analysis import Place

AROUND = 3
LONGEST_LINE = 200
MOST_BYTES = 2_000_000
MOST_PARTS = 50


class SourceLine(NamedTuple):
    number: int
    text: str
    here: bool


class Lines:
    """Looks up places below *root*; knows nothing where that is None. Each file is read once."""

    def __init__(self, root: str | None) -> None:
        self._root = Path(root).resolve() if root is not None else None
        self._files: dict[str, list[str] | None] = {}

    def __call__(self, place: Place) -> list[SourceLine]:
        """Return the line of *place* and some around it; empty where no file below the root can be the one that is meant."""
        if self._root is None or not place.file or place.line is None or place.line < 1:
            return []
        if place.file not in self._files:
            self._files[place.file] = _read(self._root, place.file)
        text = self._files[place.file]
        if text is None or place.line > len(text) or not _fits(text, place):
            return []
        low, high = max(0, place.line - 1 - AROUND), min(len(text), place.line + AROUND)
        return [
            SourceLine(index + 1, clean(text[index][:LONGEST_LINE].expandtabs(4).rstrip()), index + 1 == place.line)
            for index in range(low, high)
        ]


def _read(root: Path, name: str) -> list[str] | None:
    """Return the lines of the file that *name* means. Traces may name files by more folders than the root holds."""
    parts = [part for part in re.split(r"[\\/]+", name) if part not in ("", ".")]
    if not parts or ".." in parts or len(parts) > MOST_PARTS:
        return None
    for first in range(len(parts)):
        try:
            path = root.joinpath(*parts[first:]).resolve()
            # A link that leads out of the root is as foreign as "..".
            if path.is_relative_to(root) and path.is_file() and path.stat().st_size <= MOST_BYTES:
                return path.read_bytes().decode("utf-8", "replace").splitlines()
        except (OSError, ValueError):
            return None
    return None


def _fits(text: list[str], place: Place) -> bool:
    """Tell whether the function of *place* is defined in the file at or above its line: else it is another, or a newer, file."""
    name = place.function or ""
    if not name.isidentifier():  # <module>, <lambda>
        return True
    defined = re.compile(rf"\s*(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b")
    return any(defined.match(line) for line in text[: place.line])
