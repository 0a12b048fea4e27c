"""Exports of Nsight Systems: the sums that the file says, what older schemas lack, damage, and hostile databases."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from random import Random

import pytest
from support.exports import STEPS, nsys

import advisor
from advisor.errors import NotATrace, TraceError
from advisor.reading import stream


def test_the_sums_are_those_of_the_file(tmp_path: Path) -> None:
    path = nsys(tmp_path / "x.sqlite")
    recorded = stream.read(path)
    for group, name in (
        ("kernel", "KERNEL"),
        ("copy", "MEMCPY"),
        ("memset", "MEMSET"),
        ("runtime", "RUNTIME"),
        ("device_sync", "SYNCHRONIZATION"),
    ):
        with sqlite3.connect(path) as db:
            count, total = db.execute(f"SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_{name}").fetchone()
        assert (len(recorded.tables[group]["ts"]), int(recorded.tables[group]["dur"].sum())) == (count, total)
    kernel = recorded.tables["kernel"]
    assert recorded.names[kernel["name"][0]] == "void sgemm<float>()"
    assert [recorded.raws[code] for code in (kernel["grid"][0], kernel["block"][0])] == [b"[108, 2, 1]", b"[256, 1, 1]"]
    assert (int(kernel["registers"][0]), int(kernel["shared"][0]), int(kernel["stream"][0])) == (32, 48 + 1024, 7)
    assert recorded.names[recorded.tables["copy"]["name"][0]] == "Memcpy HtoD (Pageable -> Device)"
    assert int(recorded.tables["copy"]["bytes"].sum()) == STEPS * 4096
    assert {recorded.names[code] for code in recorded.tables["runtime"]["name"]} == {
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
        "cuLaunchKernel",
    }
    assert {recorded.names[code] for code in recorded.tables["op"]["name"]} == {"aten::mm"}
    assert recorded.metadata.devices[0].name == "NVIDIA A100-SXM4-80GB"


def test_the_report_says_the_steps_the_shares_and_what_is_not_recorded(tmp_path: Path) -> None:
    analysis = advisor.analyze(advisor.read(str(nsys(tmp_path / "x.db"))))
    assert analysis.summary.steps == STEPS
    # Of 99.99 us a step: a kernel of 20, a copy of 10, a memset of 1.
    assert analysis.summary.causes["compute"] == pytest.approx(0.2, abs=0.01)
    assert analysis.summary.causes["copy"] == pytest.approx(0.1, abs=0.01)
    assert analysis.summary.peak_memory_bytes is None
    assert analysis.summary.achieved_occupancy is None
    assert "shapes and memory events" in next(note.message for note in analysis.quality if note.code == "not-recorded")


@pytest.mark.parametrize("packed", [False, True])
def test_the_name_says_nothing_and_gzip_does_not_matter(tmp_path: Path, packed: bool) -> None:
    data = nsys(tmp_path / "x").read_bytes()
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert len(stream.read(path).tables["kernel"]["ts"]) == STEPS


def test_columns_that_an_export_lacks_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, name TEXT)")
        db.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 'k')", [(10, 20), (30, 45), (50, 40), (None, 1)]
        )
    recorded = stream.read(path)
    kernel = recorded.tables["kernel"]
    assert kernel["dur"].tolist() == [10, 15]
    assert kernel["registers"].tolist() == kernel["correlation"].tolist() == [-1, -1]
    assert ("skipped", "2 rows without usable times were left out") in recorded.notes


def test_other_databases_are_named(tmp_path: Path) -> None:
    for table, told in (
        ("rocpd_op", "rocpd"),
        ("users", "something else"),
        ("StringIds", "without kernels, calls or NVTX"),
    ):
        path = tmp_path / f"{table}.json"
        with sqlite3.connect(path) as db:
            db.execute(f"CREATE TABLE {table} (id INT)")
        with pytest.raises(NotATrace, match=told):
            stream.read(path)


def test_damage_never_ends_in_a_traceback(tmp_path: Path) -> None:
    data = nsys(tmp_path / "x").read_bytes()
    path = tmp_path / "y"
    read = 0
    for seed in range(40):
        rng = Random(seed)
        broken = bytearray(data[: rng.randrange(200, len(data))] if seed % 2 else data)
        for _ in range(rng.choice([1, 10, 200])):
            broken[rng.randrange(16, len(broken))] = rng.randrange(256)
        path.write_bytes(bytes(broken))
        try:
            recorded = stream.read(path)
        except TraceError:
            continue
        read += bool(recorded.events)
    assert read > 10


def test_a_cut_off_database_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    path = nsys(tmp_path / "x", steps=2000)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    recorded = stream.read(path)
    assert recorded.events
    assert any(code == "sqlite-damaged" for code, _ in recorded.notes)


def test_views_and_virtual_tables_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i + 1 AS end FROM n"
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
        db.execute("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, end, text)")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT)")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1, 2)")
    assert list(stream.read(path).tables) == ["memset"]
