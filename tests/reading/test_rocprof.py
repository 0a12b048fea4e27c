"""JSON of rocprofv3: the sums that the file says, what it does not hold, and damage."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest
from support.exports import STEPS, rocprof

import advisor
from advisor.errors import NotATrace, TraceError
from advisor.reading import stream


def write(path: Path, data: bytes | None = None) -> str:
    """A file of rocprofv3, or another content."""
    path.write_bytes(json.dumps(rocprof()).encode() if data is None else data)
    return str(path)


def test_the_sums_are_those_of_the_file(tmp_path: Path) -> None:
    recorded = stream.read(write(tmp_path / "x.json"))
    records = rocprof()["rocprofiler-sdk-tool"][0]["buffer_records"]
    for group, key in (
        ("kernel", "kernel_dispatch"),
        ("copy", "memory_copy"),
        ("runtime", "hip_api"),
        ("annotation", "marker_api"),
    ):
        total = sum(record["end_timestamp"] - record["start_timestamp"] for record in records[key])
        assert (len(recorded.tables[group]["ts"]), int(recorded.tables[group]["dur"].sum())) == (
            len(records[key]),
            total,
        )
    kernel = recorded.tables["kernel"]
    assert recorded.names[kernel["name"][0]] == "Cijk_Ailk_Bljk_HHS_BH"
    # 25,600 by 4 work-items in groups of 256.
    assert [recorded.raws[code] for code in (kernel["grid"][0], kernel["block"][0])] == [b"[100, 4, 1]", b"[256, 1, 1]"]
    assert (int(kernel["device"][0]), int(kernel["stream"][0]), int(kernel["shared"][0])) == (0, 3, 512)
    assert int(kernel["registers"][0]) == -1
    assert recorded.names[recorded.tables["copy"]["name"][0]] == "Memcpy HtoD"
    assert int(recorded.tables["copy"]["bytes"].sum()) == STEPS * 4096
    assert {recorded.names[code] for code in recorded.tables["runtime"]["name"]} == {
        "hipLaunchKernel",
        "hipMemcpyAsync",
    }
    assert recorded.metadata.devices[0].name == "AMD Instinct MI300X"
    assert recorded.metadata.devices[0].memory_bytes is None


def test_the_report_links_kernels_to_calls_and_says_what_is_not_recorded(tmp_path: Path) -> None:
    analysis = advisor.analyze(
        advisor.read(write(tmp_path / "x.json.gz", gzip.compress(json.dumps(rocprof()).encode())))
    )
    assert analysis.trace.devices[0].vendor == "amd"
    assert analysis.summary.causes["compute"] == pytest.approx(0.3, abs=0.02)
    assert analysis.summary.peak_memory_bytes is None
    assert "operators, Python stacks" in next(note.message for note in analysis.quality if note.code == "not-recorded")
    assert not [note for note in analysis.quality if note.code == "unlinked"]


@pytest.mark.parametrize("place", [0.4, 0.7, 0.95])
def test_a_cut_off_file_gives_what_it_holds(tmp_path: Path, place: float) -> None:
    text = json.dumps(rocprof()).encode()
    recorded = stream.read(write(tmp_path / "x", text[: int(len(text) * place)]))
    assert recorded.truncated
    kernels = len(recorded.tables["kernel"]["ts"])
    assert 0 < kernels <= STEPS
    assert int(recorded.tables["kernel"]["dur"].sum()) == kernels * 30_000


def test_a_damaged_record_costs_itself_alone(tmp_path: Path) -> None:
    text = json.dumps(rocprof()).encode()
    at = text.index(b'"dispatch_id": 7')
    recorded = stream.read(write(tmp_path / "x", text[:at] + b"\x00{{" + text[at:]))
    assert STEPS - 2 <= len(recorded.tables["kernel"]["ts"]) < STEPS
    assert any(code == "skipped" for code, _ in recorded.notes)


def test_half_a_surrogate_pair_in_a_file_that_was_cut_costs_its_record_alone(tmp_path: Path) -> None:
    root = rocprof()
    root["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"][3]["note"] = "\ud800"
    text = json.dumps(root).encode()
    assert b"\\ud800" in text
    recorded = stream.read(write(tmp_path / "x", text[:-4]))
    assert len(recorded.tables["kernel"]["ts"]) == STEPS - 1
    assert all(raw.decode() for raw in recorded.raws if raw)


def test_values_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    root = rocprof()
    records = root["rocprofiler-sdk-tool"][0]["buffer_records"]
    records["kernel_dispatch"][0]["start_timestamp"] = "soon"
    records["kernel_dispatch"][1] = 5
    records["kernel_dispatch"][2]["dispatch_info"] = None
    records["memory_copy"][0]["bytes"] = {}
    records["hip_api"] = {"a": 1}
    recorded = stream.read(write(tmp_path / "x", json.dumps(root).encode()))
    assert len(recorded.tables["kernel"]["ts"]) == STEPS - 2
    assert int(recorded.tables["copy"]["bytes"].min()) == -1
    assert ("skipped", "3 damaged records were left out") in recorded.notes


def test_files_without_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="without dispatches"):
        stream.read(write(tmp_path / "x", b'{"rocprofiler-sdk-tool": []}'))
    with pytest.raises(TraceError, match="damaged beyond reading"):
        stream.read(write(tmp_path / "x", b'{"rocprofiler-sdk-tool": [{"agents": [{'))


def test_damage_never_ends_in_a_traceback(tmp_path: Path) -> None:
    text = json.dumps(rocprof(5)).encode()
    read = 0
    for seed in range(60):
        rng = Random(seed)
        broken = bytearray(text)
        for _ in range(rng.choice([1, 3, 20])):
            at = rng.randrange(100, len(broken))
            broken[at : at + rng.choice([1, 20])] = rng.choice([b"", b"null", b"}", b"[[", b"1e999", rng.randbytes(5)])
        try:
            read += bool(stream.read(write(tmp_path / "x", bytes(broken))).events)
        except TraceError:
            continue
    assert read > 30
