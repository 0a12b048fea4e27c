"""Settings of a project: ``[tool.advisor]`` in pyproject.toml, or advisor.toml.

The nearest one upward from the working folder counts; in one folder advisor.toml comes before pyproject.toml, and a
pyproject.toml without the section is passed over. What is not understood is an error, never ignored: a misspelt
``fail_on`` would leave a CI check that checks nothing.
"""

from __future__ import annotations

import datetime
import fnmatch
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from advisor import files
from advisor.errors import UsageError, nearest
from advisor.hardware import Hardware
from advisor.privacy import excerpt, without_home
from advisor.regex import regex
from advisor.results.analysis import Severity
from advisor.results.judgement import Level
from advisor.rulebook.former import note, renamed
from advisor.rulebook.tables import Reader
from advisor.timeline.ledger import CAUSES
from advisor.views.metrics import METRICS

DEFAULT_CACHE_GB = 4.0
MOST_BYTES = 1 << 20
_LONGEST = 550
_BARE_ID = regex(r"^[ \t[]*(?:tool\.advisor\.)?limits\.([\w-]+/[\w-]+)", re.MULTILINE)
_FORM = r"^\s*([a-z_][a-z0-9_.\-/]*)\s*(>=|<=|==|>|<)\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*$"
_NUMBER = regex(r"\d+(?:\.\d+)?(?:e\d+)?")
_SUMMARY = (
    "gpu_busy_share", "sm_efficiency", "achieved_occupancy", "tensor_core_share", "peak_memory_bytes", "step_ms", "steps",
)  # fmt: skip
_ASSERTED = (
    *(f"summary.{name}" for name in _SUMMARY),
    *(f"summary.causes.{name}" for name in CAUSES),
    *(f"metrics.{name}" for name in METRICS),
    *(f"findings.{name}" for name in get_args(Severity)),
)
"""Figures that an assertion may name; ``rules.<id>`` is the cost of a rule in ms a step besides."""

Name = Annotated[str, Meta(min_length=1)]
Names = tuple[Name, ...]
Bound = Annotated[
    float | str, Meta(extra={"must": 'a number or text (the id of a rule goes in quotes: limits."a/b".x)'})
]
MetricName = Annotated[str, Meta(extra_json_schema={"enum": list(METRICS)})]
Tolerance = Annotated[float, Meta(ge=0, le=1000, extra={"must": "a share such as 0.05, at most 1000"})]


class Assertion(msgspec.Struct, frozen=True):
    """A figure of every candidate against a bound: ``summary.gpu_busy_share >= 0.85``, parsed, never evaluated as code."""

    text: str
    name: str
    sign: str
    bound: float


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A check that does not count through a day, and why."""

    rule: Annotated[Name, Meta(description="a glob on rules, metrics and assertions")]
    until: Annotated[
        datetime.date, Meta(description="the last day on which it holds", extra={"must": "a date such as 2027-01-31"})
    ]
    reason: Name


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the gate, ``[tool.advisor.gate]``."""

    workload: Annotated[
        str, Meta(description="the name of what is run; only recordings of one workload are compared")
    ] = ""
    assertions: Annotated[
        tuple[Annotated[str, Meta(pattern=_FORM, extra={"must": "of the form 'summary.gpu_busy_share >= 0.85'"})], ...],
        Meta(description="bounds that hold without a baseline: summary.*, metrics.*, findings.<severity>, rules.<id>"),
    ] = msgspec.field(default=(), name="assert")
    levels: Annotated[
        dict[str, Level],
        Meta(description="glob on rules, metrics and assertions to level; the last glob that fits decides"),
    ] = {}
    tolerance: Annotated[
        dict[MetricName, Tolerance], Meta(description="the least relative change that matters, by metric")
    ] = {}
    waivers: Annotated[tuple[Waiver, ...], Meta(description="checks that do not count for a time")] = ()

    def level(self, name: str) -> Level:
        """Find the level of a check: that of the last glob that fits, since what is written later is the more particular."""
        level: Level = "error"
        for glob, chosen in self.levels.items():
            if fnmatch.fnmatchcase(name, glob):
                level = chosen
        return level

    @property
    def asserted(self) -> tuple[Assertion, ...]:
        """The assertions, parsed."""
        return tuple(parse(text) for text in self.assertions)


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that a project may write: the keys of advisor.toml, or of ``[tool.advisor]`` in pyproject.toml."""

    rules: Annotated[Names, Meta(description="folders of the project's own rules, relative to this file")] = ()
    only: Annotated[Names, Meta(description="globs: the only rules that are run")] = ()
    skip: Annotated[Names, Meta(description="globs: rules that are not run")] = ()
    fail_on: Annotated[
        Literal["low", "medium", "high"] | None,
        Meta(description="the severity from which on a finding fails the command"),
    ] = None
    library: Annotated[
        Names, Meta(description="packages whose frames are not the user's own, beside those that the advisor knows")
    ] = ()
    limits: Annotated[
        dict[str, dict[str, Bound]],
        Meta(description="rule id to limit to its value here, in the unit that the rule gives"),
    ] = {}
    cache_gb: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="what the cache of large traces may take of the disk; 0 keeps none",
            extra={"must": "a number of GB from 0 to 1,000,000"},
        ),
    ] = DEFAULT_CACHE_GB
    gate: Annotated[Gate, Meta(description="what the gate asks")] = Gate()
    hardware: Annotated[
        Hardware, Meta(description="rates of the device, for one that the advisor does not know or knows less well")
    ] = Hardware()


class Config(ConfigFile, frozen=True, kw_only=True):
    """Settings of a project. ``path`` is the file, None where there is none."""

    path: Path | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The project's own folders of rules, absolute."""
        return tuple(self.path.resolve().parent / name for name in self.rules) if self.path else ()

    def renamed(self, heirs: Mapping[str, Sequence[str]]) -> tuple[Config, list[str]]:
        """The settings with the rules of today in place of former ids, and a note on each of these."""
        gate, old = self.gate, dict.fromkeys([*self.only, *self.skip, *self.gate.levels])
        levels = {new: level for name, level in gate.levels.items() for new in heirs.get(name, (name,))}
        waivers = [
            replace(waiver, rule=new) for waiver in gate.waivers for new in heirs.get(waiver.rule, (waiver.rule,))
        ]
        assertions: list[str] = []
        for text in gate.assertions:
            name = parse(text).name
            rule = name.removeprefix("rules.")
            known = name != rule and rule in heirs
            assertions += [text.replace(rule, new, 1) for new in heirs[rule]] if known else [text]
            old |= {rule: None} if known else {}
        old |= dict.fromkeys(waiver.rule for waiver in gate.waivers)
        gate = replace(gate, levels=levels, waivers=tuple(waivers), assertions=tuple(assertions))
        notes = [note(name, heirs) for name in old if name in heirs]
        return replace(self, only=renamed(self.only, heirs), skip=renamed(self.skip, heirs), gate=gate), notes

    def require_fit(self, rules: Iterable[str], *, gate: bool = False) -> None:
        """Raise ``UsageError`` where a glob fits none of *rules*; with *gate* also for what the gate's settings name."""
        rules, settings = sorted(rules), self.gate if gate else Gate()
        checked = [*rules, *METRICS, *(" ".join(text.split()) for text in settings.assertions)]
        globs = [(key, glob, rules) for key in ("only", "skip") for glob in getattr(self, key)]
        globs += [("gate.levels", glob, checked) for glob in settings.levels]
        globs += [("gate.waivers", waiver.rule, checked) for waiver in settings.waivers]
        problems = [
            f'{key}: "{glob}" fits no rule{" and no metric" if known is checked else ""}{nearest(glob, known)}'
            for key, glob, known in globs
            if not any(fnmatch.fnmatchcase(name, glob) for name in known)
        ]
        for assertion in settings.asserted:
            kind, _, rule = assertion.name.partition(".")
            if kind == "rules" and rule not in rules:
                problems.append(f'gate.assert: no rule "{rule}"{nearest(rule, rules)}')
        _refuse(self.path, problems)


def load(path: str | Path | None = None, start: str | Path | None = None) -> Config:
    """Read the settings in *path*, or in the nearest file upward from *start* (the working folder).

    Raises ``UsageError`` that names the file and every mistake in it: what cannot be read, is unknown, or of a wrong type.
    """
    if path is not None:
        file = Path(path)
        table = _section(file, _parse(file))
        if table is None:
            raise UsageError(f"{file}: no [tool.advisor] section. Add one, or name another file with --config.")
        return _config(file, table)
    folder = Path(start or Path.cwd()).resolve()
    for parent in (folder, *folder.parents):
        for name in ("advisor.toml", "pyproject.toml"):
            candidate = parent / name
            if candidate.is_file() and (table := _section(candidate, _parse(candidate))) is not None:
                return _config(candidate, table)
    return Config()


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = files.read(path, MOST_BYTES).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        return files.toml(text)
    except OSError as error:
        raise UsageError(f"{without_home(str(path))}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{without_home(str(path))}: is not UTF-8, from byte {error.start} on; save it as UTF-8"
        ) from error
    except ValueError as error:
        bare = _BARE_ID.search(text)
        quoted = f'. The id of a rule goes in quotes: limits."{bare[1]}"' if bare else ""
        raise UsageError(
            f"{without_home(str(path))}: {excerpt(f'not valid TOML: {error}{quoted}', _LONGEST)}"
        ) from error


def _section(path: Path, document: dict[str, Any]) -> dict[str, Any] | None:
    """Find the settings' own table: all of advisor.toml, ``[tool.advisor]`` of a pyproject.toml."""
    if path.name != "pyproject.toml":
        tool = document.get("tool")
        if isinstance(tool, dict) and "advisor" in tool:
            raise UsageError(
                f"{without_home(str(path))}: in {path.name} leave out 'tool.advisor.': [gate] stands for [tool.advisor.gate], and "
                "the keys of [tool.advisor] itself come first, below no heading"
            )
        return document
    tool = document.get("tool", {})
    section = tool.get("advisor") if isinstance(tool, dict) else None
    if section is not None and not isinstance(section, dict):
        raise UsageError(f"{without_home(str(path))}: tool.advisor must be a table, not {excerpt(repr(section), 60)}")
    return section


def _config(path: Path, table: dict[str, Any]) -> Config:
    reader = Reader()
    file = reader.struct(ConfigFile, table)
    config = Config(**msgspec.structs.asdict(file), path=path)
    for folder in config.folders:
        if not os.path.isdir(folder):  # which also answers where no file can have that name
            reader.report("rules", f"no folder {folder}. Paths are relative to the file's own folder.")
    for key, problem in file.hardware.problems():
        reader.report(f"hardware.{key}", problem)
    for text in file.gate.assertions:
        if text and (problem := _unfit(parse(text))):
            reader.report("gate.assert", problem)
    _refuse(path, reader.texts())
    return config


def given_rates(texts: Iterable[str]) -> Hardware:
    """Read rates of a device as an option names them: ``bf16=989``, ``memory=3.35TB/s``, ``reachable.bf16=780``.

    Raises ``UsageError`` that names each that is not understood.
    """
    table: dict[str, Any] = {}
    reader = Reader()
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        outer, _, inner = key.partition(".")
        within = table.setdefault(outer, {}) if inner else table
        if not sign or not isinstance(within, dict):
            reader.report(key, "must be of the form RATE=NUMBER, such as bf16=989 or memory=3.35TB/s")
            continue
        within[inner or outer] = float(value) if _NUMBER.fullmatch(value) else value
    rates = reader.struct(Hardware, table)
    for key, problem in rates.problems():
        reader.report(key, problem)
    _refuse(None, reader.texts("--peak"))
    return rates


def _refuse(path: Path | None, problems: list[str]) -> None:
    if problems:
        at = f"{without_home(str(path))}: " if path else ""
        raise UsageError("\n".join(f"{at}{excerpt(problem, _LONGEST)}" for problem in problems))


def parse(text: str) -> Assertion:
    """Parse one assertion, whose form and name were checked when the settings were read."""
    match = re.match(_FORM, text)
    assert match is not None
    return Assertion(" ".join(text.split()), match[1], match[2], float(match[3]))


def _unfit(assertion: Assertion) -> str:
    """Say that no figure has the name of an assertion, or that no number is its bound; empty where both are."""
    name = assertion.name
    if not math.isfinite(assertion.bound):
        return f"the bound of '{excerpt(assertion.text, 60)}' is beyond what a number holds"
    known = name in _ASSERTED or name.startswith("rules.")
    return "" if known else f"no figure {name!r}{nearest(name, _ASSERTED, 0.4)}"
