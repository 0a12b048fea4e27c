"""The cache of large traces: the same report with it and without it, whatever happens to the trace or to the cache."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from support.paths import ROOT

import advisor
from advisor import rulebook
from advisor.cache import Store, codec, entry, folder, identity, store
from advisor.cli import main
from advisor.reading import stream
from advisor.testing.builder import TraceBuilder
from advisor.trace import Trace

REAL = (
    pytest.param(
        "h100_owlv2_large.json.gz", marks=pytest.mark.study
    ),  # python frames, memory events, kernels of all kinds
    pytest.param("v100_resnet50_workers0.json.gz", marks=pytest.mark.study),  # 2021: stacks as text
    "mi300_compile_triton.json.gz",
    "gpu_events_without_host.json.gz",
    "cpu_only.json.gz",
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, in which small traces are kept too."""
    place = tmp_path / "cache"
    monkeypatch.setenv("ADVISOR_CACHE", str(place))
    monkeypatch.setattr(entry, "LEAST_BYTES", 0)
    yield place
    assert not list(place.glob("begun-*")), "something half written was left behind"


def trace(path: Path, kernel_us: int = 100, name: str = "train.py(3): step") -> Path:
    """Three steps of one kernel each."""
    builder = TraceBuilder()
    for _ in range(3):
        with builder.step(), builder.python(name), builder.op("aten::mm"):
            builder.kernel("volta_sgemm_128x64_nn", us=kernel_us)
            builder.sync()
    return builder.write(path)


def kernel_ns(found: Trace) -> int:
    return int(found.kernels["dur_ns"].sum())


def used(found: Trace) -> bool:
    """True where the columns came from the cache."""
    return found._kept is not None and found._kept._has_columns


def read_and_keep(path: Path) -> Trace:
    found = advisor.read(str(path), cache=True)
    assert found.kernels is not None  # works the host's forest out
    assert found.keep() == ""
    return found


def entries(root: Path) -> list[Path]:
    return sorted((root / "traces").iterdir()) if (root / "traces").exists() else []


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and from then on no trace can be read from its file."""

    def forbid(*_args: Any) -> None:
        raise AssertionError("the file was read")

    return lambda: monkeypatch.setattr(stream, "read", forbid)


# ---- the same as without


@pytest.mark.real
@pytest.mark.parametrize("name", REAL)
def test_reports_are_the_same_to_the_byte(name: str, real: Any, root: Path, unread: Callable[[], None]) -> None:
    path = real(name)
    book = rulebook.load([rulebook.builtin_rules_dir()])

    def report(found: Trace) -> bytes:
        return msgspec.json.encode(advisor.analyze(found, book, views=True, samples=True))

    without = report(advisor.read(path))
    first = advisor.read(path, cache=True)
    assert not used(first)
    assert report(first) == without
    assert first.keep() == ""
    unread()
    second = advisor.read(path, cache=True)
    assert report(second) == without
    assert second._kept is not None
    assert second._kept._has_host, "the forest was worked out again"
    assert len(entries(root)) == 2
    second.keep()
    assert len(entries(root)) == 2


def test_commands_use_it(root: Path, tmp_path: Path, unread: Callable[[], None]) -> None:
    path = str(trace(tmp_path / "t.json"))
    sql = "SELECT count(*) AS n, sum(dur_ns) AS ns FROM kernels"
    first = CliRunner().invoke(main, ["query", path, sql])
    assert first.exit_code == 0, first.output
    assert "300000" in first.stdout
    unread()
    assert CliRunner().invoke(main, ["query", path, sql]).stdout == first.stdout
    for args in (["analyze", path, "-q"], ["compare", path, path, "-q"]):
        result = CliRunner().invoke(main, args)
        assert result.exit_code == 0, result.output
    assert CliRunner().invoke(main, ["query", path, sql, "--no-cache"]).exit_code != 0


# ---- the trace changes


def same_size(path: Path) -> None:
    """The trace again, its kernels as long as before but for a digit."""
    before, facts = path.read_bytes(), path.stat()
    trace(path, 200)
    assert len(path.read_bytes()) == len(before)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def replaced(path: Path) -> None:
    """Another file moved over it."""
    facts = path.stat()
    other = trace(path.with_name("other.json"), 200)
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [same_size, replaced])
@pytest.mark.parametrize("tick", [0, identity._TICK_NS])
def test_a_file_that_changed_is_read_anew(
    change: Callable[[Path], None], tick: int, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the tick, what the file system says is believed at once; with it, the content of so new a file is compared.
    monkeypatch.setattr(identity, "_TICK_NS", tick)
    path = trace(tmp_path / "t.json", 100)
    assert kernel_ns(read_and_keep(path)) == 300_000
    assert used(read_and_keep(path))
    change(path)
    again = advisor.read(str(path), cache=True)
    assert not used(again)
    assert kernel_ns(again) == 600_000
    shutil.copy(trace(tmp_path / "first.json", 100), path)
    assert kernel_ns(read_and_keep(path)) == 300_000


def test_a_change_within_a_tick_of_the_clock_is_seen(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(tmp_path / "t.json", 100)
    facts = identity.facts(str(path))
    assert facts is not None
    monkeypatch.setattr(identity, "facts", lambda _path: facts)  # a file system whose clock stands still
    assert kernel_ns(read_and_keep(path)) == 300_000
    assert used(read_and_keep(path))
    trace(path, 200)
    assert kernel_ns(advisor.read(str(path), cache=True)) == 600_000


def test_what_the_file_system_says_is_believed_when_it_is_old_enough() -> None:
    second = 1_000_000_000
    facts = identity.Facts(1, 2, 3, mtime_ns=5 * second, ctime_ns=10 * second)
    assert not facts.settled(10 * second)
    assert not facts.settled(12 * second)
    assert facts.settled(12 * second + 1)


def test_a_copy_is_known_by_its_content(root: Path, tmp_path: Path, unread: Callable[[], None]) -> None:
    path = trace(tmp_path / "t.json")
    read_and_keep(path)
    moved = shutil.copy(path, tmp_path / "moved.json")
    unread()
    assert kernel_ns(advisor.read(str(moved), cache=True)) == 300_000


def test_a_file_that_changes_while_it_is_read_is_not_kept(root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", 100)
    found = advisor.read(str(path), cache=True)
    trace(path, 200)
    assert found.keep() == ""
    assert not entries(root)


# ---- the cache is damaged


def flipped(file: Path) -> None:
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 1
    file.write_bytes(text)


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [flipped, cut_off, emptied, Path.unlink])
def test_what_is_damaged_is_read_anew_and_mended(damage: Callable[[Path], None], root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    read_and_keep(path)
    for file in entries(root):
        damage(file)
        found = advisor.read(str(path), cache=True)
        assert used(found) == ("-host-" in file.name)
        assert kernel_ns(found) == 300_000
        found.keep()
        again = read_and_keep(path)
        assert used(again), f"{file.name} was not mended"
        assert again._kept is not None
        assert again._kept._has_host, f"{file.name} was not mended"


def test_another_version_reads_anew(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace(tmp_path / "t.json")
    read_and_keep(path)
    package = tmp_path / "advisor"
    shutil.copytree(ROOT / "advisor", package, ignore=shutil.ignore_patterns("__pycache__", "record"))
    code_of, changed = entry._code.__wrapped__, package / "reading" / "columns.py"
    assert code_of(package) == entry._code()
    changed.write_text(changed.read_text() + "# another version\n")
    other = code_of(package)
    assert other != entry._code()
    monkeypatch.setattr(entry, "_code", lambda: other)
    assert not used(advisor.read(str(path), cache=True))
    (package / "timeline" / "calls.py").write_text("# another forest\n")
    assert code_of(package) not in (entry._code(), other), "the forest's code decides too"
    (package / "results" / "version.py").unlink()
    assert code_of(package) is None
    monkeypatch.setattr(entry, "_code", lambda: None)
    assert not used(read_and_keep(path)), "with code that nobody can look at, nothing is kept"


def test_other_libraries_get_a_forest_of_their_own(root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", name="mine/layers.py(7): forward")
    assert read_and_keep(path).kernels["file"].tolist() == ["mine/layers.py"] * 3
    found = advisor.read(str(path), cache=True, libraries=["mine"])
    assert used(found)
    assert found.kernels["file"].isna().all()


def test_two_processes_at_once(root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    script = (
        "import sys, advisor\nfrom advisor.cache import entry\nentry.LEAST_BYTES = 0\n"
        "for _ in range(5):\n"
        "    found = advisor.read(sys.argv[1], cache=True)\n"
        "    assert found.kernels['dur_ns'].sum() == 300_000\n"
        "    assert found.keep() == ''\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", script, str(path)], cwd=ROOT) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert len(entries(root)) == 2
    assert used(read_and_keep(path))


# ---- where nothing can be kept


def analyzed(path: Path) -> Result:
    return CliRunner().invoke(main, ["analyze", str(path), "-q"])


def test_a_folder_that_cannot_be_written_costs_a_note(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(tmp_path / "t.json")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_CACHE", str(tmp_path / "file" / "cache"))
    result = analyzed(path)
    assert result.exit_code == 0
    assert "advisor: note: " in result.stderr
    assert "cannot be written: Not a directory" in result.stderr
    monkeypatch.setenv("ADVISOR_CACHE", "off")
    assert analyzed(path).stdout == result.stdout


def test_a_full_disk_costs_a_note(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    result = analyzed(trace(tmp_path / "t.json"))
    assert result.exit_code == 0
    assert "cannot be written: No space left on device" in result.stderr
    assert not entries(root)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_a_folder_that_others_may_write_is_not_believed(root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    read_and_keep(path)
    root.chmod(0o777)
    found = advisor.read(str(path), cache=True)
    assert not used(found)
    assert "others may write" in found.keep()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_nobody_else_can_read_it(root: Path, tmp_path: Path) -> None:
    read_and_keep(trace(tmp_path / "t.json"))
    assert root.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in root.rglob("*") if file.is_file()} == {0o600}


def test_it_holds_no_home_directories(root: Path, tmp_path: Path) -> None:
    read_and_keep(trace(tmp_path / "t.json", name="/home/alice/work/train.py(3): step"))
    held = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())
    assert b"train.py" in held
    assert b"alice" not in held


def test_what_is_small_is_not_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("ADVISOR_CACHE", str(root))
    assert analyzed(trace(tmp_path / "t.json")).exit_code == 0
    assert not root.exists()


def test_standard_input_and_parts_are_not_kept(root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    result = CliRunner().invoke(main, ["analyze", "-", "-q"], input=path.read_bytes())
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(main, ["analyze", str(path), "-q", "--steps", "1:"])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(main, ["analyze", str(path), "-q", "--no-cache"]).exit_code == 0
    assert not root.exists()


# ---- where it is, and how large


def test_what_was_used_least_recently_goes_first(root: Path, tmp_path: Path) -> None:
    paths = [trace(tmp_path / f"{us}.json", us) for us in (100, 200, 300)]
    for path in paths[:2]:
        read_and_keep(path)
    for at, file in enumerate(entries(root)):
        os.utime(file, (1_000 + at, 1_000 + at))
    read_and_keep(paths[0])  # is the more recent now
    size = sum(file.stat().st_size for file in entries(root))
    found = advisor.read(str(paths[2]), cache=size * 1.2 / 1e9)
    assert found.kernels is not None
    assert found.keep() == ""
    assert [used(advisor.read(str(path), cache=True)) for path in paths] == [True, False, True]


def test_what_a_dead_process_left_is_cleared(root: Path, tmp_path: Path) -> None:
    root.mkdir(mode=0o700)
    half = root / "begun-x"
    half.write_bytes(b"")
    old = root / "begun-y"
    old.mkdir()
    (old / "0.parquet").write_bytes(b"")
    for left in (half, old):
        os.utime(left, (0, 0))
    read_and_keep(trace(tmp_path / "t.json"))
    assert not half.exists()
    assert not old.exists()


def test_entries_of_older_advisors_are_ignored_and_cleared(root: Path, tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    read_and_keep(path)
    for file in entries(root):  # as they were: folders of Parquet, at the very place where an entry is looked for
        file.unlink()
        file.mkdir()
        (file / "contents").write_bytes(b"x" * 100)
        (file / "0.parquet").write_bytes(b"PAR1")
    older = root / "traces" / "1a-abc-123-columns"
    older.mkdir()
    found = advisor.read(str(path), cache=True)
    assert not used(found)
    assert kernel_ns(found) == 300_000
    assert found.keep().startswith(f"{root} cannot be written")
    Store(root, 1 << 30).bound()
    assert not entries(root)
    read_and_keep(path)
    assert used(read_and_keep(path))


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADVISOR_CACHE", str(tmp_path))
    assert folder() == tmp_path
    for word in ("off", "0", "", "None"):
        monkeypatch.setenv("ADVISOR_CACHE", word)
        assert folder() is None
    monkeypatch.delenv("ADVISOR_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert folder() == tmp_path / "xdg" / "trace-advisor"


def test_a_project_can_bound_it_or_do_without(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace(tmp_path / "t.json")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "advisor.toml").write_text("cache_gb = 0\n")
    assert analyzed(path).exit_code == 0
    assert not root.exists()
    (tmp_path / "advisor.toml").write_text('cache_gb = "4 GB"\n')
    result = analyzed(path)
    assert result.exit_code == 2
    assert "cache_gb: must be a number of GB" in result.stderr
    (tmp_path / "advisor.toml").write_text("cache_gb = 1e308\n")
    assert "cache_gb: must be a number of GB" in analyzed(path).stderr


def test_paths_with_odd_characters_are_paths(tmp_path: Path) -> None:
    place = Store(tmp_path / "a [1]*'é", 1 << 30)
    recorded = stream.read(str(trace(tmp_path / "t.json")))
    place.save("x", entry.of_recorded(recorded))
    found = place.load("x")
    assert found is not None
    assert codec.decode(found, stream.Recorded, compressed=True).names == recorded.names


def test_a_file_of_another_size_is_not_in_the_cache(root: Path, tmp_path: Path) -> None:
    first, other = trace(tmp_path / "a.json.gz"), trace(tmp_path / "b.json.gz", name="another.py(3): function")
    assert not store.may_hold(str(first))
    read_and_keep(first)
    assert store.may_hold(str(first))
    assert not store.may_hold(str(other))
    assert not store.may_hold(str(tmp_path))


def test_nothing_is_in_a_cache_that_is_off(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trace(tmp_path / "a.json.gz")
    read_and_keep(path)
    monkeypatch.setenv("ADVISOR_CACHE", "off")
    assert not store.may_hold(str(path))
