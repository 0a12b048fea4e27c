"""A new frame is one file and one line, a new rule two files; claims, replay, timeline and evidence follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.extending import patched, run, touched

from advisor.testing import TraceBuilder

_ANALYZE = """
import sys
import advisor
analysis = advisor.analyze(advisor.read(sys.argv[1]), views=True, only=["kernels/long-kernel"])
sys.stdout.write(analysis.to_json().decode())
"""

_CHECK_AND_TEST = """
import shutil, sys
from pathlib import Path
from click.testing import CliRunner
from advisor.cli import main
print(CliRunner().invoke(main, ["rules", "check", "rules"]).output)
rule = Path("rules", sys.argv[1])
alone = Path("alone", rule.parent.name)
alone.mkdir(parents=True)
for suffix in (".toml", ".proof.py"):
    shutil.move(rule.with_suffix(suffix), alone)
print(CliRunner().invoke(main, ["rules", "test", "alone"]).output)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the frame `long_kernels` and a rule over it."""
    return patched(tmp_path_factory.mktemp("extended"), "frame", "frame_rule")


@pytest.fixture(scope="module")
def analysis(extended: Path) -> Any:
    """Four steps: a kernel of 2 ms from 8 us on, and one of 6 ms on another stream from 14 us on.

    A launch takes 6 us and reaches the GPU 2 us later, so a step lasts from 0 to 6,014 us, when the host stops to wait.
    """
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=2000, stream=7)
            b.kernel("slow_scan_kernel", us=6000, stream=8)
            b.sync("cudaDeviceSynchronize")
    path = b.write(extended / "trace.json")
    done = run(extended, "-c", _ANALYZE, str(path))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_frame_is_one_file_and_one_line() -> None:
    lines = touched("frame")
    assert set(lines) == {"advisor/frames/__init__.py", "advisor/frames/long_kernels.py"}
    assert lines["advisor/frames/__init__.py"] == (1, 0)


@pytest.mark.parametrize(
    ("patch", "rule"), [("rule", "transfer/slow-device-copy"), ("frame_rule", "kernels/long-kernel")]
)
def test_a_rule_is_a_file_and_its_proof(patch: str, rule: str) -> None:
    assert set(touched(patch)) == {f"rules/{rule}.toml", f"rules/{rule}.proof.py"}


@pytest.mark.parametrize(
    ("patches", "rule"),
    [(("rule",), "transfer/slow-device-copy"), (("frame", "frame_rule"), "kernels/long-kernel")],
)
def test_the_new_rule_holds(tmp_path: Path, patches: tuple[str, ...], rule: str) -> None:
    folder = patched(tmp_path, *patches)
    count = len(list((folder / "rules").glob("*/*.toml")))
    done = run(folder, "-c", _CHECK_AND_TEST, rule)
    assert done.stdout.startswith(f"{count} rules, no problem\n"), done.stdout + done.stderr
    assert "1 rule, 5 cases, 0 failed" in done.stdout, done.stdout + done.stderr


def test_the_cost_is_the_time_that_the_rows_own(analysis: Any) -> None:
    # Until 2,008 us the other kernel owns the device: of 14 to 6,014 us 4,006 us are left, of a step of 6,014 us.
    (finding,) = analysis["findings"]
    assert (finding["rule"], finding["occurrences"]) == ("kernels/long-kernel", 4)
    assert finding["cost_ms"] == pytest.approx(4.006)
    assert finding["cost_share"] == pytest.approx(4.006 / 6.014, abs=1e-3)
    assert finding["evidence"]["columns"] == ["name", "count", "time_ms", "cost_ms"]
    assert finding["evidence"]["rows"] == [["slow_scan_kernel", 4, 24.0, pytest.approx(4 * 4.006, abs=1e-3)]]


def test_the_replay_prices_it(analysis: Any) -> None:
    # Twice as fast, the kernel ends at 3,014 us, behind the other one: the step is 3 ms shorter.
    (finding,) = analysis["findings"]
    saving = finding["saving"]
    assert (saving["low_ms"], saving["high_ms"]) == (pytest.approx(3.0, abs=0.01), pytest.approx(3.0, abs=0.01))
    assert "replay" in saving["basis"]


def test_the_timeline_marks_its_rows(analysis: Any) -> None:
    timeline = analysis["views"]["timeline"]
    assert timeline["rules"] == ["kernels/long-kernel"]
    marked = [at for at, finding in enumerate(timeline["finding"]) if finding == 0]
    assert [timeline["names"][timeline["name"][at]] for at in marked] == ["slow_scan_kernel"]
    assert [timeline["dur"][at] for at in marked] == [6_000_000]


def test_a_frame_that_does_not_say_what_it_owns_is_not_imported(tmp_path: Path) -> None:
    folder = patched(tmp_path, "frame", "frame_rule")
    path = folder / "advisor" / "frames" / "long_kernels.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("    owns=owns_work(kernels),\n", ""), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text
    done = run(folder, "-c", "import advisor.frames.long_kernels")
    assert done.returncode == 1
    assert "TypeError: the frame 'long_kernels' is neither timeless nor an owner of time: give owns=" in done.stderr
    # No verdict either: a forgotten declaration must not read as a rule that passes.
    TraceBuilder().write(folder / "trace.json")
    analyzed = run(folder, "-m", "advisor", "analyze", "trace.json")
    assert analyzed.returncode != 0
    assert "long_kernels" in analyzed.stderr
