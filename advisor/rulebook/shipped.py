"""Folders of the project that the wheel brings along: the rules and the examples."""

from __future__ import annotations

from pathlib import Path


def folder(name: str) -> Path:
    """The folder *name* of the project: ``advisor/_NAME`` in an installed wheel, beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parent / name
