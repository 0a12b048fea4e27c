"""``%advisor`` in a notebook: it analyzes what a line names, and says what it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

import advisor
from advisor.cli import magic
from advisor.errors import UsageError
from advisor.results.analysis import Analysis

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"


class Shell:
    """A stand-in for IPython, which keeps what is registered."""

    def __init__(self, **names: Any) -> None:
        self.user_ns = names
        self.magics: dict[tuple[str, str], Any] = {}

    def register_magic_function(self, func: Any, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind, magic_name] = func


def test_the_extension_registers_one_line_magic() -> None:
    shell = Shell(trace=advisor.read(str(SAMPLE)))
    advisor.load_ipython_extension(shell)  # what %load_ext advisor calls
    (name,) = shell.magics
    assert name == ("line", "advisor")
    found = shell.magics[name](f"{SAMPLE} --only 'data-loading/*'")
    assert isinstance(found, Analysis)
    assert {finding.category for finding in found.findings} == {"data-loading"}
    assert shell.magics[name]("trace --only=data-loading/*").findings == found.findings


def test_a_line_that_names_no_trace_is_told_and_not_raised(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    magic.load_ipython_extension(shell)
    assert shell.magics["line", "advisor"]("none.json.gz") is None
    assert "advisor: error: none.json.gz: no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "one trace is needed, 0 are named"),
        ("a.json b.json", "one trace is needed, 2 are named"),
        ("a.json --html", "no option --html here"),
        ("'a.json", "No closing quotation"),
        ("made", "made is an analysis already"),
    ],
)
def test_a_line_that_makes_no_sense(line: str, message: str) -> None:
    made = advisor.analyze(SAMPLE, only=["data-loading/*"], views=False)
    with pytest.raises(UsageError, match=message):
        magic.run(line, {"made": made})


def test_a_path_may_stand_in_a_variable() -> None:
    path = Path(SAMPLE)
    assert magic.run("path", {"path": path}).trace.path == str(SAMPLE)
