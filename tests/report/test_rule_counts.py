"""What the reports say that the rules came to adds up to all rules that ran, the profile's own among them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.analyses import analysis, finding
from support.paths import ROOT

import advisor
from advisor import rulebook
from advisor.report import FORMATS, Options, render
from advisor.results.analysis import Analysis

TRACES = [
    "gate/workers.json.gz",
    "article/rung0_baseline.json.gz",  # steps before the GPU is warm
    "article/rung7_compile.json.gz",
]


@pytest.fixture(scope="module", params=TRACES)
def made(request: pytest.FixtureRequest) -> Analysis:
    return advisor.analyze(advisor.read(str(ROOT / "sample_traces" / request.param)))


def test_every_rule_that_ran_has_one_verdict(made: Analysis) -> None:
    verdicts = made.verdicts
    came_to = [
        *(finding.rule for finding in made.findings),
        *verdicts.passes,
        *verdicts.noted,
        *(verdict.rule for kind in (verdicts.not_applicable, verdicts.not_run, verdicts.error) for verdict in kind),
    ]
    catalogue = rulebook.load([rulebook.builtin_rules_dir()])
    assert sorted(came_to) == [rule.id for rule in catalogue.rules]
    assert made.advisor.rules == len(came_to)


@pytest.mark.parametrize("form", sorted(FORMATS.keys() - {"json", "concise", "gitlab", "brief"}))
def test_a_report_counts_all_of_them(form: str, made: Analysis) -> None:
    text = render(form, made, Options(verbosity=1)).decode()
    counted = re.search(r"Rules:?\s+(\d+ fired(?:, \d+ [a-z ]+)+)", text)
    assert counted is not None
    assert sum(int(number) for number in re.findall(r"\d+", counted[1])) == made.advisor.rules
    noted = len(made.verdicts.noted)
    assert (f"{noted} noted on the profile" in counted[1]) is (noted > 0)


def test_only_rules_on_the_profile_are_noted(made: Analysis) -> None:
    assert all(rule.startswith("profile/") for rule in made.verdicts.noted)
    assert not [finding.rule for finding in made.findings if finding.rule.startswith("profile/")]


def test_a_rule_that_speaks_of_the_profile_is_noted_and_not_passed(tmp_path: Path) -> None:
    from advisor.testing import TraceBuilder

    b = TraceBuilder()
    with b.op("aten::mm"):  # and no step
        b.kernel("volta_sgemm_128x64_nn", ms=1)
    found = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))), only=["profile/no-steps"])
    assert (found.verdicts.noted, found.verdicts.passes) == (["profile/no-steps"], [])
    assert [note.code for note in found.quality] == ["no-steps"]


@pytest.mark.parametrize(
    ("severities", "said"),
    [
        ([], "No findings"),
        (["high"], "1 finding"),
        (["high", "low", "note"], "2 findings and 1 note"),
        (["note", "note"], "No findings, 2 notes"),
    ],
)
def test_every_format_counts_findings_and_notes_alike(severities: list[str], said: str) -> None:
    made = analysis(*(finding(f"a/r{at}", severity=severity) for at, severity in enumerate(severities)))
    for form in sorted(FORMATS.keys() - {"json", "concise", "gitlab", "brief"}):
        text = render(form, made, Options(verbosity=1)).decode()
        assert re.search(rf"^[#\s]*(?:<h\d[^>]*>)?{said}(?:, most valuable first)?(?:</h\d>)?$", text, re.MULTILINE), (
            form
        )
