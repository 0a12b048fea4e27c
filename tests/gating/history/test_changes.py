"""Change points: of series worked out by hand, and that what a prefix raises the whole series raises at the same run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.gating.history import changes

_ALTERNATING = [99.0, 101.0]


def test_a_step_without_noise_is_placed_exactly() -> None:
    (point,) = changes.find([50.0] * 20 + [66.0] * 10)
    assert (point.at, point.before, point.after) == (20, 50.0, 66.0)
    assert point.raised < 26


def test_no_change_and_too_few_runs_give_none() -> None:
    assert changes.find([50.0] * 40) == []
    assert changes.find(_ALTERNATING * 20) == []
    assert changes.find([50.0] * 3 + [80.0] * 4) == []


def test_a_single_slow_run_is_no_change() -> None:
    assert changes.find([*_ALTERNATING * 10, 300.0, *_ALTERNATING * 10]) == []
    assert changes.find([*_ALTERNATING * 10, 300.0, 290.0, *_ALTERNATING * 10]) == []


def test_a_change_under_the_least_share_or_the_floor_does_not_matter() -> None:
    series = [50.0] * 20 + [50.4] * 20
    assert changes.find(series, least=0.01) == []
    assert [point.at for point in changes.find(series, least=0.005)] == [20]
    assert changes.find(series, least=0.005, floor=0.5) == []


def test_two_changes_in_opposite_directions() -> None:
    assert [point.at for point in changes.find(_ALTERNATING * 15 + [120.0, 122.0] * 15 + _ALTERNATING * 15)] == [30, 60]


def test_a_short_level_that_is_taken_back_says_so() -> None:
    points = changes.find(_ALTERNATING * 15 + [120.0, 122.0] * 5 + _ALTERNATING * 15)
    assert [(point.at, point.back) for point in points] == [(30, False), (40, True)]


def test_a_figure_that_was_zero() -> None:
    (point,) = changes.find([0.0] * 20 + [3.0] * 10)
    assert (point.at, point.before, point.after) == (20, 0.0, 3.0)


def test_a_ramp_is_gradual_and_a_step_is_not() -> None:
    ramp = np.concatenate([np.full(30, 100.0), 100 + np.arange(1, 13) * 1.0, np.full(30, 112.0)])
    ramp += np.resize([-0.2, 0.2], len(ramp))
    points = changes.find(ramp)
    begin, end = changes.extent(ramp, points[0], points)
    assert end - begin >= 5
    step = np.concatenate([np.full(30, 100.0), np.full(30, 112.0)]) + np.resize([-0.2, 0.2], 60)
    (point,) = changes.find(step)
    assert changes.extent(step, point, [point]) == (29, 30)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(10, 140))
def test_a_prefix_raises_what_the_whole_raises(seed: int, length: int) -> None:
    random = np.random.default_rng(seed)
    series = 100 * (1 + 0.015 * random.standard_normal(160))
    series[60:] *= 1.05
    series[110:] *= 0.95
    whole = changes.raise_alarms(changes.prepare(series), changes.Limits())
    prefix = changes.raise_alarms(changes.prepare(series[:length]), changes.Limits())
    assert prefix == [alarm for alarm in whole if alarm.raised < length]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1e9), min_size=0, max_size=80))
def test_any_figures_give_changes_in_order(figures: list[float]) -> None:
    places = [point.at for point in changes.find(figures)]
    assert places == sorted(set(places))
    assert all(0 < place < len(figures) for place in places)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_the_unit_does_not_matter(scale: float) -> None:
    random = np.random.default_rng(3)
    series = 100 * (1 + 0.01 * random.standard_normal(80))
    series[40:] *= 1.06
    assert [point.at for point in changes.find(series * scale)] == [point.at for point in changes.find(series)] == [40]
