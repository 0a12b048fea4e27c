"""The processes that begin with a large file before the reader does: the same ones, and the same columns."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.reading import dump
from test_parts import everything, ordinary, write

from advisor.reading import ahead, machine, parts, stream
from advisor.reading.part import PartReader

Orders = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(machine.PART_BYTES, "16000")
    monkeypatch.setattr(machine, "cores", lambda: 2)
    yield
    parts.end_ahead()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Orders:
    """The orders of the processes that were started, in their order."""
    orders: Orders = []
    start = parts._start
    monkeypatch.setattr(parts, "_start", lambda order: orders.append(order) or start(order))
    return orders


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_the_reader_takes_over_what_was_started_ahead(name: str, started: Orders, tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(150)), name)
    alone = everything(path, together=False)
    ahead.start(str(path))
    assert len(started) == 1
    assert everything(str(path), together=True) == alone
    assert len(started) == 1


def test_the_others_read_more_the_more_this_process_is_behind(
    started: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a lead of 16,000 bytes this process reads half of what is left of the file without them; chunks are of 4,000."""
    monkeypatch.setattr(parts, "LEAD_BYTES", 16_000)
    path = write(tmp_path, dump(ordinary(150)))
    size = path.stat().st_size
    ahead.start(str(path))
    assert abs(started[0]["start"] - (size - 16_000) / 2) <= 6_000


def test_what_was_started_for_another_file_is_ended(started: Orders, tmp_path: Path) -> None:
    one, other = (write(tmp_path, dump(ordinary(150)), name) for name in ("one.json", "other.json"))
    ahead.start(str(one))
    (process,) = parts._ahead.values()
    assert stream.read(str(other)).events > 0
    assert process.poll() is not None
    assert [Path(order["file"]).name for order in started] == ["one.json", "other.json"]


def test_a_file_that_changes_meanwhile_is_read_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(150)))
    ahead.start(str(path))
    write(tmp_path, dump(ordinary(90)))
    assert everything(str(path), together=True) == everything(str(path), together=False)


@pytest.mark.parametrize("text", ["", "no JSON", '{"traceEvents": 3}', '{"traceEvents": []}'])
def test_what_is_no_trace_starts_nothing_and_raises_nothing(text: str, started: Orders, tmp_path: Path) -> None:
    ahead.start(str(write(tmp_path, text + " " * 40_000)))
    ahead.start(str(tmp_path / "missing.json"))
    assert started == []


@pytest.mark.parametrize(("name", "size"), [("t.json", 7_900), ("t.json.gz", 31_900)])
def test_a_small_file_starts_nothing(name: str, size: int, started: Orders, tmp_path: Path) -> None:
    """Two parts of 16,000 bytes are worth two processes; of plain text, which nobody has to inflate again, a quarter of that."""
    ahead.start(str(write(tmp_path, dump(ordinary(150))[:size], name)))
    assert started == []


def test_of_plain_text_a_quarter_is_worth_a_process_that_starts_early(started: Orders, tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(150))[:12_000])
    reader = stream.Reader(str(path), together=False)
    next(reader.blocks)
    assert parts.bounds(reader.source, 0, reader.chunk) is None
    ahead.start(str(path))
    assert len(started) == 1


def test_processes_that_were_started_are_ended_where_another_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three parts the second is beyond the limit of processes: the reader reads on alone."""
    monkeypatch.setattr(machine, "cores", lambda: 3)
    path = write(tmp_path, dump(ordinary(300)))
    begun: list[Any] = []
    start = parts._start

    def limited(order: dict[str, Any]) -> Any:
        if begun:
            raise BlockingIOError("Resource temporarily unavailable")
        begun.append(start(order))
        return begun[0]

    monkeypatch.setattr(parts, "_start", limited)
    assert everything(str(path), together=True) == everything(str(path), together=False)
    assert begun[0].poll() is not None


def test_a_part_is_read_no_further_once_its_parent_has_gone(tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(300)))
    started: Orders = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_start", lambda order: started.append(order) or subprocess.Popen(["true"]))
        ahead.start(str(path))
    (order,) = started
    assert order["parent"] == os.getpid()
    separator = order["separator"].encode()
    orphan = PartReader(order["file"], separator, order["start"], None, seek=True, parent=os.getpid())
    with pytest.raises(SystemExit):
        orphan.answer()
    assert orphan.source.size - order["start"] < 2 * orphan.chunk
    assert PartReader(order["file"], separator, order["start"], None, seek=True, parent=os.getppid()).answer()
