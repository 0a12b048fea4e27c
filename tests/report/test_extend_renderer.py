"""A format of one's own is one file and one line: applied as a patch, commands list it, pick it by suffix and write it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support.extending import ROOT, patched, run, touched

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package with the format ``csv``."""
    return patched(tmp_path, "renderer")


def test_a_renderer_is_one_file_and_one_line() -> None:
    files = touched("renderer")
    assert files.pop("advisor/report/__init__.py") == (1, 0)
    assert list(files) == ["advisor/report/csv.py"]


def test_the_new_format_says_what_the_json_says(copy: Path) -> None:
    made = run(copy, "-m", "advisor", "analyze", str(SAMPLE), "-f", "csv", "-o", "a.csv", "-f", "json", "-o", "a.json")
    assert made.returncode == 0, made.stderr
    findings = json.loads((copy / "a.json").read_text(encoding="utf-8"))["findings"]
    rows = list(csv.DictReader(io.StringIO((copy / "a.csv").read_text(encoding="utf-8"))))
    assert len(rows) == len(findings) > 3
    for row, finding in zip(rows, findings, strict=True):
        assert (row["trace"], row["rule"], row["title"]) == (str(SAMPLE), finding["rule"], finding["title"])
        assert float(row["cost_ms"]) == finding["cost_ms"]
        saving = finding["saving"]
        assert row["saving_ms"] == (str(saving["high_ms"]) if saving else "")


def test_commands_know_it_by_name_and_by_suffix(copy: Path) -> None:
    listed = run(copy, "-m", "advisor", "analyze", "--help")
    assert listed.returncode == 0, listed.stderr
    assert "csv" in listed.stdout
    made = run(copy, "-m", "advisor", "analyze", str(SAMPLE), "-o", "findings.csv")
    assert made.returncode == 0, made.stderr
    assert (
        (copy / "findings.csv").read_text(encoding="utf-8").startswith("trace,rule,severity,title,cost_ms,saving_ms\n")
    )
