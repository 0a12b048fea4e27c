"""How much one file may hold: what is beyond ends early, with an error that names the limit and what to do."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.reading import dump, event, read

import advisor.trace
from advisor.errors import TraceError
from advisor.reading import limits

ONE = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1},\n'


class Bomb:
    """The gzip file of a text that repeats itself, made as it is read: a few MB that hold 100 GB."""

    def __init__(self, head: bytes, piece: bytes, size: int) -> None:
        import zlib

        self.read_bytes = 0
        self._engine = zlib.compressobj(9, wbits=31)
        self._parts = self._blocks(head, piece * ((1 << 20) // len(piece)), size)
        self._rest = b""

    def _blocks(self, head: bytes, block: bytes, size: int) -> Iterator[bytes]:
        yield self._engine.compress(head)
        for _ in range(size // len(block)):
            yield self._engine.compress(block)
        yield self._engine.flush()

    def read(self, size: int) -> bytes:
        while len(self._rest) < 4096:
            part = next(self._parts, None)
            if part is None:
                break
            self._rest += part
        block, self._rest = self._rest[:size], self._rest[size:]
        self.read_bytes += len(block)
        return block

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "piece",
    [ONE, b" ", pytest.param(b'{"ph":"M"},', marks=pytest.mark.study)],
    ids=["events", "blanks", "what is passed over"],
)
def test_a_bomb_of_a_hundred_gigabytes_ends_early(
    piece: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SMALL_TEXT", 16 << 20)
    bomb = Bomb(b'{"traceEvents": [' + ONE, piece, 100 << 30)
    path = tmp_path / "t.json.gz"
    path.touch()
    monkeypatch.setattr(Path, "open", lambda *_: bomb)
    tracemalloc.start()
    try:
        with pytest.raises(TraceError) as told:
            advisor.trace.read(str(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 100 GB would be a thousand times as many bytes and as much memory.
    assert bomb.read_bytes < 1 << 20
    assert peak < 256 << 20
    assert told.value.exit_code == 3
    message = str(told.value).removeprefix(f"{path}: ")
    assert "compressed bytes hold more than 16 MB, over the limit of 200 to 1" in message
    assert message.endswith("unpack it first, and pass the .json.")


def test_a_small_file_may_repeat_itself() -> None:
    # 11 MB of one piece of metadata, several hundred to one: less text than is asked about.
    text = b"[" + b'{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}},\n' * 150_000 + ONE[:-2] + b"]"
    packed = gzip.compress(text, 9)
    assert len(text) > limits.MOST_RATIO * len(packed)
    assert read(packed, name="t.json.gz").events == 150_001


def test_a_large_file_of_a_traces_ratio_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SMALL_TEXT", 1 << 10)
    events = [event(f"op{at % 97}", ts=at * 7919 % 100_003, args={"External id": at}) for at in range(3000)]
    assert read(gzip.compress(dump(events).encode()), name="t.json.gz").events == 3000


def test_bytes_are_counted_over_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two members, the first of a ratio of one: together they are within the limit, and both are read.
    monkeypatch.setattr(limits, "SMALL_TEXT", 1 << 10)
    monkeypatch.setattr(limits, "MOST_RATIO", 60)
    head, tail = b'{"traceEvents": [' + ONE * 50, ONE * 3000 + ONE[:-2] + b"]}"
    packed = gzip.compress(head, 0) + gzip.compress(tail)
    assert len(head + tail) < 60 * len(packed)
    assert len(tail) > 60 * len(gzip.compress(tail))
    assert read(packed, name="t.json.gz").events == 3051


def kernel(at: int, device: int = 0) -> dict[str, Any]:
    return event("k", "kernel", pid=device, ts=at, args={"device": device, "stream": 7, "correlation": at + 1})


@pytest.mark.parametrize(
    ("limit", "value", "within", "beyond", "said"),
    [
        ("MOST_EVENTS", 20, [event()] * 20, [event()] * 21, "more than 20 events"),
        ("MOST_CHARACTERS", 3000, [event("x" * 900)] * 9, [event("x" * 900 + str(at)) for at in range(9)], "all different"),
        ("MOST_THREADS", 20, [event(tid=at) for at in range(18)], [event(tid=at) for at in range(30)], "more than 20 threads"),
        ("MOST_DEVICES", 8, [kernel(at, at % 8) for at in range(9)], [kernel(at, at) for at in range(9)], "more than 8 devices"),
        (
            "MOST_NESTED",
            100,
            [event(ts=at, dur=10_000) for at in range(90)] + [event(ts=20_000 + at, dur=1) for at in range(90)],
            [event(ts=at, dur=10_000 - at) for at in range(300)],
            "more than 100 calls open at one time",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [500, 1 << 21])
def test_each_limit(
    limit: str, value: int, within: list[Any], beyond: list[Any], said: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, limit, value)
    assert read(dump(within), chunk=chunk, block=chunk).events == len(within)
    with pytest.raises(TraceError, match=said) as told:
        read(dump(beyond), chunk=chunk, block=chunk)
    assert told.value.exit_code == 3
    assert "the limit for one file" in str(told.value)
    assert str(told.value).endswith((".", "again."))


def test_real_programs_are_far_from_every_limit() -> None:
    """A process of 64 cores with five pools, forty frames deep, and 16 devices."""
    threads = [event(tid=tid, ts=10 * depth, dur=10_000 - 20 * depth) for tid in range(320) for depth in range(40)]
    recorded = read(json.dumps([*threads, *(kernel(at, at % 16) for at in range(64))]))
    assert recorded.events == 320 * 40 + 64
