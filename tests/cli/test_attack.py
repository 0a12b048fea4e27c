"""Attacks on the command line that got through once: each case gave way, and must not again.

The cases need no module of the advisor but its command and its builder of traces, so that they run on older versions too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from advisor.cli import main
from advisor.testing import TraceBuilder


def run(folder: Path, *words: str) -> Result:
    with chdir(folder):
        return CliRunner().invoke(main, words)


def said(done: Result) -> str:
    return " ".join((done.stdout + done.stderr).split())


def gate(folder: Path, base: TraceBuilder | Path, now: TraceBuilder | Path, *more: str) -> Result:
    """Judge one trace by the baseline of another."""
    names = []
    for name, made in (("base.json", base), ("now.json", now)):
        names.append(str(made if isinstance(made, Path) else made.write(folder / name)))
    made_baseline = run(folder, "baseline", names[0], "-o", "b.json", "--force", "-q")
    assert made_baseline.exit_code == 0, made_baseline.stderr
    return run(folder, "gate", names[1], "--baseline", "b.json", *more)


Extra = Callable[[TraceBuilder, int], None]


def steps(extra: Extra | None = None, count: int = 21, kernel_us: float = 10_000) -> TraceBuilder:
    """Steps of one kernel that vary by some µs, with something more in some of them."""
    b = TraceBuilder(host_us=0, latency_us=0, memory_gb=16)
    for number in range(count):
        with b.step():
            if extra is not None:
                extra(b, number)
            b.kernel("volta_sgemm_128x64_nn", us=kernel_us + (0, 30, 10, 50, 20, 40)[number % 6])
            b.sync(us=0)
    return b


def idle(nth: int, ms: float, at: Sequence[int] = ()) -> Extra:
    def extra(b: TraceBuilder, number: int) -> None:
        if number in at or (nth and number and number % nth == 0):
            b.idle(ms=ms)

    return extra


# ---- 1: single slow steps


@pytest.mark.parametrize(("nth", "ms"), [(3, 20), (3, 100), (4, 1000)])
def test_slow_steps_now_and_then_do_not_pass_beside_one_of_the_baseline(nth: int, ms: float, tmp_path: Path) -> None:
    done = gate(tmp_path, steps(idle(0, 20, at=[7])), steps(idle(nth, ms)))
    assert done.exit_code in (1, 4), said(done)


@pytest.mark.parametrize(("nth", "count"), [(3, 21), (3, 41), (4, 13), (4, 21), (4, 41)])
def test_steps_that_take_half_as_long_again_now_and_then_do_not_pass(nth: int, count: int, tmp_path: Path) -> None:
    done = gate(tmp_path, steps(count=count, kernel_us=10_200), steps(idle(nth, 5), count, 10_200))
    assert done.exit_code in (1, 4), said(done)


@pytest.mark.parametrize(("slow", "of", "times"), [(2, 10, 10), (5, 20, 10), (4, 20, 3)])
def test_steps_of_several_times_the_length_do_not_pass(slow: int, of: int, times: int, tmp_path: Path) -> None:
    """By the figures of the step alone, without the rule on single long steps."""
    (tmp_path / "advisor.toml").write_text('[gate]\nlevels = { "*/*" = "off" }\n')
    at = [1 + (of // slow) * number for number in range(slow)]
    done = gate(tmp_path, steps(count=of + 1), steps(idle(0, 10.0 * (times - 1), at=at), of + 1))
    assert done.exit_code in (1, 4), said(done)


@pytest.mark.parametrize(("base_us", "now_us"), [(60, 105), (200, 245), (300, 345)])
def test_a_program_of_short_steps_does_not_pass_either(base_us: float, now_us: float, tmp_path: Path) -> None:
    """A floor of 0.05 ms let 0.06 ms become 0.105."""

    def short(us: float) -> TraceBuilder:
        b = TraceBuilder(host_us=0, latency_us=0, memory_gb=16)
        for number in range(12):
            with b.step():
                b.kernel("volta_sgemm_128x64_nn", us=us + (0, 0.6, 0.2, 1.0, 0.4, 0.8)[number % 6])
                b.sync(us=0)
        return b

    (tmp_path / "advisor.toml").write_text('[gate]\nlevels = { "*/*" = "off", kernel_ms = "off" }\n')
    done = gate(tmp_path, short(base_us), short(now_us))
    assert done.exit_code == 1, said(done)
    assert gate(tmp_path, short(base_us), short(base_us + 2)).exit_code == 0  # two ticks of a clock


# ---- 2: counts, bytes and memory that vary


def every_other(what: Callable[[TraceBuilder], None], least: int = 0) -> tuple[Extra, Extra]:
    """So many a step, and three times as many (and two more) in every other one."""

    def some(b: TraceBuilder, _number: int) -> None:
        for _ in range(least):
            what(b)

    def more(b: TraceBuilder, number: int) -> None:
        for _ in range(3 * least + 2 if number % 2 else least):
            what(b)

    return some, more


VARYING: dict[str, tuple[Callable[[TraceBuilder], None], int]] = {
    "sync_count": (lambda b: b.sync(us=0), 1),
    "launch_count": (lambda b: b.kernel("elementwise_kernel", us=1), 20),
    "copied_mb": (lambda b: b.copy("HtoD", nbytes=20_000_000, us=10), 1),
}


@pytest.mark.parametrize("name", VARYING)
def test_a_figure_that_grows_in_every_other_step_does_not_pass(name: str, tmp_path: Path) -> None:
    what, least = VARYING[name]
    base, now = every_other(what, least)
    done = gate(tmp_path, steps(base), steps(now), "-f", "json")
    found = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == name)
    assert done.exit_code in (1, 4), said(done)
    assert (found["level"], found["outcome"]) in (("error", "regression"), ("error", "inconclusive"))


def test_memory_that_two_steps_take_three_times_over_fails(tmp_path: Path) -> None:
    """One step too many is out of memory: the peak counts, not the median."""

    def peak(b: TraceBuilder, number: int, most_mb: int) -> None:
        for megabytes in (1000, most_mb if number in (4, 9) else 1000):
            b.event(
                {
                    "ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event",
                    "args": {
                        "Total Reserved": 4_000_000_000, "Total Allocated": megabytes * 1_000_000, "Bytes": 512,
                        "Addr": 1, "Device Id": 0, "Device Type": 1,
                    },
                }
            )  # fmt: skip

    done = gate(tmp_path, steps(lambda b, n: peak(b, n, 1000)), steps(lambda b, n: peak(b, n, 3000)))
    assert done.exit_code == 1, said(done)
    assert "peak_memory_mb (highest memory allocated on the device): 1,000 → 3,000 MB (+200.0 %)" in said(done)


# ---- 4: tests that share a file of a baseline: see tests/gating/test_gate_ci.py; full disks: tests/test_outputs.py


# ---- 5: credentials of addresses


ADDRESSES = [
    "s3://AKIA:s3cr3t@bucket/x.json",
    "simplecache::http://user:s3cr3t@127.0.0.1:9/x.json",
    "filecache::s3://k:s3cr3t@b/x.json",
    "zip://x.json::http://user:s3cr3t@127.0.0.1:9/x.zip",
    "http://user:pa@s3cr3t@127.0.0.1:9/x.json",
    "http://user:pa/s3cr3t@127.0.0.1:9/x.json",
    "github://o:s3cr3t@r/x",
    "http://127.0.0.1:9/x.json;token=s3cr3t",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_fails_to_open_names_no_credential(address: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    done = run(tmp_path, "analyze", address)
    assert done.exit_code in (2, 3), said(done)
    assert "s3cr3t" not in said(done)


def test_an_address_that_a_library_has_no_words_for_is_no_bug(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    assert run(tmp_path, "analyze", "reference://x").exit_code in (2, 3)


# ---- 6: users, hosts and secrets in what a trace names


PERSONAL = [
    r"\\SEKRITHOST\share\train.py(3): main",
    "/nfs/homes/SEKRIT/train.py(7): step",
    "/Users/SEKRITfirst SEKRITlast/proj/train.py(9): run",
    r"C:\Users\SEKRITfirst SEKRITlast\proj\train.py(9): run",
    *(f"{place}/SEKRIT/train.py(3): f" for place in ("/homes", "/home2", "/nethome", "/ihome", "/u")),
    "read /home/SEKRIT",
    "s3://KEY:SEKRIT@bucket",
    "AWS_SECRET_ACCESS_KEY=SEKRIT",
    "token=SEKRIT",
    "SEKRIT@example.com",
]


def test_no_report_says_whose_the_program_is(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(5):
        with b.step():
            for number, name in enumerate(PERSONAL):
                own = name.replace("SEKRIT", f"SEKRIT{number}x")
                with b.python(own), b.op(own):
                    b.kernel("gemm", us=2000)
                    b.item()
    b.write(tmp_path / "t.json")
    outputs = [word for kind in ("html", "json", "md", "txt") for word in ("-o", f"r.{kind}")]
    assert run(tmp_path, "analyze", "t.json", *outputs).exit_code == 0
    assert run(tmp_path, "export", "t.json", "-o", "e.json").exit_code == 0
    text = "".join((tmp_path / name).read_text() for name in ("r.html", "r.json", "r.md", "r.txt", "e.json"))
    assert [name for number, name in enumerate(PERSONAL) if f"SEKRIT{number}x" in text] == []


# ---- 9: rules and settings


TOML = [
    ("advisor.toml", "x = " + "9" * 6000, "a number has too many digits"),
    ("advisor.toml", "x = " + "[" * 3000, "brackets are nested too deeply"),
    ("advisor.toml", "a." * 20_000 + "a = 1", "a key of more than 64 parts"),
    ("rules/team/a.toml", "x = " + "9" * 6000, "a number has too many digits"),
    ("rules/team/a.toml", "a." * 20_000 + "a = 1", "a key of more than 64 parts"),
]


@pytest.mark.parametrize(("place", "text", "reason"), TOML, ids=lambda value: value[:16])
def test_toml_of_any_kind_is_a_mistake_and_no_bug(place: str, text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "rules" / "team").mkdir(parents=True)
    (tmp_path / place).write_text(text)
    steps(count=2).write(tmp_path / "t.json")
    words = ("analyze", "t.json") if place == "advisor.toml" else ("rules", "check", "rules")
    done = run(tmp_path, *words)
    assert done.exit_code == 2, said(done)
    assert reason in said(done)


def test_a_limit_of_400_digits_is_a_mistake_and_no_bug(tmp_path: Path) -> None:
    steps(count=2).write(tmp_path / "t.json")
    (tmp_path / "advisor.toml").write_text(f'[limits."cpu/gc-pause"]\nshare = {"9" * 400}\n')
    assert run(tmp_path, "analyze", "t.json").exit_code == 2


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device that never ends")
def test_a_rule_that_is_a_device_is_not_read(tmp_path: Path) -> None:
    import resource

    (tmp_path / "rules" / "team").mkdir(parents=True)
    (tmp_path / "rules" / "team" / "a.toml").symlink_to("/dev/zero")
    former = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, former[1]))  # what reads it ends soon, and takes nothing with it
    try:
        done = run(tmp_path, "rules", "check", "rules")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, former)
    assert done.exit_code in (0, 2), said(done)


# ---- 10: assertions on what was not judged


def test_a_count_of_findings_is_unknown_without_the_gpu(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(6):
        with b.step(), b.op("aten::mm"):
            b.call("cudaLaunchKernel", us=900)
    b.write(tmp_path / "t.json")
    (tmp_path / "advisor.toml").write_text('[gate]\nassert = ["findings.high <= 0"]\n')
    done = run(tmp_path, "gate", "t.json")
    assert done.exit_code == 4, said(done)


# ---- 11: the rest


@pytest.mark.parametrize("scheduler", ["tls://127.0.0.1:9", "tcp://user:s3cr3t@127.0.0.1:9"])
def test_a_scheduler_that_is_none_is_a_mistake_and_no_bug(scheduler: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    steps(count=2).write(tmp_path / "t.json")
    done = run(tmp_path, "analyze", "t.json", "--scheduler", scheduler)
    assert done.exit_code == 2, said(done)
    assert "s3cr3t" not in said(done)


def edited(folder: Path, edit: Callable[[dict[str, Any]], None], now: TraceBuilder) -> Result:
    """Judge by a baseline that somebody has edited."""
    assert gate(folder, steps(), steps()).exit_code == 0
    table = json.loads((folder / "b.json").read_text())
    edit(table)
    (folder / "b.json").write_text(json.dumps(table))
    now.write(folder / "now.json")
    return run(folder, "gate", "now.json", "--baseline", "b.json")


def test_a_baseline_with_a_figure_past_all_bounds_is_no_bug(tmp_path: Path) -> None:
    def huge(table: dict[str, Any]) -> None:
        table["metrics"]["step_ms"]["runs"] = [[1e308] * 20]

    assert edited(tmp_path, huge, steps()).exit_code in (2, 4)


def test_a_baseline_of_another_version_without_the_step_does_not_pass(tmp_path: Path) -> None:
    def without(table: dict[str, Any]) -> None:
        table["advisor"] = "0.0.1"
        for name in ("step_ms", "step_mean_ms"):
            table["metrics"].pop(name, None)

    assert edited(tmp_path, without, steps()).exit_code == 4


def test_no_file_holds_a_command_of_a_ci_or_a_formula(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(6):
        with b.step(), b.op("##[error]op"):
            b.kernel("##vso[task.complete]k", us=900)
            b.kernel("=cmd|' /C calc'!A0", us=900)
    b.write(tmp_path / "t.json")
    assert run(tmp_path, "baseline", "t.json", "-o", "b.json").exit_code == 0
    document = run(tmp_path, "analyze", "t.json", "--views", "-f", "json").stdout
    table = run(tmp_path, "query", "t.json", "SELECT name FROM kernels", "-f", "csv").stdout
    assert [mark for mark in ("##vso[", "##[") if mark in document + (tmp_path / "b.json").read_text()] == []
    assert "vso[task.complete]" in document
    assert [line for line in table.splitlines() if line.lstrip('"').startswith("=")] == []


@pytest.mark.skipif(sys.platform == "win32", reason="rights are those of POSIX")
def test_what_the_cache_keeps_can_be_read_by_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "t.json").write_bytes(steps().to_bytes() + b" " * 20_000_000)  # what is less is not worth keeping
    mask = os.umask(0)
    try:
        assert run(tmp_path, "analyze", "t.json", "-q").exit_code == 0
    finally:
        os.umask(mask)
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if path.stat().st_mode & 0o077] == []
