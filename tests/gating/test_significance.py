"""The statistics of the gate, with probabilities that can be counted by hand."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.gating import significance
from advisor.gating.significance import LEAST_STEPS, decide

QUIET = [100.0, 101.0, 99.5, 100.5, 100.2]


def test_steps_that_lie_wholly_apart_are_a_regression() -> None:
    found = decide([QUIET], [[value + 10 for value in QUIET]], threshold=5)
    assert (found.outcome, found.base, found.now, found.change) == ("worse", 100.2, 110.2, 10.0)
    assert found.low is not None
    assert found.high is not None
    assert 5 < found.low <= 10 <= found.high < 15
    assert decide([[value + 10 for value in QUIET]], [QUIET], threshold=5).outcome == "better"


def test_a_share_gets_worse_by_falling() -> None:
    high, low = [0.9, 0.91, 0.9, 0.89, 0.9], [0.7, 0.71, 0.7, 0.69, 0.7]
    assert decide([high], [low], threshold=0.05, worse="down").outcome == "worse"
    assert decide([low], [high], threshold=0.05, worse="down").outcome == "better"


def test_under_the_threshold_it_is_the_same() -> None:
    assert decide([QUIET], [[value + 4 for value in QUIET]], threshold=5).outcome == "same"


def test_noise_that_would_hide_a_regression_is_no_pass() -> None:
    noisy = [80.0, 125.0, 90.0, 130.0, 100.0]
    found = decide([noisy], [noisy], threshold=5)
    assert (found.outcome, found.because) == ("inconclusive", "its noise would hide a regression that matters")
    found = decide([noisy], [[value + 12 for value in noisy]], threshold=5)
    assert (found.outcome, found.because) == ("inconclusive", "worse, but within its noise")


def test_an_improvement_that_is_not_certain_is_no_regression() -> None:
    # One step of five as slow as before: not proof of a gain, and a regression is excluded all the same.
    found = decide([[149.0, 149, 152, 153, 167]], [[124.0, 127, 126, 164, 124]], threshold=7.6)
    assert (found.outcome, found.because) == ("same", "better, but within its noise")


def test_too_few_steps() -> None:
    found = decide([[1.0, 1.0, 1.0]], [[9.0] * 5], threshold=1)
    assert (found.outcome, found.because) == ("inconclusive", "too few steps, 3 on the baseline; 4 are needed")
    found = decide([[1.0]], [[9.0]], threshold=1)
    assert found.because == "too few steps, 1 on the baseline and 1 on the candidate; 4 are needed"


def test_exact_figures_need_two_steps_that_agree() -> None:
    assert decide([[10.0, 10.0]], [[12.0, 12.0]], threshold=1, exact=True).outcome == "worse"
    assert decide([[10.0, 10.0]], [[10.5, 10.5]], threshold=1, exact=True).outcome == "same"
    assert decide([[10.0]], [[12.0]], threshold=1, exact=True).outcome == "inconclusive"
    assert decide([[10.0, 11.0]], [[12.0, 12.0]], threshold=1, exact=True).outcome == "inconclusive"


def test_what_a_side_lacks_has_no_answer() -> None:
    found = decide([], [[1.0]], threshold=1)
    assert (found.outcome, found.base, found.now) == ("inconclusive", None, 1.0)
    assert found.because == "the baseline does not hold it"
    assert decide([[1.0]], [[]], threshold=1).because == "the candidate does not hold it"


def test_runs_that_differ_widen_what_is_needed() -> None:
    # Five steps at 100 and five at 120, all quiet, are one run of ten quiet steps only if the runs are thrown together.
    run = [100.0, 100.1, 99.9, 100.05, 99.95]
    other = [value + 20 for value in run]
    third = [value + 13 for value in run]
    assert decide([run, other], [third, third], threshold=2).outcome == "inconclusive"
    assert decide([run, run], [third, third], threshold=2).outcome == "worse"


def test_a_single_run_may_be_off_by_what_runs_differ() -> None:
    # 107 is past the tolerance, and past every step of runs at 96, 100 and 104: but so far may the next run be.
    run = [0.0, 0.1, -0.1, 0.05, -0.05]
    runs = [[centre + value for value in run] for centre in (96.0, 100.0, 104.0)]
    candidate = [107.0 + value for value in run]
    assert decide(runs[1:2], [candidate], threshold=5).outcome == "worse"
    assert decide(runs, [candidate], threshold=5).outcome == "inconclusive"
    assert decide(runs, [[120.0 + value for value in run]], threshold=5).outcome == "worse"


def test_the_same_samples_give_the_same_answer() -> None:
    noisy = [80.0, 125.0, 90.0, 130.0, 100.0]
    assert decide([QUIET], [noisy], threshold=5, name="x") == decide([QUIET], [noisy], threshold=5, name="x")


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=5),
    st.lists(st.integers(0, 6), min_size=2, max_size=5),
    st.booleans(),
)
def test_the_chance_is_that_of_all_ways_to_deal_the_steps(before: list[int], after: list[int], upward: bool) -> None:
    pooled = np.array([*before, *after], float)
    ranks = np.array([(pooled < value).sum() + (pooled <= value).sum() for value in pooled])
    sign = 1 if upward else -1
    seen = sign * ranks[len(before) :].sum()
    ways = [sign * ranks[list(chosen)].sum() >= seen for chosen in combinations(range(len(pooled)), len(after))]
    chance = significance._chance(np.array(before, float), np.array(after, float), upward=upward)
    assert chance == pytest.approx(sum(ways) / comb(len(pooled), len(after)))


def test_four_steps_a_side_are_enough_where_all_lie_apart() -> None:
    assert LEAST_STEPS == 4
    first, second = np.arange(4.0), np.arange(4.0, 8.0)
    assert significance._chance(first, second, upward=True) == pytest.approx(1 / 70)
    assert 1 / 70 <= significance._CHANCE < 2 / 70


def test_many_steps_go_by_the_normal_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=20), rng.normal(0.6, size=20)
    exact = significance._chance(first, second, upward=True)
    monkeypatch.setattr(significance, "_FEW", 10)
    assert significance._chance(first, second, upward=True) == pytest.approx(exact, rel=0.25)
    same = np.ones(30)
    assert significance._chance(same, same, upward=True) == 1.0


def test_long_runs_are_quick_and_certain() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(100, 3, 5000).tolist(), rng.normal(106, 3, 5000).tolist()
    assert decide([first], [second], threshold=5).outcome == "worse"


def test_very_long_runs_are_bounded_in_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by an attack: a baseline of 100,000 steps took 1.5 GB and half a minute a figure. What draws tend to is the same."""
    rng = np.random.default_rng(3)
    first, second = rng.gamma(4, 25, 3000), rng.gamma(4, 29, 3000)
    monkeypatch.setattr(significance, "_MOST", 10_000_000)
    drawn = decide([first.tolist()], [second.tolist()], threshold=3, statistic="median")
    rng_of = np.random.default_rng
    near = first + 2.0
    chances = [significance._of_deals(first, near, rng_of(1), upward=upward) for upward in (True, False)]
    monkeypatch.setattr(significance, "_MOST", 0)
    tends = decide([first.tolist()], [second.tolist()], threshold=3, statistic="median")
    assert tends.outcome == drawn.outcome == "worse"
    assert (tends.low, tends.high) == (pytest.approx(drawn.low, abs=1.0), pytest.approx(drawn.high, abs=1.0))
    for chance, upward in zip(chances, (True, False), strict=True):
        assert significance._of_deals(first, near, rng_of(1), upward=upward) == pytest.approx(chance, abs=0.04)
    assert significance._of_deals(np.ones(9), np.ones(9), rng_of(1), upward=True) == 1.0
    shape = significance._drawn(first, "mean", rng_of(1))
    assert shape.std() == pytest.approx(first.std() / 3000**0.5, rel=0.1)
    assert len(shape) == 500


@pytest.mark.parametrize("count", [4, 5, 8])
def test_false_alarms_of_a_noisy_figure_are_rare(count: int) -> None:
    # Noise of 8 % against a tolerance of 5 %: half of all differences pass the tolerance, few may count.
    rng = np.random.default_rng(count)
    drawn = [rng.normal(100, 8, (2, count)).tolist() for _ in range(400)]
    alarms = [decide([first], [second], threshold=5).outcome == "worse" for first, second in drawn]
    assert sum(alarms) <= 0.02 * len(alarms)


def test_the_quantiles_of_student_are_those_of_the_tables() -> None:
    tables = {0.005: (63.66, 9.925, 5.841, 4.604, 4.032), 0.001: (318.3, 22.33, 10.21, 7.173, 5.893)}
    for chance, table in tables.items():
        found = [significance.student(chance, freedom) for freedom in range(1, 6)]
        assert found == pytest.approx(table, rel=1e-3)
    assert significance.student(0.001, 4000) == pytest.approx(3.092, abs=1e-3)  # nearly the normal distribution's 3.090
    # The most that four degrees of freedom show of a spread of 1, by the table of chi-square: 13.28 at 99 %.
    assert significance._shown_at_most(4) == pytest.approx((13.28 / 4) ** 0.5, rel=2e-3)


@pytest.mark.parametrize(("sides", "spread"), [((3, 3), 3.0), ((5, 5), 3.0), ((3, 3), 5.0)])
def test_a_part_that_differs_much_from_run_to_run_seldom_fails(sides: tuple[int, int], spread: float) -> None:
    # A part of 10 ms, of a step of 100: what is known of its runs is that they hardly move the step by more than 5 %.
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(1500):
        base, now = (
            [(centre + rng.normal(0, 0.1, 5)).tolist() for centre in rng.normal(10, spread, count)] for count in sides
        )
        alarms += decide(base, now, threshold=1.0, quiet=5.0).outcome == "worse"
    assert alarms <= 6  # 1.5 to 2.5 are to be expected; 25 of three runs a side, were their spread believed to be known


def test_a_figure_that_is_asked_for_beside_others_has_to_be_surer() -> None:
    # Runs of 9, 10 and 11 beside 17, 18 and 19: spread 1, error sqrt(2/3), so 9.8 errors of t with four degrees of freedom.
    sides = [[[centre] * 4 for centre in centres] for centres in ((9.0, 10.0, 11.0), (17.0, 18.0, 19.0))]
    assert significance.student(0.0005, 4) < 9.8 < significance.student(0.0002, 4)
    assert decide(*sides, threshold=1.0, quiet=0.0, level=0.0005).outcome == "worse"
    assert decide(*sides, threshold=1.0, quiet=0.0, level=0.0002).outcome == "inconclusive"
    assert decide(*sides, threshold=1.0, quiet=5.0, level=0.0002).outcome == "inconclusive"
    # Known to differ by 2 at most, they lie 4.9 errors apart.
    assert decide(*sides, threshold=1.0, quiet=2.0, level=0.0002).outcome == "worse"


def test_steps_whose_noise_would_hide_a_regression_if_they_were_alike_do_not_pass() -> None:
    # A spread of 3.1 and the same median: alike steps hide up to 3.5 spreads, which is more than twice the threshold of 5.
    steps = [97.0, 103.0] * 5
    found = decide([steps], [steps], threshold=5)
    assert (found.outcome, found.because) == ("inconclusive", "its noise would hide a regression that matters")
    assert found.likely == pytest.approx(3.5 * (20 * 9 / 18) ** 0.5)
    assert decide([steps], [steps], threshold=6).outcome == "same"


@pytest.mark.parametrize("sides", [(3, 1), (3, 3), (5, 5)])
def test_runs_that_differ_by_5_per_cent_hardly_ever_pass_what_is_10_slower(sides: tuple[int, int]) -> None:
    rng = np.random.default_rng(11)
    passed = 0
    for _ in range(3000):
        base, now = (rng.normal(centre, 5, count) for centre, count in zip((100, 110), sides, strict=True))
        runs = [[[figure] * 4 for figure in side] for side in (base, now)]
        passed += decide(*runs, threshold=5.0).outcome == "same"
    assert passed <= 4  # 2 to 3 are to be expected of three beside one, 9 where one in 400 may pass
    # Runs that differ by 1 % pass where nothing changed, of three a side in 19 of 20 cases or more.
    if sides != (3, 1):
        pairs = [[[[figure] * 4 for figure in rng.normal(100, 1, count)] for count in sides] for _ in range(400)]
        assert sum(decide(*pair, threshold=5.0).outcome == "same" for pair in pairs) >= 380


def test_runs_that_take_a_multiple_are_slower_however_much_they_differ_among_themselves() -> None:
    """Three runs of 1.3 to 1.5 ms and three of 17 to 35: in ms the spread of the slow ones hides it, as a factor it does not."""
    fast, slow = [[1.33] * 5, [1.38] * 5, [1.53] * 5], [[17.3] * 5, [18.4] * 5, [35.0] * 5]
    found = decide(fast, slow, threshold=0.1)
    assert found.outcome == "worse"
    # By hand: means of logarithms 0.3442 and 3.1061, the spread within 0.2807 (4 degrees of freedom), t(0.001) = 7.173.
    assert found.low is not None
    assert found.low == pytest.approx(1.4133 * (np.exp(2.7620 - (2 / 3) ** 0.5 * 7.173 * 0.2807) - 1), rel=0.001)
    assert decide(slow, fast, threshold=0.1).outcome == "better"
    assert decide(slow, fast, threshold=0.1, worse="down").outcome == "worse"


def test_under_twofold_the_figures_themselves_decide() -> None:
    assert decide([[10.0] * 5, [10.1] * 5], [[15.0] * 5, [21.0] * 5], threshold=1).outcome == "inconclusive"


def test_the_lasting_spread_counts_steps_that_wander_off_together() -> None:
    # Squares 4 a side; products of neighbours -1 -1 -1 = -3, or 1 - 1 + 1 = 1: sums of 1 and 5 a side, over 3 + 3 degrees.
    comes_back, wanders = np.array([1.0, -1, 1, -1]), np.array([1.0, 1, -1, -1])
    assert significance._lasting([comes_back, comes_back + 7]) == pytest.approx((2 / 6) ** 0.5)
    assert significance._lasting([wanders, wanders + 7]) == pytest.approx((10 / 6) ** 0.5)


def test_what_two_steps_show_of_an_autocorrelation() -> None:
    # Two steps are a and -a off their mean, E a² = (1 - 0.7) / 2: a square of 2 a² - a² over one degree. A mean has (1 + 0.7) / 2.
    assert significance._shown((2, 2), 0.7) == pytest.approx((0.15, 2.0, 1.7))
    square, _, error = significance._shown((2, 2), 0.0)
    assert (square, error) == pytest.approx((0.5, 1.0))


def test_how_many_lasting_spreads_a_change_must_be() -> None:
    # Of twenty steps a side what chance makes of steps that are alike: 0.627 errors of t(0.005) with 11.0 degrees, 3.106.
    assert significance._spreads_needed(20, 20) == pytest.approx(0.627 * 3.106, rel=2e-3)
    # Of five what 99 of 100 show of a change of five spreads: (5 - 3.05 * 0.855)² is 2.326² (2 / 5 + 3.05² * 0.8 / 11.3).
    assert significance._spreads_needed(5, 5) == pytest.approx(3.05, abs=0.01)
    needed = [significance._spreads_needed(count, count) for count in (12, 20, 40, 1000)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] < 0.25


def test_steps_that_wander_are_surer_of_less_than_steps_that_come_back() -> None:
    # The same values, 9 longer. 3.40 lasting spreads are 3.40 * (8 / 18)^½ = 2.3 where each step comes back; where five and five
    # are alike 3.40 * (136 / 18)^½ = 9.36.
    comes_back, wanders = [98.0, 102.0] * 5, [98.0] * 5 + [102.0] * 5
    assert decide([comes_back], [[value + 9 for value in comes_back]], threshold=5).outcome == "worse"
    found = decide([wanders], [[value + 9 for value in wanders]], threshold=5)
    assert (found.outcome, found.because, found.doubtful) == ("inconclusive", significance.DRIFT, True)
    assert decide([[value + 9 for value in wanders]], [wanders], threshold=5).outcome == "better"
    assert decide([wanders], [[value + 10 for value in wanders]], threshold=5).outcome == "worse"
    # One step that takes four times as long tells nothing of how the others vary: it counts as their median.
    slow = [*comes_back[:9], 400.0]
    assert decide([comes_back], [[value + 9 for value in slow]], threshold=5).outcome == "worse"
