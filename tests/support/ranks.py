"""Ranks of one run, built so that some are late by a known time; their traces and their analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import advisor
from advisor import rulebook
from advisor.pipeline import analyze_many
from advisor.results.analysis import Analysis
from advisor.results.ranks import Across
from advisor.testing import TraceBuilder

GPU = "NVIDIA A100-SXM4-80GB"
STEP_US, COMPUTE_US, MESSAGE_US = 100_000, 50_000, 1_000
BOOK = rulebook.load([rulebook.builtin_rules_dir()])
ONLY = ("distributed/*",)


def rank(
    number: int,
    late_us: int,
    latest_us: int,
    *,
    count: int = 4,
    steps: Sequence[int] = range(4),
    clock_ns: int = 0,
    as_host: bool = False,
    numbered: bool = True,
    groups: Sequence[str] = ("0",),
    named: bool = True,
    rank_known: bool = True,
) -> TraceBuilder:
    """One rank: in each step it computes for 50 ms and *late_us* more (or its host dawdles so long), then takes part in an
    all-reduce of 1 ms that begins when the latest has come. *steps* are those it recorded; its clock goes *clock_ns* ahead."""
    b = TraceBuilder(
        GPU,
        rank=number if rank_known else None,
        world_size=count,
        base_ns=1_700_000_000_000_000_000 + clock_ns,
        first_step=steps[0],
    )
    for position, step in enumerate(steps):
        start = step * STEP_US
        if position == 0:
            b.seek(start)
        with b.step() if numbered else b.annotation("train"):
            b.kernel("ampere_sgemm_128x64_tn", us=COMPUTE_US - 200 + (0 if as_host else late_us), at_us=start + 200)
            if as_host:
                b.seek(start + COMPUTE_US + late_us - 100)
            arrives = start + COMPUTE_US + late_us
            for place, group in enumerate(groups):
                wait = (latest_us - late_us if place == 0 else 0) + MESSAGE_US
                b.collective("all_reduce", 4_000_000, us=wait, at_us=arrives, group=group, stream=20 + place)
                arrives += wait
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
            b.seek((step + 1) * STEP_US)
    return b


def ranks(late_us: Mapping[int, int], count: int = 4, **options: Any) -> list[TraceBuilder]:
    """All ranks of a run, of which some are late by so much."""
    latest = max(late_us.values(), default=0)
    return [rank(number, late_us.get(number, 0), latest, count=count, **options) for number in range(count)]


def read(folder: Path, builders: Sequence[TraceBuilder], names: Sequence[str] = ()) -> list[Any]:
    """The built traces, written and read."""
    traces = []
    for number, builder in enumerate(builders):
        path = folder / (names[number] if names else f"trace{number}.json")
        traces.append(advisor.read(str(builder.write(path))))
    return traces


def together(
    folder: Path, builders: Sequence[TraceBuilder], names: Sequence[str] = ()
) -> tuple[list[Analysis], Across]:
    """Analyze them as ranks of one run."""
    traces, across = analyze_many(read(folder, builders, names), BOOK, only=ONLY)
    assert across is not None
    return traces, across


def close(value: float | None, expected: float) -> bool:
    """Within 1 %."""
    return value is not None and abs(value - expected) <= 0.01 * expected
