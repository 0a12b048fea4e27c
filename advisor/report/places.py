"""Places of a finding in a line: the first with its share, and those behind it."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.report import figures
from advisor.report.plain import clean, columns
from advisor.report.savings import share
from advisor.results.analysis import Finding, Place


def where(finding: Finding) -> str:
    """Return the place to look at first; may be empty.

    Where one process drives several GPUs, also the one whose time it is.
    """
    place, gpus = next(iter(finding.where), None), figures.gpus(finding)
    text = place and (_several_places(finding.where) or figures.first_place(place))
    return ", ".join(part for part in (clean(text or ""), gpus) if part)


def _several_places(places: Sequence[Place]) -> str:
    """Return ``nccl:all_to_all (63 %), nccl:all_gather (35 %)`` or ``model.py:37 in forward (28 %) and others``."""
    texts = _named_places(places)
    return ", ".join(texts) + (" and others" if len(texts) == 1 else "")


def _named_places(places: Sequence[Place]) -> list[str]:
    """Return the places of a spread cost that a finding names, with their shares; none where the first stands for all.

    Lines that hold much are named as long as they fit a line, operators all of them. None as well where more is known of the first.
    """
    large = [place for place in places if place.share >= _MUCH]
    if not large or large[0].share >= _MOST:
        return []
    if any((not place.file and (place.library or place.module)) or place.through for place in large):
        return []
    names = [figures.first_place(large[0]), *(figures.short_place(at, large[0]) for at in large[1:])]
    operators = not any(place.file for place in large)
    if operators:
        names = [figures.operator_name(place, with_around=len(large) == 1) for place in large]
    texts = [f"{name} ({share(place.share)} %)" for name, place in zip(names, large, strict=True)]
    fitting = [count for count in range(1, len(texts) + 1) if columns(", ".join(texts[:count])) <= _PLACES_LINE]
    return texts if operators else texts[: max(fitting, default=1)]


def places_behind(finding: Finding) -> str:
    """Return ``also :68 apply_rotary_pos_emb 22 %, :61 rotate_half 11 %``, where the place says no more than "and others".

    So it does of a cost of which one place is named, and of a library's lines that the user's calls.
    """
    place = next(iter(finding.where), None)
    if place is None:
        return ""
    named = _named_places(finding.where)
    if not named and figures.leads_to_several(place):
        behind = [one for one in place.through if figures.telling(one.library)]
        first, found = behind[0].library.rpartition(":")[0], [(one.library, one.share) for one in behind[1:]]
        found = [(_short_line(library, first), part) for library, part in found]
    elif len(named) != 1:
        return ""
    else:
        found = [(figures.short_place(one, place), one.share) for one in finding.where[1:]]
    return "also " + ", ".join(texts) if (texts := _listed(found)) else ""


def _short_line(library: str, file: str) -> str:
    """Return a library's line without the folders of its file, and of *file* without its name."""
    name = library.rpartition(":")
    return f":{name[2]}" if name[0] == file else library.rpartition("/")[2]


def _listed(found: Sequence[tuple[str, float]]) -> list[str]:
    """Return names with their shares: those that hold a tenth, as many as fit a line."""
    texts = [f"{clean(name)} {share(part)} %" for name, part in found if name and part >= TENTH]
    fitting = [at for at in range(1, len(texts) + 1) if columns(", ".join(texts[:at])) <= _BEHIND_LINE]
    return texts[: max(fitting, default=0)]


TENTH, _BEHIND_LINE = 0.1, 64
_MUCH, _MOST = 0.15, 0.75
"""Share from which on a place counts as one of several, and from which on one stands for all."""
_PLACES_LINE = 78
"""Columns in which several lines have room."""
