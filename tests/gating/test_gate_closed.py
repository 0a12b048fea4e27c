"""The gate fails closed: single slow steps, noise, and what was not judged never pass for the want of an answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from support.traces import analysis as analyzed
from support.traces import real_trace

import advisor
from advisor.cli import main
from advisor.config import Gate
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.gating.baseline import Baseline
from advisor.gating.update import update
from advisor.results.analysis import Analysis, NotRun, QualityNote
from advisor.results.judgement import Check, Judgement
from advisor.testing import TraceBuilder

REPLACE = msgspec.structs.replace
OUTLIER = "gpu-idle/step-outlier"
_folder = Path()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    global _folder
    _folder = tmp_path


@cache
def steps(extra: tuple[tuple[int, int], ...] = (), count: int = 21, kernel_us: int = 10_000) -> Analysis:
    """Steps of one kernel of 10 ms, by some µs more or less; before the kernel of some the device idles so many ms."""
    made, waits = TraceBuilder(host_us=0, latency_us=0), dict(extra)
    for number in range(count):
        with made.step():
            if number in waits:
                made.idle(ms=waits[number])
            made.kernel("volta_sgemm_128x64_nn", us=kernel_us + (0, 30, 10, 50, 20, 40)[number % 6])
            made.sync(us=0)
    path = made.write(_folder / "steps.json")
    return advisor.analyze(advisor.read(str(path), source="steps.json"), views=False, samples=True)


def every(nth: int, ms: int, count: int = 21) -> Analysis:
    return steps(tuple((number, ms) for number in range(nth, count, nth)), count)


def one(ms: int, at: int = 7, **more: int) -> Analysis:
    return steps(((at, ms),), **more)


def judge(base: Analysis | Baseline, now: Analysis, settings: Gate | None = None) -> Judgement:
    known = base if isinstance(base, Baseline) else baseline.make([base])
    return gating.judge([now], known, settings, baseline_name="b.json")


def named(judgement: Judgement, name: str) -> Check:
    return next(check for check in judgement.checks if check.name == name)


def with_metric(analysis: Analysis, **values: Sequence[float]) -> Analysis:
    samples = analysis.samples
    assert samples is not None
    return REPLACE(
        analysis, samples=REPLACE(samples, metrics={**samples.metrics, **{k: list(v) for k, v in values.items()}})
    )


# ---- single slow steps


@pytest.mark.parametrize(("nth", "ms"), [(3, 20), (3, 100), (4, 1000), (2, 20)])
def test_intermittent_slow_steps_never_pass_a_baseline_with_an_outlier(nth: int, ms: int) -> None:
    """The median is that of quick steps, and the rule on single long steps fired before: the mean tells."""
    found = judge(one(20), every(nth, ms))
    assert found.verdict != "passed"
    assert named(found, "step_mean_ms").outcome in ("regression", "inconclusive")


@pytest.mark.parametrize(
    ("nth", "count", "verdict"),
    [(3, 21, "failed"), (3, 41, "failed"), (4, 41, "failed"), (4, 17, "inconclusive"), (4, 13, "inconclusive")],
)
def test_half_a_step_more_in_some_steps_never_passes_a_quiet_baseline(nth: int, count: int, verdict: str) -> None:
    found = judge(steps(count=count), every(nth, 5, count))
    check = named(found, "step_mean_ms")
    assert found.verdict == verdict
    # 5 ms more in one of nth steps of 10 ms
    assert check.change == pytest.approx(5 / nth, rel=0.15)
    if verdict == "failed":
        assert "step_mean_ms" in {
            other.name for other in found.checks if other.outcome == "regression" and other.counts
        }
    else:
        slow = (count - 1) // nth
        assert found.headline.startswith(
            "step_mean_ms (the step on average, with what single slow steps add): 10 → 11."
        )
        assert (
            f"{slow} of {count - 1} steps take a quarter longer than the median, or more, where 0 of {count - 1} did"
            in found.headline
        )


@pytest.mark.parametrize(("slow", "of", "times"), [(2, 10, 10), (3, 10, 3), (5, 20, 10), (4, 20, 3)])
def test_steps_that_are_times_as_long_never_pass(slow: int, of: int, times: float) -> None:
    quiet = [10.0 + 0.01 * (number % 5) for number in range(of)]
    spiked = [
        value * times if number % (of // slow) == 1 and number // (of // slow) < slow else value
        for number, value in enumerate(quiet)
    ]
    assert sum(value > 20 for value in spiked) == slow
    base = with_metric(steps(count=of + 1), step_ms=quiet)
    assert judge(base, with_metric(base, step_ms=spiked)).verdict != "passed"


def test_the_same_outlier_on_both_sides_is_no_change() -> None:
    found = judge(one(20), one(20, at=12))
    assert (found.verdict, named(found, "step_mean_ms").outcome) == ("passed", "same")


def test_an_outlier_of_the_baseline_hides_no_regression_of_all_steps() -> None:
    found = judge(one(20), steps(kernel_us=10_900))
    assert found.verdict == "failed"
    assert named(found, "step_ms").outcome == "regression"


def test_single_long_steps_are_priced_by_what_they_exceed_and_are_not_back() -> None:
    found = judge(steps(), steps(tuple((number, 20) for number in (4, 7, 11, 14, 18)), 21))
    check = named(found, OUTLIER)
    # 5 of 20 steps take 20 ms more
    assert (check.unit, check.base) == ("ms", 0.0)
    assert check.now == pytest.approx(5.0, abs=0.05)
    assert "again" not in check.message
    runs = [
        steps(tuple((number, 20) for number in where), 21)
        for where in ((4, 9, 14, 19), (5, 10, 15, 20), (3, 8, 13, 18))
    ]
    several = gating.judge(runs, baseline.make([steps(), steps(kernel_us=10_010), steps(kernel_us=9_990)]))
    check = named(several, OUTLIER)
    assert (several.verdict, check.outcome) == ("failed", "regression")
    assert check.message.startswith(
        "Single steps take far longer than the others, and did not before: 0 → 4 ms a step (39."
    )


def test_an_improvement_with_one_late_spike_says_both() -> None:
    found = judge(steps(), one(20, at=18, kernel_us=8000))
    assert (found.verdict, named(found, "step_ms").outcome) == ("passed", "improvement")
    assert "improved, the step too (10.02 → 8.03 ms)" in found.headline
    assert "Single steps take far longer than the others" in found.headline
    longer = judge(steps(), one(60, at=18, kernel_us=8000))
    assert longer.verdict == "inconclusive"
    assert longer.headline.startswith("step_mean_ms")
    assert "step_ms improved (10.02 → 8.03 ms)" in longer.headline


def test_an_assertion_on_the_mean_and_on_what_single_steps_exceed() -> None:
    spiked = one(20)
    settings = Gate(assertions=("metrics.step_ms <= 10.5", "metrics.step_mean_ms <= 10.5", f"rules.{OUTLIER} <= 0.5"))
    found = gating.judge([spiked], None, settings)
    held = {check.name: check.outcome for check in found.checks}
    assert list(held.values()).count("regression") == 2
    assert held["metrics.step_ms <= 10.5"] == "same"


# ---- memory, bytes, counts


def alternating(low: float, high: float, count: int = 20) -> list[float]:
    return [high if number % 2 else low for number in range(count)]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("peak_memory_mb", 1000, 3000), ("copied_mb", 100, 400), ("sync_count", 1, 3), ("launch_count", 100, 200)],
)
def test_a_figure_that_doubles_in_every_other_step_never_passes(name: str, low: float, high: float) -> None:
    base = with_metric(steps(), **{name: [low] * 20})
    found = judge(base, with_metric(base, **{name: alternating(low, high)}))
    assert found.verdict != "passed"
    assert named(found, name).counts


def test_memory_is_judged_by_its_peak_and_counts_by_their_sum() -> None:
    base = with_metric(steps(), peak_memory_mb=[1000.0] * 20, copied_mb=[100.0] * 20)
    now = with_metric(base, peak_memory_mb=[3000.0 if number in (4, 9) else 1000.0 for number in range(20)])
    found = judge(base, now)
    check = named(found, "peak_memory_mb")
    assert (found.verdict, check.base, check.now) == ("failed", 1000.0, 3000.0)
    assert check.message.startswith(
        "peak_memory_mb (highest memory allocated on the device): 1,000 → 3,000 MB (+200.0 %)"
    )
    more = judge(base, with_metric(base, copied_mb=alternating(100, 150)))
    assert named(more, "copied_mb").now == 125.0


def test_peaks_within_those_of_the_baseline_are_the_same_and_a_little_more_is_inconclusive() -> None:
    varying = [1000.0 + 100 * (number % 5) for number in range(20)]
    base = with_metric(steps(), peak_memory_mb=varying)
    assert named(judge(base, base), "peak_memory_mb").outcome == "same"
    found = judge(base, with_metric(base, peak_memory_mb=[value + 150 for value in varying]))
    assert (found.verdict, named(found, "peak_memory_mb").outcome) == ("inconclusive", "inconclusive")
    assert found.headline.startswith("peak_memory_mb")


# ---- assertions on what was not judged


@pytest.mark.real
@pytest.mark.parametrize("trace", ["rank_without_gpu", "gpu_events_without_host"])
def test_a_count_of_findings_is_unknown_where_rules_could_not_run(trace: str) -> None:
    analysis = analyzed(trace, samples=True)
    found = gating.judge([analysis], None, Gate(assertions=("findings.high <= 0",)))
    assert found.verdict == "inconclusive"
    assert "findings.high <= 0: the trace does not say: " in found.headline
    assert "rules could not run, such as" in found.headline


def test_what_more_findings_cannot_change_is_decided() -> None:
    whole = steps()
    passes, verdicts = whole.verdicts.passes, whole.verdicts
    missing = [NotRun(rule=rule, needs=["gpu"], how="") for rule in passes[:3]]
    less = REPLACE(whole, verdicts=REPLACE(verdicts, passes=passes[3:], not_run=[*verdicts.not_run, *missing]))
    outcomes = {
        check.name: check.outcome
        for check in gating.judge(
            [less],
            None,
            Gate(assertions=("findings.high >= 1", "findings.high <= 4", "findings.high <= 3", "findings.high < 1")),
        ).checks
    }
    assert sum(finding.severity == "high" for finding in less.findings) == 1
    assert outcomes == {
        "findings.high >= 1": "same",
        "findings.high <= 4": "same",
        "findings.high <= 3": "inconclusive",
        "findings.high < 1": "regression",
    }


# ---- baselines that hold too little or too much


def edited(base: Baseline, name: str, runs: list[list[float]] | None) -> Baseline:
    metrics = dict(base.metrics)
    if runs is None:
        del metrics[name]
    else:
        metrics[name] = REPLACE(metrics[name], runs=runs)
    return REPLACE(base, metrics=metrics)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e20])
@pytest.mark.parametrize("name", ["step_ms", "kernel_ms", "sync_count"])
def test_a_figure_that_no_step_has_is_inconclusive_and_named(name: str, value: float) -> None:
    base = baseline.make([steps()])
    found = judge(edited(base, name, [[value] * 20]), steps())
    assert found.verdict == "inconclusive"
    assert found.headline.startswith(name)
    assert "the baseline holds a figure that no step has" in found.headline


def test_a_cost_and_a_part_that_no_step_has_raise_nothing() -> None:
    base = baseline.make([one(20)])
    rules = {**base.rules, OUTLIER: REPLACE(base.rules[OUTLIER], runs=[[1e308] * 20])}
    found = judge(REPLACE(base, rules=rules, parts={"step_ms": {"compute": -1e308}}), steps(kernel_us=12_000))
    assert found.verdict == "failed"
    assert named(found, OUTLIER).outcome == "inconclusive"


def test_a_baseline_of_another_version_without_the_step_is_inconclusive() -> None:
    base = REPLACE(edited(baseline.make([steps()]), "step_ms", None), advisor="0.0.1")
    found = judge(base, steps())
    assert found.verdict == "inconclusive"
    assert found.headline.startswith("step_ms (the step): no answer; the baseline does not hold it")


def test_a_baseline_and_a_candidate_without_figures_never_pass() -> None:
    base = baseline.make([steps()])
    empty = REPLACE(base, metrics={}, rules={}, steps=[])
    assert judge(empty, steps()).verdict == "inconclusive"


def test_a_rule_that_fired_without_a_price_then_fires_as_before() -> None:
    """An advisor that took no excess for a cost wrote its baseline: what it did not price did not grow from 0."""
    base = baseline.make([one(20)])
    earlier = REPLACE(base, work=None, rules={**base.rules, OUTLIER: REPLACE(base.rules[OUTLIER], runs=[[0.0] * 20])})
    assert named(judge(earlier, one(20)), OUTLIER).message == f"{OUTLIER}: fires, as before"


# ---- recordings that are cut off


@pytest.mark.real
def test_fail_on_a_third_of_a_recording_is_inconclusive(tmp_path: Path) -> None:
    whole = Path(real_trace("v100_resnet50_workers0.json.gz")).read_bytes()
    text = gzip.decompress(whole)
    cut = tmp_path / "cut.json"
    cut.write_bytes(text[: len(text) // 3])
    result = CliRunner().invoke(main, ["analyze", str(cut), "--fail-on", "low", "-q"])
    assert result.exit_code == 4
    assert "is cut off (truncated): record it again" in result.stderr


# ---- baselines that are not what the advisor wrote


def file_of(base: Baseline, edit: Callable[[dict[str, Any]], object] = lambda _: None) -> Baseline:
    """Read the baseline from a file that somebody has edited."""
    table = json.loads(baseline.dump(base))
    edit(table)
    path = _folder / "b.json"
    path.write_text(json.dumps(table))
    return baseline.load(path)


def test_a_baseline_that_was_edited_or_merged_is_compared_with_nothing() -> None:
    """Found by an attack: with its step raised by hand, any regression passed."""

    def raised(table: dict[str, Any]) -> None:
        table["metrics"]["step_ms"]["runs"] = [[99.0] * 20]

    found = judge(file_of(baseline.make([steps()]), raised), steps(kernel_us=12_000))
    assert (found.verdict, found.checks) == ("inconclusive", [])
    assert found.headline == (
        "the recordings cannot be compared: the baseline is not as the advisor wrote it, but edited or merged: make it anew"
    )
    assert found.update == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", {}),
        ("rules", {}),
        ("fingerprint", None),
        ("steps", [3]),
        ("work", None),
        ("parts", {}),
        ("advisor", "0.0.1"),
    ],
)
def test_all_that_decides_is_in_the_digest(key: str, value: object) -> None:
    base = baseline.make([steps()])

    def changed(table: dict[str, Any]) -> None:
        table[key] = {**table[key], "device": "NVIDIA H100"} if key == "fingerprint" else value

    assert file_of(base, changed).digest != ""
    assert file_of(base) == base
    assert file_of(base, lambda table: table["history"][0].update(reason="typo mended")).digest == ""
    assert file_of(base, lambda table: table.pop("digest")).digest == ""  # by an advisor that wrote none


def test_a_baseline_in_another_unit_is_inconclusive() -> None:
    base = baseline.make([steps()])
    series = base.metrics["step_ms"]
    found = judge(
        REPLACE(base, metrics={**base.metrics, "step_ms": REPLACE(series, unit="s")}), steps(kernel_us=12_000)
    )
    assert named(found, "step_ms").outcome == "inconclusive"
    assert "the baseline does not hold it" in named(found, "step_ms").message


def test_a_figure_that_only_the_baseline_knows_is_lost_and_named() -> None:
    """As of a later advisor: it would be left out unsaid."""
    base = baseline.make([steps()])
    found = judge(REPLACE(base, metrics={**base.metrics, "future_ms": base.metrics["step_ms"]}), steps())
    assert found.verdict == "inconclusive"
    assert found.headline == "future_ms: is not known to this advisor, which is older than the baseline's, or newer"


@pytest.mark.parametrize(("factor", "said"), [(1e-3, "0.001"), (1e3, "1000"), (1e-6, "1e-06")])
def test_times_in_another_unit_are_no_improvement(factor: float, said: str) -> None:
    base = steps()
    assert base.samples is not None
    times = {
        name: [value * factor * 1.2 for value in values]
        for name, values in base.samples.metrics.items()
        if name.endswith("_ms")
    }
    found = judge(base, with_metric(base, **times))
    assert (found.verdict, found.checks) == ("inconclusive", [])
    assert found.headline == (
        f"not comparable: perhaps its times are in another unit: the step and its parts take {said} times as long"
    )
    # A step of which only the wait went is as short, and its kernels take what they took.
    waits = with_metric(base, step_ms=[20_000.0 + number % 3 for number in range(20)])
    assert judge(waits, base).verdict == "passed"


def test_the_settings_turn_nothing_off_unsaid() -> None:
    off = Gate(levels={"step*_ms": "off"})
    assert judge(steps(), steps(), off).headline.endswith(" checks; 2 are off by the settings")
    assert judge(steps(), steps(), Gate(levels={"step_ms": "off"})).headline.endswith("; 1 is off by the settings")


def test_no_test_writes_the_baseline_of_a_recording_that_is_cut_off(tmp_path: Path) -> None:
    """Found by an attack: the plugin wrote what the command refuses."""
    whole = steps()
    note = QualityNote(code="truncated", message="the file ends early", advice="")
    cut = REPLACE(whole, quality=[*whole.quality, note])
    with pytest.raises(UsageError, match="is cut off"):
        update(tmp_path / "b.json", [cut], "first")
    assert list(tmp_path.glob("b.json*")) == []
