"""The store: nothing that was added is lost, whoever writes, merges or dies at the same time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.histories import FIRST_MS, filled, run_of

from advisor.errors import UsageError
from advisor.gating.history import store as module
from advisor.gating.history.record import add, unpack
from advisor.gating.history.store import Entry, Store


def _entry(number: int, commit: str = "c") -> Entry:
    return Entry(FIRST_MS + number, f"{commit}{number}", "main", "s", "1", 1, 5, ["step_ms"], [float(number)], b"x")


def test_runs_come_back_in_the_order_of_their_time(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "new" / "store"))
    for number in (3, 1, 2):
        store.add(_entry(number))
    runs = store.runs()
    assert runs.commits == ["c1", "c2", "c3"]
    assert runs.names == ["step_ms"]
    assert runs.figures[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_a_figure_that_a_run_lacks_is_missing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.add(_entry(1))
    store.add(_entry(2)._replace(names=["loader_ms", "step_ms"], figures=[7.0, 2.0]))
    runs = store.runs()
    assert runs.names == ["loader_ms", "step_ms"]
    assert str(runs.figures.tolist()) == "[[nan, 1.0], [7.0, 2.0]]"


def test_merged_files_hold_all_runs_and_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERGED", 4)
    store = Store(str(tmp_path))
    for number in range(22):
        store.add(_entry(number))
    assert store.runs().commits == [f"c{number}" for number in range(22)]
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["0", "0", "1", "2"]


def test_a_merge_that_was_cut_short_counts_no_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERGED", 4)
    monkeypatch.setattr(Store, "_remove", lambda _self, _names: None)
    store = Store(str(tmp_path))
    for number in range(4):
        store.add(_entry(number))
    assert len(list(tmp_path.iterdir())) == 5
    assert store.runs().commits == ["c0", "c1", "c2", "c3"]


def test_a_file_that_a_merge_takes_away_is_found_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(str(tmp_path), [1.0, 2.0])
    names = Store._list
    stale = [*names(store), "0-1700000000000-0123456789abcdef.parquet"]
    answers = [stale]
    monkeypatch.setattr(Store, "_list", lambda self: answers.pop() if answers else names(self))
    assert store.runs().commits == ["c0", "c1"]


def _add_many(folder: str, writer: int, count: int) -> None:
    module.MERGED = 8
    store = Store(folder)
    for number in range(count):
        store.add(_entry(writer * 1000 + number))


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_many, args=(str(tmp_path), writer, 15)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sorted(Store(str(tmp_path)).runs().commits) == sorted(
        f"c{writer * 1000 + number}" for writer in range(3) for number in range(15)
    )


_ENDLESS = """
import sys
from support.histories import run_of, FIRST_MS
from advisor.gating.history import store
store.MERGED = 4
kept = store.Store(sys.argv[1])
for number in range(10_000):
    kept.add(store.Entry(FIRST_MS + number, f"c{number}", "main", "s", "1", 1, 5, ["step_ms"], [1.0], b"x"))
    print(number, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_a_writer_that_is_killed_loses_nothing_that_it_had_added(tmp_path: Path) -> None:
    kept: set[str] = set()
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        path = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parents[3])])
        process = subprocess.Popen(
            [sys.executable, "-c", _ENDLESS, str(folder)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5 + attempt)]
        time.sleep(0.007 * attempt)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().splitlines()
        process.stdout.close()
        process.wait()
        added = {f"c{line.strip()}" for line in [*lines, *rest] if line.strip()}
        kept = set(Store(str(folder)).runs().commits)
        assert added <= kept
        assert len(kept) <= len(added) + 1


def test_a_damaged_file_is_named_as_what_cannot_be_read(tmp_path: Path) -> None:
    store = filled(str(tmp_path), [1.0])
    (tmp_path / "0-1700000000000-0123456789abcdef.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(UsageError, match="cannot be read"):
        store.runs()


def test_an_empty_store_says_how_to_add_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no runs\. Add one: advisor history add"):
        Store(str(tmp_path / "none")).runs()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.parquet").write_text("mine")
    store = filled(str(tmp_path), [1.0])
    assert store.runs().commits == ["c0"]
    assert (tmp_path / "notes.parquet").read_text() == "mine"


def test_what_a_run_was_is_kept_whole(tmp_path: Path) -> None:
    store = filled(str(tmp_path), [4.5])
    (number,) = store.runs().ids
    assert unpack(store.baselines([number])[number]).metrics == run_of(4.5).metrics


def test_names_with_quotes_are_data(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "it's a 'store'"))
    add(store, run_of(1.0), "x'); DROP TABLE runs; --", 'feature/"quoted"', FIRST_MS)
    runs = store.runs()
    assert (runs.commits, runs.branches) == (["x'); DROP TABLE runs; --"], ['feature/"quoted"'])


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x1b[31m", "x" * 301])
def test_names_that_no_commit_has_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--commit"):
        add(Store(str(tmp_path)), run_of(1.0), name, "main", FIRST_MS)


def test_a_store_elsewhere(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    folder = f"memory://{tmp_path.name}-history"
    filled(folder, [1.0, 2.0])
    assert Store(folder).runs().commits == ["c0", "c1"]
    assert len(fsspec.filesystem("memory").ls(f"/{tmp_path.name}-history")) == 2
