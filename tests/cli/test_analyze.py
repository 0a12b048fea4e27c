"""``advisor analyze``: exit codes, what goes where, and what it asks of the analysis."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from advisor.cli import main
from advisor.errors import RuleError, TraceError
from advisor.execution.run import Results
from advisor.results.analysis import Analysis


def analysis(path: str, severity: str | None = "medium") -> Analysis:
    """A small analysis of a trace called *path*, with one finding of *severity* or none."""
    finding = {
        "rule": "transfer/pageable-copy",
        "title": "Pageable copies",
        "category": "transfer",
        "severity": severity,
        "confidence": "certain",
        "cost_ms": 5.0,
        "cost_share": 0.05,
        "occurrences": 3,
        "saving": {"low_ms": 2.5, "high_ms": 5.0, "low_share": 0.025, "high_share": 0.05, "basis": "bound: half"},
        "where": [
            {
                "file": "a/b/train.py",
                "line": 1,
                "function": "f",
                "library": None,
                "module": None,
                "op": None,
                "share": 1.0,
            }
        ],
        "evidence": {"columns": [], "rows": []},
        "why": "It blocks.",
        "fix": {"title": "Pin", "effort": "", "before": "", "after": "", "caveat": "", "verify": ""},
        "references": [],
    }
    return msgspec.convert(
        {
            "schema_version": 1,
            "advisor": {"version": "0", "rules": 2},
            "trace": {
                "path": path,
                "events": 1,
                "span_ms": 1.0,
                "devices": [],
                "features": dict.fromkeys(("steps", "gpu", "host", "shapes", "stacks", "memory", "distributed"), False),
                "rank": None,
                "world_size": None,
                "torch": None,
            },
            "quality": [],
            "summary": {
                "steps": 0,
                "window_ms": 100.0,
                "step_ms": None,
                "device": None,
                "gpu_busy_share": None,
                "gpu_utilization": {},
                "sm_efficiency": None,
                "achieved_occupancy": None,
                "tensor_core_share": None,
                "peak_memory_bytes": None,
                "memory_bytes": None,
                "causes": {},
            },
            "findings": [finding] if severity else [],
            "plan": [],
            "verdicts": {"passes": [], "not_applicable": [], "not_run": [], "error": []},
        },
        Analysis,
    )


class Read(str):
    """A trace that is its name, and that no cache keeps."""

    def keep(self) -> str:
        return ""


class Fake:
    """Stands in for reading and judging: says what it was asked, answers by the trace's name."""

    def __init__(self) -> None:
        self.rules = [SimpleNamespace(id="transfer/pageable-copy"), SimpleNamespace(id="precision/no-tensor-cores")]
        self.asked: dict[str, Any] = {}

    def read(self, path: str, **options: Any) -> Read:
        self.asked["read"] = (path, options)
        if "broken" in path:
            raise TraceError(f"{path}: not a trace")
        if "absent" in path:
            raise TraceError(f"{path}: no such file")
        if "bug" in path:
            raise ZeroDivisionError("a bug")
        if "pipe" in path:
            raise BrokenPipeError
        if "interrupt" in path:
            raise KeyboardInterrupt
        return Read(path)

    def analyze(self, trace: str, rulebook: Any = None, only: Any = (), skip: Any = (), **more: Any) -> Analysis:
        self.asked["analyze"] = (only, skip)
        self.asked["more"] = more
        made = analysis(str(trace), next((name for name in ("high", "low", "note") if name in trace), "medium"))
        if "failing" in trace:
            failure = msgspec.convert(
                [{"rule": "a/b", "message": "no"}], list[msgspec.defstruct("F", ["rule", "message"])]
            )
            verdicts = msgspec.structs.replace(made.verdicts, error=failure)
            made = msgspec.structs.replace(made, verdicts=verdicts)
        return made

    def many(self, inputs: Any, settings: Any, _workers: Any) -> Results:
        made = Results()
        for address in inputs.addresses:
            try:
                made.analyses.append(self.analyze(self.read(address), only=settings.only, skip=settings.skip))
            except TraceError as error:
                made.failed.append(str(error))
        return made

    def load(self, settings: Any, folders: Any, *, keep: bool) -> Any:
        self.asked["load"] = (settings, folders)
        if "bad" in folders:
            raise RuleError(["bad/x.toml: match.where: no column dur; did you mean dur_ns?"])
        return SimpleNamespace(rules=self.rules, former={})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    made = Fake()
    monkeypatch.setattr("advisor.trace.read", made.read)
    monkeypatch.setattr("advisor.pipeline.analyze", made.analyze)
    monkeypatch.setattr("advisor.execution.run.run_many", made.many)
    monkeypatch.setattr("advisor.gating.run.rules", made.load)
    monkeypatch.chdir(tmp_path)
    return made


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_text_goes_to_stdout(fake: Fake) -> None:
    result = run("analyze", "trace.json")
    assert result.exit_code == 0
    assert "Pageable copies" in result.stdout
    assert not result.stderr
    assert "\x1b" not in result.stdout
    assert "\x1b" in run("analyze", "trace.json", "--color", "always").stdout


def test_a_trace_given_twice_counts_once(fake: Fake) -> None:
    result = run("analyze", "trace.json", "./trace.json")
    assert result.stderr == "advisor: note: ./trace.json is given twice, as trace.json before, and counts once\n"
    assert result.stdout == run("analyze", "trace.json").stdout


def test_quiet_verbose_and_redacted(fake: Fake) -> None:
    assert len(run("analyze", "dir/trace.json", "-q").stdout.splitlines()) == 3
    report = run("analyze", "dir/trace.json", "--redact", "-v").stdout
    assert report.startswith("trace.json ")
    assert "a/b/train.py" not in report
    assert run("analyze", "x", "-q", "-v").exit_code == 2


@pytest.mark.parametrize(
    ("trace", "level", "code"),
    [
        ("medium", "medium", 1),
        ("medium", "high", 0),
        ("high", "low", 1),
        ("low", "low", 1),
        ("low", "medium", 0),
        ("note", "low", 0),
    ],
)
def test_fail_on(fake: Fake, trace: str, level: str, code: int) -> None:
    assert run("analyze", trace, "--fail-on", level).exit_code == code


def test_fail_on_from_the_configuration(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "advisor.toml").write_text('fail_on = "low"\nskip = ["precision/*"]\nlibrary = ["ours"]\n')
    assert run("analyze", "medium").exit_code == 1
    assert fake.asked["analyze"] == ((), ("precision/no-tensor-cores",))
    assert fake.asked["read"][0] == "medium"
    assert fake.asked["read"][1]["libraries"] == ("ours",)
    assert run("analyze", "medium", "--fail-on", "high").exit_code == 0


@pytest.mark.parametrize("trace", ["broken.json", "absent.json"])
def test_a_trace_that_cannot_be_read(fake: Fake, trace: str) -> None:
    result = run("analyze", trace)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"advisor: error: {trace}: ")
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_one_broken_trace_does_not_hide_the_others(fake: Fake) -> None:
    result = run("analyze", "one", "broken.json", "two", "-f", "json", "--fail-on", "low")
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    assert [made["trace"]["path"] for made in report["traces"]] == ["one", "two"]
    assert report["across"] is None
    assert "broken.json: not a trace" in result.stderr


def test_several_traces_in_text(fake: Fake) -> None:
    result = run("analyze", "one", "two")
    assert result.stdout.startswith("2 traces · window 100 ms · no GPU in the trace\none\n")
    assert run("analyze", "one", "two", "-v").stdout.count("Pageable copies") == 2


def test_nothing_readable_prints_nothing(fake: Fake) -> None:
    result = run("analyze", "broken1", "broken2", "-f", "json")
    assert (result.exit_code, result.stdout) == (3, "")


def test_a_rule_that_fails_on_a_trace(fake: Fake) -> None:
    result = run("analyze", "failing")
    assert result.exit_code == 2
    assert "1 rule failed on a trace and judged nothing there: a/b" in result.stderr
    assert "1 failed: a/b" in result.stdout
    assert "failed: a/b: no" in run("analyze", "failing", "-v").stdout


def test_malformed_rules(fake: Fake) -> None:
    result = run("analyze", "x", "--rules", "bad")
    assert result.exit_code == 2
    assert "1 problem in the rules:\n  bad/x.toml: match.where: no column dur" in result.stderr


def test_a_bug_traces_back_and_is_not_a_failed_gate(fake: Fake) -> None:
    result = run("analyze", "bug")
    assert result.exit_code == 70
    assert "ZeroDivisionError" in result.stderr


def test_ctrl_c(fake: Fake) -> None:
    assert run("analyze", "interrupt").exit_code == 130


def test_globs_choose_rules(fake: Fake) -> None:
    run("analyze", "x", "--only", "transfer/*", "--only", "*", "--skip", "precision/no-*")
    assert fake.asked["analyze"] == (
        ("transfer/pageable-copy", "precision/no-tensor-cores"),
        ("precision/no-tensor-cores",),
    )
    result = run("analyze", "x", "--skip", "transfer/pagable-copy")
    assert result.exit_code == 2
    assert "fits no rule; nearest: transfer/pageable-copy" in result.stderr


def test_outputs_by_suffix_and_paired(fake: Fake, tmp_path: Path) -> None:
    assert run("analyze", "x", "-o", "a.json", "-o", "b.txt").exit_code == 0
    assert json.loads(Path("a.json").read_text())["trace"]["path"] == "x"
    assert "Pageable copies" in Path("b.txt").read_text()
    result = run("analyze", "x", "-f", "text", "-f", "json", "-o", "-", "-o", "c.data")
    assert "Pageable copies" in result.stdout
    assert json.loads(Path("c.data").read_text())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-o", "a.doc"], "a.doc: no format has this suffix"),
        (["-f", "text", "-f", "json"], "2 formats and no --output"),
        (["-f", "text", "-f", "json", "-o", "a.json"], "2 formats for 1 outputs"),
        (["-o", "a.json", "-o", "./a.json"], "two reports would go to the same place"),
        (["-o", "nowhere/a.json"], "no folder nowhere"),
        (["-f", "jsn"], "jsn"),
        (["--open"], "--open: nothing is written to a file; give -o report.html"),
        (["--open", "-o", "a.json"], "--open: a.json is no page; give -o report.html"),
        (["--open", "-f", "html"], "--open: the page goes to stdout; give -o report.html"),
        (["-", "-"], "standard input (-) can be read once only"),
        (["--config", "none.toml"], "none.toml: No such file"),
    ],
)
def test_usage_errors_come_before_the_work(fake: Fake, args: list[str], message: str) -> None:
    result = run("analyze", "x", *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "read" not in fake.asked


def test_a_written_page_says_its_headline_and_its_path(fake: Fake) -> None:
    result = run("analyze", "x", "-o", "a.html")
    assert (result.stdout, result.stderr) == ("1 finding\na.html\n", "")
    result = run("analyze", "x", "-f", "html", "-f", "json", "-o", "b.html", "-o", "-")
    assert json.loads(result.stdout)["trace"]["path"] == "x"  # what stdout holds is data, and stays whole
    assert result.stderr == "1 finding\nb.html\n"
    result = run("analyze", "x", "-o", "c.html", "-q")
    assert (result.stdout, result.stderr) == ("", "")
    result = run("analyze", "x", "-o", "d.json")
    assert (result.stdout, result.stderr) == ("", "")


def test_open_shows_the_written_page(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: not opened.append(url))
    result = run("analyze", "x", "-o", "a page.html", "-o", "a.json", "--open")
    assert (result.exit_code, result.stderr) == (0, "")
    assert opened == [(tmp_path / "a page.html").as_uri()]
    assert Path("a page.html").stat().st_size > 10_000
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    result = run("analyze", "x", "-o", "b.html", "--open")
    assert result.exit_code == 0
    assert "no browser was found; the page is b.html" in result.stderr


def test_what_exists_is_not_overwritten_unasked(fake: Fake) -> None:
    Path("a.json").write_text("precious")
    result = run("analyze", "x", "-o", "a.json")
    assert result.exit_code == 2
    assert "a.json: exists. Give --force" in result.stderr
    assert Path("a.json").read_text() == "precious"
    assert run("analyze", "x", "-o", "a.json", "--force").exit_code == 0
    assert json.loads(Path("a.json").read_text())
    result = run("analyze", "a.json", "-o", "a.json", "--force")
    assert (result.exit_code, "is a trace to be read" in result.stderr) == (2, True)


def test_standard_input_is_passed_on(fake: Fake) -> None:
    assert run("analyze", "-").exit_code == 0
    assert fake.asked["read"][0] == "-"


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        ((), ["trace.json"]),
        (("--window", "soon"), []),
        (("--explain", "1", "--format", "json"), []),
        (("--what-if", ","), []),
        (("--output", "no/such/folder/report.json"), []),
        (("--source-root", "no/such/folder"), []),
    ],
)
def test_a_wrong_option_starts_no_process(
    fake: Fake, words: tuple[str, ...], begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("advisor.reading.workers.start_ahead", started.append)
    result = run("analyze", "trace.json", *words)
    assert (result.exit_code == 2) == (not begun)
    assert started == begun
