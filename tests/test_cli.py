"""The command line: exit codes, what goes where, and how little ``--help`` imports."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import advisor
from advisor.analysis import Analysis
from advisor.cli import COMMANDS, main
from advisor.cli.query import explain, show, unique
from advisor.errors import RuleError, TraceError, UsageError

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"pandas", "numpy", "duckdb", "torch", "rich.table", "rich.console", "jinja2", "isal", "msgspec"}


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


class Fake:
    """Stands in for reading and judging: says what it was asked, answers by the trace's name."""

    def __init__(self) -> None:
        self.rules = [SimpleNamespace(id="transfer/pageable-copy"), SimpleNamespace(id="precision/no-tensor-cores")]
        self.asked: dict[str, Any] = {}

    def read(self, path: str, **options: Any) -> str:
        self.asked["read"] = (path, options)
        if "broken" in path:
            raise TraceError(f"{path}: not a trace")
        if "absent" in path:
            raise FileNotFoundError(2, "No such file or directory", path)
        if "bug" in path:
            raise ZeroDivisionError("a bug")
        if "pipe" in path:
            raise BrokenPipeError
        if "interrupt" in path:
            raise KeyboardInterrupt
        return path

    def analyze(self, trace: str, rulebook: Any = None, only: Any = (), skip: Any = (), **more: Any) -> Analysis:
        self.asked["analyze"] = (only, skip)
        self.asked["more"] = more
        made = analysis(trace, next((name for name in ("high", "low", "note") if name in trace), "medium"))
        if "failing" in trace:
            failure = msgspec.convert(
                [{"rule": "a/b", "message": "no"}], list[msgspec.defstruct("F", ["rule", "message"])]
            )
            verdicts = msgspec.structs.replace(made.verdicts, error=failure)
            made = msgspec.structs.replace(made, verdicts=verdicts)
        return made

    def analyze_many(self, traces: Any, rulebook: Any = None, only: Any = (), skip: Any = (), **more: Any) -> Any:
        return [self.analyze(trace, rulebook, only, skip) for trace in traces], None

    def load(self, settings: Any, folders: Any) -> Any:
        self.asked["load"] = (settings, folders)
        if "bad" in folders:
            raise RuleError(["bad/x.toml: match.where: no column dur; did you mean dur_ns?"])
        return SimpleNamespace(rules=self.rules)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    made = Fake()
    monkeypatch.setattr(advisor, "read", made.read, raising=False)
    monkeypatch.setattr(advisor, "analyze", made.analyze, raising=False)
    monkeypatch.setattr(advisor, "analyze_many", made.analyze_many, raising=False)
    monkeypatch.setattr("advisor.cli.analyze.load_rules", made.load)
    monkeypatch.chdir(tmp_path)
    return made


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from advisor.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted(name for name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    loaded = set(json.loads(done.stdout.strip().splitlines()[-1].replace("'", '"')))
    assert not loaded & HEAVY
    assert "advisor.frames" not in loaded


@pytest.mark.parametrize("args", [["analyze"], ["rules"], ["rules", "list"], ["rules", "show"], ["query"]])
def test_every_command_explains_itself(args: list[str]) -> None:
    result = run(*args, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: advisor")


def test_an_unknown_command_names_the_nearest() -> None:
    result = run("analize", "x")
    assert result.exit_code == 2
    assert 'advisor: error: no command "analize"; nearest: analyze' in result.stderr


def test_python_m_advisor_is_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "--version"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("advisor ")


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
    assert fake.asked["read"] == ("medium", {"libraries": ("ours",)})
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
    assert result.stdout.startswith("2 traces\n")
    assert result.stdout.count("Pageable copies") == 2


def test_nothing_readable_prints_nothing(fake: Fake) -> None:
    result = run("analyze", "broken1", "broken2", "-f", "json")
    assert (result.exit_code, result.stdout) == (3, "")


def test_a_rule_that_fails_on_a_trace(fake: Fake) -> None:
    result = run("analyze", "failing")
    assert result.exit_code == 2
    assert "1 rule failed on a trace and judged nothing there: a/b" in result.stderr
    assert "failed: a/b: no" in result.stdout


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
        (["-", "-"], "standard input (-) can be read once only"),
        (["--config", "none.toml"], "none.toml: No such file"),
    ],
)
def test_usage_errors_come_before_the_work(fake: Fake, args: list[str], message: str) -> None:
    result = run("analyze", "x", *args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "read" not in fake.asked


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


def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path) -> None:
    script = (
        "import advisor.cli.analyze as command\n"
        "from advisor.cli import main\n"
        "command.load_rules = lambda *_: (_ for _ in ()).throw(BrokenPipeError())\n"
        "main(['analyze', 'x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_terminal_without_unicode_still_gets_the_report() -> None:
    script = "from advisor.cli.terminal import put\nput('█ → a\\u6c49\\n'.encode())\n"
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, cwd=ROOT, check=False)
    assert done.stdout == b"# > a\\u6c49\n", done.stderr


# --- query -----------------------------------------------------------------------------------------------------------


class Frames:
    """A trace of two kernels; notes which frames were built."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def frame(self, name: str) -> pd.DataFrame:
        self.built.append(name)
        names = pd.Categorical(["gemm", "add\x1b[31m", "gemm"])
        return pd.DataFrame({"name": names, "dur_ns": [3_000_000, 500_000, 1_000_000]})


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    made = Frames()
    monkeypatch.setattr(advisor, "read", lambda _path: made, raising=False)
    return made


def test_a_query_prints_a_table(frames: Frames) -> None:
    result = run("query", "t", "SELECT name, sum(dur_ns)/1e6 AS ms FROM kernels GROUP BY 1 ORDER BY 2 DESC LIMIT 5")
    assert result.stdout == "name   ms\ngemm    4\nadd   0.5\n\n2 rows\n", result.stderr
    assert frames.built == ["kernels"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("json", [{"name": "gemm", "n": 2}, {"name": "add\x1b[31m", "n": 1}]),
        ("csv", "name,n\ngemm,2\nadd,1\n"),
    ],
)
def test_a_query_for_machines(frames: Frames, form: str, expected: object) -> None:
    result = run("query", "t", "SELECT name, count(*) AS n FROM kernels GROUP BY ALL ORDER BY n DESC", "-f", form)
    assert (json.loads(result.stdout) if form == "json" else result.stdout) == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT dur FROM kernels", 'no column "dur"; nearest: dur_ns'),
        ("SELECT * FROM kernel", 'no frame "kernel"; nearest: kernels'),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "exactly one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "exactly one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM names", 'no frame "names"'),
    ],
)
def test_what_a_query_cannot_do(frames: Frames, sql: str, message: str) -> None:
    names = frames  # a Python variable is not a table
    result = run("query", "t", sql)
    assert result.exit_code == 2, names
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_schema_needs_no_trace() -> None:
    listed = run("query", "--schema")
    assert (listed.exit_code, "kernels" in listed.stdout) == (0, True)
    columns = run("query", "--schema", "kernels")
    assert "dur_ns" in columns.stdout
    assert json.loads(run("query", "--schema", "kernels", "-f", "json").stdout)[0]["name"] == "kernels"
    wrong = run("query", "--schema", "kernel")
    assert (wrong.exit_code, "nearest: kernels" in wrong.stderr) == (2, True)
    assert run("query", "t").exit_code == 2


def test_cells_that_json_and_text_must_agree_on() -> None:
    from datetime import date
    from decimal import Decimal

    rows = [(None, True, 1.5, Decimal("2.50"), date(2020, 1, 1), [1], 2**70, float("nan"))]
    names = [*"abcdefg", "g"]
    assert unique(names)[-1] == "g_2"
    first = json.loads(show(names, rows, "json"))[0]
    assert (first["a"], first["b"], first["h" if "h" in first else "g_2"]) == (None, True, None)
    assert "NULL  true  1.5  2.50  2020-01-01  [1]" in show(names, rows, "text")


def test_an_error_that_is_not_ours_is_passed_on() -> None:
    assert explain("Out of Memory Error: no", []) == "SQL: Out of Memory Error: no"


# --- rules -----------------------------------------------------------------------------------------------------------


def rule(**change: Any) -> Any:
    made = SimpleNamespace(
        id="transfer/pageable-copy",
        title="Pageable copies",
        category="transfer",
        why="It blocks.\n\nHarmless when small.",
        needs=("gpu",),
        given="vendor = 'nvidia'",
        confidence="certain",
        match=SimpleNamespace(frame="copies", where="bytes >= $min_bytes", when="", having=""),
        limits={"min_bytes": SimpleNamespace(value=65536, unit="bytes", basis="smaller ones are staged")},
        levels={"low": 0.01, "high": 0.1},
        severity=None,
        fix=SimpleNamespace(
            title="Pin", effort="one line", before="x.cuda()", after="x.pin_memory()", caveat="memory", verify="look"
        ),
        references=[SimpleNamespace(title="Guide", url="https://pytorch.org")],
        path="rules/transfer/pageable-copy.toml",
        replay=None,
    )
    made.__dict__.update(change)
    return made


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    def put(*rules: Any) -> None:
        for module in ("rules", "authoring"):
            monkeypatch.setattr(f"advisor.cli.{module}.load_rules", lambda *_: SimpleNamespace(rules=list(rules)))

    monkeypatch.chdir(tmp_path)
    put(rule(), rule(id="a/b", title="Another\x1b[2J", needs=()))
    return put


def test_rules_list(book: Any) -> None:
    lines = run("rules", "list").stdout.splitlines()
    assert lines[1].split() == ["a/b", "certain", "Another"]
    assert lines[2].split() == ["transfer/pageable-copy", "certain", "gpu", "Pageable", "copies"]
    listed = json.loads(run("rules", "list", "-f", "json").stdout)
    assert listed[1]["limits"]["min_bytes"]["basis"] == "smaller ones are staged"


def test_rules_show(book: Any) -> None:
    page = run("rules", "show", "transfer/pageable-copy").stdout
    for part in ("Why it matters", "  $min_bytes = 65,536 bytes: smaller ones are staged", "from 10 % of the time"):
        assert part in page
    wrong = run("rules", "show", "transfer/pageable")
    assert (wrong.exit_code, "nearest: transfer/pageable-copy" in wrong.stderr) == (2, True)


def test_rules_check(book: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("rules", "check").stdout == "2 rules, no problem\n"
    (tmp_path / "mine").mkdir()
    assert run("rules", "check", "mine").exit_code == 2  # none of the rules lies there
    (tmp_path / "mine/a").mkdir()
    (tmp_path / "mine/a/b.toml").touch()
    book(rule(), rule(path=str(tmp_path / "mine/a/b.toml")))
    assert run("rules", "check", "mine").stdout == "1 rule, no problem\n"

    def problems(*_: Any) -> Any:
        raise RuleError(["x.toml: one", "y.toml: two"])

    monkeypatch.setattr("advisor.cli.authoring.load_rules", problems)
    result = run("rules", "check", "mine")
    assert result.exit_code == 2
    assert "2 problems in the rules:\n  x.toml: one\n  y.toml: two" in result.stderr


def test_a_folder_of_rules_must_exist() -> None:
    from advisor.cli.analyze import load_rules
    from advisor.config import Config

    with pytest.raises(UsageError, match="--rules nowhere: no such folder"):
        load_rules(Config(), ["nowhere"])


@pytest.mark.parametrize("redirect", [">&-", ">/dev/full"])
def test_a_closed_or_full_standard_output_is_an_error_not_a_bug(redirect: str) -> None:
    sample = ROOT / "sample_traces" / "article" / "rung7_compile.json.gz"
    command = f"exec {shlex.quote(sys.executable)} -m advisor analyze -q {shlex.quote(str(sample))} {redirect}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert "standard output" in done.stderr
    assert "Traceback" not in done.stderr
