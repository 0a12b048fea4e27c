"""A rule: a query over a frame, a price for what it matches, and a fix.

The structs here are the rule file: their fields, types and ``Meta`` are what a file may hold, how it is read and its JSON
Schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from advisor.frames import SCHEMAS
from advisor.reading.program_settings import NAMES
from advisor.regex import regex
from advisor.results.analysis import Confidence, Severity
from advisor.rulebook.expression import Condition

Need = Literal["gpu", "host", "steps", "shapes", "stacks", "memory", "distributed", "loader", "ranks", "idle", "gc"]
Action = Literal["remove", "hide", "scale", "unblock", "merge", "capture", "batch"]
Floor = Literal["", "link"]
Late = Literal["", "ranks"]
NEEDS: tuple[Need, ...] = get_args(Need)
CONFIDENCES: Mapping[Confidence, float] = {"certain": 1.0, "likely": 0.7, "possible": 0.4}
SEVERITIES: tuple[Severity, ...] = ("note", "low", "medium", "high")
TIMES = {
    "half_times": "this GPU's 16-bit matrix units peak at {:.3g} times the rate of its fp32 products",
    "tf32_times": "this GPU's TF32 peaks at {:.3g} times the rate of its fp32 units",
    "half_times_tf32": "this GPU's 16-bit Tensor Cores peak at {:.3g} times the rate of TF32",
    "batch_times": "no batch over {:.3g} times as large surely fits the memory",
}
"""Figures of `trace` that bound what a fix returns, and how a price says so."""
_RATES = frozenset({"half_times", "tf32_times", "half_times_tf32"})
"""Those that are ratios of the device's rates: they give the price, where the others only limit it."""
PROFILE = "profile"
MOST_WHY = 60
"""Words of a `why`, at most; what is beyond them belongs in `more`."""
PLACEHOLDER = regex(r"\{(\w+)(?::(\.\d[%f]|,|d))?\}")
"""A figure of `trace` in the title of a profile rule: ``{overhead_share:.0%}``."""
_COUNTED = regex(PLACEHOLDER.pattern + r"(?:(?P<noun> (?!is\b|was\b|has\b|as\b|its\b|this\b|times\b)[a-z]+)s\b)?")
"""The same with a noun in the plural behind it, which a count of 1 takes in the singular."""

USUAL = {"optimizers": "AdamW", "function": "it", "functions": "it"}
"""Columns of `trace`, or of a finding's table, whose first name a fix may hold, as ``{optimizers}``, and what stands for none.

``{functions}`` stands for all that weigh: a finding's own column `function`, its rows of a tenth of the time and more.
"""
PHRASES = {"readback": " (it reads a value back at {}: out with that first, unless compiled code skips it)"}
"""Columns of `trace` that hold a place; a fix says more where there is one, as ``{readback}``, and nothing where not."""
_PLACE = regex(r"[\w.-]{1,80}:\d{1,7} in [\w.<>-]{1,80}")
_NAMED = 3
"""Names in one text; what more there are, the table says."""
_NAME_OF_CLASS = regex(r"[A-Za-z_][A-Za-z0-9_]{0,63}(?:\.[A-Za-z_][A-Za-z0-9_]{0,63})?")
"""A name, or that of a method with its class."""

_SQL = "; SQL, one expression without subqueries"
_NAME = "lower-case letters, digits and _, not $steps or $window_ns"


def _first_name(value: object) -> str:
    """The first of some names, where it is one and no more: what a trace says may be anything."""
    first = str(value or "").partition(",")[0].strip()
    return first if _NAME_OF_CLASS.fullmatch(first) else ""


def _names(values: Sequence[object]) -> str:
    """Some names as a list in words, those that are names and no more."""
    found = [name for value in values if (name := _first_name(value))]
    if len(found) > _NAMED:
        found = [*found[:_NAMED], "others"]
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else "".join(found)


def with_figures(text: str, figure: Callable[[str, str], str]) -> str:
    """Put figures where *text* has placeholders, ``{threads} threads`` as ``1 thread``; *figure* writes one by name and form."""

    def written(match: re.Match[str]) -> str:
        value, noun = figure(match[1], match[2] or ""), match["noun"]
        return value if noun is None else f"{value}{noun}{'' if value == '1' else 's'}"

    return _COUNTED.sub(written, text)


def with_names(text: str, figures: Mapping[str, Any]) -> str:
    """Put names of the program where *text* says ``{optimizers}``."""
    for column, usual in USUAL.items():
        place = f"{{{column}}}"
        if place in text:
            value = figures.get(column)
            text = text.replace(place, (_names(value) if isinstance(value, list) else _first_name(value)) or usual)
    for column, phrase in PHRASES.items():
        known = _PLACE.fullmatch(str(figures.get(column) or ""))
        text = text.replace(f"{{{column}}}", phrase.format(known[0]) if known else "")
    return text


def _enum(words: Any, **more: Any) -> Meta:
    return Meta(extra_json_schema={"enum": list(words)}, **more)


Text = Annotated[str, Meta(min_length=1)]
Code = Annotated[str, Meta(extra={"code": True})]
_ID = "the folder and the name of the file, in lower case"
_ACT = "lower-case words with hyphens"
Act = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", extra={"must": _ACT})]
Acts = Annotated[tuple[Act, ...], Meta(extra_json_schema={"uniqueItems": True})]
RuleId = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*$", extra={"must": _ID})]
Words = Annotated[tuple[Text, ...], Meta(extra_json_schema={"uniqueItems": True})]
Needs = Annotated[tuple[Need, ...], Meta(extra_json_schema={"uniqueItems": True})]
Share = Annotated[float, Meta(gt=0, le=1, extra={"must": "a share of the time, over 0 and up to 1"})]
Part = Annotated[float, Meta(ge=0, le=1, extra={"must": "a share of the matched time, 0 to 1"})]
_LEVELS = {
    "properties": {key: {"type": "number", "exclusiveMinimum": 0, "maximum": 1} for key in SEVERITIES},
    "propertyNames": {"enum": sorted(SEVERITIES)},  # as msgspec itself writes them from 0.23 on
}
Levels = Annotated[dict[Severity, Share], Meta(extra_json_schema=_LEVELS)]
LimitName = Annotated[str, Meta(pattern=r"^(?!(?:steps|window_ns)$)[a-z][a-z0-9_]*$", extra={"must": _NAME})]
LimitValue = Annotated[int | float | str, Meta(extra={"must": "a finite number or text"})]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a rule file."""


class Limit(Table, frozen=True):
    """A number (or text) of the rule, `$name` in its conditions; a user's own value stands in its place."""

    value: Annotated[LimitValue, Meta(description="users override it in [tool.advisor] limits")]
    unit: Text
    basis: Annotated[Text, Meta(description="why this number and no other")]


class Match(Table, frozen=True):
    """The rows that the rule speaks of, and when they matter."""

    frame: Annotated[Text, _enum(SCHEMAS, description="the rows that the rule speaks of")]
    where: Annotated[str, Meta(description=f"which rows{_SQL}; $name is a limit")] = ""
    when: Annotated[str, Meta(description=f"over `trace`: false, and the rule passes{_SQL}")] = ""
    having: Annotated[str, Meta(description=f"over all matched rows; $steps and $window_ns too{_SQL}")] = ""
    evidence: Annotated[Words, Meta(description="columns of the finding's table; plain ones group it")] = ()


class Shown(Table, frozen=True):
    """A setting of the program that the finding says, and what to set instead."""

    name: Annotated[Text, _enum(NAMES, description="which rows of `settings`")]
    where: Annotated[str, Meta(description=f"which of them; over `settings` and `trace`{_SQL}")] = ""
    advice: Annotated[str, Meta(description=f"the value to set instead, NULL for none; likewise{_SQL}")] = ""
    because: Annotated[str, Meta(description="what it follows from, with figures of either as {column}")] = ""


class Fix(Table, frozen=True):
    """Change to make. One of several takes from the last one what it does not say; the last says all but the caveat."""

    title: Text
    given: Annotated[
        str, Meta(description=f"over `trace`: which programs it fits; the last of several has none{_SQL}")
    ] = ""
    rows: Annotated[
        str,
        Meta(
            description=f"over the rule's frame: it fits where rows of half of the finding's cost or more are so{_SQL}"
        ),
    ] = ""
    acts: Annotated[
        Acts, Meta(description="keys of what it does: findings whose fixes do the same are one line of the plan")
    ] = ()
    local: Annotated[bool, Meta(description="done at a place: the same act only where findings share that")] = False
    effort: str = ""
    before: Annotated[Code, Meta(description="Python that shows the symptom")] = ""
    after: Annotated[Code, Meta(description="the same with the fix")] = ""
    caveat: Annotated[str, Meta(description="what may change: accuracy, convergence, memory")] = ""
    verify: Annotated[str, Meta(description="how the next trace shows that it worked")] = ""
    returns: Annotated[
        tuple[Part, Part] | None,
        Meta(description="low and high of [replay] where this one of several returns another part"),
    ] = None
    basis: Annotated[str, Meta(description="where these come from")] = ""

    def filled(self, figures: Mapping[str, Any]) -> Fix:
        """Put names of the program where the texts say ``{optimizers}``; a usual one where none is known.

        *figures* is a row of `trace`, and of a finding the first row of its table, which is what weighs most.
        """
        texts = {
            key: with_names(getattr(self, key), figures) for key in ("title", "before", "after", "caveat", "verify")
        }
        return msgspec.structs.replace(self, **texts)


class Reference(Table, frozen=True):
    """Source to read more in."""

    title: Text
    url: Annotated[str, Meta(pattern=r"^https?://[^\s/]+\S*$", extra={"must": "an http or https address"})]


class Replay(Table, frozen=True):
    """Effect of the fix on the matched rows, and the share of their time that it returns."""

    action: Annotated[Action, Meta(description="what the fix does to the matched rows")]
    low: Annotated[Part, Meta(description="the part of their time that it returns, cautiously")]
    high: Annotated[Part, Meta(description="and at most")]
    basis: Annotated[Text, Meta(description="where both come from; a prior says that it is one")]
    floor: Annotated[Floor, Meta(description="link: copies stay as long as their bytes take over the link")] = ""
    late: Annotated[
        Late, Meta(description="ranks: hopefully the others are late for the same reason, and that wait goes")
    ] = ""
    times: Annotated[str, _enum(TIMES, description="the figure of `trace` that bounds how fast they become")] = ""
    weight: Annotated[
        str,
        Meta(description=f"over the frame: how often a row returns low and high; the rows' mean by cost counts{_SQL}"),
    ] = ""
    launches: Annotated[
        str,
        Meta(description=f"over the frame: rows whose launches go with them; the kernels of others get shorter{_SQL}"),
    ] = ""

    def within(self, times: float | None) -> Replay:
        """The price that follows from rows becoming up to *times* as fast; as it is where that is not known.

        A precision's high figure is what the rates allow: 1 - 1/times. Its low one is at least that of a quarter of the
        doublings (the fourth root of *times*): what small and memory-bound products still gain. A batch is only cut.
        """
        if times is None:
            return self
        most = 1 - 1 / max(times, 1.0)
        if self.times not in _RATES:
            return self if self.high <= most else self._cut(most, times)
        if most < self.high:
            return self._cut(most, times)
        low = min(max(self.low, 1 - max(times, 1.0) ** -0.25), most)
        said = TIMES[self.times].format(times)
        basis = f"{self.basis}; here {100 * low:.3g} to {100 * most:.3g} %: {said}"
        return msgspec.structs.replace(self, low=low, high=most, basis=basis)

    def of_fix(self, fix: Fix) -> Replay:
        """The price of one of several fixes, where it says what it returns itself."""
        if fix.returns is None:
            return self
        return msgspec.structs.replace(self, low=fix.returns[0], high=fix.returns[1], basis=fix.basis)

    def _cut(self, most: float, times: float) -> Replay:
        basis = f"{self.basis}; here no more than {100 * most:.3g} %: {TIMES[self.times].format(times)}"
        return msgspec.structs.replace(self, low=min(self.low, most), high=most, basis=basis)


class RuleFile(Table, frozen=True, kw_only=True):
    """One rule, as its file says it. It has either ``levels`` (severity to the least share of time) or a ``severity``."""

    id: Annotated[RuleId, Meta(description="the folder and the name of the file")]
    since: Annotated[Text, Meta(description="the version that brought it")]
    title: Annotated[Text, Meta(description="one line; in profile rules {column:.0%} is a figure of `trace`")]
    why: Annotated[Text, Meta(description=f"what costs and why, by itself, in at most {MOST_WHY} words")]
    more: Annotated[str, Meta(description="what it is measured by, when it is harmless, background")] = ""
    needs: Annotated[Needs, Meta(description="what the trace must hold, else the rule is not run")] = ()
    given: Annotated[str, Meta(description=f"over `trace`: of which programs it speaks{_SQL}")] = ""
    confidence: Annotated[Confidence, Meta(description="how sure the finding is; it weighs the saving in the ranking")]
    yields_to: Annotated[Words, Meta(description="rules that own these rows where they fire too")] = ()
    gone_with: Annotated[Words, Meta(description="rules whose fix does away with rows that lie inside theirs")] = ()
    rewrites: Annotated[
        Words,
        Meta(description="rules whose findings go with its fix where their time lies at its lines, which it rewrites"),
    ] = ()
    severity: Annotated[Severity | None, Meta(description="for a risk that costs no time, not [levels]")] = None
    formerly: Annotated[
        Words, Meta(description="ids that this rule had, alone or with others: settings may still say them")
    ] = ()
    inexact: Annotated[
        bool, Meta(description="its fix computes with coarser numbers, as those of all rules of `precision` do")
    ] = False
    replaces: Annotated[str, Meta(description="the id of the rule that this one stands in for")] = ""
    match: Match
    limits: dict[LimitName, Limit] = {}
    levels: Annotated[Levels, Meta(description="severity by share of the time")] = {}
    fix: Annotated[
        Fix | tuple[Fix, ...],
        Meta(description="[fix], or several [[fix]]: the first whose `given` and `rows` are true is shown"),
    ]
    replay: Replay | None = None
    references: tuple[Reference, ...] = ()
    settings: Annotated[tuple[Shown, ...], Meta(description="settings of the program that the finding says")] = ()

    @property
    def variants(self) -> tuple[Fix, ...]:
        """The fixes, whole, the one for programs that no other fits last."""
        fixes = self.fix if isinstance(self.fix, tuple) else (self.fix,)
        return tuple(_completed(fix, fixes[-1]) for fix in fixes)

    @property
    def category(self) -> str:
        """The folder of the rule, the first half of its id."""
        return self.id.partition("/")[0]

    @property
    def is_inexact(self) -> bool:
        """Tell whether its fix computes with coarser numbers."""
        return self.inexact or self.category == "precision"

    @property
    def of_ranks(self) -> bool:
        """True for a rule on what only the traces of several ranks together show."""
        return "ranks" in self.needs or self.match.frame == "stages"

    @property
    def is_profile(self) -> bool:
        """A rule on the quality of the profile, not on the program."""
        return self.category == PROFILE


def _completed(fix: Fix, default: Fix) -> Fix:
    """Return *fix* with what it does not say as *default* says it."""
    missing = {
        key: getattr(default, key) for key in ("effort", "before", "after", "caveat", "verify") if not getattr(fix, key)
    }
    return msgspec.structs.replace(fix, **missing) if missing else fix


class Compiled(msgspec.Struct, frozen=True):
    """The conditions of a rule, checked; None where there is none. ``shown`` holds ``where`` and ``advice`` of each setting,
    ``fixes`` the ``given`` of each variant, ``fix_rows`` its ``rows``.
    """

    given: Condition | None = None
    when: Condition | None = None
    where: Condition | None = None
    having: Condition | None = None
    weight: Condition | None = None
    launches: Condition | None = None
    evidence: tuple[Condition, ...] = ()
    shown: tuple[tuple[Condition | None, Condition | None], ...] = ()
    fixes: tuple[Condition | None, ...] = ()
    fix_rows: tuple[Condition | None, ...] = ()


class Rule(RuleFile, frozen=True, kw_only=True):
    """A rule that was checked: its file, where that lies, and its conditions ready to run."""

    path: str = ""
    compiled: Compiled = Compiled()
