"""Baselines and analyses that an earlier advisor wrote, at commit ab4e7ea, of ``sample_traces/article/rung1_workers.json.gz``.

They are read, and what they lack is inconclusive, and named.
"""

from __future__ import annotations

from functools import cache

import msgspec
from click.testing import CliRunner
from support.paths import ROOT
from support.traces import rules

from advisor.cli import main
from advisor.gating import baseline as baselines
from advisor.gating.baseline import Baseline
from advisor.gating.judge import judge
from advisor.pipeline import analyze
from advisor.results.analysis import Analysis
from advisor.results.judgement import Check, Judgement
from advisor.trace import read

EARLIER = ROOT / "tests" / "support" / "earlier"
TRACE = ROOT / "sample_traces" / "article" / "rung1_workers.json.gz"


def base() -> Baseline:
    return baselines.load(EARLIER / "baseline_ab4e7ea.json")


@cache
def now() -> Analysis:
    return analyze(read(str(TRACE)), rules(), samples=True)


def judged(earlier: Baseline) -> Judgement:
    return judge([now()], earlier, heirs=rules().former)


def check(judgement: Judgement, name: str) -> Check:
    return next(check for check in judgement.checks if check.name == name)


def test_a_baseline_of_then_is_read_and_its_former_rule_is_no_loss() -> None:
    assert "kernels/many-tiny" in base().rules
    assert base().rules["gpu-idle/launch-bound"].verdicts == ["passes"]
    judgement = judged(base())
    assert judgement.incomparable == []
    assert "kernels/many-tiny" not in [check.name for check in judgement.checks]
    assert check(judgement, "gpu-idle/launch-bound").outcome == "same"


def test_a_rule_that_a_baseline_of_then_does_not_know_is_inconclusive_and_named() -> None:
    """As a rule that came later: the baseline never promised it."""
    earlier = base()
    less = {rule: record for rule, record in earlier.rules.items() if rule != "sync/debug-api"}
    found = check(judged(msgspec.structs.replace(earlier, rules=less)), "sync/debug-api")
    assert found.outcome == "inconclusive"
    assert found.message == "sync/debug-api: is not known to the baseline"


def test_an_analysis_of_then_is_read_and_lacks_what_came_later() -> None:
    earlier = Analysis.from_json((EARLIER / "analysis_ab4e7ea.json").read_bytes())
    assert earlier.findings
    assert [finding.after for finding in earlier.findings] == [None] * len(earlier.findings)
    assert [step.speedup_low for step in earlier.plan] == [None] * len(earlier.plan)
    from advisor.report import Options, render

    text = render("text", earlier, Options(verbosity=1))
    assert "up to" in str(text)  # where only the hopeful speed-up was written, that is what is said


def test_the_command_reads_it() -> None:
    run = CliRunner().invoke(main, ["gate", str(TRACE), "--baseline", str(EARLIER / "baseline_ab4e7ea.json"), "-q"])
    assert run.exit_code in (1, 4)  # figures changed since; it is judged, and no error of the file
    assert "schema" not in run.output
