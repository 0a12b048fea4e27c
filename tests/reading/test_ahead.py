"""The processes that begin with a large file before the reader does: the same ones, and the same columns."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.reading import dump
from test_parts import everything, ordinary, write

from advisor.reading import machine, part, stream, workers
from advisor.reading.part import PartReader

Orders = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(machine.PART_BYTES, "16000")
    monkeypatch.setattr(machine, "cores", lambda: 2)
    yield
    workers.end_ahead()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Orders:
    """The orders of the processes that were started, in their order."""
    orders: Orders = []
    start = workers.start
    monkeypatch.setattr(workers, "start", lambda order: orders.append(order) or start(order))
    return orders


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_the_reader_takes_over_what_was_started_ahead(name: str, started: Orders, tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(150)), name)
    alone = everything(path, together=False)
    workers.start_ahead(str(path))
    assert len(started) == 1
    assert everything(str(path), together=True) == alone
    assert len(started) == 1


def test_the_others_read_more_the_more_this_process_is_behind(
    started: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a lead of 16,000 bytes this process reads half of what is left of the file without them; chunks are of 4,000."""
    monkeypatch.setattr(workers, "LEAD_BYTES", 16_000)
    path = write(tmp_path, dump(ordinary(150)))
    size = path.stat().st_size
    workers.start_ahead(str(path))
    placed = part._placed(started[0])
    assert placed is not None
    assert abs(placed["start"] - (size - 16_000) / 2) <= 6_000


def test_what_was_started_for_another_file_is_ended(started: Orders, tmp_path: Path) -> None:
    one, other = (write(tmp_path, dump(ordinary(150)), name) for name in ("one.json", "other.json"))
    workers.start_ahead(str(one))
    ((process,),) = workers._ahead.values()
    assert stream.read(str(other)).events > 0
    assert process.poll() is not None
    assert [Path(order["file"]).name for order in started] == ["one.json", "other.json"]


def test_a_file_that_changes_meanwhile_is_read_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(150)))
    workers.start_ahead(str(path))
    write(tmp_path, dump(ordinary(90)))
    assert everything(str(path), together=True) == everything(str(path), together=False)


@pytest.mark.parametrize("text", ["", "no JSON", "\x1f\x8bno gzip"])
def test_what_is_no_json_starts_nothing_and_raises_nothing(text: str, started: Orders, tmp_path: Path) -> None:
    workers.start_ahead(str(write(tmp_path, text + " " * 40_000)))
    workers.start_ahead(str(tmp_path / "missing.json"))
    workers.start_ahead("s3://bucket/trace.json")
    workers.start_ahead("-")
    assert started == []


@pytest.mark.parametrize("text", ['{"traceEvents": 3}', '{"traceEvents": []}', "[", '{"rocprofiler-sdk-tool": []}'])
def test_a_process_that_finds_no_part_says_nothing(text: str, started: Orders, tmp_path: Path) -> None:
    workers.start_ahead(str(write(tmp_path, text + " " * 40_000)))
    ((process,),) = workers._ahead.values()
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert len(started) == 1


@pytest.mark.parametrize(("name", "size"), [("t.json", 7_900), ("t.json.gz", 7_900)])
def test_a_small_file_starts_nothing(name: str, size: int, started: Orders, tmp_path: Path) -> None:
    """Two parts of 16,000 bytes are worth two processes; a quarter of that where the other starts early."""
    workers.start_ahead(str(write(tmp_path, dump(ordinary(150))[:size], name)))
    assert started == []


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_quarter_is_worth_a_process_that_starts_early(name: str, started: Orders, tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(150))[:12_000], name)
    assert workers.count(12_000, early=False) == 1
    workers.start_ahead(str(path))
    assert len(started) == 1


@pytest.mark.parametrize("many", [2, 3, 4])
@pytest.mark.parametrize("lead", [0, 300_000, 5_000_000])
def test_parts_of_a_gzip_stream_end_at_once(many: int, lead: int) -> None:
    """Each inflates what lies before its part at a fifth of what its own takes; this process begins later by *lead*."""
    size = 1_000_000
    places = workers.starts(size, many, 4_000, 1_000, plain=False, lead=lead)
    ends = [
        0.2 * begin + 1.2 * (end - begin) for begin, end in zip(places, [*places[1:], size], strict=True)
    ]  # of the others
    assert max(ends) - min(ends) <= 2_000
    own = lead + 1.2 * places[0]
    assert abs(own - ends[0]) <= 3_000 if places[0] > 1_000 else own >= ends[0]


def test_processes_that_were_started_are_ended_where_another_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three parts the second is beyond the limit of processes: the reader reads on alone."""
    monkeypatch.setattr(machine, "cores", lambda: 3)
    path = write(tmp_path, dump(ordinary(300)))
    begun: list[Any] = []
    start = workers.start

    def limited(order: dict[str, Any]) -> Any:
        if begun:
            raise BlockingIOError("Resource temporarily unavailable")
        begun.append(start(order))
        return begun[0]

    monkeypatch.setattr(workers, "start", limited)
    assert everything(str(path), together=True) == everything(str(path), together=False)
    assert begun[0].poll() is not None


def test_a_part_is_read_no_further_once_its_parent_has_gone(tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(300)))
    started_by = subprocess.Popen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda _command, **pipes: started_by(["cat"], **pipes))
        workers.start_ahead(str(path))
    ((process,),) = workers._ahead.values()
    assert process.stdout is not None
    order = part._placed(json.loads(process.stdout.read()))
    assert order is not None
    assert order["parent"] == os.getpid()
    separator = order["separator"].encode()
    orphan = PartReader(order["file"], separator, order["start"], None, seek=True, parent=os.getpid())
    with pytest.raises(SystemExit):
        orphan.answer()
    assert orphan.source.size - order["start"] < 2 * orphan.chunk
    assert PartReader(order["file"], separator, order["start"], None, seek=True, parent=os.getppid()).answer()
