"""Times and durations: kept to the ns, in every form that exporters write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import read, trace_of

from advisor.reading.columns import MISSING, to_duration, to_ns

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)
DAY_NS = 86_400 * 10**9


def decimals(ns: int) -> str:
    """ns as us with three decimals, as Kineto writes them."""
    return f"{ns // 1000}.{ns % 1000:03d}"


ERAS = {
    # to torch 2.3: whole us since 1970
    "whole us": (st.integers(15 * 10**14, 21 * 10**14).map(lambda us: us * 1000), lambda ns: str(ns // 1000)),
    # spring of 2024: us with three decimals since 1970, 19 digits
    "epoch": (st.integers(15 * 10**17, 21 * 10**17), decimals),
    # since torch 2.4: us with three decimals since baseTimeNanoseconds, which is at most three months ago
    "relative": (st.integers(0, 93 * DAY_NS), decimals),
}


@pytest.mark.parametrize("era", ERAS)
def test_every_ns_is_kept(era: str) -> None:
    starts, write = ERAS[era]
    step = 1000 if era == "whole us" else 1
    durations = st.integers(0, 10**12).map(lambda ns: ns * step)

    @SETTINGS
    @given(st.lists(st.tuples(starts, durations), min_size=1, max_size=30), st.sampled_from([64, 300, 1 << 21]))
    def holds(times: list[tuple[int, int]], size: int) -> None:
        texts = [
            f'{{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":{write(ts)},"dur":{write(dur)}}}' for ts, dur in times
        ]
        table = read('{"traceEvents":[' + ",\n".join(texts) + "]}", chunk=size, block=size).tables["op"]
        assert table["ts"].tolist() == [ts for ts, _ in times]
        assert table["dur"].tolist() == [dur for _, dur in times]

    holds()


def test_a_19_digit_time_reaches_the_frame_whole() -> None:
    # 1712195495505582.988 us and 0.001 us later: as doubles, both are 1712195495505583.0.
    texts = [
        '{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":1712195495505582.988,"dur":5.001}',
        '{"ph":"X","cat":"cpu_op","name":"b","tid":1,"ts":1712195495505582.989,"dur":1.999}',
    ]
    ops = trace_of("[" + ",".join(texts) + "]").ops
    assert ops["start_ns"].tolist() == [0, 1]
    assert ops["dur_ns"].tolist() == [5001, 1999]


def test_times_turn_exact_in_the_middle_of_a_file() -> None:
    # Counts and positions of what is odd are not taken twice when a chunk is read again for its exact times.
    strange = '{"ph":"X","cat":"martian","name":"m","ts":1,"dur":1}'
    bad = '{"ph":"X","cat":"cuda_runtime","name":"c","ts":2,"dur":1,"args":{"correlation":"x"}}'
    first = '{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":5,"dur":1}'
    late = '{"ph":"X","cat":"cpu_op","name":"b","tid":1,"ts":1712195495505582.989,"dur":1}'
    recorded = read("[" + ",".join([first, strange, bad, late]) + "]")
    assert recorded.tables["op"]["ts"].tolist() == [5000, 1712195495505582989]
    notes = dict(recorded.notes)
    assert notes["unknown-categories"].endswith("'martian' (1)")
    assert notes["bad-values"] == "1 value that is no number was left out, in event 3"


def test_one_event_without_a_time_does_not_blur_its_neighbours() -> None:
    lost = '{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":null,"dur":1}'
    kept = '{"ph":"X","cat":"cpu_op","name":"b","tid":1,"ts":1712195495505582.989,"dur":1}'
    odd = '{"ph":"X","cat":"cpu_op","name":"c","tid":1,"ts":"soon","dur":1}'
    for texts in ([lost, kept], [kept, lost], [odd, kept], [kept, odd, lost]):
        table = read("[" + ",".join(texts) + "]").tables["op"]
        assert table["ts"].tolist() == [1712195495505582989]


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (0, 0),
        (3, 3_000),
        (-3, -3_000),
        (1.5, 1_500),
        (0.0004, 0),
        (0.001, 1),
        ("12.345", 12_345),
        ("1712195495505582.988", 1712195495505582988),
        ("1e3", 1_000_000),
        (None, MISSING),
        ("", MISSING),
        ("soon", MISSING),
        ("NaN", MISSING),
        ("sNaN", MISSING),
        ("-Infinity", MISSING),
        ("1e999999999", MISSING),
        ("1e-999999999", 0),
        ("9" * 100_000, MISSING),
        (10**400, MISSING),
        (float("inf"), MISSING),
        (float("nan"), MISSING),
        (True, 1_000),
        ([], MISSING),
    ],
)
def test_one_time(value: Any, ns: int) -> None:
    assert to_ns(value) == ns


def test_a_duration_beyond_bounds_is_as_long_as_can_be() -> None:
    assert to_duration(7.4e15) == to_duration(10**400) == -to_duration(-(10**400)) == 1 << 61
    assert to_duration(2.5) == 2_500
    assert to_duration("1e30") == to_duration(None) == to_duration(float("nan")) == MISSING
