"""``advisor query``: what it prints for people and for machines, and what it cannot do."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner, Result

import advisor
from advisor.cli import main
from advisor.engine import query
from advisor.engine.query import explain
from advisor.errors import UsageError
from advisor.frames import SCHEMAS
from advisor.reading.containers import waiting
from advisor.report.rows import show, unique
from advisor.testing import TraceBuilder


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


class Frames:
    """A trace of two kernels; notes which frames were built."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def frame(self, name: str, columns: object = None) -> pd.DataFrame:
        self.built.append(name)
        names = pd.Categorical(["gemm", "add\x1b[31m", "gemm"])
        return pd.DataFrame({"name": names, "dur_ns": [3_000_000, 500_000, 1_000_000]})


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    made = Frames()
    monkeypatch.setattr(advisor, "read", lambda _path, **_options: made, raising=False)
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
    first = json.loads(show(names, rows, "json", 100))[0]
    assert (first["a"], first["b"], first["h" if "h" in first else "g_2"]) == (None, True, None)
    assert "NULL  true  1.5  2.50  2020-01-01  [1]" in show(names, rows, "text", 100)


def test_an_error_that_is_not_ours_is_passed_on() -> None:
    assert explain("Out of Memory Error: no", []) == "SQL: Out of Memory Error: no"


def test_no_line_of_the_schema_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    listed = run("query", "--schema").stdout
    for name, schema in SCHEMAS.items():
        assert f"{name} " in listed
        assert f"  {schema.row}\n" in listed
        shown = run("query", "--schema", name).stdout.splitlines()
        assert [column.meaning for column in schema.columns if not any(c.endswith(column.meaning) for c in shown)] == []


_ENDLESS = "SELECT sum((a.range * b.range) % 7) FROM range(1000000) a, range(1000000) b, kernels"


def test_a_query_ends_when_it_takes_longer_than_asked(frames: Frames) -> None:
    result = run("query", "t", _ENDLESS, "--timeout", "0.3")
    assert result.exit_code == 2
    assert "SQL: stopped after 0.3 s of the processor; filter or group in SQL" in result.stderr
    assert run("query", "t", "SELECT count(*) AS n FROM kernels", "--timeout", "30").stdout.split()[:2] == ["n", "3"]
    assert "x>0" in run("query", "t", "SELECT 1", "--timeout", "0").stderr


def test_ctrl_c_is_none_of_the_time_that_is_over(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    connection = SimpleNamespace(register=lambda *_: None, execute=pressed, close=lambda: None)
    monkeypatch.setattr(query, "connect", lambda: connection)
    with pytest.raises(KeyboardInterrupt):
        query.run(frames, "SELECT 1 FROM kernels", 100.0)  # type: ignore[arg-type]


def test_what_a_command_waits_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert waiting(tmp_path / "pipe") == ", a pipe, once something writes into it"
    assert (waiting(tmp_path / "file"), waiting(tmp_path / "none"), waiting("a\0b")) == ("", "", "")
    for typed, text in ((True, ", standard input, as it is typed"), (False, "")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda typed=typed: typed))
        assert waiting("-") == text


def test_a_trace_is_asked_in_python_as_on_the_command_line(tmp_path: Path) -> None:
    """Two kernels of 30 and 20 µs by one name, one of 5 µs by another, worked out by hand."""
    built = TraceBuilder()
    for name, us in (("gemm", 30), ("gemm", 20), ("add", 5)):
        built.kernel(name, us)
    trace = advisor.read(str(built.write(tmp_path / "trace.json")))
    table = trace.query("SELECT name, sum(dur_ns)/1e3 AS us, count(*) AS n FROM kernels GROUP BY 1 ORDER BY 2 DESC")
    assert table.columns.to_list() == ["name", "us", "n"]
    assert table.values.tolist() == [["gemm", 50.0, 2], ["add", 5.0, 1]]
    assert trace.query("SELECT NULL::BIGINT AS unknown")["unknown"].isna().all()
    assert "kernels" in trace.query("SHOW TABLES")["frame"].to_list()
    for sql, message in (
        ("SELECT dur FROM kernels", "nearest: dur_ns"),
        ("SELECT 1; SELECT 2", "exactly one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
    ):
        with pytest.raises(UsageError, match=message):
            trace.query(sql)
