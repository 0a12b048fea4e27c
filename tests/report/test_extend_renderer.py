"""A format of one's own is one file and one line: applied as a patch, commands list it, pick it by suffix and write it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support.extending import ROOT, commands, patched, touched

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the format ``csv``, which its command has written by name and by suffix."""
    folder = patched(tmp_path_factory.mktemp("renderer"), "renderer")
    analyze = ["analyze", str(SAMPLE)]
    named = [*analyze, "-f", "csv", "-o", "a.csv", "-f", "json", "-o", "a.json"]
    for done in commands(folder, named, [*analyze, "-o", "findings.csv"], ["analyze", "--help"]):
        assert done.returncode == 0, done.stderr
    (folder / "help.txt").write_text(done.stdout, encoding="utf-8")
    return folder


def test_a_renderer_is_one_file_and_one_line() -> None:
    files = touched("renderer")
    assert files.pop("advisor/report/__init__.py") == (1, 0)
    assert list(files) == ["advisor/report/csv.py"]


def test_the_new_format_says_what_the_json_says(copy: Path) -> None:
    findings = json.loads((copy / "a.json").read_text(encoding="utf-8"))["findings"]
    rows = list(csv.DictReader(io.StringIO((copy / "a.csv").read_text(encoding="utf-8"))))
    assert len(rows) == len(findings) > 3
    for row, finding in zip(rows, findings, strict=True):
        assert (row["trace"], row["rule"], row["title"]) == (str(SAMPLE), finding["rule"], finding["title"])
        assert float(row["cost_ms"]) == finding["cost_ms"]
        saving = finding["saving"]
        assert row["saving_ms"] == (str(saving["high_ms"]) if saving else "")


def test_commands_know_it_by_name_and_by_suffix(copy: Path) -> None:
    assert "csv" in (copy / "help.txt").read_text(encoding="utf-8")
    assert (
        (copy / "findings.csv").read_text(encoding="utf-8").startswith("trace,rule,severity,title,cost_ms,saving_ms\n")
    )
