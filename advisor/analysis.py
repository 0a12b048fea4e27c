"""The waist of the house: what is known of a trace once every rule has spoken.

Everything left of :class:`Analysis` computes, everything right of it only reads. It goes to JSON and back without
loss (``to_json``/``from_json``), so a report can be rendered later and elsewhere. Times are milliseconds, shares 0 to 1.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from advisor.measures import Samples
from advisor.views import Views

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


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    median: float
    p10: float
    p90: float
    samples: list[float]


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


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    rules: list[str]
    title: str
    step_ms_before: float
    step_ms_after: dict[str, float]
    speedup: float


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
    passes: list[str]
    not_applicable: list[NotApplicable]
    not_run: list[NotRun]
    error: list[RuleFailure]


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
    samples: Samples | None = None
    """Per-step samples, where they were asked for: what the gate compares."""
    views: Views | None = None
    """Tables and pictures, where they were asked for (``--views``)."""

    def to_json(self) -> bytes:
        """The contract of ``-f json``, indented."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> Analysis:
        """The inverse of :meth:`to_json`. Raises ``msgspec.ValidationError`` on anything else."""
        return msgspec.json.decode(text, type=cls)
