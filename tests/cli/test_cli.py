"""The command line: how little ``--help`` imports, what a mistake says, and where output cannot go."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.paths import ROOT

from advisor.cli import COMMANDS, main
from advisor.testing import TraceBuilder

HEAVY = {"pandas", "numpy", "duckdb", "torch", "jinja2", "isal", "msgspec"}


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


def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path) -> None:
    script = (
        "import advisor.gating.run as loading\n"
        "from advisor.cli import main\n"
        "loading.rules = lambda *_, **_options: (_ for _ in ()).throw(BrokenPipeError())\n"
        "main(['analyze', 'x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_terminal_without_unicode_still_gets_the_report() -> None:
    script = "from advisor.cli.terminal import put\nput('█ → a\\u6c49\\n'.encode())\n"
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, cwd=ROOT, check=False)
    assert done.stdout == b"# > a\\u6c49\n", done.stderr


@pytest.mark.parametrize("redirect", [">&-", ">/dev/full"])
def test_a_closed_or_full_standard_output_is_an_error_not_a_bug(redirect: str) -> None:
    sample = ROOT / "sample_traces" / "article" / "rung7_compile.json.gz"
    command = f"exec {shlex.quote(sys.executable)} -m advisor analyze -q {shlex.quote(str(sample))} {redirect}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert "standard output" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_trace_is_analyzed_without_the_garbage_collector(tmp_path: Path) -> None:
    """Every object of one run is freed by its end; the caller's setting stays."""
    b = TraceBuilder()
    b.kernel("add", us=10)
    b.write(tmp_path / "a.json")
    code = (
        "import gc, sys; from advisor.cli import main; from advisor.engine import run\n"
        "real = run._Run.outcome\n"
        "def outcome(*a):\n    print('collects', gc.isenabled(), file=sys.stderr); return real(*a)\n"
        "run._Run.outcome = outcome\n"
        "try: main(['analyze', '-q', 'a.json'])\nexcept SystemExit: print('then', gc.isenabled(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "collects False" in done.stderr
    assert "then True" in done.stderr


def test_options_may_stand_before_a_trace(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step(), builder.op("aten::mm"):
        builder.kernel("gemm", us=100)
    path = str(builder.write(tmp_path / "trace.json"))
    before = CliRunner().invoke(main, ["-f", "json", path])
    assert before.exit_code == 0
    assert json.loads(before.output) == json.loads(CliRunner().invoke(main, ["analyze", path, "-f", "json"]).output)
    assert CliRunner().invoke(main, ["--nope", "rules"]).exit_code == 2
