"""A rule in the making: one TOML file, read into ``RuleFile`` and checked, with every problem that it has."""

from __future__ import annotations

import ast
import io
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import msgspec

from advisor import files
from advisor.errors import nearest
from advisor.frames import FRAMES
from advisor.frames.schema import Schema
from advisor.rulebook.conditions import Condition, Request
from advisor.rulebook.expression import Limit as Value
from advisor.rulebook.rule import PLACEHOLDER, PROFILE, SEVERITIES, Compiled, Fix, Rule, RuleFile, Text, with_names
from advisor.rulebook.tables import Reader, problem_of

MAX_BYTES = 1 << 20
_LATE = ("steps", "window_ns")
_BLANK = Reader().struct(RuleFile, {})


class Draft(Reader):
    """A rule in the making: ``file`` holds what could be read, ``problems`` all that is wrong with it.

    Of a ``proven`` one it is known that its code is Python and that its conditions run.
    """

    def __init__(self, path: Path, schemas: Mapping[str, Schema], overrides: Mapping[str, Mapping[str, Value]]) -> None:
        super().__init__()
        self.path, self.schemas, self.overrides = path, schemas, overrides
        self.proven = False
        self.file_path = ""
        """The file's path without links."""
        self.file = _BLANK
        self.conditions: dict[str, list[Condition]] = {}

    @property
    def id(self) -> str:
        """The id that it must have, from where the file lies."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def label(self) -> str:
        """The file as messages name it."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    @property
    def is_profile(self) -> bool:
        """A rule on the quality of the profile."""
        return self.path.parent.name == PROFILE

    @cached_property
    def content(self) -> bytes | OSError:
        """The file's bytes, or why there are none. A device or a pipe, which might never end, is not read."""
        try:
            return files.read(self.path, MAX_BYTES)
        except OSError as error:
            return error

    def read(self) -> None:
        """Read the file and check all that needs no condition."""
        try:
            if isinstance(self.content, OSError):
                raise self.content
            text = io.TextIOWrapper(io.BytesIO(self.content), encoding="utf-8").read()
            if text.startswith("\ufeff"):
                return self.report("", "begins with a byte order mark; save it as UTF-8 without one (no BOM)")
            table = files.toml(text)
        except OSError as error:
            return self.report("", str(error.strerror or error))
        except UnicodeDecodeError as error:
            return self.report("", f"is not UTF-8, from byte {error.start} on; save it as UTF-8")
        except ValueError as error:
            return self.report("", f"not valid TOML: {error}")
        self.file = file = self.struct(RuleFile, table)
        if self.is_sound("id") and file.id != self.id:
            self.report("id", f"'{file.id}' must be the folder and the name of the file, in lower case: {self.id}")
        self._check_title(file.title)
        self._check_levels()
        self._check_replay()
        self._check_fix()
        self._check_settings()
        # What the user's settings say under a former id holds too, as far as the rule still has it.
        chosen = {
            name: value
            for rule in (*file.formerly, self.id)
            for name, value in self.overrides.get(rule, {}).items()
            if name in file.limits
        }
        limits = {
            # A value that does not fit is the user's mistake, and named as such, not as one of the rule.
            name: limit if limit_problem(chosen.get(name, limit.value), limit.value)
            else msgspec.structs.replace(limit, value=chosen.get(name, limit.value))
            for name, limit in file.limits.items()
        }  # fmt: skip
        levels = {name: file.levels[name] for name in SEVERITIES if name in file.levels}
        self.file = msgspec.structs.replace(file, limits=limits, levels=levels)
        return None

    def _check_title(self, title: str) -> None:
        rest = PLACEHOLDER.sub("", title) if self.is_profile else title
        if "{" in rest or "}" in rest:
            self.report("title", "is plain text; figures of trace, as in {idle_share:.0%}, are for profile rules")
        if "\n" in title:
            self.report("title", "is one line")
        self._check_figures("title", title if self.is_profile else "", "trace")

    def _check_figures(self, key: str, text: str, *frames: str) -> None:
        columns = [name for frame in frames for name in self.columns(frame)]
        for name, _ in PLACEHOLDER.findall(text) if columns else ():
            if name not in columns:
                self.report(key, f"no column '{name}' in frame '{frames[0]}'{nearest(name, columns)}")

    def _check_levels(self) -> None:
        levels, frame = self.file.levels, self.file.match.frame
        if not self.is_sound("levels", "severity"):
            return
        shares = [levels[name] for name in SEVERITIES if name in levels]
        if any(low > high for low, high in pairwise(shares)):
            self.report("levels", "must not fall from note to high")
        if shares and frame in FRAMES and FRAMES[frame].timeless:
            self.report("levels", f"frame '{frame}' owns no time; give the rule a severity instead")
        elif not self.is_profile and bool(shares) == bool(self.file.severity):
            self.report("levels", "a rule has either [levels] or a severity")

    def _check_replay(self) -> None:
        replay = self.file.replay
        # What offers no fix has no price, and is never more than low.
        if replay is None and set(self.file.levels) - {"note", "low"} and not self.is_profile:
            self.report("replay", "is missing: what the fix does to the matched rows, and how much that returns")
        elif replay is not None and self.is_sound("replay") and replay.low > replay.high:
            self.report("replay", "low and high are shares of the matched time, 0 <= low <= high <= 1")
        elif replay is not None and replay.weight and "cost_ns" not in self.columns(self.file.match.frame):
            self.report("replay.weight", "weighs rows by their cost_ns, which this frame has not")

    def _check_fix(self) -> None:
        must_hold = self.is_sound("fix") and not self.is_profile
        fixes = self.fixes
        # Where others fit by their rows, no code fits what is left.
        bare = any(fix.rows for fix in fixes) and not fixes[-1].before + fixes[-1].after
        for at, fix in zip(self._places(), fixes, strict=True):
            last = fix is fixes[-1]
            self._check_variant(at, fix, last=last)
            for key in ("effort", "before", "after", "verify"):
                text, is_code = getattr(fix, key), key in ("before", "after")
                if must_hold and last and not text.strip() and not (bare and is_code):
                    self.report(f"{at}.{key}", "is missing or empty")
                elif is_code and not self.proven and (problem := _not_python(with_names(text, {}))):
                    self.report(f"{at}.{key}", problem)

    def _check_variant(self, at: str, fix: Fix, *, last: bool) -> None:
        asked = "given" if fix.given else "rows" if fix.rows else ""
        if asked and last:
            self.report(
                f"{at}.{asked}", "is of the last fix, which must have none: it is for programs that no other fits"
            )
        elif not asked and not last:
            self.report(f"{at}.given", "is missing: no fix after this one would ever be shown")
        returns = fix.returns
        if returns is None:
            return
        if returns[0] > returns[1] or not fix.basis or self.file.replay is None or fix.rows:
            self.report(
                f"{at}.returns", "is low and high, 0 <= low <= high <= 1, beside a basis and [replay], without rows"
            )

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The fixes as the file says them."""
        return self.file.fix if isinstance(self.file.fix, tuple) else (self.file.fix,)

    def _places(self) -> list[str]:
        """Keys of the fixes in the file."""
        fixes = self.file.fix
        return [f"fix.{place}" for place in range(1, len(fixes) + 1)] if isinstance(fixes, tuple) else ["fix"]

    def _check_settings(self) -> None:
        if self.file.settings and self.is_profile:
            self.report("settings", "are for findings; a profile rule has none")
        for shown in self.file.settings:
            if shown.advice and not shown.because:
                self.report("settings.because", "is missing: what the advised value follows from")
            rest = PLACEHOLDER.sub("", shown.because)
            if "{" in rest or "}" in rest:
                self.report("settings.because", "figures of `trace` and `settings` stand in it as {column}")
            self._check_figures("settings.because", shown.because, "settings", "trace")

    def requests(self) -> list[tuple[str, Request]]:
        """List every condition to compile, with the slot that it belongs in."""
        return [(slot, request) for slot, request in self._requests() if request.text]

    def _requests(self) -> Iterator[tuple[str, Request]]:
        file, match = self.file, self.file.match
        values = {name: limit.value for name, limit in file.limits.items()}
        trace, columns = self.columns("trace"), self.columns(match.frame)
        yield "given", Request(file.given, "trace", trace, values, where="given")
        yield "when", Request(match.when, "trace", trace, values, where="match.when")
        for key, fix in zip(self._places(), self.fixes, strict=True):
            yield f"{key} given", Request(fix.given, "trace", trace, values, where=f"{key}.given")
        if columns:
            frame = match.frame
            yield "where", Request(match.where, frame, columns, values, where="match.where")
            yield "having", Request(match.having, frame, columns, values, True, late=_LATE, where="match.having")
            for key, fix in zip(self._places(), self.fixes, strict=True):
                yield f"{key} rows", Request(fix.rows, frame, columns, values, where=f"{key}.rows")
            if file.replay is not None:
                yield "weight", Request(file.replay.weight, frame, columns, values, number=True, where="replay.weight")
                yield "launches", Request(file.replay.launches, frame, columns, values, where="replay.launches")
            slot, items = ("evidence", match.evidence) if match.evidence else ("default", FRAMES[frame].evidence)
            for item in items:
                yield slot, Request(item, frame, columns, values, True, item=True, where="match.evidence")
        both = self.columns("settings") | trace
        for at, shown in enumerate(file.settings):
            yield f"settings {at} where", Request(shown.where, "settings", both, values, where="settings.where")
            advice = Request(shown.advice, "settings", both, values, item=True, where="settings.advice")
            yield f"settings {at} advice", advice

    def columns(self, frame: str) -> dict[str, str]:
        """Name the columns of a frame with their SQL types; none where there is no such frame."""
        if frame not in self.schemas:
            return {}
        return {column.name: column.type for column in self.schemas[frame].columns}

    def rule(self) -> Rule:
        """Make the rule, once there is no problem."""

        def single(slot: str) -> Condition | None:
            return self.conditions.get(slot, [None])[0]

        compiled = Compiled(
            **{slot: single(slot) for slot in ("given", "when", "where", "having", "weight", "launches")},
            evidence=tuple(self.conditions.get("evidence") or self.conditions.get("default") or ()),
            shown=tuple(
                (single(f"settings {at} where"), single(f"settings {at} advice"))
                for at in range(len(self.file.settings))
            ),
            fixes=tuple(single(f"{at} given") for at in self._places()),
            fix_rows=tuple(single(f"{at} rows") for at in self._places()),
        )
        fields = {name: getattr(self.file, name) for name in RuleFile.__struct_fields__}
        return Rule(**fields, path=str(self.path), compiled=compiled)


def limit_problem(chosen: object, value: Value) -> str:
    """Say what is wrong with a user's own value for a limit; empty where nothing is."""
    return problem_of(Text if isinstance(value, str) else float, chosen)


def _not_python(code: str) -> str:
    """Say why the text is not Python; empty where it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(dedent(code))
    except SyntaxError as error:
        return f"is not Python: {error.msg} in line {error.lineno}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"is not Python: {error}"
    return ""
