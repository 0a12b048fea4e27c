"""The gate: what fails, what only has no answer, and what each of them says."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.toml import toml
from support.traces import real_trace

import advisor
from advisor.cli import main
from advisor.config import Config, Gate, Waiver, load
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.results.analysis import Analysis, NotRun, Verdicts
from advisor.results.judgement import Check, Judgement
from advisor.testing import TraceBuilder

REPLACE = msgspec.structs.replace
GATE = ROOT / "sample_traces" / "gate"
RULE = "data-loading/single-process-loader"


@cache
def loop(
    *,
    wait_us: int = 300,
    workers: int = 4,
    syncs: int = 1,
    pinned: bool = True,
    kernel_us: int = 1000,
    steps: int = 7,
    ops: int = 10,
    jitter: tuple[int, ...] = (0, 9, 3, 12, 6, 1, 10, 4),
    device: str = "Tesla V100-SXM2-16GB",
) -> Analysis:
    """A loop of *ops* kernels, analyzed; *jitter* is how much longer each step's kernels take, in 0.1 %."""
    made = TraceBuilder(device, profile_memory=False)
    for step in range(steps):
        with made.step():
            with made.python("train.py(11): train"), made.loader(us=wait_us, workers=workers):
                pass
            with made.python("train.py(12): train"), made.op("aten::copy_"):
                made.copy("HtoD", 19_267_584, us=1000, pinned=pinned)
            with made.python("train.py(13): train"):
                for _ in range(ops):
                    with made.op("aten::mm"):
                        made.kernel(
                            "volta_sgemm_128x64_nn", us=kernel_us + kernel_us * jitter[step % len(jitter)] // 1000
                        )
            for _ in range(syncs):
                with made.python("train.py(15): train"):
                    made.sync()
    path = Path(made.write(_folder / "loop.json"))
    return advisor.analyze(advisor.read(str(path), source="loop.json"), views=False, samples=True)


_folder = Path()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    global _folder
    _folder = tmp_path


def judge(base: Analysis, now: Analysis, settings: Gate | None = None, today: str = "") -> Judgement:
    return gating.judge([now], baseline.make([base]), settings, baseline_name="b.json", today=today)


def named(judgement: Judgement, name: str) -> Check:
    return next(check for check in judgement.checks if check.name == name)


def failing(judgement: Judgement) -> set[str]:
    return {check.name for check in judgement.checks if check.outcome == "regression" and check.counts}


# ---- what fails


def test_the_same_trace_passes() -> None:
    found = judge(loop(), loop())
    assert (found.verdict, found.headline) == (
        "passed",
        f"no regression in {len(found.checks) - unjudged(found)} checks",
    )
    assert failing(found) == set()
    assert found.update == ""


def unjudged(judgement: Judgement) -> int:
    return sum(check.outcome == "inconclusive" for check in judgement.checks)


def test_loading_in_the_training_process_again_is_the_first_line() -> None:
    found = judge(loop(), loop(wait_us=4000, workers=0))
    assert found.verdict == "failed"
    assert found.headline.startswith("DataLoader runs in the main process (num_workers=0), and did not before: 0 → ")
    assert "at train.py:11 in train (data-loading/single-process-loader)" in found.headline
    assert {RULE, "loader_ms", "step_ms"} <= failing(found)
    check = named(found, "loader_ms")
    # 0.3 ms of waiting become 4; what the tail of the step before hides is the same on both sides
    assert check.change == pytest.approx(3.7, abs=0.05)
    assert "most in enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ at train.py:11 train" in check.message


def test_a_busy_share_that_falls_while_the_step_gets_shorter_is_no_regression() -> None:
    # 10 kernels of 1 ms become 10 of 0.7, and the wait for data grows by 2.5 ms: the step is half a millisecond shorter.
    found = judge(loop(wait_us=0), loop(wait_us=2500, kernel_us=700))
    share = named(found, "gpu_busy_share")
    assert share.outcome == "regression"
    assert share.change == pytest.approx(-0.2, abs=0.05)
    assert not share.counts
    assert "gpu_busy_share" not in failing(found)
    # What grew is idle time: the kernels and copies have no part in it.
    assert "most in loader +2.5 ms" in share.message


def test_one_more_synchronization_a_step_fails_by_its_count() -> None:
    found = judge(loop(), loop(syncs=2))
    check = named(found, "sync_count")
    assert (found.verdict, check.base, check.now) == ("failed", 1.0, 2.0)
    assert "cudaStreamSynchronize at train.py:15 train +1" in check.message


def test_pageable_copies_fail_by_their_bytes() -> None:
    found = judge(loop(), loop(pinned=False))
    assert {"pageable_mb", "transfer/pageable-copy"} <= failing(found)
    assert named(found, "pageable_mb").now == pytest.approx(19.267584)


def test_slower_kernels_fail_and_are_named() -> None:
    found = judge(loop(), loop(kernel_us=1080))
    assert {"kernel_ms", "step_ms"} <= failing(found)
    assert "most in volta_sgemm_128x64_nn +0.8" in named(found, "kernel_ms").message


def test_a_change_within_the_tolerance_passes() -> None:
    assert judge(loop(), loop(kernel_us=1030)).verdict == "passed"
    assert judge(loop(), loop(kernel_us=1030), Gate(tolerance={"kernel_ms": 0.01})).verdict == "failed"


def test_an_improvement_passes_and_says_how_to_keep_it() -> None:
    found = judge(loop(wait_us=4000, workers=0), loop())
    assert found.verdict == "passed"
    assert named(found, RULE).outcome == "improvement"
    assert found.update == "advisor baseline loop.json --update -o b.json --reason '…'"


def test_time_that_moves_between_parts_of_a_shorter_step_is_no_regression() -> None:
    # 4 ms of loading go, and 1 ms of waiting behind synchronizations comes: the step gets 3 ms shorter.
    base, now = loop(wait_us=4000, workers=0), loop(syncs=1)
    samples = now.samples
    assert samples is not None
    moved = {**samples.metrics, "sync_ms": [value + 1.0 for value in samples.metrics["sync_ms"]]}
    found = judge(base, REPLACE(now, samples=REPLACE(samples, metrics=moved)))
    check = named(found, "sync_ms")
    assert (found.verdict, check.outcome, check.level) == ("passed", "regression", "warn")
    assert check.message.endswith("the step got shorter all the same")


def test_time_that_moves_within_a_step_that_stays_is_no_regression() -> None:
    base = loop(wait_us=2000)
    samples = base.samples
    assert samples is not None
    less = {**samples.metrics, "loader_ms": [value - 1.0 for value in samples.metrics["loader_ms"]]}
    less["host_ms"] = [value + 1.0 for value in samples.metrics["host_ms"]]
    found = judge(base, REPLACE(base, samples=REPLACE(samples, metrics=less)))
    assert (found.verdict, named(found, "host_ms").level) == ("passed", "warn")
    assert "moved from one part to another" in named(found, "host_ms").message


def test_a_count_that_grew_is_reported_while_the_step_got_shorter() -> None:
    found = judge(loop(wait_us=4000, workers=0), loop(syncs=3))
    check = named(found, "sync_count")
    assert (found.verdict, check.outcome, check.level) == ("passed", "regression", "warn")
    assert check.message.endswith("; the step got shorter all the same")


def test_counts_count_where_the_step_did_not_get_shorter() -> None:
    assert failing(judge(loop(), loop(syncs=3))) == {"sync_count"}


# ---- what has no answer


def test_too_few_steps_are_inconclusive_but_exact_counts_decide() -> None:
    found = judge(loop(steps=3), loop(steps=3))
    assert found.verdict == "inconclusive"
    assert found.headline.startswith("step_ms (the step): ")
    assert "too few steps, 2 on the baseline and 2 on the candidate; 4 are needed" in found.headline
    assert named(found, "sync_count").outcome == "same"
    assert judge(loop(steps=3), loop(steps=3, syncs=2)).verdict == "failed"


def test_recordings_that_are_not_alike_are_not_compared() -> None:
    found = judge(loop(), loop(device="NVIDIA A100-SXM4-80GB", kernel_us=3000))
    assert (found.verdict, found.checks) == ("inconclusive", [])
    assert found.headline.startswith("the recordings cannot be compared: device was 'Tesla V100-SXM2-16GB' and is")
    assert found.update == ""


def without(analysis: Analysis, *, metric: str = "", rule: str = "") -> Analysis:
    """*analysis* of a trace that lacks what a metric or a rule needs."""
    samples = analysis.samples
    assert samples is not None
    kept = {name: values for name, values in samples.metrics.items() if name != metric}
    verdicts = analysis.verdicts
    if rule:
        verdicts = Verdicts(
            passes=[name for name in verdicts.passes if name != rule],
            not_applicable=[verdict for verdict in verdicts.not_applicable if verdict.rule != rule],
            not_run=[*verdicts.not_run, NotRun(rule=rule, needs=["stacks"], how="")],
            error=[],
        )
    findings = [finding for finding in analysis.findings if finding.rule != rule]
    return REPLACE(analysis, samples=REPLACE(samples, metrics=kept), verdicts=verdicts, findings=findings)


@pytest.mark.parametrize("lacking", ["base", "now"])
def test_a_metric_that_one_side_lacks_is_never_a_pass(lacking: str) -> None:
    whole = loop()
    less = without(whole, metric="sync_count")
    found = judge(less, whole) if lacking == "base" else judge(whole, less)
    side = "baseline" if lacking == "base" else "candidate"
    assert (found.verdict, named(found, "sync_count").note) == ("inconclusive", f"the {side} does not hold it")


def test_a_metric_that_a_newer_advisor_takes_does_not_count_yet() -> None:
    whole = loop()
    old = REPLACE(without(whole, metric="sync_count"), advisor=REPLACE(whole.advisor, version="0.0.1"))
    found = judge(old, whole)
    assert (found.verdict, named(found, "sync_count").outcome) == ("passed", "inconclusive")
    assert "update the baseline" in named(found, "sync_count").message


def test_a_rule_that_can_no_longer_run_is_inconclusive() -> None:
    whole = loop()
    rule = "gpu-idle/launch-bound"
    assert rule in whole.verdicts.passes
    found = judge(whole, without(whole, rule=rule))
    assert (found.verdict, found.headline) == (
        "inconclusive",
        f"{rule}: could not run on the candidate, for lack of stacks",
    )


def test_a_rule_that_neither_side_could_run_is_listed_and_does_not_count() -> None:
    whole = loop()
    less = without(whole, rule="gpu-idle/launch-bound")
    found = judge(less, less)
    check = named(found, "gpu-idle/launch-bound")
    assert (found.verdict, check.outcome, check.level) == ("passed", "inconclusive", "warn")


def test_a_rule_that_the_baseline_could_not_run_counts_only_where_it_fires() -> None:
    slow = loop(wait_us=4000, workers=0)
    assert judge(without(loop(), rule=RULE), loop()).verdict == "passed"
    found = judge(without(slow, rule=RULE), slow)
    assert (found.verdict, found.headline) == (
        "inconclusive", f"{RULE}: could not run on the baseline, and fires now"
    )  # fmt: skip


# ---- repeated runs


def test_runs_that_disagree_on_a_timeless_rule_have_no_answer() -> None:
    base = loop()
    fires = REPLACE(
        loop(wait_us=4000, workers=0).findings[0], rule="memory/growth", cost_ms=0.0, cost_share=0.0, severity="medium"
    )
    growing = REPLACE(
        base,
        findings=[*base.findings, fires],
        verdicts=REPLACE(base.verdicts, not_run=[v for v in base.verdicts.not_run if v.rule != "memory/growth"]),
    )
    passes = [*growing.verdicts.passes, "memory/growth"]
    quiet = REPLACE(growing, findings=base.findings, verdicts=REPLACE(growing.verdicts, passes=passes))
    assert failing(judge(quiet, growing)) == {"memory/growth"}
    assert named(judge(growing, quiet), "memory/growth").outcome == "improvement"
    mixed = gating.judge([growing, quiet], baseline.make([quiet]))
    assert (mixed.verdict, named(mixed, "memory/growth").outcome) == ("inconclusive", "inconclusive")
    noted = REPLACE(growing, findings=[*base.findings, REPLACE(fires, severity="note")])
    assert judge(quiet, noted).verdict == "passed"


def test_several_runs_a_side() -> None:
    runs = [loop(jitter=(0, 9, 3, 12, 6, 1, 10, 4)), loop(jitter=(5, 2, 8, 11, 7, 3, 0, 6))]
    assert gating.judge(runs, baseline.make(runs)).verdict == "passed"
    slow = [loop(kernel_us=1100), loop(kernel_us=1100, jitter=(5, 2, 8, 11, 7, 3, 0, 6))]
    assert gating.judge(slow, baseline.make(runs)).verdict == "failed"


# ---- levels, waivers, assertions


def test_levels_are_globs_and_the_last_that_fits_decides() -> None:
    base, now = loop(), loop(syncs=2)
    assert judge(base, now, Gate(levels={"sync*": "warn"})).verdict == "passed"
    found = judge(base, now, Gate(levels={"*": "warn", "sync_count": "error"}))
    assert failing(found) == {"sync_count"}
    off = judge(base, now, Gate(levels={"sync*": "off"}))
    assert not [check for check in off.checks if check.name.startswith("sync")]


def test_a_waiver_holds_through_its_day() -> None:
    base, now = loop(), loop(syncs=2)
    waiver = Waiver("sync*", date(2026, 12, 31), "the logger reads it")
    held = judge(base, now, Gate(waivers=(waiver,)), today="2026-12-31")
    assert (held.verdict, named(held, "sync_count").waiver) == ("passed", "the logger reads it (until 2026-12-31)")
    ended = judge(base, now, Gate(waivers=(waiver,)), today="2027-01-01")
    assert ended.verdict == "failed"
    assert named(ended, "sync_count").message.endswith("; its waiver ended on 2026-12-31")


def test_assertions_need_no_baseline() -> None:
    texts = ("summary.gpu_busy_share >= 0.5", "metrics.sync_count <= 1", f"rules.{RULE} <= 0.1", "findings.high <= 9")
    settings = Gate(assertions=texts)
    found = gating.judge([loop()], None, settings)
    assert (found.verdict, len(found.checks)) == ("passed", 4)
    broken = gating.judge([loop(syncs=2)], None, settings)
    assert broken.headline == "metrics.sync_count <= 1 does not hold: it is 2"
    unsaid = gating.judge([loop()], None, Gate(assertions=("summary.peak_memory_bytes < 1e9",)))
    assert unsaid.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("summary.gpu_busy_shar >= 0.8", "no figure 'summary.gpu_busy_shar'; nearest: summary.gpu_busy_share"),
        ("summary.gpu_busy_share => 0.8", "must be of the form"),
        ("__import__('os').system('x') > 0", "must be of the form"),
        ("summary.causes.loder < 1", "nearest: summary.causes.loader"),
    ],
)
def test_an_assertion_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings(tmp_path, {"assert": [text]})


def settings(folder: Path, gate: object) -> Config:
    """The configuration of a file whose ``gate`` is that."""
    path = folder / "advisor.toml"
    path.write_text(f"gate = {toml(gate)}\n", encoding="utf-8")
    return load(path)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, "gate: must be a table, not 3"),
        ({"asert": []}, r"gate\.asert: no such key; nearest: assert"),
        ({"workload": 3}, r"gate\.workload: must be text, not 3"),
        ({"assert": "x"}, r"gate\.assert: must be a list of texts, not 'x'"),
        ({"assert": ["x"]}, r"gate\.assert: must be of the form 'summary\.gpu_busy_share >= 0\.85', not 'x'"),
        ({"levels": 1}, r"gate\.levels: must be a table, not 1"),
        (
            {"levels": {"a/*": "warning"}},
            r"gate\.levels\.\"a/\*\": 'warning' is none of error, warn, off; nearest: warn",
        ),
        ({"tolerance": {"step": 0.1}}, r"gate\.tolerance\.step: no such key; nearest: step_ms"),
        ({"tolerance": {"step_ms": True}}, r"gate\.tolerance\.step_ms: must be a share"),
        ({"tolerance": {"step_ms": -1}}, "must be a share such as 0.05, at most 1000, not -1"),
        ({"waivers": [1]}, r"gate\.waivers: must be a table with rule, until, reason, not 1"),
        ({"waivers": [{"rule": "a", "until": "2027-01-31"}]}, r"gate\.waivers\.reason: is missing"),
        ({"waivers": [{"rule": "a", "until": "2027-01-31", "reason": " "}]}, r"gate\.waivers\.reason: is empty"),
        ({"waivers": [{"rule": "a", "until": "soon", "reason": "b"}]}, r"gate\.waivers\.until: must be a date such as"),
        (
            {"waivers": [{"rule": "a", "untl": "2027-01-31", "reason": "b"}]},
            r"waivers\.untl: no such key; nearest: until",
        ),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path: Path, table: object, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        settings(tmp_path, table)
    assert str(caught.value).startswith(f"{tmp_path / 'advisor.toml'}: ")


def test_what_fits_nothing_is_a_mistake() -> None:
    ids = [RULE, "sync/scalar-readback"]

    def require_fit(gate: Gate) -> None:
        Config(gate=gate).require_fit(ids, gate=True)

    require_fit(Gate(levels={"sync/*": "warn", "loader_ms": "off"}))
    with pytest.raises(UsageError, match=r'gate\.levels: "snyc/x" fits no rule and no metric'):
        require_fit(Gate(levels={"snyc/x": "warn"}))
    with pytest.raises(UsageError, match=r"gate\.waivers"):
        require_fit(Gate(waivers=(Waiver("nothing", date(2027, 1, 1), "x"),)))
    with pytest.raises(UsageError, match='no rule "a/b"'):
        require_fit(Gate(assertions=("rules.a/b <= 1",)))


# ---- the command


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_the_command_and_its_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workers, without_ = str(GATE / "workers.json.gz"), str(GATE / "no_workers.json.gz")
    assert run("baseline", workers, "-q") == (0, "", "")
    assert run("gate", workers, "-b", "advisor-baseline.json")[0] == 0
    code, out, _ = run("gate", without_, "-b", "advisor-baseline.json")
    assert (
        code,
        out.splitlines()[0].startswith(
            "FAILED: DataLoader runs in the main process (num_workers=0), and did not before:"
        ),
    ) == (
        1,
        True,
    )
    short = str(ROOT / "sample_traces" / "article" / "rung1_workers.json.gz")
    assert run("baseline", short, "-o", "short.json", "-q")[0] == 0
    for option, code in ((None, 4), ("exit", 4), ("pass", 0), ("fail", 1)):
        words = ["--inconclusive", option] if option else []
        assert run("gate", short, "-b", "short.json", "-q", *words)[0] == code
    assert run("gate", short)[0] == 2
    assert run("gate", str(tmp_path / "none.json"), "-b", "short.json")[0] == 3
    assert run("gate", short, "-b", "none.json")[0] == 2
    assert run("gate", workers, "-b", "advisor-baseline.json", "-o", "advisor-baseline.json", "--force")[0] == 2


def test_settings_come_from_the_nearest_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = str(GATE / "workers.json.gz")
    (tmp_path / "advisor.toml").write_text('[gate]\nassert = ["summary.gpu_busy_share >= 0.999"]\n')
    code, out, _ = run("gate", trace)
    assert (code, "summary.gpu_busy_share >= 0.999 does not hold: it is 0.98" in out) == (1, True)
    (tmp_path / "advisor.toml").write_text(
        '[gate]\nlevels = { "nothing/*" = "off" }\nassert = ["findings.high >= 0"]\n'
    )
    code, _, error = run("gate", trace)
    assert (code, '"nothing/*" fits no rule and no metric' in error) == (2, True)
    (tmp_path / "advisor.toml").write_text(
        '[gate]\nassert = ["findings.high < 0"]\n'
        'waivers = [{ rule = "findings*", until = 2026-01-01, reason = "known" }]\n'
    )
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")  # 2026-01-01
    assert run("gate", trace)[0] == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767312000")
    assert run("gate", trace)[0] == 1


def test_in_python_a_trace_a_path_or_an_analysis_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = GATE / "workers.json.gz"
    analysis = advisor.analyze(advisor.read(str(trace)), samples=True)
    base = baseline.make([analysis])
    (tmp_path / "b.json").write_bytes(baseline.dump(base))
    for given in (trace, str(trace), [trace], advisor.read(str(trace)), analysis):
        assert advisor.gate(given, baseline="b.json").verdict == "passed"
    assert advisor.gate(trace, baseline=base).verdict == "passed"
    with pytest.raises(UsageError, match="nothing to compare the trace with"):
        advisor.gate(trace)


# ---- real traces


@pytest.mark.real
def test_workers4_to_workers0_fails_and_says_that_the_training_process_loads(tmp_path: Path) -> None:
    base = tmp_path / "b.json"
    assert run("baseline", real_trace("v100_resnet50_workers4.json.gz"), "-o", str(base), "-q")[0] == 0
    code, out, _ = run("gate", real_trace("v100_resnet50_workers0.json.gz"), "-b", str(base))
    assert code == 1
    assert out.splitlines()[0].startswith(
        "FAILED: DataLoader runs in the main process (num_workers=0), and did not before: 0 → 31.8 ms a step"
    )


@pytest.mark.real
def test_workers0_to_workers4_passes_though_the_hosts_idle_grew(tmp_path: Path) -> None:
    base = tmp_path / "b.json"
    assert run("baseline", real_trace("v100_resnet50_workers0.json.gz"), "-o", str(base), "-q")[0] == 0
    code, out, _ = run("gate", real_trace("v100_resnet50_workers4.json.gz"), "-b", str(base), "-f", "json")
    found: dict[str, Any] = json.loads(out)
    grown = {check["name"]: check["level"] for check in found["checks"] if check["outcome"] == "regression"}
    assert (code, grown) == (0, {"host_ms": "warn"})
    bound = next(check for check in found["checks"] if check["name"] == "gpu-idle/launch-bound")
    assert (bound["outcome"], bound["level"]) == ("inconclusive", "warn")
    assert "so few steps may drift as far apart by chance" in bound["message"]
    assert "advisor baseline" in found["update"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [("~/my runs/a.json", "~/'my runs/a.json'"), ("my run.json", "'my run.json'"), ("~", "'~'"), ("a.json", "a.json")],
)
def test_a_home_directory_is_left_to_the_shell(path: str, shown: str) -> None:
    assert gating._quoted(path) == shown
