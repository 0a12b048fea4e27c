"""A rule in the making: one TOML file read key by key, with every problem that it has."""

from __future__ import annotations

import ast
import math
import re
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeGuard

from advisor.frames import FRAMES
from advisor.frames.schema import Schema
from advisor.reading.program_settings import NAMES
from advisor.results.analysis import Fix, Reference
from advisor.rulebook.conditions import Condition, Request, nearest
from advisor.rulebook.expression import Limit as LimitValue
from advisor.rulebook.rule import (
    ACTIONS,
    CONFIDENCES,
    NEEDS,
    PLACEHOLDER,
    PROFILE,
    SEVERITIES,
    TIMES,
    Compiled,
    Limit,
    Match,
    Replay,
    Rule,
    Shown,
)

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*/[a-z0-9]+(?:-[a-z0-9]+)*")
_LATE = ("steps", "window_ns")
_KEYS: Mapping[str, Sequence[str]] = {
    "": [
        "id",
        "since",
        "title",
        "why",
        "needs",
        "given",
        "confidence",
        "yields_to",
        "severity",
        "replaces",
        "match",
        "limits",
        "levels",
        "fix",
        "replay",
        "references",
        "settings",
    ],
    "match": ["frame", "where", "when", "having", "evidence"],
    "limits": ["value", "unit", "basis"],
    "levels": list(SEVERITIES),
    "fix": ["title", "effort", "before", "after", "caveat", "verify"],
    "replay": ["action", "low", "high", "times", "basis"],
    "references": ["title", "url"],
    "settings": ["name", "where", "advice", "because"],
}


class Draft:
    """A rule in the making: its table, and all that is wrong with it."""

    def __init__(
        self, path: Path, schemas: Mapping[str, Schema], overrides: Mapping[str, Mapping[str, LimitValue]]
    ) -> None:
        self.path, self.schemas, self.overrides = path, schemas, overrides
        here = Path.cwd()
        self.label = str(path.relative_to(here) if path.is_relative_to(here) else path)
        self.problems: list[str] = []
        self.table: dict[str, Any] = {}
        self.fields: dict[str, Any] = {}
        self.limits: dict[str, Limit] = {}
        self.conditions: dict[str, list[Condition]] = {}

    @property
    def id(self) -> str:
        """The id that it must have, from where the file lies."""
        return f"{self.path.parent.name}/{self.path.stem}"

    def report(self, key: str, problem: str) -> None:
        self.problems.append(f"{key}: {problem}" if key else problem)

    def read(self) -> None:
        try:
            text = self.path.read_text(encoding="utf-8")
            if text.startswith("\ufeff"):
                return self.report("", "begins with a byte order mark; save it as UTF-8 without one (no BOM)")
            self.table = tomllib.loads(text)
        except OSError as error:
            return self.report("", str(error.strerror or error))
        except UnicodeDecodeError as error:
            return self.report("", f"is not UTF-8, from byte {error.start} on; save it as UTF-8")
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            return self.report("", f"not valid TOML: {error}")
        self.known("", self.table)
        fields, profile = self.fields, self.path.parent.name == PROFILE
        for key in ("id", "since", "title", "why", "confidence"):
            fields[key] = self.text(self.table, key)
        for key in ("given", "severity", "replaces"):
            fields[key] = self.text(self.table, key, required=False)
        if fields["id"] and (fields["id"] != self.id or not _ID.fullmatch(self.id)):
            self.report("id", f"'{fields['id']}' must be the folder and the name of the file, in lower case: {self.id}")
        self.one_of("confidence", fields["confidence"], CONFIDENCES)
        self.one_of("severity", fields["severity"], SEVERITIES)
        for key in ("needs", "yields_to"):
            fields[key] = self.texts(self.table, key)
        for need in fields["needs"]:
            self.one_of("needs", need, NEEDS)
        self.read_title(fields["title"], profile)
        self.read_limits()
        self.read_match()
        self.read_levels(profile)
        self.read_replay()
        self.read_fix(profile)
        self.read_references()
        self.read_settings(profile)
        return None

    def read_title(self, title: str, profile: bool) -> None:
        rest = PLACEHOLDER.sub("", title) if profile else title
        if "{" in rest or "}" in rest:
            self.report("title", "is plain text; figures of trace, as in {idle_share:.0%}, are for profile rules")
        if "\n" in title:
            self.report("title", "is one line")
        columns = self.columns("trace")
        for name, _ in PLACEHOLDER.findall(title) if profile else ():
            if name not in columns:
                self.report("title", f"no column '{name}' in frame 'trace'{nearest(name, columns)}")

    def read_limits(self) -> None:
        table = self.section("limits", required=False)
        override = self.overrides.get(self.id, {})
        for name, limit in table.items():
            key = f"limits.{name}"
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in _LATE:
                self.report(key, "a limit has a name of lower-case letters, digits and _, not $steps or $window_ns")
            if not isinstance(limit, dict):
                self.report(key, f"must be a table with value, unit and basis, not {_kind(limit)}")
                continue
            self.known("limits", limit, key)
            value = limit.get("value")
            unit, basis = self.text(limit, "unit", key), self.text(limit, "basis", key)
            if not _is_limit(value):
                self.report(f"{key}.value", "is missing" if value is None else "must be a finite number or text")
                value = 0
            chosen = override.get(name, value)
            if limit_problem(chosen, value):  # the user's mistake, and named as such, not as one of the rule
                chosen = value
            self.limits[name] = Limit(chosen, unit, basis)

    def read_match(self) -> None:
        table = self.section("match")
        self.known("match", table)
        frame = self.text(table, "frame", "match")
        if frame and frame not in self.schemas:
            self.report("match.frame", f"no frame '{frame}'{nearest(frame, self.schemas)}")
        parts = {key: self.text(table, key, "match", required=False) for key in ("where", "when", "having")}
        evidence = self.texts(table, "evidence", "match")
        self.fields["match"] = Match(frame, **parts, evidence=tuple(evidence))

    def read_levels(self, profile: bool) -> None:
        levels = self.section("levels", required=False)
        self.known("levels", levels)
        shares = [(name, levels[name]) for name in SEVERITIES if name in levels]
        for name, share in shares:
            if not _is_number(share) or not 0 < share <= 1:
                self.report(f"levels.{name}", "must be a share of the time, over 0 and up to 1")
                return
        if any(low >= high for (_, low), (_, high) in pairwise(shares)):
            self.report("levels", "must increase from note to high")
        frame = self.fields["match"].frame
        if shares and frame in FRAMES and FRAMES[frame].timeless:
            self.report("levels", f"frame '{frame}' owns no time; give the rule a severity instead")
        elif not profile and bool(shares) == bool(self.fields["severity"]):
            self.report("levels", "a rule has either [levels] or a severity")
        self.fields["levels"] = {name: float(share) for name, share in shares}

    def read_replay(self) -> None:
        table = self.section("replay", required=False)
        self.known("replay", table)
        self.fields["replay"] = None
        if not table:
            if self.fields.get("levels") and self.path.parent.name != PROFILE:
                self.report("replay", "is missing: what the fix does to the matched rows, and how much that returns")
            return
        action, basis = self.text(table, "action", "replay"), self.text(table, "basis", "replay")
        self.one_of("replay.action", action, ACTIONS)
        low, high = table.get("low"), table.get("high")
        if _is_number(low) and _is_number(high) and 0 <= low <= high <= 1:
            times = self.text(table, "times", "replay", required=False)
            self.one_of("replay.times", times, TIMES)
            self.fields["replay"] = Replay(action, float(low), float(high), basis, times)
        else:
            self.report("replay", "low and high are shares of the matched time, 0 <= low <= high <= 1")

    def read_fix(self, profile: bool) -> None:
        table = self.section("fix")
        self.known("fix", table)
        optional = ("caveat", *(("effort", "before", "after", "verify") if profile else ()))
        parts = {key: self.text(table, key, "fix", required=key not in optional) for key in _KEYS["fix"]}
        for key in ("before", "after"):
            if problem := _not_python(parts[key]):
                self.report(f"fix.{key}", problem)
        self.fields["fix"] = Fix(**parts)

    def read_references(self) -> None:
        entries = self.table.get("references", [])
        found: list[Reference] = []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.report("references", "must be [[references]] with title and url")
            entries = []
        for entry in entries:
            self.known("references", entry)
            title, url = self.text(entry, "title", "references"), self.text(entry, "url", "references")
            if url and not re.fullmatch(r"https?://[^\s/]+\S*", url):
                self.report("references.url", f"'{url}' is no http or https address")
            found.append(Reference(title=title, url=url))
        self.fields["references"] = tuple(found)

    def read_settings(self, profile: bool) -> None:
        entries = self.table.get("settings", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.report("settings", "must be [[settings]] with the name of one, and what to say of it")
            entries = []
        if entries and profile:
            self.report("settings", "are for findings; a profile rule has none")
        found: list[Shown] = []
        for entry in entries:
            self.known("settings", entry)
            name = self.text(entry, "name", "settings")
            parts = {key: self.text(entry, key, "settings", required=False) for key in _KEYS["settings"][1:]}
            self.one_of("settings.name", name, NAMES)
            if parts["advice"] and not parts["because"]:
                self.report("settings.because", "is missing: what the advised value follows from")
            rest, columns = PLACEHOLDER.sub("", parts["because"]), self.columns("settings") | self.columns("trace")
            if "{" in rest or "}" in rest:
                self.report("settings.because", "figures of `trace` and `settings` stand in it as {column}")
            for column, _ in PLACEHOLDER.findall(parts["because"]):
                if columns and column not in columns:
                    self.report("settings.because", f"no column '{column}'{nearest(column, columns)}")
            found.append(Shown(name, **parts))
        self.fields["settings"] = tuple(found)

    def requests(self) -> list[tuple[str, Request]]:
        """Every condition to compile, with the slot that it belongs in."""
        if "match" not in self.fields:
            return []
        match: Match = self.fields["match"]
        values = {name: limit.value for name, limit in self.limits.items()}
        trace, columns = self.columns("trace"), self.columns(match.frame)
        wanted = [
            ("given", Request(self.fields["given"], "trace", trace, values, where="given")),
            ("when", Request(match.when, "trace", trace, values, where="match.when")),
        ]
        if columns:
            frame = match.frame
            wanted += [
                ("where", Request(match.where, frame, columns, values, where="match.where")),
                ("having", Request(match.having, frame, columns, values, True, late=_LATE, where="match.having")),
            ]
            slot, items = ("evidence", match.evidence) if match.evidence else ("default", FRAMES[frame].evidence)
            wanted += [
                (slot, Request(item, frame, columns, values, True, item=True, where="match.evidence")) for item in items
            ]
        both = self.columns("settings") | trace
        for at, shown in enumerate(self.fields["settings"]):
            here = f"settings {at}"
            wanted += [
                (f"{here} where", Request(shown.where, "settings", both, values, where="settings.where")),
                (f"{here} advice", Request(shown.advice, "settings", both, values, item=True, where="settings.advice")),
            ]
        return [(slot, request) for slot, request in wanted if request.text]

    def columns(self, frame: str) -> dict[str, str]:
        """The columns of a frame with their SQL types; none where there is no such frame."""
        if frame not in self.schemas:
            return {}
        return {column.name: column.type for column in self.schemas[frame].columns}

    def rule(self) -> Rule:
        """The rule, once there is no problem."""
        single = {slot: self.conditions.get(slot) for slot in ("given", "when", "where", "having")}
        compiled = Compiled(
            **{slot: found[0] if found else None for slot, found in single.items()},
            evidence=tuple(self.conditions.get("evidence") or self.conditions.get("default") or ()),
            shown=tuple(self.shown(at) for at in range(len(self.fields["settings"]))),
        )
        fields: dict[str, Any] = {
            **self.fields,
            "needs": tuple(self.fields["needs"]),
            "yields_to": tuple(self.fields["yields_to"]),
            "severity": self.fields["severity"] or None,
        }
        return Rule(**fields, limits=self.limits, path=str(self.path), compiled=compiled)

    def shown(self, at: int) -> tuple[Condition | None, Condition | None]:
        """The conditions of one of the settings that a finding says."""
        where, advice = (self.conditions.get(f"settings {at} {key}", [None])[0] for key in ("where", "advice"))
        return where, advice

    # ---- reading one value

    def section(self, key: str, required: bool = True) -> dict[str, Any]:
        value = self.table.get(key)
        if isinstance(value, dict):
            return value
        if value is not None or required:
            self.report(key, "is missing" if value is None else f"must be a table, not {_kind(value)}")
        return {}

    def known(self, section: str, table: Mapping[str, Any], at: str | None = None) -> None:
        at = section if at is None else at
        for key in table:
            if key not in _KEYS[section]:
                self.report(f"{at}.{key}" if at else key, f"no such key{nearest(key, _KEYS[section])}")

    def text(self, table: Mapping[str, Any], key: str, section: str = "", required: bool = True) -> str:
        name = f"{section}.{key}" if section else key
        value = table.get(key, "")
        if not isinstance(value, str):
            self.report(name, f"must be text, not {_kind(value)}")
            return ""
        if required and not value.strip():
            self.report(name, "is empty" if key in table else "is missing")
        return value.strip("\n") if key in ("before", "after") else value.strip()

    def texts(self, table: Mapping[str, Any], key: str, section: str = "") -> list[str]:
        name = f"{section}.{key}" if section else key
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            self.report(name, "must be a list of texts")
            return []
        if len(set(value)) < len(value):
            self.report(name, "names something twice")
        return value

    def one_of(self, key: str, word: str, words: Iterable[str]) -> None:
        words = list(words)
        if word and word not in words:
            self.report(key, f"'{word}' is none of {', '.join(words)}{nearest(word, words)}")


def limit_problem(chosen: object, value: LimitValue) -> str:
    """What is wrong with a user's own value for a limit, or nothing."""
    if _is_limit(chosen) and isinstance(chosen, str) == isinstance(value, str):
        return ""
    return f"must be a {_kind(value)}, not {chosen!r}"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_limit(value: object) -> TypeGuard[LimitValue]:
    return _is_number(value) or (isinstance(value, str) and bool(value))


def _kind(value: object) -> str:
    names = {str: "text", bool: "true or false", int: "number", float: "number", list: "list", dict: "table"}
    return names.get(type(value), type(value).__name__)


def _not_python(code: str) -> str:
    """Why the text is not Python, or nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(dedent(code))
    except SyntaxError as error:
        return f"is not Python: {error.msg} in line {error.lineno}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"is not Python: {error}"
    return ""
