"""Renderers of an analysis: one registry that says what each is called, how its files end, and where it lives.

A new format is one file with a ``render(document, options)`` and one line in :data:`FORMATS`. Nothing is imported
until it is rendered, so that ``advisor --help`` can list the formats for free.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import NamedTuple, cast

from advisor.errors import UsageError


class Options(NamedTuple):
    """Options of a rendering. Renderers for machines ignore all of them."""

    width: int = 100
    color: bool = False
    verbosity: int = 0
    """-1: headline and a line a finding; 0: the report, on a terminal one screen of it; 1: everything."""
    source_root: str | None = None
    """The folder below which reports may look up lines of the user's source."""
    explain: str = ""
    """The number or rule of the finding that is explained, ``all`` for each; empty for the report."""


class Format(NamedTuple):
    """One renderer. ``suffix`` is how its files end, ``target`` is ``module:function``; ``views``: it always asks for them."""

    name: str
    suffix: str
    binary: bool
    target: str
    views: bool = False


def registry(*formats: Format) -> dict[str, Format]:
    """Register formats by their names."""
    return {entry.name: entry for entry in formats}


FORMATS = registry(
    Format("text", ".txt", False, "advisor.report.text:render"),
    Format("json", ".json", False, "advisor.report.json:render"),
    Format("html", ".html", False, "advisor.report.html:render", views=True),
    Format("markdown", ".md", False, "advisor.report.markdown:render"),
    Format("concise", "", False, "advisor.report.concise:render"),
    Format("brief", "", False, "advisor.report.brief:render"),
    Format("gitlab", "code-quality-report.json", False, "advisor.report.gitlab:render"),
)


def format_of(path: str, formats: Mapping[str, Format] = FORMATS) -> Format:
    """Return the format whose suffix *path* ends in, the longest that fits. Raises ``UsageError`` where none does."""
    fitting = [entry for entry in formats.values() if entry.suffix and path.lower().endswith(entry.suffix)]
    if not fitting:
        known = ", ".join(f"{entry.suffix} ({entry.name})" for entry in formats.values() if entry.suffix)
        raise UsageError(f"{path}: no format has this suffix. Name the file {known}, or give --format.")
    return max(fitting, key=lambda entry: len(entry.suffix))


def render(
    name: str, document: object, options: Options | None = None, formats: Mapping[str, Format] = FORMATS
) -> bytes:
    """Render a document in the format called *name*: bytes, in UTF-8 where it is text."""
    module, function = formats[name].target.split(":")
    report = getattr(importlib.import_module(module), function)(document, options or Options())
    return report.encode("utf-8") if isinstance(report, str) else cast(bytes, report)
