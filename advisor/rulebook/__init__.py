"""The catalogue: all rules of some folders, read from TOML, checked whole, and ready to run.

A rule is a file ``<folder>/<category>/<stem>.toml`` whose id is ``<category>/<stem>``. Every problem of every file is
found in one go and raised as one ``RuleError``; a rule that loads cannot fail for its wording later.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from advisor.errors import RuleError, nearest
from advisor.frames import FRAMES, SCHEMAS
from advisor.frames.schema import Schema
from advisor.privacy import excerpt
from advisor.rulebook import cached, shipped
from advisor.rulebook.conditions import ConditionError, compile_all
from advisor.rulebook.draft import Draft, limit_problem
from advisor.rulebook.expression import Limit as LimitValue
from advisor.rulebook.former import former as former_ids
from advisor.rulebook.rule import Limit, Match, Replay, Rule

__all__ = ["Limit", "Match", "Replay", "Rule", "Rulebook", "builtin_rules_dir", "files_in", "load"]


_ALIKE = 0.8
"""Likeness of two names from which on one is taken for a slip of the other."""
_LISTS = ("yields_to", "gone_with", "rewrites")
"""Keys that name other rules."""


class Rulebook(Struct, frozen=True):
    """The rules in the order of their ids, and the frames that they were checked against."""

    rules: tuple[Rule, ...]
    schemas: Mapping[str, Schema]

    @property
    def former(self) -> dict[str, tuple[str, ...]]:
        """The ids that rules once had, with the rules that stand for each."""
        return former_ids(self.rules)


def builtin_rules_dir() -> Path:
    """The rules that ship with the advisor: inside the wheel, or beside the package in a checkout."""
    return shipped.folder("rules")


def files_in(folder: Path) -> list[Path]:
    """The files of rules in a folder, those that lie too high or too deep included. Links are followed, never in circles."""
    paths = {*folder.glob("*/*.toml"), *folder.rglob("*.toml")}
    return sorted(path for path in paths if path.is_file() or (path.is_symlink() and not path.is_dir()))


_LOADED: dict[Any, Rulebook] = {}
_LOADED_MOST = 8
"""Catalogues kept in a process by what their files hold: parsing and checking one takes a third of a second."""


def load(
    dirs: Sequence[Path],
    overrides: Mapping[str, Mapping[str, LimitValue]] | None = None,
    *,
    schemas: Mapping[str, Schema] = SCHEMAS,
    config: str = "",
    thorough: bool = False,
    keep: bool = False,
) -> Rulebook:
    """Read and check all rules in *dirs*. *overrides* are the user's limits by rule id, from the file *config*.

    A folder or file that is reached twice, by whatever path, counts once. Raises ``RuleError`` with every problem found.
    The same files with the same content are parsed and checked once a process. The rules that ship are known to run, and
    their code to be Python: with the limits that they ship with, these two are checked again only where that is *thorough*.
    What was kept in the cache's folder is taken from there, unless *thorough*; *keep* puts it there.
    """
    overrides = overrides or {}
    drafts, problems = _drafts(dirs, schemas, overrides)
    if not thorough and not overrides and schemas is SCHEMAS:
        _take_as_proven(drafts)
    contents = tuple((str(draft.path), draft.content, draft.proven) for draft in drafts)
    key = (contents, repr(overrides), tuple(schemas.items()))
    if not problems and key in _LOADED:
        return _LOADED[key]
    entry = cached.name_of(part for content in (*contents, key[1:], _shown()) for part in content)
    if not problems and not thorough and (found := cached.read(entry)) is not None:
        return _remember(key, Rulebook(found, schemas))
    for draft in drafts:
        draft.read()
    _compile(drafts)
    known = _unique(drafts)
    _check_former(known)
    _check_overrides(overrides, known, problems, config)
    _check_order(known)
    _check_acts(known)
    problems += [problem for draft in drafts for problem in draft.texts(draft.label)]
    if problems:
        raise RuleError(problems)
    rules = tuple(sorted((draft.rule() for draft in known.values()), key=lambda rule: rule.id))
    if keep and not thorough:
        cached.write(entry, rules)
    return _remember(key, Rulebook(rules, schemas))


def _take_as_proven(drafts: Sequence[Draft]) -> None:
    """Mark the rules that ship with the advisor."""
    own = os.path.realpath(builtin_rules_dir())
    for draft in drafts:
        draft.proven = draft.file_path.startswith(own + os.sep)


def _shown() -> list[tuple[str, tuple[str, ...], bool]]:
    """List what a rule that says nothing of it takes from its frame: the evidence, and whether its rows own time."""
    return [(name, frame.evidence, frame.timeless) for name, frame in FRAMES.items()]


def _remember(key: Any, book: Rulebook) -> Rulebook:
    if len(_LOADED) >= _LOADED_MOST:
        _LOADED.pop(next(iter(_LOADED)), None)
    return _LOADED.setdefault(key, book)


def _drafts(
    dirs: Sequence[Path], schemas: Mapping[str, Schema], overrides: Mapping[str, Mapping[str, LimitValue]]
) -> tuple[list[Draft], list[str]]:
    """Find the rules in some folders, each file once and unread yet, and what is wrong with the folders."""
    drafts: list[Draft] = []
    problems: list[str] = []
    folders: dict[str, Path] = {}
    for place in dirs:
        folders.setdefault(os.path.realpath(place), Path(place))
    files: set[tuple[str, str]] = set()
    real = cache(os.path.realpath)  # many rules lie in each folder
    for folder in folders.values():
        if not folder.is_dir():
            problems.append(f"{folder}: {'is no folder' if folder.exists() else 'no such folder'}")
            continue
        broken = [entry for entry in folder.iterdir() if entry.is_symlink() and not entry.exists()]
        problems += [f"{entry}: links to nothing" for entry in sorted(broken) if entry.suffix != ".toml"]
        for path in files_in(folder):
            draft = Draft(path, schemas, overrides)
            linked = path.is_symlink()
            draft.file_path = os.path.realpath(path) if linked else os.path.join(real(path.parent), path.name)
            file = (draft.file_path, draft.id)
            if path.parent.parent != folder:
                problems.append(
                    f"{draft.label}: a rule lies in a folder named for its category: {folder}/CATEGORY/NAME.toml"
                )
            elif file not in files:
                files.add(file)
                drafts.append(draft)
    return drafts, problems


def _compile(drafts: Sequence[Draft]) -> None:
    """Compile the conditions of all rules at once, and find the limits that none of them uses."""
    jobs = [(draft, slot, request) for draft in drafts for slot, request in draft.requests()]
    proven = [draft.proven for draft, _, _ in jobs]
    for (draft, slot, request), outcome in zip(jobs, compile_all([job[2] for job in jobs], proven), strict=True):
        if not isinstance(outcome, ConditionError):
            draft.conditions.setdefault(slot, []).append(outcome)
        elif slot != "default":  # frames of a test may lack columns that are shown where a rule does not choose
            draft.report(request.where, outcome.problem)
    for draft in drafts:
        if not draft.is_sound("given", "match", "settings", "fix"):
            continue  # a condition that failed may be the one that uses the limit
        used = {name for conditions in draft.conditions.values() for c in conditions for name in c.limits}
        for name in sorted(draft.file.limits.keys() - used):
            draft.report(f"limits.{name}", f"no condition uses ${name}")


def _unique(drafts: Sequence[Draft]) -> dict[str, Draft]:
    """The rules by id, without those that others replace."""
    replaced: dict[str, Draft] = {}
    for draft in drafts:
        target = draft.file.replaces
        if not target:
            continue
        others = {other.id for other in drafts if other is not draft}
        if target not in others:
            draft.report("replaces", f"no other rule '{target}'{nearest(target, others)}")
        elif target in replaced:
            draft.report("replaces", f"'{target}' is replaced by {replaced[target].label} already")
        else:
            replaced[target] = draft
    known: dict[str, Draft] = {}
    for draft in drafts:
        if replaced.get(draft.id, draft) is not draft:
            continue
        if draft.id in known:
            draft.report("id", f'{known[draft.id].label} has it too; say replaces = "{draft.id}" if that is meant')
        known.setdefault(draft.id, draft)
    for draft in known.values():
        # Whoever yielded to a rule that was replaced yields to the one that took its place.
        for key in _LISTS:
            heirs = [replaced[rule].id if rule in replaced else rule for rule in getattr(draft.file, key)]
            draft.file = msgspec.structs.replace(draft.file, **{key: tuple(dict.fromkeys(heirs))})
    return known


def _check_former(known: Mapping[str, Draft]) -> None:
    """A former id belongs to no rule any more."""
    for draft in known.values():
        for rule in draft.file.formerly:
            if rule in known:
                draft.report("formerly", f"'{rule}' is a rule: {known[rule].label}")


def _check_overrides(
    overrides: Mapping[str, Mapping[str, LimitValue]], known: Mapping[str, Draft], problems: list[str], config: str
) -> None:
    at = f"{config}: " if config else ""
    old = {rule for draft in known.values() for rule in draft.file.formerly}
    for rule, limits in overrides.items():
        if rule in old and rule not in known:
            continue  # what the rule still has was taken over
        if rule not in known:
            problems.append(f"{at}limits: no rule '{excerpt(rule, 60)}'{nearest(rule, known)}")
            continue
        draft = known[rule]
        for name, value in limits.items():
            if name not in draft.file.limits:
                near = nearest(name, draft.file.limits)
                problems.append(f"{at}limits.\"{rule}\": no limit '{excerpt(name, 60)}'{near}")
            elif problem := limit_problem(value, draft.file.limits[name].value):
                problems.append(f'{at}limits."{rule}".{name}: {problem}')


def _check_acts(known: Mapping[str, Draft]) -> None:
    """An act that one rule alone names is a slip where it is close to one of others: it stands for a change that they share."""
    rules: dict[str, set[str]] = {}
    for draft in known.values():
        for fix in draft.fixes:
            for act in fix.acts:
                rules.setdefault(act, set()).add(draft.id)
    for act, using in rules.items():
        others = [other for other, named in rules.items() if other != act and named - using]
        if len(using) == 1 and (near := nearest(act, others, cutoff=_ALIKE)):
            known[next(iter(using))].report("fix.acts", f"no other rule has the act '{act}'{near}")


def _check_order(known: Mapping[str, Draft]) -> None:
    """Every rule yields to rules that exist, and none to itself, directly or in a circle."""
    for draft in known.values():
        for key in _LISTS:
            for rule in getattr(draft.file, key):
                if rule not in known:
                    draft.report(key, f"no rule '{rule}'{nearest(rule, known)}")
    done: set[str] = set()

    def visit(rule: str, trail: tuple[str, ...]) -> None:
        if rule in trail:
            circle = " -> ".join([*trail[trail.index(rule) :], rule])
            known[rule].report("yields_to", f"goes in a circle: {circle}")
        elif rule in known and rule not in done:
            for other in known[rule].file.yields_to:
                visit(other, (*trail, rule))
            done.add(rule)

    for rule in known:
        visit(rule, ())
