"""Counts in reports: whole numbers, a noun in its number, and words of the machine that the program ran on."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.counting import average, averages, change, counted, duration, durations, part_of
from advisor.gating.division.divide import divide
from advisor.report.blocks import Detail, Heading, Items
from advisor.report.documents import division
from advisor.results.sites import Site, Sites
from advisor.rulebook.rule import with_figures


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


def test_times_have_the_unit_that_they_read_well_in() -> None:
    assert [duration(ms) for ms in (0.0, 0.0367, 0.9996, 30.52, 1234.5, 77_890.0)] == [
        "0 ms",
        "36.7 µs",
        "1 ms",
        "30.5 ms",
        "1,234 ms",
        "77.9 s",
    ]
    assert durations(0.0357, 0.0367) == "35.7 to 36.7 µs"
    assert durations(0.5, 2.0) == "0.5 to 2 ms"
    assert durations(36.71, 36.74) == "36.7 ms"
    assert part_of(0.2, 0.231) == "200 of 231 µs"
    assert part_of(1.4, 1.63) == "1.4 of 1.63 ms"
    assert part_of(9_000.0, 12_000.0) == "9.0 of 12.0 s"


def test_a_change_is_in_one_unit() -> None:
    assert change(0.0076, 0.0087, 4) == "7.6 → 8.7 µs"
    assert change(0.3, 21.04, 3) == "0.3 → 21 ms"
    assert change(0.0, 0.0, 3) == "0 → 0 ms"


def test_two_counts_that_differ_never_read_the_same() -> None:
    assert averages(587.4, 194.0) == "587 → 194"
    assert averages(20.1, 20.4) == "20.1 → 20.4"
    assert averages(24.0, 24.0) == "24 → 24"


PARTS = {"mm": 10.0, "add": 10.0, "sort": 20.0}


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


def headings(before: list[Site], after: list[Site], *, failed: bool) -> list[tuple[str, list[str]]]:
    """Headings of a division with the functions that stand below each."""
    sides = [
        Sites(step_ms=sum(s.ms for s in each), steps=4, sites=each, device="NVIDIA H100") for each in (before, after)
    ]
    out: list[tuple[str, list[str]]] = []
    for block in division.blocks(divide(*sides), Detail(), failed=failed):
        if isinstance(block, Heading):
            out.append((str(block.text), []))
        elif isinstance(block, Items):
            out[-1][1].extend(plain.split()[1] for plain in map(str, [item[0].text for item in block.items]))
    return out


def test_what_got_faster_does_not_stand_under_what_made_it_slower() -> None:
    """mm takes 1 ms more, add 2 ms more, sort 9 ms less: a gate that failed speaks of the former first."""
    before = [work(f"aten::{name}", 1.0, ms, phase="forward", kernel=name) for name, ms in PARTS.items()]
    longer = {"mm": 11.0, "add": 12.0, "sort": 11.0}
    after = [work(f"aten::{name}", 1.0, ms, phase="forward", kernel=f"{name}_2") for name, ms in longer.items()]
    assert headings(before, after, failed=True) == [
        ("What got slower, though the step as a whole did not", ["add", "mm"]), ("What got faster", ["sort"])
    ]  # fmt: skip
    assert headings(before, after, failed=False) == [
        ("Which change made it faster", ["sort"]), ("What got slower", ["add", "mm"])
    ]  # fmt: skip


def test_a_machine_that_is_slower_is_no_change_of_the_program() -> None:
    """All five take 1.2 times as long, by the same kernels."""
    names = ("mm", "add", "sort", "conv2d", "relu")
    before, after = (
        [work(f"aten::{name}", 1.0, ms, phase="forward", kernel=name) for name in names] for ms in (10.0, 12.0)
    )
    assert [heading for heading, _ in headings(before, after, failed=False)] == [
        "No part changed: the same work, slower"
    ]


def test_a_program_on_a_gpu_has_kernels() -> None:
    text = shown("NVIDIA H100", kernel="k")
    assert "(587 → 194 kernels)" in text
    assert "of the time of work on the device; 2 parts" in text
    assert "GPU 12.0 ms → 2.00 ms" in text


def test_a_figure_of_a_rule_has_its_noun_in_its_number() -> None:
    text = "operators use {threads} threads, on {cores} cores: {share:.0%} is little"
    figures = {"threads": "1", "cores": "2", "share": "1"}
    assert with_figures(text, lambda name, _form: figures[name]) == "operators use 1 thread, on 2 cores: 1 is little"
