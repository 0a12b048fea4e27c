"""``--redact``: an analysis that names no folder, for a report that leaves the house."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from advisor.results.analysis import Across, Analysis, Cell, Evidence, Finding, Place, QualityNote, Setting, Verdicts
from advisor.results.views import Grid, Views

# An absolute path of two parts or more, on either kind of system, not the rest of a URL or of a module path; or a
# relative one that ends in the suffix of a file that traces speak of.
_ABSOLUTE = re.compile(r"(?<![\w.:/\\~-])(?:[A-Za-z]:|~\w*)?[\\/](?:[^\s\\/\"'`,;:()<>|]+[\\/])+(?=[^\s\\/])")
_RELATIVE = re.compile(r"(?<![\w./\\:-])(?:[\w.+-]+[\\/])+(?=[\w.+-]+\.(?:py|pyx|ipynb|json|gz|so|cu|cpp|toml|pt)\b)")
_PATH_COLUMNS = ("file", "library", "path", "source", "place")


def base_name(path: str) -> str:
    """The last part of a path, on either kind of system: ``train.py``."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def scrub(text: str) -> str:
    """Free text with every path in it cut down to its last part."""
    return _RELATIVE.sub("", _ABSOLUTE.sub("", text))


def redact(analysis: Analysis) -> Analysis:
    """A copy of *analysis* in which paths are base names. Names of functions, modules and devices stay."""
    replace = msgspec.structs.replace
    return replace(
        analysis,
        trace=replace(analysis.trace, path=base_name(analysis.trace.path)),
        quality=_notes(analysis.quality),
        findings=[redact_finding(finding) for finding in analysis.findings],
        verdicts=_verdicts(analysis.verdicts),
        views=_views(analysis.views) if analysis.views else None,
    )


def redact_across(across: Across) -> Across:
    """The same for what many ranks show together."""
    replace = msgspec.structs.replace
    return replace(
        across,
        ranks=[replace(row, path=base_name(row.path)) for row in across.ranks],
        lags=[replace(lag, op=None if lag.op is None else scrub(lag.op)) for lag in across.lags],
        quality=_notes(across.quality),
        findings=[redact_finding(finding) for finding in across.findings],
        verdicts=_verdicts(across.verdicts),
    )


def _notes(notes: Sequence[QualityNote]) -> list[QualityNote]:
    replace = msgspec.structs.replace
    return [replace(note, message=scrub(note.message), advice=scrub(note.advice)) for note in notes]


def _verdicts(verdicts: Verdicts) -> Verdicts:
    replace = msgspec.structs.replace
    return replace(
        verdicts,
        not_applicable=[replace(item, because=scrub(item.because)) for item in verdicts.not_applicable],
        not_run=[replace(item, how=scrub(item.how)) for item in verdicts.not_run],
        error=[replace(item, message=scrub(item.message)) for item in verdicts.error],
    )


def redact_finding(finding: Finding) -> Finding:
    """The same finding without folders in its places, its evidence and its title; the rule's own text stays."""
    return msgspec.structs.replace(
        finding,
        title=scrub(finding.title),
        where=[_place(place) for place in finding.where],
        evidence=_evidence(finding.evidence),
        settings=[_setting(one) for one in finding.settings],
    )


def _setting(one: Setting) -> Setting:
    file = None if one.file is None else base_name(one.file)
    return msgspec.structs.replace(one, file=file, value=scrub(one.value), because=scrub(one.because))


def _place(place: Place) -> Place:
    return msgspec.structs.replace(
        place,
        file=None if place.file is None else base_name(place.file),
        library=None if place.library is None else _frame(place.library),
        op=None if place.op is None else scrub(place.op),
    )


def _frame(text: str) -> str:
    # "transformers/models/x.py:812 forward": the folder goes, the line and the function stay
    path, colon, rest = text.partition(".py")
    return base_name(path) + colon + rest


def _evidence(evidence: Evidence) -> Evidence:
    def cell(column: str, value: Cell) -> Cell:
        if not isinstance(value, str):
            return value
        return _frame(value) if column in _PATH_COLUMNS else scrub(value)

    rows = [[cell(column, value) for column, value in zip(evidence.columns, row, strict=True)] for row in evidence.rows]
    return msgspec.structs.replace(evidence, rows=rows)


def _views(views: Views) -> Views:
    replace = msgspec.structs.replace
    line = views.timeline
    grids = {name: _grid(value) for name in Views.__struct_fields__ if isinstance(value := getattr(views, name), Grid)}
    return replace(
        views,
        steps=[replace(bar, name=scrub(bar.name)) for bar in views.steps],
        timeline=replace(line, title=scrub(line.title), names=[_name(name) for name in line.names]) if line else None,
        memory=[replace(curve, holders=_grid(curve.holders)) for curve in views.memory],
        **grids,
    )


def _grid(grid: Grid) -> Grid:
    paths = [heading.name in _PATH_COLUMNS for heading in grid.columns]
    rows = [
        [
            (_frame(cell) if path else scrub(cell)) if isinstance(cell, str) else cell
            for path, cell in zip(paths, row, strict=True)
        ]
        for row in grid.rows
    ]
    return msgspec.structs.replace(grid, rows=rows)


def _name(name: str) -> str:
    # "forward (models/vit.py:812)", as the timeline writes the source's frames
    function, bracket, place = name.rpartition(" (")
    return f"{function}{bracket}{_frame(place)}" if ".py:" in place else scrub(name)
