"""Requests to edits, as a recording would make them: a finding with its settings and places, and files in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from advisor.fix.edit import Change, Edit, Files, Request
from advisor.fix.edits import EDITS
from advisor.fix.source import NotEditable
from advisor.results.analysis import Evidence, Finding, Fix, Place, Saving, Setting

SCRIPT = PurePosixPath("train.py")


def edit(name: str) -> Edit:
    """Return an edit by its name."""
    return next(one for one in EDITS if one.name == name)


def setting(of: str | None, name: str, value: str, line: int | None, advice: str | None = None) -> Setting:
    """Make a setting of the script as the recorder notes it."""
    file = str(SCRIPT) if line else None
    return Setting(of=of, name=name, value=value, advice=advice, because="", file=file, line=line)


def finding(
    rule: str, settings: Sequence[Setting] = (), line: int | None = None, share: tuple[float, float] | None = (0.1, 0.3)
) -> Finding:
    """Make a finding of *rule* at a line of the script."""
    where = [Place(file=str(SCRIPT), line=line, function=None, library=None, module=None, op=None, share=1.0)]
    saving = None
    if share is not None:
        low, high = share
        saving = Saving(low_ms=low, high_ms=high, low_share=low, high_share=high, basis="bound")
    return Finding(
        rule=rule,
        title=f"A finding of {rule}",
        category=rule.partition("/")[0],
        severity="high",
        confidence="certain",
        cost_ms=1.0,
        cost_share=0.1,
        occurrences=1,
        saving=saving,
        where=where if line else [],
        evidence=Evidence(columns=[], rows=[]),
        why="",
        fix=Fix(title="Change it", effort="", before="", after="x = 1", caveat="", verify=""),
        references=[],
        settings=list(settings),
    )


def request(folder: Path, text: str, found: Finding, cores: int | None = 2, torch: str | None = "2.13.0") -> Request:
    """Make a request for *found*, with *text* as the script, as a release of torch recorded it."""
    (folder / SCRIPT).write_bytes(text.encode())
    files = Files(folder, lambda name: SCRIPT if name == str(SCRIPT) else None, SCRIPT)
    analysis: Any = SimpleNamespace(trace=SimpleNamespace(torch=torch))  # edits read nothing else of it
    return Request(found, analysis, files, cores)


def outcome(name: str, asked: Request) -> list[Change] | str:
    """Return the changes that an edit makes, or why it makes none."""
    try:
        return list(edit(name).make(asked))
    except NotEditable as reason:
        return str(reason)


def line_of(text: str, part: str) -> int:
    """Return the line that holds *part*, the first."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
