"""The division of a difference: planted changes are named first, and parts add up to the step's difference."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT
from support.planted import CHANGES, Loop, Planted, pair, sites

from advisor.gating.alike import batches
from advisor.gating.division import digest, divide
from advisor.gating.division.families import family_of, sizes_beside, unit_of
from advisor.gating.division.pairing import pair as paired
from advisor.report.documents.division import line
from advisor.results.division import Division, Part
from advisor.results.sites import Site, Sites
from advisor.trace import read
from advisor.views.sites import sites_of
from advisor.views.work import work_of

NAMED = ("appeared", "vanished", "waits")
"""Reasons of what one side lacks: a change that is named as such, and so is its time."""


def added(division: Division) -> float:
    return math.fsum(part.change_ms for part in division.parts) + division.other_ms


def lost(division: Division) -> float:
    """Share of all changes that is in no part, or in none that has two sides and none that says it is on one."""
    total = math.fsum(abs(part.change_ms) for part in division.parts) + abs(division.other_ms)
    alone = [part for part in division.parts if not part.paired and part.reason not in NAMED]
    return (math.fsum(abs(part.change_ms) for part in alone) + abs(division.other_ms)) / total


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.mark.parametrize("name", CHANGES)
def test_a_planted_change_is_named_first_and_the_parts_add_up(name: str, folder: Path) -> None:
    change = CHANGES[name]
    division = divide(*pair(change, folder))
    first = division.parts[0]
    assert first.real
    assert first.reason in change.reasons, line(first)
    assert change.where.lower() in f"{line(first)} {first.after.kernels} {first.function}".lower()
    assert added(division) == pytest.approx(division.change_ms, rel=1e-9)
    assert division.change_ms == pytest.approx(division.after_ms - division.before_ms)
    assert lost(division) <= 0.10
    assert abs(first.change_ms) >= 0.5 * abs(division.change_ms)


def test_what_a_program_does_in_another_way_comes_before_the_same_work_that_takes_longer(folder: Path) -> None:
    """It may be why: 0.42 ms of a layer that is called twice, beside 0.87 ms of a product that is slower."""
    division = divide(*pair(Planted({"twice": 1, "slow_kernel": 5}, ("calls",), "Linear_1"), folder))
    assert [part.reason for part in division.parts[:2]] == ["calls", "slower"]
    assert 1 / 3 < division.parts[0].change_ms / division.parts[1].change_ms < 1
    # Alone, the product leads.
    assert divide(*pair(CHANGES["one slow kernel"], folder)).parts[0].reason == "slower"


@pytest.mark.parametrize("name", ["type", "memory format", "sync", "depth", "clock", "bucket size"])
def test_the_other_way_round_it_is_named_as_well(name: str, folder: Path) -> None:
    before, after = pair(CHANGES[name], folder)
    there, back = divide(before, after), divide(after, before)
    assert back.change_ms == pytest.approx(-there.change_ms)
    turned = {"appeared": "vanished"}
    assert back.parts[0].reason == turned.get(there.parts[0].reason, there.parts[0].reason)


@pytest.mark.parametrize("knobs", [{}, {"host_us": 60.0, "clock": 0.3}, {"modules": False, "steps": 2}])
def test_two_recordings_of_one_program_name_nothing(knobs: dict[str, object], folder: Path) -> None:
    base = replace(Loop(), **knobs)  # type: ignore[arg-type]
    division = divide(sites(base, folder), sites(replace(base, seed=9), folder))
    assert [line(part) for part in division.parts if part.real] == []


def test_two_steps_a_side_still_divide_with_their_uncertainty(folder: Path) -> None:
    division = divide(*pair(CHANGES["type"], folder, steps=2))
    assert division.parts[0].reason == "type"
    assert division.noise_ms is not None
    assert division.parts[0].noise_ms is not None
    assert any("2 steps on a side" in note for note in division.notes)


def test_one_step_has_no_uncertainty_and_says_so(folder: Path) -> None:
    division = divide(*pair(CHANGES["type"], folder, steps=1))
    assert division.noise_ms is None
    assert any("one step" in note for note in division.notes)


def test_a_larger_batch_is_divided_by_the_sample(folder: Path) -> None:
    """32 and 64 samples a step: the products and convolutions take twice as long a step, and as long a sample."""
    before, after = sites(Loop(), folder), sites(Loop(batch=64, seed=2), folder)
    division = divide(before, after, (32, 64))
    assert (division.per, division.batch) == ("sample", (32, 64))
    assert division.before_ms == pytest.approx(before.step_ms / 32)
    assert division.after_ms == pytest.approx(after.step_ms / 64)
    assert added(division) == pytest.approx(division.change_ms)
    assert division.change_ms < 0  # what does not grow with the batch is shared by more samples
    assert not [part for part in division.parts if part.real and part.reason in ("shape", "clock")]


# ---- a digest, as a baseline keeps it


@pytest.mark.parametrize("name", ["loader", "memory format", "type", "one slow kernel", "pageable", "depth"])
def test_a_digest_divides_as_well(name: str, folder: Path) -> None:
    before, after = pair(CHANGES[name], folder)
    kept = digest([before])
    assert kept is not None
    held = digest([after], like=kept)
    assert held is not None
    division = divide(kept, held)
    assert added(division) == pytest.approx(division.change_ms)
    assert division.change_ms == pytest.approx(after.step_ms - before.step_ms, rel=1e-3)
    assert division.parts[0].reason in CHANGES[name].reasons


def test_a_digest_is_small_adds_up_and_names_no_folder(folder: Path) -> None:
    found = sites(Loop(blocks=40, steps=3), folder)
    kept = digest([found])
    assert kept is not None
    assert len(msgspec.json.encode(kept)) < 30_000
    assert len(kept.sites) <= 60
    assert sum(site.ms for site in kept.sites) == pytest.approx(found.step_ms, rel=1e-3)
    inside = [msgspec.structs.replace(site, file="/home/somebody/project/train.py") for site in found.sites]
    again = digest([msgspec.structs.replace(found, sites=inside)])
    assert again is not None
    assert {site.file for site in again.sites} <= {"", "train.py"}


def test_a_digest_of_runs_is_their_average() -> None:
    runs = [Sites(step_ms=ms, steps=2, sites=[site(ms=ms, samples=[ms, ms])]) for ms in (10.0, 14.0)]
    kept = digest(runs)
    assert kept is not None
    assert (kept.step_ms, kept.steps, kept.sites[0].ms) == (12.0, 4, 12.0)
    assert kept.sites[0].samples == [10.0, 10.0, 14.0, 14.0]
    assert digest([]) is None


# ---- pairing


def site(**fields: object) -> Site:
    base: dict[str, object] = {"cause": "compute", "ms": 1.0, "calls": 1.0, "busy_ms": 1.0, "phase": "forward"}
    return Site(**(base | fields))  # type: ignore[arg-type]


def kernels(found: list[object]) -> list[tuple[list[str], list[str]]]:
    return [([s.kernel for s in p.before], [s.kernel for s in p.after]) for p in found]  # type: ignore[attr-defined]


def test_one_fused_kernel_stands_against_the_four_that_it_replaced() -> None:
    norm = "Model_0/Block_0"
    parts = [site(module=norm, unit=f"aten::{name}", kernel=name) for name in ("pow", "mean", "rsqrt", "mul")]
    fused = [site(module=norm, unit="mine::rms_norm", kernel="fused")]
    assert kernels(paired(parts, fused)) == [(["pow", "mean", "rsqrt", "mul"], ["fused"])]


def test_mm_stands_against_addmm_and_not_against_another_layer() -> None:
    before = [site(module=f"M_0/Linear_{i}", unit="aten::linear", op="aten::addmm", kernel=f"a{i}") for i in (0, 1)]
    after = [site(module=f"M_0/Linear_{i}", unit="aten::mm", kernel=f"b{i}") for i in (0, 1)]
    assert sorted(kernels(paired(before, after))) == [(["a0"], ["b0"]), (["a1"], ["b1"])]


def test_backends_of_two_makers_are_one_operator() -> None:
    names = ("autograd::engine::evaluate_function: CudnnBatchNormBackward0", "MiopenBatchNormBackward1")
    assert {unit_of(site(unit=name)) for name in names} == {"BatchNormBackward"}
    assert unit_of(site(unit="CompiledFunction", op="triton_poi_fused_add_3", kernel="k")) == "triton_poi_fused_add"


def test_work_of_another_kind_stays_unpaired() -> None:
    found = paired([site(unit="aten::mm", kernel="gemm")], [site(unit="aten::sort", kernel="sort")])
    assert kernels(found) == [(["gemm"], []), ([], ["sort"])]


def test_modules_count_only_where_both_sides_have_them() -> None:
    before = [site(module="M_0/Conv2d_0", unit="aten::conv2d", kernel="a")]
    assert kernels(paired(before, [site(unit="aten::conv2d", kernel="b")])) == [(["a"], ["b"])]


def test_a_batch_is_left_open_wherever_it_stands() -> None:
    assert sizes_beside("[[32,3,224,224],[64,3,7,7],[]]") == sizes_beside("[[64,3,224,224],[64,3,7,7],[]]").replace(
        "*,3,7,7", "64,3,7,7"
    )
    assert family_of(site(unit="aten::_scaled_dot_product_flash_attention")) == "attention"


def side_of(*sites: Site) -> Sites:
    return Sites(step_ms=sum(s.ms for s in sites), steps=4, sites=list(sites))


def linear(calls: float, ms: float, function: str = "", **fields: object) -> Site:
    own = {"unit": "aten::linear", "op": "aten::addmm", "kernel": "aten::addmm", "shapes": "[[64],[8,64]]"} | fields
    return site(function=function, calls=calls, ms=ms, busy_ms=ms, samples=[ms] * 4, **own)


def reasons_of(before: Sites, after: Sites) -> dict[str, float]:
    """Reasons of all parts, each with its change in ms."""
    division = divide(before, after)
    assert added(division) == pytest.approx(after.step_ms - before.step_ms)
    return {part.reason: round(part.change_ms, 6) for part in division.parts}


def test_work_that_lost_its_line_in_some_steps_is_neither_gone_nor_called_more_often() -> None:
    """In every fifth step the line of two functions' calls is unknown: 100 calls a step on both sides, 20 of them without one."""
    before = [linear(64, 6.4, "heads"), linear(16, 1.6, "body"), linear(20, 2.0)]
    after = [linear(80, 16.0, "heads"), linear(20, 4.0, "body")]
    assert reasons_of(side_of(*before), side_of(*after)) == {"clock": 10.0}
    assert reasons_of(side_of(*after), side_of(*before)) == {"clock": -10.0}
    found = paired(before, after)
    assert [[round(sum(s.calls for s in sites), 6) for sites in (p.before, p.after)] for p in found] == [
        [80, 80], [20, 20]
    ]  # fmt: skip


def test_what_has_no_line_on_either_side_stays_without() -> None:
    assert kernels(paired([linear(8, 1.0, "f"), linear(2, 1.0)], [linear(8, 1.0, "f"), linear(2, 1.0)])) == [
        (["aten::addmm"], ["aten::addmm"]), (["aten::addmm"], ["aten::addmm"])
    ]  # fmt: skip


def test_a_fused_operator_replaces_what_lost_its_line_too() -> None:
    names = ("aten::sqrt", "aten::div")
    single = [site(phase="optimizer", function=f, unit=n, kernel=n, op=n) for n in names for f in ("main", "")]
    fused = [site(phase="optimizer", function="main", unit="aten::_fused_adamw_", kernel="f", op="f")]
    found = paired(single, fused)
    assert len(found) == 1
    assert sum(s.calls for s in found[0].before) == 4


def test_work_that_another_function_calls_now_is_not_gone() -> None:
    before, after = [linear(10, 1.0, "f"), linear(5, 0.5, "g")], [linear(15, 3.0, "f")]
    assert reasons_of(side_of(*before), side_of(*after)) == {"slower": 1.5}


def test_what_is_gone_beyond_what_others_have_more_is_gone() -> None:
    before, after = [linear(10, 1.0, "f"), linear(5, 0.5, "g")], [linear(12, 1.2, "f")]
    assert reasons_of(side_of(*before), side_of(*after)) == {"vanished": -0.3}


def test_other_shapes_elsewhere_do_not_stand_for_what_is_gone() -> None:
    before = [linear(10, 1.0, "f"), linear(5, 0.5, "g", shapes="[[9],[3,9]]")]
    assert reasons_of(side_of(*before), side_of(linear(15, 1.5, "f"))) == {"vanished": -0.5, "calls": 0.5}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.001, 50)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.001, 50)), max_size=12),
)
def test_every_site_is_in_one_pair_and_the_parts_always_add_up(
    before: list[tuple[int, int, float]], after: list[tuple[int, int, float]]
) -> None:
    units = ("aten::mm", "aten::add", "triton_poi_fused_add_1", "aten::conv2d")
    causes = ("compute", "host", "sync", "copy")

    def side(rows: list[tuple[int, int, float]]) -> Sites:
        made = [
            site(
                cause=causes[a], unit=units[b], module=f"M_0/L_{b}", ms=ms, busy_ms=ms, kernel=f"k{a}", samples=[ms] * 3
            )
            for a, b, ms in rows
        ]
        return Sites(step_ms=sum(s.ms for s in made), steps=3, sites=made)

    sides = side(before), side(after)
    pairs = paired(sides[0].sites, sides[1].sites)
    assert sorted(map(id, (s for p in pairs for s in p.before))) == sorted(map(id, sides[0].sites))
    assert sorted(map(id, (s for p in pairs for s in p.after))) == sorted(map(id, sides[1].sites))
    division = divide(*sides)
    assert added(division) == pytest.approx(sides[1].step_ms - sides[0].step_ms, abs=1e-9)
    for part in division.parts:
        assert part.change_ms == pytest.approx(part.after.ms - part.before.ms, abs=1e-9)


# ---- recorded pairs


def recorded(before: str, after: str, folder: Path = ROOT / "sample_traces") -> Division:
    traces = [read(str(folder / f"{name}.json.gz")) for name in (before, after)]
    found = [sites_of(trace) for trace in traces]
    assert found[0] is not None
    assert found[1] is not None
    return divide(found[0], found[1], batches(*(work_of(trace) for trace in traces)))


RECORDED = {
    ("h100/known/convnet_channels_last_bf16", "h100/known/convnet_nchw_bf16"): ("layout", "NHWC → NCHW"),
    ("h100/known/copy_pinned_non_blocking", "h100/known/copy_pageable_blocking"): ("kernel", "pageable"),
    ("h100/known/dataloader_workers_2", "h100/known/dataloader_workers_0"): ("loader", "DataLoader"),
    ("h100/known/convnet_nchw_fp32", "h100/known/convnet_nchw_bf16"): ("type", "fp32 → bf16"),
    ("cpu_ladder/state0_baseline", "cpu_ladder/state1_workers"): ("loader", "DataLoader"),
    ("cpu_ladder/state2_channels_last", "cpu_ladder/state3_bf16"): ("type", "fp32 → bf16"),
    ("h100/ladder/state0_baseline", "h100/ladder/state1_workers"): ("loader", "DataLoader"),
    ("article/rung0_baseline", "article/rung1_workers"): ("loader", "DataLoader"),
    ("article/rung1_workers", "article/rung2_pinned"): ("kernel", "pinned"),
    ("article/rung2_pinned", "article/rung3_batch512"): ("batch", "a sample"),
    ("article/rung3_batch512", "article/rung4_uint8"): ("bytes", "308.3 → 77.07 MB"),
    ("article/rung5_set_to_none", "article/rung6_amp"): ("type", "fp32 → fp16"),
    ("article/rung6_amp", "article/rung7_compile"): ("operator", "compiled code"),
}


@pytest.mark.parametrize("names", RECORDED, ids=lambda names: names[1].rpartition("/")[2])
def test_recorded_changes_are_named_first(names: tuple[str, str]) -> None:
    reason, words = RECORDED[names]
    division = recorded(*names)
    first = division.parts[0]
    assert (first.reason, words in line(first)) == (reason, True), line(first)
    assert added(division) == pytest.approx(division.change_ms)
    assert lost(division) <= 0.10


@pytest.mark.real
def test_real_pairs_are_told_rightly() -> None:
    from support.traces import real_trace

    def told(before: str, after: str) -> Division:
        found = [sites_of(read(real_trace(name))) for name in (before, after)]
        assert found[0] is not None
        assert found[1] is not None
        return divide(found[0], found[1])

    def first(division: Division) -> Part:
        assert added(division) == pytest.approx(division.change_ms)
        return division.parts[0]

    workers = told("v100_resnet50_workers0", "v100_resnet50_workers4")
    assert (first(workers).reason, workers.before_ms, workers.after_ms) == (
        "loader",
        pytest.approx(151.8),
        pytest.approx(126.336),
    )
    pageable = first(told("a100_copies_pinned", "a100_copies_pageable"))
    assert (pageable.reason, "pageable" in pageable.because) == ("kernel", True)
    makers = told("h100_bert_small", "mi300_bert_small")
    assert makers.paired_share is not None
    assert makers.paired_share >= 0.95
    assert {part.reason for part in makers.parts if part.real} == {"host", "device"}
    again = told("h100_transformer_run1", "h100_transformer_run2")
    assert not [part for part in again.parts if part.real]
