"""Stalls of a descheduled thread, worked out by hand. Times in us."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.timeline import owners, stalls
from advisor.trace import read

OPS = ("aten::add", "aten::mul", "aten::view", "aten::sub", "aten::exp")
Stalled = Mapping[tuple[int, int], int]


def found(
    stalled: Stalled, folder: Path, *, steps: int = 4, usual: int = 20, name: str = "", calls: bool = True
) -> list[int]:
    """Stalls found, in us, in steps of 50 operators of which some take longer by so many us as *stalled* says."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(steps):
        with b.step():
            for at in range(50):
                with b.op(name or OPS[at % 5]):
                    b.idle(us=usual + stalled.get((number, at), 0))
                    if calls:
                        b.kernel("volta_sgemm_128x64_nn", us=1)
    context = read(str(b.write(folder / "trace.json"))).context
    table = stalls.find(context.recording, context.waits)
    return [int(ns) // 1000 for ns in table.end - table.start]


THREE: Stalled = {(0, 7): 2000, (1, 20): 3000, (2, 38): 5000}  # view, add, sub


def test_stalls_at_three_places(tmp_path: Path) -> None:
    assert found(THREE, tmp_path) == [2020, 3020, 5020]


def test_two_places_say_nothing(tmp_path: Path) -> None:
    assert found({(0, 7): 2000, (1, 20): 3000}, tmp_path) == []


def test_one_operator_at_three_times_is_one_place(tmp_path: Path) -> None:
    assert found({(0, 5): 2000, (1, 20): 3000, (2, 30): 5000}, tmp_path) == []


def test_a_place_that_is_slow_in_most_steps_is_left_out(tmp_path: Path) -> None:
    # aten::exp is slow in three of four steps; of the other three places none is.
    always = {(step, 9): 4000 for step in range(3)}
    assert found({**THREE, **always}, tmp_path) == [2020, 3020, 5020]


@pytest.mark.parametrize(("name", "us"), [("nccl:all_reduce", [2000, 3020, 5020]), ("evaluate", [])])
def test_a_call_that_enqueues_a_collective_is_stopped_as_any(name: str, us: list[int], tmp_path: Path) -> None:
    """c10d marks it, and waits for nobody there; what a program does in a mark of its own is not known. Two stops in operators
    are two places, with that of the mark three."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            for at in range(50):
                stop = {(1, 20): 3000, (2, 38): 5000}.get((number, at), 0)
                with b.op(OPS[at % 5]):
                    b.idle(us=20 + stop)
                    b.kernel("volta_sgemm_128x64_nn", us=1)
                if not at % 10:
                    with b.op("record_param_comms"):
                        b.idle(us=1)
                        with b.annotation(name):
                            b.idle(us=2000 if (number, at) == (0, 10) else 10)
                            b.kernel("ncclDevKernel_AllReduce_Sum_f16", us=1)
    context = read(str(b.write(tmp_path / "trace.json"))).context
    table = stalls.find(context.recording, context.waits)
    assert [int(ns) // 1000 for ns in table.end - table.start] == us


def test_twenty_times_the_like(tmp_path: Path) -> None:
    # The others take 100 us: 2 ms in all are twenty times, 1.9 ms are not.
    assert found(dict.fromkeys(THREE, 1900), tmp_path, usual=100) == [2000] * 3
    assert found(dict.fromkeys(THREE, 1899), tmp_path, usual=100) == []


def test_what_always_takes_long_is_not_cheap(tmp_path: Path) -> None:
    assert found(dict.fromkeys(THREE, 50000), tmp_path, usual=200, name="") == [50_200] * 3
    assert found(dict.fromkeys(THREE, 50000), tmp_path, usual=201, name="") == []


@pytest.mark.parametrize("name", ["aten::item", "aten::nonzero", "aten::copy_"])
def test_calls_that_wait_by_design(name: str, tmp_path: Path) -> None:
    assert found(THREE, tmp_path, name=name) == []


def test_an_operator_that_launches_nothing_may_have_computed_so_long(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=1)
        for at in range(50):
            with b.op(("aten::add", "aten::mul", "aten::sub", "aten::exp")[at % 4]):
                b.idle(us=20 + {7: 2000, 20: 3000, 38: 5000}.get(at, 0))
    context = read(str(b.write(tmp_path / "trace.json"))).context
    assert len(stalls.find(context.recording, context.waits).node) == 0


def test_without_runtime_calls_nothing_is_known(tmp_path: Path) -> None:
    assert found(THREE, tmp_path, calls=False) == []


def test_of_nested_calls_the_innermost_is_stopped(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        for at in range(50):
            with b.op("aten::linear"), b.op(OPS[at % 5], us=20):
                b.idle(us={7: 2000, 20: 3000, 38: 5000}.get(at, 0))
                b.kernel("volta_sgemm_128x64_nn", us=1, host_us=1)
    context = read(str(b.write(tmp_path / "trace.json"))).context
    table = stalls.find(context.recording, context.waits)
    host = context.recording.host
    assert [context.names[code] for code in host.name[table.node]] == ["aten::view", "aten::add", "aten::sub"]


def anywhere(stalled: Stalled, apart: Stalled, folder: Path) -> list[tuple[int, int]]:
    """Starts and lengths, in us from the first operator, of what a thread is stopped for inside and between operators.

    Operators take 20 us, and 10 us lie between them, more by what *apart* says.
    """
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            for at in range(50):
                with b.op(OPS[at % 5]):
                    b.kernel("volta_sgemm_128x64_nn", us=1)
                    b.idle(us=20 + stalled.get((number, at), 0))
                b.idle(us=10 + apart.get((number, at), 0))
    context = read(str(b.write(folder / "trace.json"))).context
    spans, first = owners.stopped_anywhere(context), int(context.recording.host.start.min())
    return [
        ((int(start) - first) // 1000, int(end - start) // 1000)
        for start, end in zip(spans.start, spans.end, strict=True)
    ]


def test_a_thread_that_is_stopped_in_operators_is_stopped_between_them_as_well(tmp_path: Path) -> None:
    # Behind three operators of step 0: at 8 x 30 us less the 10 behind it, then 2 ms later.
    inside = {(1, 7): 2000, (2, 20): 3000, (3, 38): 5000}
    found = anywhere(inside, {(0, 7): 2000, (0, 20): 4000, (0, 21): 500}, tmp_path)
    assert found[:2] == [(8 * 30 - 10, 2010), (21 * 30 - 10 + 2000, 4010)]
    assert [length for _, length in found[2:]] == [2020, 3020, 5020]  # half a millisecond is none


def test_long_stretches_between_operators_alone_are_the_programs_own(tmp_path: Path) -> None:
    assert anywhere({}, {(0, 7): 2000, (1, 20): 4000, (2, 38): 3000}, tmp_path) == []


def test_a_place_between_operators_that_always_takes_long_is_no_stop(tmp_path: Path) -> None:
    inside = {(1, 7): 2000, (2, 20): 3000, (3, 38): 5000}
    always = {(step, at): 2000 for step in range(4) for at in range(4, 50, 5)}  # behind each aten::exp
    assert [length for _, length in anywhere(inside, always, tmp_path)] == [2020, 3020, 5020]
