"""The package as its users meet it: types of the public names, and one place for the version."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.paths import ROOT

import advisor
from advisor.results.version import __version__

PROGRAM = """
import advisor

trace = advisor.read("trace.json.gz")
analysis = advisor.analyze(trace)
reveal_type(trace)
reveal_type(analysis)
reveal_type(analysis.findings[0].saving)
reveal_type(advisor.__version__)
"""


@pytest.mark.study
def test_a_users_type_checker_sees_the_public_names(tmp_path: Path) -> None:
    """On PYTHONPATH, as in site-packages, mypy reads the annotations of a package with py.typed only."""
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    revealed = [line.split('"')[1] for line in found.stdout.splitlines() if "Revealed type" in line]
    assert revealed == [
        "advisor.trace.Trace",
        "advisor.results.analysis.Analysis",
        "advisor.results.analysis.Saving | None",
        "str",
    ], found.stdout + found.stderr
    assert found.returncode == 0, found.stdout


def test_the_marker_of_types_is_in_the_package() -> None:
    assert (ROOT / "advisor" / "py.typed").is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["advisor"]  # the whole folder


def test_the_version_stands_in_one_place() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"]
    assert settings["tool"]["hatch"]["version"]["path"] == "advisor/results/version.py"
    assert advisor.__version__ == __version__
    said = [path for path in (ROOT / "advisor").rglob("*.py") if f'"{__version__}"' in path.read_text(encoding="utf-8")]
    assert said == [ROOT / "advisor" / "results" / "version.py"]
