"""Outputs are whole or not there, updates of one file lose nothing, and inputs are regular files of a bounded size."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
from support.command import command
from support.paths import ROOT

import advisor
from advisor import files
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating.update import update
from advisor.results.analysis import Analysis

WORKERS = str(ROOT / "sample_traces" / "gate" / "workers.json.gz")


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return advisor.analyze(advisor.read(WORKERS), samples=True)


@contextmanager
def full_disk(most_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond *most_bytes*: writing more fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep half a module
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", WORKERS, "--no-cache", "-o", "old.html", "--force"),
        ("analyze", WORKERS, "--no-cache", "-o", "old.json", "--force"),
        ("export", WORKERS, "--no-cache", "-o", "old.json", "--force"),
        ("export", WORKERS, "--no-cache", "-o", "old.json.gz", "--force"),
        ("baseline", WORKERS, "-o", "old.json", "--force"),
        ("compare", WORKERS, WORKERS, "-o", "old.json", "--force"),
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_on_a_full_disk_the_old_file_stays(words: tuple[str, ...], tmp_path: Path) -> None:
    old = tmp_path / words[words.index("-o") + 1]
    old.write_bytes(b"the old report")
    with full_disk(1000):
        done = command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"advisor: error: {old.name}: File too large"
    assert old.read_bytes() == b"the old report"
    assert list(tmp_path.iterdir()) == [old]


def interrupted(file: BinaryIO) -> None:
    file.write(b"half of the")
    raise KeyboardInterrupt


def test_what_is_interrupted_leaves_the_old_file(tmp_path: Path) -> None:
    old, new = tmp_path / "old.html", tmp_path / "new.html"
    old.write_bytes(b"old")
    for path in (old, new):
        with pytest.raises(KeyboardInterrupt), files.replacing(path) as file:
            interrupted(file)
    assert (old.read_bytes(), list(tmp_path.iterdir())) == (b"old", [old])


def test_a_file_is_never_seen_half(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    with files.replacing(path) as file:
        file.write(b"half of the")
        file.flush()
        assert path.read_bytes() == b"old"
        file.write(b" new")
    assert path.read_bytes() == b"half of the new"


def test_a_file_keeps_its_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    shared, link, new = tmp_path / "shared", tmp_path / "link", tmp_path / "new"
    shared.write_bytes(b"old")
    shared.chmod(0o664)
    link.symlink_to(shared)
    mask = os.umask(0o027)
    try:
        files.write(link, b"new")
        files.write(new, b"new")
    finally:
        os.umask(mask)
    assert link.is_symlink()
    assert shared.read_bytes() == b"new"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (shared, new)] == [0o664, 0o640]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the administrator may write to every file")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_device_is_written_as_it_is() -> None:
    files.write("/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_concurrent_updates_of_one_baseline_lose_nothing(analysis: Analysis, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: update(path, [analysis], f"update {number}"), range(50)))
    reasons = [change["reason"] for change in json.loads(path.read_bytes())["history"]]
    assert sorted(reasons) == sorted(f"update {number}" for number in range(50))
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_that_stays_is_named(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with files.alone(path):
        (lock,) = tmp_path.iterdir()
        with pytest.raises(UsageError, match=f"another process updates it.*remove {lock}"), files.alone(path, 0.05):
            pass
    assert list(tmp_path.iterdir()) == []


HOLDER = """
import sys, time
from advisor import files
with files.alone(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_keeps_nobody_out(analysis: Analysis, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="another process updates it"), files.alone(path, 0.05):
            pass
        holder.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 1
    with files.alone(path, 0.0), pytest.raises(UsageError, match="another process updates it"), files.alone(path, 0.05):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_never_signed_is_taken_over_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / f"{files.BEGUN}b.json.lock"
    lock.touch()
    with pytest.raises(UsageError, match="another process updates it"), files.alone(tmp_path / "b.json", 0.05):
        pass
    monkeypatch.setattr(files, "_UNSIGNED_S", 0.02)
    with files.alone(tmp_path / "b.json", 0.5):
        assert lock.read_bytes() != b""
    assert not lock.exists()


def test_the_lock_of_another_machine_is_left(tmp_path: Path) -> None:
    lock = tmp_path / f"{files.BEGUN}b.json.lock"
    lock.write_bytes(b"0" * 32)
    with pytest.raises(UsageError, match=f"remove {lock}"), files.alone(tmp_path / "b.json", 0.05):
        pass
    assert lock.read_bytes() == b"0" * 32


def test_killed_holders_never_let_two_in(tmp_path: Path) -> None:
    """Each of many that find the file of a killed one wants to take it over: a count that two raise at once loses one."""
    (tmp_path / f"{files.BEGUN}count.lock").write_bytes(files._machine())
    count = tmp_path / "count"
    count.write_text("0")

    def raised(number: int) -> None:
        with files.alone(count):
            value = int(count.read_text())
            count.write_text(str(value + 1))
        if number % 10 == 0:  # as if this one had been killed: its file stays
            left = tmp_path / str(number)
            left.write_bytes(files._machine())
            with contextlib.suppress(FileExistsError):
                os.link(left, tmp_path / f"{files.BEGUN}count.lock")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(raised, range(100)))
    assert count.read_text() == "100"


def test_no_device_no_pipe_and_nothing_large_is_read(tmp_path: Path) -> None:
    pipe, large, endless = tmp_path / "pipe", tmp_path / "large", tmp_path / "endless"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    with large.open("wb") as file:
        file.truncate((1 << 20) + 1)
    for path, reason in ((pipe, "is no file"), (endless, "is no file"), (large, "is larger than 1 MB")):
        with pytest.raises(OSError, match=reason):
            files.read(path, 1 << 20)
    with large.open("r+b") as file:
        file.truncate(1 << 20)
    assert len(files.read(large, 1 << 20)) == 1 << 20


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"schema_version": 1, "unknown": ' + b"[" * 100_000, "is no baseline of advisor"),
        (b'{"schema_version": ' + b"9" * 5_000 + b"}", "is no baseline of advisor"),
        (b"\xff\xfe{}", "is no baseline of advisor"),
    ],
    ids=["brackets", "digits", "encoding"],
)
def test_a_baseline_of_anything_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        baseline.load(path)


@pytest.mark.parametrize("key", ["metrics.step_ms", "rules.loader/cheap", "parts.kernel_ms", "steps", "work.weights"])
def test_a_baseline_with_a_figure_that_overflows_is_refused(key: str, analysis: Analysis, tmp_path: Path) -> None:
    table = json.loads(baseline.dump(baseline.make([analysis])))
    group, _, name = key.partition(".")
    if group == "steps":
        table["steps"] = [10**30]
    elif group == "work":
        table["work"] = {"weights": 1e308}
    elif group == "parts":
        table["parts"][name] = {"a": 1e308}
    else:
        table[group].setdefault(name, {"unit": "ms", "verdicts": ["fires"], "runs": []})["runs"] = [[1e308] * 7]
    path = tmp_path / "b.json"
    path.write_text(json.dumps(table))
    with pytest.raises(UsageError, match=f"{key} holds 1e\\+30"):
        baseline.load(path)
