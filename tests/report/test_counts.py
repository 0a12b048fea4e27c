"""Counts in reports: whole numbers, a noun in its number, and words of the machine that the program ran on."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.counting import average, averages, counted
from advisor.gating.division.divide import divide
from advisor.report.blocks import Detail, Items
from advisor.report.documents import division
from advisor.results.sites import Site, Sites


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (1200, "1,200 steps"), (26, "26 steps")]
)
def test_a_count_has_its_noun(count: int, text: str) -> None:
    assert counted(count, "step") == text


def test_a_plural_of_its_own() -> None:
    assert (counted(1, "copy", "copies"), counted(2, "copy", "copies")) == ("1 copy", "2 copies")


@pytest.mark.parametrize(
    ("value", "text"), [(587.4, "587"), (24.0, "24"), (0.25, "0.25"), (2.8, "2.8"), (1.0, "1"), (1850.2, "1,850")]
)
def test_an_average_count_is_whole_but_for_a_few(value: float, text: str) -> None:
    assert average(value) == text


def test_two_counts_that_differ_never_read_the_same() -> None:
    assert averages(587.4, 194.0) == "587 → 194"
    assert averages(20.1, 20.4) == "20.1 → 20.4"
    assert averages(24.0, 24.0) == "24 → 24"


def work(unit: str, calls: float, ms: float, **fields: Any) -> Site:
    own = {"phase": "optimizer", "function": "main", "op": unit, "kernel": unit, "samples": [ms] * 4} | fields
    return Site(cause="compute", unit=unit, calls=calls, ms=ms, busy_ms=ms, **own)


def shown(device: str, **fields: Any) -> str:
    """The lines of a fused optimizer's comparison: 587.4 operators or kernels a step become 194."""
    single = [work("aten::sqrt", 293.7, 6.0, **fields), work("aten::div", 293.7, 6.0, **fields)]
    other = work("aten::sort", 3.0, 4.0, phase="forward", **fields)
    sides = ([*single, other], [work("aten::_fused_adamw_", 194.0, 2.0, **fields)])
    whole = [Sites(step_ms=sum(s.ms for s in each), steps=4, sites=each, device=device) for each in sides]
    out = ""
    for block in division.blocks(divide(*whole), Detail()):
        if isinstance(block, Items):
            out += "\n".join(str(item) for item in [*block.items, *block.below])
    return out


def test_a_program_on_the_cpu_has_operators_and_no_kernels() -> None:
    text = shown("")
    assert "(587 → 194 operators)" in text
    assert "of the time of operators on the CPU; 2 parts" in text
    assert "CPU 12.0 ms → 2.00 ms" in text
    assert "kernel" not in text
    assert "GPU" not in text
    assert "device" not in text


def test_a_program_on_a_gpu_has_kernels() -> None:
    text = shown("NVIDIA H100", kernel="k")
    assert "(587 → 194 kernels)" in text
    assert "of the time of work on the device; 2 parts" in text
    assert "GPU 12.0 ms → 2.00 ms" in text
