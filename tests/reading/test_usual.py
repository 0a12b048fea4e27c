"""Events as Kineto writes most of them: the columns are the same as those of the struct that has the fields of all."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from advisor.reading.columns import Columns
from advisor.reading.events import EVENTS
from advisor.reading.usual import Usual

_PLACE = {"pid": 7, "tid": 8}
_KERNEL = {
    "External id": 3, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": 11, "registers per thread": 20,
    "shared memory": 0, "blocks per SM": 0.5, "warps per SM": 2.0, "grid": [1, 2, 1], "block": [128, 1, 1],
    "est. achieved occupancy %": 0,
}  # fmt: skip
_OP = {
    "External id": 3, "Record function id": 0, "Sequence number": 5, "Fwd thread id": 1, "Concrete Inputs": ["", "0"],
    "Input type": ["float", "Scalar"], "Input Strides": [[1], []], "Input Dims": [[4], []], "Ev Idx": 9,
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4, "Group size": 2, "Seq": 1,
}  # fmt: skip
_MEMORY = {"Total Reserved": 9, "Total Allocated": 8, "Bytes": -4, "Addr": 2**63 + 5, "Device Id": 0, "Device Type": 1}


def _event(category: str, name: str, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": category, "name": name, **_PLACE, "ts": 1000.25, "dur": 2, **more}
    return event if args is None else {**event, "args": args}


EVERY = [
    _event("python_function", "train.py(3): step", {"Python id": 1, "Ev Idx": 2}),
    _event("cpu_op", "aten::add", _OP),
    _event("user_annotation", "ProfilerStep#1", {"External id": 1, "Ev Idx": 3}),
    _event("cuda_runtime", "cudaLaunchKernel", {"External id": 3, "cbid": 211, "correlation": 11}),
    _event("cuda_driver", "cuLaunchKernel", {"correlation": 12}, ts=1003),
    _event("kernel", "void add", _KERNEL, pid=0, tid="stream 7"),
    _event("gpu_memcpy", "Memcpy HtoD", {"device": 0, "stream": 7, "correlation": 13, "bytes": 50}, pid=0, tid=7),
    _event("gpu_memset", "Memset", {"device": 0, "stream": 7, "correlation": 14, "bytes": 4}, pid=0, tid=7),
    _event("gpu_user_annotation", "ProfilerStep#1", {"External id": 1}, pid=0, tid=7),
    _event("overhead", "Buffer Flush", pid=-1),
    {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", **_PLACE, "ts": 1001.5, "args": _MEMORY},
    {"ph": "s", "id": 11, **_PLACE, "ts": 1000, "cat": "ac2g", "name": "ac2g"},
    {"ph": "f", "id": 11, "pid": 0, "tid": 7, "ts": 1001, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    {"ph": "s", "id": 1, **_PLACE, "ts": 1000, "cat": "fwdbwd", "name": "fwdbwd"},
]


def _columns(events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, *, usual: bool) -> Columns:
    columns, texts = Columns(), [json.dumps(events).encode(), json.dumps(events).encode()]
    if not usual:
        monkeypatch.setattr(Usual, "decode", lambda *_args, **_more: None)
    assert columns.add_pieces(texts)
    monkeypatch.undo()
    return columns


@pytest.mark.parametrize("linked", [True, False], ids=["all kernels linked", "a kernel without correlation"])
def test_columns_are_those_of_all_fields(monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    args = _KERNEL if linked else {**_KERNEL, "correlation": 0}
    events = [{**event, "args": args} if event["cat"] == "kernel" else event for event in EVERY]
    assert Usual().decode(json.dumps(events).encode()) is not None
    ours, theirs = (_columns(events, monkeypatch, usual=usual) for usual in (True, False))
    assert ours.events == theirs.events == 2 * len(EVERY)
    for kind in ("names", "stacks", "raws", "inputs", "texts", "threads"):
        assert list(getattr(ours, kind).items()) == list(getattr(theirs, kind).items()), kind
    mine, other = ours.finish(), theirs.finish()
    assert list(mine) == list(other)
    for group, table in mine.items():
        assert list(table) == list(other[group])
        for key, column in table.items():
            np.testing.assert_array_equal(column, other[group][key], f"{group}.{key}")


@pytest.mark.parametrize(
    "other",
    [
        {**EVERY[0], "cat": "cpu_op_of_mine"},
        {**EVERY[0], "ph": "B"},
        {**EVERY[0], "ts": "1000.25"},
        {**EVERY[1], "args": {"Ev Idx": [1]}},
        {key: value for key, value in EVERY[0].items() if key != "cat"},
        {key: value for key, value in EVERY[0].items() if key != "dur"},
        {**EVERY[10], "name": "[mark]"},
        {**EVERY[0], "args": {"Ev Idx": [1]}},
        {**EVERY[0], "args": {"stream": {}}},
        {**EVERY[11], "pid": [1]},
    ],
    ids=[
        "category",
        "phase",
        "time as text",
        "argument of another type",
        "none",
        "without duration",
        "instant",
        "unread argument of another type",
        "argument of others",
        "flow of no process",
    ],
)
def test_a_list_with_another_event_is_no_such_list(other: dict[str, Any]) -> None:
    assert Usual().decode(json.dumps([*EVERY, other]).encode()) is None


def test_lists_of_others_are_not_tried_for_ever() -> None:
    usual, other = Usual(), json.dumps([{**EVERY[0], "cat": "of_mine"}]).encode()
    good = json.dumps(EVERY).encode()
    for _ in range(3):
        assert usual.decode(other) is None
    assert usual.decode(good) is not None  # so the count begins again
    for _ in range(4):
        assert usual.decode(other) is None
    assert usual.decode(good) is None
    assert len(EVENTS.decode(good)) == len(EVERY)
