"""Exports of Nsight Systems: the sums that the file says, what older schemas lack, damage, and hostile databases."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from random import Random

import pytest
from support.exports import STEPS, nsys, served

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


# ---- graphs and processes


def test_graphs_that_are_recorded_whole_keep_the_gpu_busy(tmp_path: Path) -> None:
    """Twenty graphs of 8 ms, 10 ms apart, are 80.8 % of the 198 ms from the first to the end of the last."""
    analysis = advisor.analyze(advisor.read(str(served(tmp_path / "x.sqlite", nodes=False))))
    assert analysis.summary.causes["compute"] == pytest.approx(20 * 8 / 198, abs=0.001)
    assert analysis.program.framework == "tensorrt-llm"
    # What runs in them nobody knows: no figure of Tensor Cores, and of parts of a batch.
    assert analysis.summary.tensor_core_share is None
    (phase,) = analysis.phases
    assert (phase.phase, phase.sequences, phase.launches, phase.ms) == ("decode", 64, 1, pytest.approx(8.0))
    assert phase.attention_share is None
    notes = {note.code: note for note in analysis.quality}
    assert notes["graphs-whole"].message.startswith("20 replays of CUDA graphs are one piece of GPU work each")
    assert "--cuda-graph-trace=node" in notes["graphs-whole"].advice
    assert "graph-origins" not in notes
    # 1.5 of each 10 ms lie between two batches, and the engine has a switch for that.
    assert analysis.findings[0].rule == "inference/scheduler-gap"


def test_nodes_of_graphs_come_before_the_whole(tmp_path: Path) -> None:
    path = served(tmp_path / "x.sqlite", nodes=True)
    with sqlite3.connect(path) as db:
        db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (300000,8300000,0,1,NULL,7,1,?,9,11)", (77 << 24,)
        )
    db.close()
    kernels = advisor.read(str(path)).frame("kernels")
    assert len(kernels) == 20 * 40
    assert kernels["graph"].all()
    assert stream.read(path).tables["kernel"]["graph_node"].tolist()[:3] == [9 << 32, (9 << 32) + 1, (9 << 32) + 2]
    assert "graphs-whole" not in {code for code, _ in stream.read(path).notes}


@pytest.mark.parametrize("nodes", [False, True])
def test_of_several_processes_the_busiest_is_read(tmp_path: Path, nodes: bool) -> None:
    """Three ranks call their GPUs 0, and number their calls alike: the third works 8.1 ms a batch, and alone has an H100."""
    trace = advisor.read(str(served(tmp_path / "x.sqlite", nodes=nodes, ranks=3)))
    kernels = trace.frame("kernels")
    assert int(kernels["dur_ns"].sum()) == 20 * 8_100_000
    assert int(kernels["cost_ns"].sum()) == 20 * 8_100_000
    assert len(trace.frame("launches")) == 2 * 20  # a replay and a wait
    devices = trace.frame("devices")
    assert devices["name"].tolist() == ["NVIDIA H100 80GB HBM3"]
    assert [device.name for device in trace.metadata.devices] == ["NVIDIA H100 80GB HBM3"]
    assert len(trace.frame("batches")) == 20
    note = next(note for note in trace.quality if note.code == "several-processes")
    assert note.message.startswith("3 processes of the export worked on GPUs")


def test_calls_of_a_process_without_gpu_work_are_nobodys(tmp_path: Path) -> None:
    path = nsys(tmp_path / "x.sqlite")
    before = stream.read(path)
    with sqlite3.connect(path) as db:
        other = (5, 9, (88 << 24) + 1, 1, 1)  # its call 1 is not the launch of the kernel 1
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0,NULL)", other)
        db.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (5,9,59,'load',?)", other[2:3]
        )
    db.close()
    after = stream.read(path)
    assert len(after.tables["runtime"]["ts"]) == len(before.tables["runtime"]["ts"])
    assert len(after.tables["annotation"]["ts"]) == len(before.tables["annotation"]["ts"]) + 1
    assert "several-processes" not in {code for code, _ in after.notes}
