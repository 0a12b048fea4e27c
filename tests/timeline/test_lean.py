"""Events of a large recording: their tables are made of the forest, and are what the file says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.raw_events import host, op, read, step

from advisor.timeline import lean
from advisor.timeline.lean import Lean

# The inner call ends behind the outer one, as clocks have it: its end is cut in the forest, and not in the table.
EVENTS: list[Any] = [
    step(0, 0, 100),
    host("python_function", "train.py(1): main", 0, 90),
    host("python_function", "train.py(2): inner", 60, 31),
    host("python_function", "<built-in function len>", 70, 5),
    op("aten::add", 71, 2),
    op("aten::mul", 89, 4),
    host("cuda_runtime", "cudaLaunchKernel", 71, 1, correlation=1),
]
SIZE = len(EVENTS)


@pytest.mark.parametrize("group", ["python", "op", "runtime"])
def test_a_table_is_that_of_the_file(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = read(EVENTS).context.recording
    expected = dict(plain.tables[group])
    assert plain.host.size == SIZE
    monkeypatch.setattr(lean, "LEAST", 1)
    recording = read(EVENTS).context.recording
    assert recording.host.size == SIZE
    table = recording.tables[group]
    assert isinstance(table, Lean)
    assert (set(table), len(table)) == (set(expected), len(expected))
    for key, column in table.items():
        assert column.dtype == expected[key].dtype, key
        np.testing.assert_array_equal(column, expected[key], key)
    assert table.span == (int(expected["ts"].min()), int((expected["ts"] + expected["dur"]).max()))


def test_the_table_of_calls_holds_what_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = dict(read(EVENTS).context.recording.tables["python"])
    monkeypatch.setattr(lean, "LEAST", 1)
    recording = read(EVENTS).context.recording
    assert recording.host.size == SIZE
    table = recording.tables["python"]
    assert isinstance(table, Lean)
    assert (list(table), len(table)) == (list(expected), 4)
    assert [key in table for key in ("name", "ts", "dur", "thread", "sequence")] == [True] * 4 + [False]
    assert table["dur"].tolist() == [90_000, 31_000, 5_000]
    assert table.span == (int(expected["ts"].min()), int(expected["ts"].min()) + 91_000)
    assert table.get("sequence") is None
    with pytest.raises(KeyError):
        table["sequence"]


def test_the_trace_spans_as_much_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    before = read(EVENTS[1:]).span_ns
    monkeypatch.setattr(lean, "LEAST", 1)
    trace = read(EVENTS[1:])
    assert trace.context.recording.host.size == SIZE - 1
    assert trace.span_ns == before == 93_000


def test_the_nearest_node_around_is_that_from_which_values_flow() -> None:
    forest = read(EVENTS).context.recording.host
    chosen = np.zeros(forest.size, np.bool_)
    chosen[[1, 2]] = True
    nodes = np.array([-1, *range(forest.size)], np.int64)
    flowed = forest.flow(np.where(chosen, np.arange(forest.size), -1))
    assert forest.nearest(nodes, chosen).tolist() == [-1, *flowed.tolist()]
