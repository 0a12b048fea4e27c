"""The waist of the house: what is known of a trace once every rule has spoken.

Everything left of :class:`Analysis` computes, everything right of it only reads. It goes to JSON and back without
loss (``to_json``/``from_json``), so a report can be rendered later and elsewhere. Times are milliseconds, shares 0 to 1.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from advisor.results.samples import Samples
from advisor.results.views import Views

SCHEMA_VERSION = 1

# Characters that steer a terminal or reorder text: raw in JSON they are legal, and still do so where it is printed.
_STEERING = {
    code: f"\\u{code:04x}"
    for code in (*range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


def to_json(value: object) -> bytes:
    """*value* as indented JSON, safe to print: what could steer a terminal is escaped, lone surrogates are replaced.

    Lists of plain values stand on one line: the columns of a timeline would else be as many lines as it has events.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")
    text = _PLAIN_LIST.sub(lambda found: _BREAK.sub(" ", found[0]).replace("[ ", "[", 1)[:-2] + "]", text)
    return text.translate(_STEERING).encode("utf-8")


# In what is indented line breaks stand between values only, never inside a string.
_BREAK = re.compile(r"\n *")
_PLAIN_LIST = re.compile(r'\[\n(?: *(?:"(?:[^"\\\n]|\\.)*"|[-+.\w]+),?\n)+ *\]')

Severity = Literal["high", "medium", "low", "note"]
Confidence = Literal["certain", "likely", "possible"]
Cell = str | int | float | bool | None


def _renderers(name: str) -> Any:
    """A module of ``advisor.report``, which reads this one: it is found when somebody asks to see an analysis."""
    return importlib.import_module("advisor.report" + ("." + name if name else ""))


class Advisor(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    rules: int


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str | None
    vendor: str
    capability: str | None
    memory_bytes: int | None


class Features(msgspec.Struct, frozen=True, kw_only=True):
    steps: bool
    gpu: bool
    host: bool
    shapes: bool
    stacks: bool
    memory: bool
    distributed: bool


class TraceInfo(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    events: int
    span_ms: float
    devices: list[DeviceInfo]
    features: Features
    rank: int | None
    world_size: int | None
    torch: str | None


class QualityNote(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    advice: str


_EVEN = 1.15


def typical_ms(median: float, mean: float) -> float:
    """What shares of the steps are shares of, in ms: the median, or the mean of all steps where the two differ.

    Time that only some steps take (a checkpoint, the first batch of an epoch) is not in the median: a share of it in ms would
    be a figure of no step.
    """
    return median if mean <= _EVEN * median and median <= _EVEN * mean else mean


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The median speaks of the samples; ``mean`` of all steps, as shares and costs do."""

    median: float
    p10: float
    p90: float
    samples: list[float]
    mean: float | None = None

    @property
    def whole(self) -> float:
        """What shares are shares of."""
        return self.median if self.mean is None else typical_ms(self.median, self.mean)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Headline figures. ``None`` where the trace does not hold what is needed, never 0."""

    steps: int
    window_ms: float
    step_ms: StepTimes | None
    device: int | None
    gpu_busy_share: float | None
    gpu_utilization: dict[str, float]
    sm_efficiency: float | None
    achieved_occupancy: float | None
    tensor_core_share: float | None
    peak_memory_bytes: int | None
    memory_bytes: int | None
    causes: dict[str, float]


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """What the fix returns per step (per window where there are no steps)."""

    low_ms: float
    high_ms: float
    low_share: float
    high_share: float
    basis: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the source, and its share of the finding's cost."""

    file: str | None
    line: int | None
    function: str | None
    library: str | None
    module: str | None
    op: str | None
    share: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A small table: the rows that weigh most. Units are in the column names."""

    columns: list[str]
    rows: list[list[Cell]]


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    effort: str
    before: str
    after: str
    caveat: str
    verify: str


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    url: str


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of the program that a finding speaks of, as ``advisor record`` saw it, and what to set instead."""

    of: str | None
    name: str
    value: str
    advice: str | None
    because: str
    file: str | None
    line: int | None

    @property
    def as_run(self) -> str:
        """``DataLoader(num_workers=0) at train.py:42``: how the program was run."""
        said = f"{self.name}={self.value}"
        if self.of:
            said = f"{self.of}({said})"
        if self.file:
            said += f" at {self.file}" + (f":{self.line}" if self.line else "")
        return said

    def __str__(self) -> str:
        return self.as_run + (f" → {self.advice}" if self.advice else "")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    title: str
    category: str
    severity: Severity
    confidence: Confidence
    cost_ms: float
    cost_share: float
    occurrences: int
    saving: Saving | None
    where: list[Place]
    evidence: Evidence
    why: str
    fix: Fix
    references: list[Reference]
    settings: list[Setting] = []
    """What the program was run with, where the trace says so."""

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        return cast(str, _renderers("notebook").finding(self))


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    rules: list[str]
    title: str
    step_ms_before: float
    step_ms_after: dict[str, float]
    speedup: float
    bound_by: str = ""
    changes_training: bool = False


class NotApplicable(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    because: str


class NotRun(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    needs: list[str]
    how: str


class RuleFailure(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    message: str


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What each rule came to that is no finding. With the rules of the findings, these are all that ran, each once."""

    passes: list[str]
    not_applicable: list[NotApplicable]
    not_run: list[NotRun]
    error: list[RuleFailure]
    noted: list[str] = []
    """Rules on the quality of the profile that fired: they speak in ``quality``."""


class RankRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rank beside the others. ``None`` where its trace does not hold what is needed."""

    rank: int
    path: str
    steps: int
    step_ms: float | None
    gpu_busy_share: float | None
    compute_share: float | None
    communication_share: float | None
    wait_ms: float | None
    wait_share: float | None
    late_share: float | None
    caused_ms: float | None
    clock_offset_ms: float | None
    clock_residual_ms: float | None
    trace: int | None = None
    loader_share: float | None = None
    peak_memory_bytes: int | None = None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How one figure spreads over the ranks that tell it."""

    figure: str
    ranks: int
    min: float
    median: float
    max: float
    min_rank: int
    max_rank: int


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one kind and size in one process group, per step: means over the ranks that run them."""

    group: str
    kind: str
    bytes: int | None
    ranks: int
    count: float
    time_ms: float
    exposed_ms: float
    wait_ms: float | None


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that ranks waited in, from the first that came to the last."""

    collective: int
    kind: str | None
    group: str | None
    bytes: int | None
    op: str | None
    step: int | None
    start_ms: float
    late_rank: int
    late_by_ms: float
    late_cause: str | None
    wait_ms: float
    """The exposed wait of a rank in it, on average over the ranks that took part."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank waits for another, per step."""

    rank: int
    late_rank: int
    wait_ms: float


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Work in which some ranks differ from most: a kernel, or the shapes of an operator."""

    ranks: list[int]
    what: str
    name: str
    here: str
    usual: str
    ms: float
    """GPU time of it per step there, less what it takes on a usual rank: how much more or less that work is."""


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """How well the times of different ranks can be compared, by the ends of the collectives that they share."""

    collectives: int
    residual_ms: float
    comparable: bool
    because: str | None


class Across(msgspec.Struct, frozen=True, kw_only=True):
    """What only the traces of several ranks together show."""

    ranks: list[RankRow]
    world_size: int | None
    step_ms: float | None
    clocks: Clocks
    quality: list[QualityNote]
    findings: list[Finding]
    verdicts: Verdicts
    spreads: list[Spread] = []
    traffic: list[Traffic] = []
    lags: list[Lag] = []
    waits: list[Wait] = []
    differences: list[Difference] = []


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """All that the reports show of one trace."""

    schema_version: int
    advisor: Advisor
    trace: TraceInfo
    quality: list[QualityNote]
    summary: Summary
    findings: list[Finding]
    plan: list[PlanStep]
    verdicts: Verdicts
    what_if: PlanStep | None = None
    """What some fixes come to together, where that was asked."""
    samples: Samples | None = None
    """Per-step samples, where they were asked for: what the gate compares."""
    views: Views | None = None
    """Tables and pictures, where they were asked for (``--views``)."""

    def to_json(self) -> bytes:
        """The contract of ``-f json``, indented."""
        return to_json(self)

    def to_html(self, path: str | Path, *, source_root: str | None = None) -> None:
        """Write the report of ``-f html`` to *path*. Its pictures and tables need ``analyze(trace, views=True)``.

        Lines of the source are shown of files below *source_root*.
        """
        report = _renderers("")
        Path(path).write_bytes(report.render("html", self, report.Options(source_root=source_root)))

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        return cast(str, _renderers("notebook").analysis(self))

    @classmethod
    def from_json(cls, text: bytes | str) -> Analysis:
        """The inverse of :meth:`to_json`. Raises ``msgspec.ValidationError`` on anything else."""
        return msgspec.json.decode(text, type=cls)
