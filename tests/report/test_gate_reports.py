"""The gate's renderers: valid by their schemas, the same bytes twice, and trace text that stays data."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import jsonschema
import msgspec
import pytest
from support.paths import ROOT

import advisor
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.report import Options, format_of, render
from advisor.report.gate import FORMATS
from advisor.report.gate.sarif import fingerprint
from advisor.report.markdown import plain
from advisor.report.schema import DOCUMENTS, schema, schema_text
from advisor.results.analysis import Place
from advisor.results.judgement import SCHEMA_VERSION, Check, Judgement

REPLACE = msgspec.structs.replace
GATE = ROOT / "sample_traces" / "gate"
SARIF = json.loads((ROOT / "tests" / "schemas" / "sarif-2.1.0-rtm.5.json").read_text())
HOSTILE = (
    "evil\x1b[2J\u202e|<img src=x onerror=alert(1)>`]]>&%0A::error::x\n::set-env name=A::b\x00 @someone https://a.b"
)


def place(**change: Any) -> Place:
    made = Place(file="src/train.py", line=31, function="train", library=None, module=None, op=None, share=1.0)
    return REPLACE(made, **change)


def check(name: str = "sync/scalar-readback", **change: Any) -> Check:
    made = Check(
        kind="rule",
        name=name,
        title="Values are read back",
        outcome="regression",
        level="error",
        message="Values are read back again: 0 → 4 ms a step",
        unit="ms",
        base=0.0,
        now=4.0,
        change=4.0,
        threshold=0.5,
        where=[place()],
    )
    return REPLACE(made, **change)


def judgement(*checks: Check, **change: Any) -> Judgement:
    made = Judgement(
        schema_version=SCHEMA_VERSION,
        verdict="failed",
        headline="Values are read back again: 0 → 4 ms a step",
        workload="resnet50",
        baseline="advisor-baseline.json",
        traces=["trace.json.gz"],
        incomparable=[],
        checks=list(checks),
    )
    return REPLACE(made, **change)


def variety() -> list[Judgement]:
    """One of each kind of answer."""
    waived = check("loader_ms", kind="metric", waiver="known (until 2027-01-01)")
    warned = check("host_ms", kind="metric", level="warn")
    unsaid = check("step_ms", kind="metric", outcome="inconclusive", where=[], note="too few steps")
    unjudged = check("a/b", outcome="inconclusive", level="warn", base=None, now=None, where=[])
    better = check("copied_mb", kind="metric", outcome="improvement")
    same = check("kernel_ms", kind="metric", outcome="same", where=[])
    nowhere = check("launch_count", kind="metric", where=[])
    odd = check("c/d", where=[place(file=None), place(file="C:\\a b\\..\\x.py", line=-1, function=None)])
    hostile = check(
        HOSTILE, message=HOSTILE, title=HOSTILE, where=[place(file=HOSTILE, function=HOSTILE)], waiver=HOSTILE
    )
    hostile = REPLACE(hostile, waiver="")
    return [
        judgement(check(), waived, warned, unsaid, unjudged, better, same, nowhere, odd, update="advisor baseline x"),
        judgement(verdict="passed", headline="no regression in 0 checks", workload=""),
        judgement(verdict="inconclusive", incomparable=["device was 'A' and is 'B'"], baseline=""),
        judgement(
            hostile, headline=HOSTILE, workload=HOSTILE, baseline=HOSTILE, traces=[HOSTILE], incomparable=[HOSTILE]
        ),
    ]


def made(name: str, given: Judgement, verbosity: int = 0) -> str:
    return render(name, given, Options(verbosity=verbosity), FORMATS).decode("utf-8")


@pytest.fixture(scope="module")
def real() -> Judgement:
    """A whole judgement of two traces."""
    traces = [
        advisor.analyze(advisor.read(str(GATE / f"{name}.json.gz")), samples=True) for name in ("workers", "no_workers")
    ]
    return gating.judge([traces[1]], baseline.make([traces[0]]), baseline_name="b.json")


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_judgement_gives_the_same_bytes(name: str, real: Judgement) -> None:
    again = msgspec.json.decode(real.to_json(), type=Judgement)
    assert made(name, real) == made(name, again)
    for given in variety():
        assert made(name, given, verbosity=1) == made(name, given, verbosity=1)


def test_sarif_validates_against_its_schema(real: Judgement) -> None:
    validator = jsonschema.Draft4Validator(SARIF, format_checker=jsonschema.FormatChecker())
    for given in [real, *variety()]:
        validator.validate(json.loads(made("sarif", given)))


def test_sarif_says_what_code_scanning_needs() -> None:
    run = json.loads(made("sarif", variety()[0]))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    results = {result["ruleId"]: result for result in run["results"]}
    assert rules == sorted(results)
    assert all(rules[result["ruleIndex"]] == name for name, result in results.items())
    assert all(len(result["locations"]) >= 1 for result in results.values())
    assert results["sync/scalar-readback"]["level"] == "error"
    assert results["host_ms"]["level"] == "warning"
    assert (results["step_ms"]["kind"], results["step_ms"]["level"]) == ("open", "none")
    assert results["loader_ms"]["suppressions"][0]["justification"] == "known (until 2027-01-01)"
    uri = results["c/d"]["locations"][0]["physicalLocation"]
    assert uri == {"artifactLocation": {"uri": "a%20b/x.py", "uriBaseId": "SRCROOT"}, "region": {"startLine": 1}}


def test_sarif_explains_each_rule_without_the_advisor_at_hand() -> None:
    own = check("team/slow-augment", title="Augmentation is slow")
    asserted = check("findings.high == 0", kind="assertion", where=[])
    given = judgement(
        check(), check("gpu_busy_share", kind="metric"), own, asserted, baseline="", settings="advisor.toml"
    )
    run = json.loads(made("sarif", given))["runs"][0]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    shipped = rules["sync/scalar-readback"]
    assert shipped["help"]["markdown"].count("```") == 4  # before and after, each between two fences
    assert "```" not in shipped["help"]["text"]
    for word in ("Fix", "Before", "After", "How to verify", "Background", "advisor rules show sync/scalar-readback"):
        assert word in shipped["help"]["text"], word
    assert ".item()" in shipped["fullDescription"]["text"]
    figure = rules["gpu_busy_share"]
    meaning = "gpu_busy_share (share of the step in which the GPU works) has regressed."
    assert figure["shortDescription"]["text"] == meaning
    assert figure["fullDescription"]["text"].startswith("gpu_busy_share is a share of each step: share of the step")
    assert "advisor rules show team/slow-augment" in rules["team/slow-augment"]["help"]["text"]
    (result,) = [result for result in run["results"] if result["ruleId"] == "findings.high == 0"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "advisor.toml"
    for rule in rules.values():
        assert rule["shortDescription"]["text"].endswith(".")
        assert rule["fullDescription"]["text"].endswith(".")
        assert rule["help"]["text"]
        assert "helpUri" not in rule  # no page of it has an address


def require_code_quality(issues: list[dict[str, Any]]) -> None:
    """Hold issues against what GitLab's documentation of the report requires of each."""
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert all(isinstance(issue[key], str) and issue[key] for key in ("description", "check_name", "fingerprint"))
        path, begin = issue["location"]["path"], issue["location"]["lines"]["begin"]
        assert path
        assert not path.startswith(("/", "./", "../"))
        assert begin >= 1
    prints = [issue["fingerprint"] for issue in issues]
    assert len(set(prints)) == len(prints)


def test_gitlab_gets_what_its_code_quality_report_requires(real: Judgement) -> None:
    for given in [real, *variety()]:
        require_code_quality(json.loads(made("gitlab", given)))
    issues = {issue["check_name"]: issue for issue in json.loads(made("gitlab", variety()[0]))}
    first = issues["sync/scalar-readback"]
    assert first["location"] == {"path": "src/train.py", "lines": {"begin": 31}}
    assert (first["severity"], first["description"]) == ("critical", "Values are read back again: 0 → 4 ms a step")
    assert (issues["host_ms"]["severity"], issues["step_ms"]["severity"]) == ("minor", "info")
    assert issues["launch_count"]["location"]["path"] == "advisor-baseline.json"
    assert not {"loader_ms", "copied_mb", "kernel_ms", "a/b"} & set(issues)  # waived, better, the same, does not count


def test_gitlab_gets_findings_of_an_analysis() -> None:
    sample = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"
    analysis = advisor.analyze(sample)
    issues = json.loads(render("gitlab", analysis, Options()).decode())
    require_code_quality(issues)
    assert [issue["check_name"] for issue in issues] == [
        finding.rule for finding in analysis.findings if finding.severity != "note" and finding.after is None
    ]
    loader = issues[0]
    assert (loader["check_name"], loader["severity"]) == ("data-loading/single-process-loader", "major")
    assert loader["location"] == {"path": "train.py", "lines": {"begin": 87}}
    assert (
        format_of("gl-code-quality-report.json").name
        == format_of("gl-code-quality-report.json", FORMATS).name
        == "gitlab"
    )


def test_a_fingerprint_outlasts_a_change_of_lines_and_figures() -> None:
    first = json.loads(made("sarif", judgement(check())))["runs"][0]["results"][0]["partialFingerprints"]
    moved = check(where=[place(line=99)], message="other figures", now=5.0)
    assert json.loads(made("sarif", judgement(moved)))["runs"][0]["results"][0]["partialFingerprints"] == first
    prints = {
        fingerprint("r", None),
        fingerprint("r", place()),
        fingerprint("q", place()),
        fingerprint("r", place(function="f")),
    }
    assert len(prints) == 4


def test_junit_is_what_its_readers_expect(real: Judgement) -> None:
    """JUnit has no official schema: this is the strict part that all common readers share."""
    for given in [real, *variety()]:
        root = ET.fromstring(made("junit", given))
        assert (root.tag, [child.tag for child in root]) == ("testsuites", ["testsuite"])
        suite = root[0]
        cases = suite.findall("testcase")
        assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
        assert suite.attrib["errors"] == "0"
        assert [child.tag for child in suite] == ["testcase"] * len(cases) + ["system-out"]
        for case in cases:
            assert set(case.attrib) == {"classname", "name", "time"}
            assert len(case) == 1
            assert case[0].tag in ("failure", "skipped", "system-out")
            if case[0].tag == "failure":
                assert set(case[0].attrib) == {"message", "type"}
        failing = {c.name for c in given.checks if c.counts and c.outcome == "regression"}
        assert len(failing) == int(suite.attrib["failures"])


def test_annotations_cannot_be_forged() -> None:
    for given in variety():
        for line in made("github", given).splitlines():
            assert re.fullmatch(r"::(error|warning|notice) [^:]*::.*", line), line
            properties = line.split("::")[1].split(" ", 1)[1]
            assert all(re.fullmatch(r"(file|line|title)=[^,:]*", part) for part in properties.split(","))
    lines = made("github", variety()[0]).splitlines()
    assert lines[0].startswith("::error file=src/train.py,line=31,title=sync/scalar-readback::Values are read back")
    assert "%25" in made("github", judgement(check(message="10 % more")))


def test_markdown_shows_trace_text_literally() -> None:
    shown = made("markdown", variety()[3])
    assert "<img" not in shown
    assert "@someone" not in shown
    assert "https://" not in shown
    assert plain("a_b *c* [x](y) | <b> @me") == "a_b \\*c\\* \\[x\\](y) \\| &lt;b&gt; @\u200bme"
    assert made("markdown", variety()[0]).startswith("<!-- advisor-gate -->\n\n### ❌ advisor gate: failed\n")


def test_text_says_the_verdict_on_the_first_line_and_no_escape_gets_through() -> None:
    for given in variety():
        shown = made("text", given, verbosity=1)
        assert shown.splitlines()[0].startswith(("FAILED: ", "PASSED: ", "INCONCLUSIVE: "))
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "; waived: known (until 2027-01-01)" in made("text", variety()[0])
    assert len(made("text", variety()[0], verbosity=-1).splitlines()) == 2


def test_json_goes_back_and_fits_its_schema(real: Judgement) -> None:
    for given in [real, *variety()[:3]]:
        shown = made("json", given)
        assert msgspec.json.decode(shown, type=Judgement) == given
        jsonschema.validate(json.loads(shown), schema("judgement"))


def test_the_schemas_in_docs_are_current() -> None:
    assert set(DOCUMENTS) == {"analysis", "judgement", "comparison", "baseline", "history"}
    for name in DOCUMENTS:
        assert (ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8") == schema_text(name), (
            "run docs/renew.py"
        )
