"""Layouts of a file: every order of keys and size of pieces is read alike."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import LAYOUTS, contents, dump, event, mixture, read, trace_of

from advisor.frames import SCHEMAS
from advisor.reading import containers, stream
from advisor.reading.columns import Columns

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("root", ["list", "events first", "events last", "events between"])
def test_layouts_and_key_orders_are_one(layout: str, root: str) -> None:
    events = mixture(3)
    properties = {"deviceProperties": [{"id": 0, "name": "A100"}, {"id": 1, "name": "A100"}], "traceName": "x"}
    keys: Any = {
        "list": events,
        "events first": {"traceEvents": events, **properties},
        "events last": {**properties, "traceEvents": events},
        "events between": {"schemaVersion": 1, "traceEvents": events, **properties},
    }[root]
    recorded = read(json.dumps(keys, **LAYOUTS[layout]), chunk=500, block=700)
    assert recorded.notes == []
    assert recorded.events == len(events)
    assert not recorded.truncated
    assert [device.name for device in recorded.metadata.devices] == ([] if root == "list" else ["A100", "A100"])
    whole = read(dump(events))
    assert_same_but_for_spaces(contents(recorded), contents(whole))


def assert_same_but_for_spaces(left: Any, right: Any) -> None:
    """Raw lists (dims, types, grid) keep the file's own spaces; all else is the same."""

    def tight(tables: Any) -> Any:
        def squeeze(value: Any) -> Any:
            return b"".join(value.split()) if isinstance(value, bytes) else value

        return {g: [{k: squeeze(v) for k, v in row.items()} for row in table] for g, table in tables.items()}

    assert tight(left) == tight(right)


@pytest.mark.parametrize("first", ["name", "cat", "pid", "tid", "ts", "dur", "args", "s", "id", "cname", "tts", "?"])
def test_events_may_begin_with_any_key(first: str) -> None:
    rest = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2, "ts": 5, "dur": 1, "args": {}}
    events = [{first: rest.get(first, at), **rest} for at in range(60)]
    recorded = read(json.dumps({"traceEvents": events}), chunk=200, block=100)
    assert recorded.events == len(recorded.tables["op"]["ts"]) == 60
    assert recorded.notes == []


def test_a_file_whose_events_begin_with_an_unusual_key_is_still_read_in_pieces() -> None:
    one = b'{"cname":"good","ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":5,"dur":1}'
    with patch.object(stream, "_UNUSUAL", 1000):
        text = b'{"traceEvents":[' + b",\n".join([one] * 200) + b"]}"
        taken: list[int] = []
        append = Columns._append

        def spy(self: Columns, groups: Any, size: int) -> None:
            taken.append(size)
            append(self, groups, size)

        with patch.object(Columns, "_append", spy):
            assert read(text, chunk=2000, block=500).events == 200
    assert len(taken) > 5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_chunk_size_changes_what_is_read(layout: str) -> None:
    text = dump(mixture(6), layout)
    whole = read(text)
    assert whole.notes == []

    @SETTINGS
    @given(st.integers(64, 3000), st.integers(1, 2000))
    def holds(chunk: int, block: int) -> None:
        recorded = read(text, chunk=chunk, block=block)
        assert contents(recorded) == contents(whole)
        assert recorded.events == whole.events
        assert recorded.metadata == whole.metadata
        assert recorded.notes == []

    holds()


@pytest.mark.parametrize("chunk", range(64, 200, 3))
def test_every_boundary_at_every_place(chunk: int) -> None:
    text = dump(mixture(2), "compact")
    assert contents(read(text, chunk=chunk, block=1)) == contents(read(text))


def test_frames_do_not_depend_on_the_chunk() -> None:
    text = dump(mixture(8))
    with patch.object(stream, "CHUNK", 300), patch.object(containers, "BLOCK", 128):
        pieces = trace_of(text)
    whole = trace_of(text)
    for name in SCHEMAS:
        assert pieces.frame(name).astype(str).equals(whole.frame(name).astype(str)), name


def test_args_that_look_like_events_stay_args() -> None:
    decoys = [{"ph": "X", "cat": "kernel", "name": f"decoy{at}", "ts": at, "dur": 1} for at in range(50)]
    events = [event(f"op{at}", ts=20 * at, args={"inputs": decoys, "Sequence number": at}) for at in range(20)]
    for layout in ("one line", "compact"):
        recorded = read(dump(events, layout), chunk=700, block=300)
        assert list(recorded.tables) == ["op"]
        assert recorded.tables["op"]["sequence"].tolist() == list(range(20))
        assert (recorded.events, recorded.notes) == (20, [])


def test_strings_that_hold_event_boundaries_stay_strings() -> None:
    name = '}, {"ph": "X", "cat": "kernel", "name": "decoy", "ts": 1, "dur": 1}, {"ph": "X"}]}'
    events = [event(name + str(at), ts=at) for at in range(20)]
    recorded = read(dump(events), chunk=100, block=64)
    assert [row["name"] for row in contents(recorded)["op"]] == [e["name"] for e in events]
    assert recorded.notes == []


def test_an_event_longer_than_many_chunks() -> None:
    long = event("a" * 5000, args={"Input Dims": [[1]] * 3000})
    recorded = read(dump([event("first"), long, event("last")]), chunk=200, block=64)
    assert [row["name"] for row in contents(recorded)["op"]] == ["first", "a" * 5000, "last"]
    assert recorded.notes == []


def test_a_name_beyond_any_real_one_is_shortened() -> None:
    recorded = read(dump([event("a" * 100_000)]))
    assert contents(recorded)["op"][0]["name"] == "a" * (1 << 14)
