"""Limits and interruptions: what ends a command early, what is refused with a reason, and what no reader of a file acts on."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from support.command import command

from advisor import cli, files
from advisor.cache import Store
from advisor.config import load
from advisor.errors import RuleError, UsageError
from advisor.frames.devices import plugin_window
from advisor.gating import baseline
from advisor.replay import threads
from advisor.report.rows import show
from advisor.results.encoding import to_json
from advisor.rulebook import load as load_rules
from advisor.testing import TraceBuilder
from advisor.timeline.program.names import names_of
from advisor.trace import read


def test_ctrl_c_ends_a_query(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        b.kernel("gemm", us=100)
    b.write(tmp_path / "t.json")
    heavy = "SELECT sum((a.range * b.range) % 7) FROM range(1000000) a, range(1000000) b, kernels"
    handed = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
    # Where a shell begins this run in the background, Ctrl-C is ignored, and the query would not end before its result.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    handed.start()
    try:
        done = command("query", "t.json", heavy, cwd=tmp_path)
    finally:
        handed.cancel()
        signal.signal(signal.SIGINT, usual)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


BROKEN = [
    ("x = " + "9" * 6000, "a number has too many digits"),
    ("x = " + "[" * 3000, "brackets are nested too deeply"),
    ("[" * 3000, "not valid TOML"),
    ("a." * 20_000 + "a = 1", "a key of more than 64 parts"),
    ("[" + "'x' . " * 20_000 + "a]", "a key of more than 64 parts"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN, ids=["digits", "brackets", "tables", "dots", "quoted dots"])
def test_toml_of_any_kind_is_refused_with_its_reason(text: str, reason: str, tmp_path: Path) -> None:
    settings, rule = tmp_path / "advisor.toml", tmp_path / "rules" / "team" / "a.toml"
    rule.parent.mkdir(parents=True)
    settings.write_text(text)
    rule.write_text(text)
    with pytest.raises(UsageError, match=f"advisor.toml: .*{reason}"):
        load(settings)
    with pytest.raises(RuleError, match=f"a.toml: .*{reason}"):
        load_rules([tmp_path / "rules"])


def test_a_problem_of_a_rule_quotes_what_it_read_in_one_short_line(tmp_path: Path) -> None:
    """Found by the fuzzer: a key with line breaks made two problems of one, and one of kilobytes filled the screen."""
    rule = tmp_path / "rules" / "team" / "a.toml"
    rule.parent.mkdir(parents=True)
    rule.write_text(f'"one\\n  two: fine\\u001b[2J" = 1\n"{"void " * 2000}" = 2\n')
    with pytest.raises(RuleError) as caught:
        load_rules([tmp_path / "rules"])
    lines = str(caught.value).split("\n")
    assert len(lines) == 1 + len(caught.value.problems)
    assert f'  {rule}: "one\\n  two: fine\\x1b[2J": no such key' in lines[1]
    assert "void void" in lines[2]
    assert max(len(line) for line in lines) < len(str(rule)) + 600


@pytest.mark.parametrize(
    "text",
    [f'[limits."cpu/gc-pause"]\nshare = {"9" * 400}', f"cache_gb = {'9' * 400}", "[gate.tolerance]\nstep_ms = 1e999"],
    ids=["limit", "cache", "tolerance"],
)
def test_a_setting_that_no_number_holds_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "advisor.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="must be a"):
        load(path)


def test_settings_are_regular_files_of_a_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "advisor.toml"
    path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="is no file"):
        load(path)
    path.unlink()
    path.write_text('only = ["' + "a" * (1 << 20) + '"]')
    with pytest.raises(UsageError, match="is larger than 1 MB"):
        load(path)


def test_a_recorded_script_may_close_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("closing")
    def closing() -> int:
        sys.stdout.close()
        return 0

    monkeypatch.setattr(cli.main, "get_command", lambda *_: closing)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with pytest.raises(SystemExit) as left:
        cli.main(["record"])
    assert left.value.code == 0


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)"])
def test_no_cell_is_a_formula(text: str) -> None:
    names, row = list(csv.reader(io.StringIO(show([text, "b", "c"], [(text, -2.5, None)], "csv", 80))))
    assert names == [f"'{text}", "b", "c"]
    assert row == [f"'{text}", "-2.5", ""]


@pytest.mark.parametrize(
    "text", ["##vso[task.setvariable variable=x]y", "##[error]x", "a ##VSO[task.complete]", "###[group]"]
)
def test_no_json_holds_a_command_of_a_ci(text: str) -> None:
    analysis, rows = to_json({"name": text}).decode(), show(["name"], [(text,)], "json", 80)
    for made, parsed in ((analysis, json.loads(analysis)), (rows, json.loads(rows)[0])):
        assert "##[" not in made
        assert "##vso[" not in made.lower()
        assert parsed == {"name": text}


def test_a_baseline_and_an_export_hold_no_command_of_a_ci(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(6):
        with b.step(), b.op("##[error]op"):
            b.kernel("##vso[task.complete]k", us=900)
    b.write(tmp_path / "t.json")
    assert command("baseline", "t.json", "-o", "b.json", cwd=tmp_path).returncode == 0
    assert command("export", "t.json", "-o", "e.json", cwd=tmp_path).returncode == 0
    for name in ("b.json", "e.json"):
        text = (tmp_path / name).read_text()
        assert "vso[task.complete]" in text
        assert "##" not in text
    assert baseline.load(tmp_path / "b.json").steps == [5]


def test_what_the_cache_keeps_is_nobody_else_s(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        store = Store(tmp_path / "cache", 1 << 20)
        store.save("entry", b"data")
    finally:
        os.umask(mask)
    found = {path.relative_to(tmp_path).as_posix(): path for path in (tmp_path / "cache").rglob("*")}
    rights = {name: stat.S_IMODE(path.stat().st_mode) for name, path in found.items()}
    assert rights == {"cache/traces": 0o700, "cache/traces/entry": 0o600}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_names_of_steps_are_looked_at_once(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(5):
        with b.step(), b.annotation("forward"):
            b.kernel("gemm", us=100)
    context = read(str(b.write(tmp_path / "t.json"))).context
    assert sorted(names_of(context).annotations) == ["ProfilerStep#0", "forward"]


def test_work_of_any_step_counts_to_the_plugin_s_window(tmp_path: Path) -> None:
    """Of three steps of 1 ms on the host, the second launches work that ends 4 ms later; what is launched between counts not."""
    b = TraceBuilder()
    for number in range(3):
        with b.step():
            b.kernel("gemm", us=5_000 if number == 1 else 10)
            b.seek((number + 1) * 1_000)
    b.kernel("after", us=9_000)
    context = read(str(b.write(tmp_path / "t.json"))).context
    low, high = plugin_window(context)
    work = context.recording.work
    assert low == context.recording.marked[0].start
    assert high == int(work.end[2]) == int(work.end[:3].max())


def at_once(count: int) -> TraceBuilder:
    """A step in which *count* threads wait for the device at the same time."""
    b = TraceBuilder()
    with b.step():
        b.kernel("gemm", us=5_000)
        for number in range(count):
            with b.thread(1000 + number, join=False):
                b.sync()
    return b


def test_threads_cost_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many threads that run at once is held against a few lines only, not against all the others."""
    looked = 0

    def counted(*given: Any) -> Any:
        nonlocal looked
        looked += 1
        return covered(*given)

    covered = threads.covered
    monkeypatch.setattr(threads, "covered", counted)
    context = read(str(at_once(100).write(tmp_path / "t.json"))).context
    host = context.recording.host
    nodes = np.flatnonzero(host.group == threads.RUNTIME)
    line, _ = threads.lines_of(context, nodes, host.start[nodes])
    assert len(np.unique(line)) == 100  # the main thread only launches: the first that waits is of its line
    assert looked <= 16 * 100


def test_a_line_of_many_dots_that_is_no_key_is_read() -> None:
    dots = "1.5, " * 100
    assert files.toml(f"why = '''\n{dots}\n'''\nb.c = 1") == {"why": f"{dots}\n", "b": {"c": 1}}
