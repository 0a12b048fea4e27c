"""The proof of a rule: small traces on which it fires, is quiet, stands at its threshold, and lacks what it needs.

A proof is a Python file beside the rule, ``<name>.proof.py``, whose functions build traces::

    @fires(cost_ms=1.65)
    def a_pageable_batch_in_every_step() -> TraceBuilder: ...

    @quiet
    def the_same_batch_pinned() -> TraceBuilder: ...

    @edge
    def copies_of_64_KiB(over: bool) -> TraceBuilder: ...

    @lacks("gpu")
    def no_gpu_recorded() -> TraceBuilder: ...

A function returns a TraceBuilder, the bytes of a trace, the path of a file, or a list of these, one for each rank.
``advisor rules test`` runs it; see ``docs/writing-rules.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from advisor.testing.builder import TraceBuilder

Kind = Literal["fires", "quiet", "edge", "lacks"]
KINDS: tuple[Kind, ...] = ("fires", "quiet", "edge", "lacks")
Source = TraceBuilder | bytes | str | Path
Build = Callable[..., Source | list[Source]]
SUFFIX = ".proof.py"
_MARK = "__advisor_case__"


@dataclass(frozen=True)
class Expected:
    """The verdict and the figures that a rule must come to on a trace. A figure that is None is not checked."""

    verdict: str
    need: str = ""
    cost_ms: float | None = None
    cost_share: float | None = None
    occurrences: int | None = None
    severity: str | None = None
    line: str | None = None
    op: str | None = None
    note: str | None = None
    setting: str | None = None
    fix: str | None = None


@dataclass(frozen=True)
class Case:
    """One function of a proof."""

    kind: Kind
    expected: Expected
    build: Build

    @property
    def name(self) -> str:
        """The symptom that the trace shows, in words."""
        return self.build.__name__.replace("_", " ")


def fires(
    build: Any = None,
    /,
    *,
    cost_ms: float | None = None,
    cost_share: float | None = None,
    occurrences: int | None = None,
    severity: str | None = None,
    line: str | None = None,
    op: str | None = None,
    note: str | None = None,
    setting: str | None = None,
    fix: str | None = None,
) -> Any:
    """Expect the rule to fire, with ``@fires`` alone or on these terms. *cost_ms* (per step) and *cost_share* are checked to 1 %.

    *line* is the end of the first place, as in ``"train.py:54"``, *op* its operator, *note* a part of what a profile rule says,
    *setting* one of the settings that it says, as in ``"DataLoader(num_workers=0) at train.py:42 → 3"``, *fix* the title of the
    fix that is shown of several.
    """
    expected = Expected("fires", "", cost_ms, cost_share, occurrences, severity, line, op, note, setting, fix=fix)
    mark = _decorator("fires", expected)
    return mark if build is None else mark(build)


def quiet(verdict: Any = "passes") -> Any:
    """Mark the twin without the symptom: the rule passes, or is ``"not_applicable"`` to such a program."""
    if callable(verdict):
        return _decorator("quiet", Expected("passes"))(verdict)
    return _decorator("quiet", Expected(str(verdict)))


def edge(build: Any = None, /) -> Any:
    """Mark both sides of a threshold: *build* is called with True, and the rule fires; with False, and it does not."""
    mark = _decorator("edge", Expected("fires"))
    return mark if build is None else mark(build)


def lacks(need: str, *, verdict: str = "not_run") -> Callable[[Build], Build]:
    """Mark a trace that lacks *need*: the rule is not run and names it, or is ``"not_applicable"`` where it could never speak."""
    if not isinstance(need, str):
        raise TypeError('@lacks names what is lacking, as in @lacks("gpu")')
    return _decorator("lacks", Expected(verdict, need))


def _decorator(kind: Kind, expected: Expected) -> Callable[[Build], Build]:
    def mark(build: Build) -> Build:
        setattr(build, _MARK, Case(kind, expected, build))
        return build

    return mark


def cases(path: Path) -> list[Case]:
    """Return the cases of a proof, in their order. The file is Python, and is run: it is as trusted as any test.

    Raises whatever the file raises.
    """
    import runpy

    scope = runpy.run_path(str(path), run_name="proof")
    return [case for value in scope.values() if isinstance(case := getattr(value, _MARK, None), Case)]
