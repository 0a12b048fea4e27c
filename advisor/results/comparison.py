"""What `advisor compare` shows: two traces side by side, for people. Renderers read it; nothing here fails a build."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.results.analysis import Place, to_json

SCHEMA_VERSION = 1
Turn = Literal["fixed", "new", "better", "worse", "same", "untold"]
Fate = Literal["appeared", "vanished", "more", "less"]
Kind = Literal["kernel", "operator", "module"]
Answer = Literal["holds", "does not hold", "cannot be told"]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two traces. Times are ms; None where there are no steps."""

    path: str
    device: str | None
    steps: int
    step_ms: float | None
    p10_ms: float | None
    p90_ms: float | None
    window_ms: float


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """One figure on both sides, a step; None where a side does not tell. ``outcome`` as the gate would have it."""

    name: str
    meaning: str
    unit: str
    before: float | None
    after: float | None
    outcome: Literal["worse", "better", "same", "inconclusive"]
    note: str = ""


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """A finding on either side; costs are ms a step."""

    rule: str
    title: str
    turn: Turn
    before_ms: float | None
    after_ms: float | None
    verdicts: tuple[str, str]
    where: list[Place]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a fix of the first trace's findings says of itself, and what the second trace says of that."""

    rule: str
    fix: str
    verify: str
    answer: Answer
    because: str


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, an operator (with its shapes, where they tell it apart) or a module that is not as it was; a step."""

    kind: Kind
    name: str
    shape: str
    fate: Fate
    calls_before: float
    calls_after: float
    ms_before: float
    ms_after: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two traces side by side."""

    schema_version: int
    before: Side
    after: Side
    headline: str
    unlike: list[str]
    """Why figures of the two should be read with care; empty where they are alike."""
    step: Shift
    causes: list[Shift]
    metrics: list[Shift]
    findings: list[Turned]
    claims: list[Claim]
    items: list[Item]
    hidden: dict[str, int]
    """By kind: how many more items changed, and are left out for they changed less."""

    def to_json(self) -> bytes:
        """The contract of ``-f json``, indented."""
        return to_json(self)
