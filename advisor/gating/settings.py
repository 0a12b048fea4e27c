"""What a project asks of the gate: ``[tool.advisor.gate]``. What is not understood is an error, never ignored."""

from __future__ import annotations

import datetime
import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, get_args

from advisor.errors import UsageError
from advisor.gating.assertions import Assertion, parse
from advisor.results.judgement import Level
from advisor.results.samples import METRICS

KEYS = ("workload", "assert", "levels", "tolerance", "waivers")
WAIVER_KEYS = ("rule", "until", "reason")
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True)
class Waiver:
    """A check that does not count through a day, and why. *name* is a glob on rules, metrics and assertions."""

    name: str
    until: str
    reason: str


@dataclass(frozen=True)
class Settings:
    """Settings of the gate. *today* is a date such as ``2026-11-21``, for the waivers; where it is empty none has ended."""

    workload: str = ""
    levels: Mapping[str, Level] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=dict)
    assertions: Sequence[Assertion] = ()
    waivers: Sequence[Waiver] = ()
    today: str = ""

    def level(self, name: str) -> Level:
        """The level of the last glob that fits: what is written later is the more particular."""
        level: Level = "error"
        for glob, chosen in self.levels.items():
            if fnmatch.fnmatchcase(name, glob):
                level = chosen
        return level

    def fitting(self, rules: Iterable[str]) -> None:
        """Raise ``UsageError`` where a level, a waiver or an assertion names nothing that there is."""
        rules = sorted(rules)
        known = [*rules, *METRICS, *(assertion.text for assertion in self.assertions)]
        wanted = [("levels", glob) for glob in self.levels] + [("waivers", waiver.name) for waiver in self.waivers]
        for key, glob in wanted:
            if not any(fnmatch.fnmatchcase(name, glob) for name in known):
                raise UsageError(f'gate.{key}: "{glob}" fits no rule and no metric{_nearest(glob, known)}')
        for assertion in self.assertions:
            kind, _, rule = assertion.name.partition(".")
            if kind == "rules" and rule not in rules:
                raise UsageError(f'gate.assert: no rule "{rule}"{_nearest(rule, rules)}')


def read(where: str, table: object) -> Settings:
    """The settings in a table of TOML; *where* names the file in errors. Raises ``UsageError``."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: gate must be a table, such as [tool.advisor.gate]")
    for key in table:
        if key not in KEYS:
            raise UsageError(f'{where}: unknown key "gate.{key}"{_nearest(key, KEYS)}. Known keys: {", ".join(KEYS)}.')
    workload = table.get("workload", "")
    if not isinstance(workload, str):
        raise UsageError(f"{where}: gate.workload must be a name, not {workload!r}")
    texts = table.get("assert", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f'{where}: gate.assert must be a list such as ["summary.gpu_busy_share >= 0.85"]')
    try:
        assertions = tuple(parse(text) for text in texts)
    except UsageError as error:
        raise UsageError(f"{where}: gate.{error}") from error
    return Settings(
        workload=workload,
        levels=_levels(where, table.get("levels", {})),
        tolerances=_tolerances(where, table.get("tolerance", {})),
        assertions=assertions,
        waivers=_waivers(where, table.get("waivers", [])),
    )


def _levels(where: str, table: object) -> dict[str, Level]:
    if not isinstance(table, dict):
        raise UsageError(f'{where}: gate.levels must be a table such as {{ "kernels/*" = "warn" }}')
    for glob, level in table.items():
        if level not in LEVELS:
            raise UsageError(f'{where}: gate.levels."{glob}" must be one of {", ".join(LEVELS)}, not {level!r}')
    return dict(table)


def _tolerances(where: str, table: object) -> dict[str, float]:
    if not isinstance(table, dict):
        raise UsageError(f"{where}: gate.tolerance must be a table such as {{ step_ms = 0.03 }}")
    for metric, share in table.items():
        if metric not in METRICS:
            raise UsageError(f'{where}: gate.tolerance: no metric "{metric}"{_nearest(metric, METRICS)}')
        if isinstance(share, bool) or not isinstance(share, int | float) or not math.isfinite(share) or share < 0:
            raise UsageError(f"{where}: gate.tolerance.{metric} must be a share such as 0.05, not {share!r}")
    return {metric: float(share) for metric, share in table.items()}


def _waivers(where: str, given: object) -> tuple[Waiver, ...]:
    form = '{ rule = "sync/*", until = 2027-01-31, reason = "…" }'
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise UsageError(f"{where}: gate.waivers must be a list of {form}")
    return tuple(_waiver(where, entry, form) for entry in given)


def _waiver(where: str, entry: dict[str, Any], form: str) -> Waiver:
    for key in entry:
        if key not in WAIVER_KEYS:
            raise UsageError(f'{where}: gate.waivers: unknown key "{key}"{_nearest(key, WAIVER_KEYS)}')
    for key in WAIVER_KEYS:
        if key not in entry or (isinstance(entry[key], str) and not entry[key].strip()):
            raise UsageError(f"{where}: gate.waivers: a waiver without {key}; it needs {form}")
    rule, until, reason = (entry[key] for key in WAIVER_KEYS)
    if not isinstance(rule, str) or not isinstance(reason, str):
        raise UsageError(f"{where}: gate.waivers: rule and reason must be text, as in {form}")
    if isinstance(until, str):
        try:
            until = datetime.date.fromisoformat(until)
        except ValueError as error:
            raise UsageError(
                f"{where}: gate.waivers: until must be a date such as 2027-01-31, not {until!r}"
            ) from error
    if not isinstance(until, datetime.date) or isinstance(until, datetime.datetime):
        raise UsageError(f"{where}: gate.waivers: until must be a date such as 2027-01-31, not {until!r}")
    return Waiver(rule, until.isoformat(), " ".join(reason.split()))


def _nearest(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; nearest: {near[0]}" if near else ""
