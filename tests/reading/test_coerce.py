"""Values that no profiler writes: each is left out or counts as 0, is counted, and named where it first stands."""

from __future__ import annotations

from typing import Any

import pytest
from support.damage import build_all
from support.reading import contents, dump, event, read, trace_of


@pytest.mark.parametrize(
    ("fields", "notes", "left"),
    [
        # A correlation past int64 is none; the launch stays.
        ({"args": {"correlation": 10**30}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": "x"}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": 2**64}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": 2**63 - 1}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"args": {"correlation": -(2**63)}}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        # An event without a usable time cannot be placed.
        ({"ts": 10**30}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"ts": -(2**63)}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"ts": "soon"}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"ts": None}, {"bad-values": "1 value that is no number was left out, in event 2"}, 1),
        ({"dur": "long"}, {"bad-values": "1 value that is no number was left out, in event 2"}, 2),
        ({"dur": -3}, {"negative-durations": "1 negative duration counts as 0, on the host"}, 2),
        ({"dur": 7.4e15}, {"absurd-durations": "1 duration of years counts as 0, on the host"}, 2),
        ({"dur": 10**30}, {"absurd-durations": "1 duration of years counts as 0, on the host"}, 2),
        ({"ts": "12.5", "tid": "7", "dur": "3"}, {}, 2),
        ({"dur": None}, {}, 2),
    ],
)  # fmt: skip
def test_odd_values(fields: dict[str, Any], notes: dict[str, str], left: int) -> None:
    calls = [event("a", "cuda_runtime", ts=1), event("b", "cuda_runtime", **fields)]
    recorded = read(dump(calls))
    assert dict(recorded.notes) == notes
    found = contents(recorded)["runtime"]
    assert [row["name"] for row in found] == ["a", "b"][:left]
    # What is no duration, or none that a program can take, counts as 0; 2 us and "3" us stay.
    kept = {"2": "2000", "3": "3000"}.get(str(fields.get("dur", 2)), "0")
    assert [row["dur"] for row in found] == ["2000", kept][:left]


def test_the_first_bad_value_is_named_whatever_its_column() -> None:
    args = [{"bytes": 1}, {"bytes": "x"}, {"correlation": "x"}, {"bytes": "x", "stream": "y"}]
    copies = [event("c", "gpu_memcpy", args=fields) for fields in args]
    texts = [event("a"), *copies]
    assert dict(read(dump(texts)).notes) == {
        "bad-values": "4 values that are no numbers were left out, the first in event 3"
    }
    # The device, the stream and the correlation are looked at before the bytes.
    assert dict(read(dump(texts[::-1])).notes)["bad-values"].endswith("left out, the first in event 1")
    assert dict(read(dump([event("a"), copies[1], copies[2]])).notes)["bad-values"].endswith("the first in event 2")


def test_236_years_of_a_kernel_end_where_its_stream_goes_on() -> None:
    # CUPTI's end of time: 7.4e15 us. The next kernel of stream 7 starts at 40 us, so 30 us are left; stream 8 is no limit.
    # The last of a stream has nothing behind it, and counts as 0.
    def kernel(ts: float, dur: float, stream: int) -> dict[str, Any]:
        return event(
            "k", "kernel", pid=0, tid=stream, ts=ts, dur=dur, args={"device": 0, "stream": stream, "correlation": 1}
        )

    trace = trace_of(
        dump([event(ts=0, dur=100), kernel(10, 7.4e15, 7), kernel(20, 5, 8), kernel(40, 5, 7), kernel(60, 7.4e15, 8)])
    )
    assert trace.kernels["dur_ns"].tolist() == [30_000, 5_000, 5_000, 0]
    assert [note.code for note in trace.quality] == ["absurd-durations"]


def test_a_negative_duration_of_a_kernel_counts_as_0() -> None:
    kernel = event("k", "kernel", pid=0, dur=-1, args={"device": 0, "stream": 7, "correlation": 1})
    trace = trace_of(dump([event(), kernel, {**kernel, "ts": 20, "dur": 5}]))
    assert trace.kernels["dur_ns"].tolist() == [0, 5_000]
    assert [note.code for note in trace.quality] == ["negative-durations"]


@pytest.mark.parametrize(
    "times", [(-(2**61) // 1000 + 1, 2**61 // 1000 - 1), (0, 2**61 // 1000 - 1), (-(2**60) // 1000, 0)]
)
def test_clocks_at_the_edge_of_what_int64_holds(times: tuple[int, int]) -> None:
    kernels = [
        event("k", "kernel", pid=0, ts=ts, dur=7.4e15, args={"device": 0, "stream": 7, "correlation": 1})
        for ts in times
    ]
    events = [*kernels, *(event(ts=ts) for ts in times), *(event("c", "cuda_runtime", ts=ts) for ts in times)]
    trace = trace_of(dump(events))
    build_all(trace)
    # What is longer than 2**61 ns is cut to that as it is read.
    assert trace.kernels["dur_ns"].tolist() == [min(1000 * (times[1] - times[0]), 2**61), 0]
