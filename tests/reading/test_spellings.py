"""Numbers and names, in every spelling."""

from __future__ import annotations

from typing import Any

import pytest
from support.reading import contents, dump, event, read


@pytest.mark.parametrize(
    ("written", "thread"),
    [
        (25738, 25738),
        ("25738", 25738),
        ("stream 7", 7),
        ("thread -5", -5),
        (-1, -1),
        (2**40, 2**40),
        (7.0, 7),
        ("0", 0),
    ],
)
def test_threads_in_every_spelling(written: Any, thread: int) -> None:
    assert read(dump([event(tid=written)])).tables["op"]["thread"].tolist() == [thread]


def test_threads_without_a_number_differ_from_each_other_and_from_real_ones() -> None:
    odd = ["main", "²", "--5", "worker ⑤", "PyTorch Profiler", 2**70, "9" * 40, None, ""]
    table = read(dump([event(tid=tid) for tid in odd + odd])).tables["op"]["thread"].tolist()
    assert table[: len(odd)] == table[len(odd) :]
    assert len(set(table)) == len(odd)
    assert max(table) < -(1 << 39)


def test_numbers_written_as_text() -> None:
    args = {"bytes": "4096", "stream": "3", "device": "2", "correlation": "17"}
    table = read(
        dump(
            [
                event("CopyHostToDevice", "gpu_memcpy", args=args),
                event("x", "gpu_memcpy", pid=4, tid="stream 9", args={}),
            ]
        )
    ).tables["copy"]
    assert {key: table[key].tolist() for key in ("bytes", "stream", "device", "correlation")} == {
        "bytes": [4096, -1],
        "stream": [3, 9],
        "device": [2, 4],
        "correlation": [17, -1],
    }


def test_addresses_are_unsigned() -> None:
    def memory(address: Any) -> dict[str, Any]:
        args = {"Addr": address, "Bytes": 1, "Device Id": 0, "Device Type": 1}
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": args}

    table = read(dump([memory(value) for value in (2**63 + 5, 5, 2**63 + 5, 2**64 + 5, "0x7f", None)])).tables[
        "instant"
    ]
    address = table["address"].tolist()
    assert address[0] == address[2] < 0
    assert address[1] == address[3] == 5
    assert address[4:] == [0, 0]


def test_names_keep_every_character() -> None:
    names = ["", "a\tb\nc", "nul\x00", "\u202eright to left", "\x1b[31mred", "日本語 🚀", "\x7f\x85\u2028", '"\\/']
    recorded = read(dump([event(name) for name in names]))
    assert [row["name"] for row in contents(recorded)["op"]] == names
