"""Kernels without a correlation are tied to their launches by arrows and by External ids."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.reading import read as read_recorded
from support.reading import trace_of

from advisor.reading.links import NOT_RECORDED
from advisor.testing import TraceBuilder
from advisor.trace import Trace

Event = dict[str, Any]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def program(device: str = "AMD Instinct MI300X") -> TraceBuilder:
    """Two steps of a product of two kernels, a pointwise kernel and a copy. Launches take 6 us, kernels 100, 20 and 10."""
    b = TraceBuilder(device)
    for _ in range(2):
        with b.step():
            with b.op("aten::linear", us=14), b.op("aten::addmm"):
                b.kernel("Cijk_Ailk_Bljk_SB_MT64x64", us=100)
                b.kernel("Cijk_PostGSU", us=20)
            with b.op("aten::relu"):
                b.kernel("vectorized_elementwise_kernel", us=10)
            b.copy("HtoD", nbytes=1000, us=5)
            b.sync()
    return b


def without(events: list[Event], *, external: str = "", flows: bool = True, calls: bool = True) -> list[Event]:
    """Events of which none has a correlation. *external*: "call" leaves External ids where they are, "" takes all away."""
    out = []
    for event in events:
        cat, args = event.get("cat"), event.get("args", {})
        if cat == "ac2g" and not flows:
            continue
        if cat == "cuda_runtime" and not calls:
            continue
        if cat in (*DEVICE, "cuda_runtime"):
            args.pop("correlation", None)
            if not external:
                args.pop("External id", None)
        out.append(event)
    return out


def changed(b: TraceBuilder, change: Callable[[list[Event]], list[Event]]) -> str:
    root = json.loads(b.to_json())
    root["traceEvents"] = change(root["traceEvents"])
    return json.dumps(root)


def told(trace: Trace) -> list[tuple[str, str, bool, int]]:
    """Name, operator, link and start of the launch of every kernel and copy, in order of time."""
    kernels = trace.kernels
    rows = [
        (name, op, linked, int(launch))
        for name, op, linked, launch in zip(
            kernels["name"], kernels["op"], kernels["linked"], kernels["launch_ns"], strict=True
        )
    ]
    copies = [(name, op, op == op, 0) for name, op in zip(trace.copies["name"], trace.copies["op"], strict=True)]
    return rows + copies


WHOLE = told(trace_of(program().to_json()))


def test_the_program_itself() -> None:
    # A step: kernels launched at 0 and 6 us in addmm, and in relu at 14, where linear has ended.
    assert [(op, launch) for _, op, _, launch in WHOLE[:3]] == [
        ("aten::addmm", 0),
        ("aten::addmm", 6_000),
        ("aten::relu", 14_000),
    ]
    assert [linked for *_, linked, _ in WHOLE[:6]] == [True] * 6


@pytest.mark.parametrize("device", ["AMD Instinct MI300X", "NVIDIA A100-PCIE-40GB"])
@pytest.mark.parametrize(
    ("external", "flows", "way"),
    [
        ("call", False, "8 by the External id of the call"),
        ("", True, "8 by an arrow"),
        ("call", True, "8 by an arrow"),
    ],
)
def test_kernels_without_a_correlation(device: str, external: str, flows: bool, way: str) -> None:
    b = program(device)
    trace = trace_of(changed(b, lambda events: without(events, external=external, flows=flows)))
    assert told(trace) == told(trace_of(b.to_json()))
    assert [note.message for note in trace.quality if note.code == "links"] == [
        f"8 of 8 pieces of GPU work carry no correlation; tied to their launches are {way}"
    ]
    assert not [note for note in trace.quality if note.code == "contradicting-links"]


@pytest.mark.parametrize("seed", range(3))
def test_in_any_order_and_in_small_chunks(seed: int) -> None:
    def shuffled(events: list[Event]) -> list[Event]:
        events = without(events, external="call")
        # The first kernels decide what is kept: one stands first.
        random.Random(seed).shuffle(events)
        return sorted(events, key=lambda event: event.get("cat") != "kernel")

    text = changed(program(), shuffled)
    assert told(trace_of(text)) == WHOLE
    recorded = read_recorded(text, chunk=2000, block=500)
    assert sorted(recorded.tables["kernel"]["correlation"].tolist()) == sorted(
        read_recorded(text).tables["kernel"]["correlation"].tolist()
    )


def test_by_the_operator_alone_where_no_call_was_recorded() -> None:
    trace = trace_of(changed(program(), lambda events: without(events, external="call", flows=False, calls=False)))
    assert [(op, linked) for _, op, linked, _ in told(trace)] == [(op, linked) for _, op, linked, _ in WHOLE]
    assert set(trace.launches["name"]) == {NOT_RECORDED}
    assert trace.launches["dur_ns"].sum() == 0
    # addmm spans [0, 12) us, and its kernels begin at 8 and 108: launched at 8, and before 12 at the latest.
    assert trace.kernels["launch_ns"].tolist()[:2] == [8_000, 11_999]
    (note,) = (note.message for note in trace.quality if note.code == "links")
    assert note.endswith("8 by the External id of the operator, its call not being recorded")


def test_an_arrow_counts_before_an_external_id_that_contradicts_it() -> None:
    def mistaken(events: list[Event]) -> list[Event]:
        events = without(events, external="call")
        relu = next(e["args"]["External id"] for e in events if e.get("name") == "aten::relu")
        first = next(e for e in events if e.get("name") == "Cijk_Ailk_Bljk_SB_MT64x64")
        first["args"]["External id"] = relu
        return events

    trace = trace_of(changed(program(), mistaken))
    assert told(trace) == WHOLE
    assert [note.message for note in trace.quality if note.code == "contradicting-links"] == [
        "1 pieces of GPU work have an External id of another launch than their flow or correlation, which counts"
    ]


def test_a_correlation_counts_before_an_arrow_that_contradicts_it() -> None:
    def mistaken(events: list[Event]) -> list[Event]:
        kernels = [event for event in events if event.get("cat") == "kernel"]
        ends = [event for event in events if event.get("cat") == "ac2g" and event["ph"] == "f"]
        # The second kernel has no correlation, so arrows are kept; the arrows of the third and fourth are crossed.
        del kernels[1]["args"]["correlation"]
        three, four = (next(e for e in ends if e["ts"] == kernels[at]["ts"]) for at in (2, 3))
        three["id"], four["id"] = four["id"], three["id"]
        return events

    trace = trace_of(changed(program("NVIDIA A100-PCIE-40GB"), mistaken))
    assert told(trace) == told(trace_of(program("NVIDIA A100-PCIE-40GB").to_json()))
    assert [note.message for note in trace.quality if note.code == "contradicting-links"] == [
        "2 pieces of GPU work have an External id of another launch than their flow or correlation, which counts"
    ]


def test_external_ids_of_2023_are_none_of_the_operators() -> None:
    """Kineto wrote correlations as External ids of calls and work: numbers that mean other operators."""

    def of_2023(events: list[Event]) -> list[Event]:
        for event in events:
            if event.get("cat") in (*DEVICE, "cuda_runtime") and "correlation" in event["args"]:
                event["args"]["External id"] = event["args"]["correlation"]
        return without(events, external="call", flows=False)

    assert told(trace_of(changed(program(), of_2023))) == WHOLE

    def without_the_launches(events: list[Event]) -> list[Event]:
        wanted = ("Launch", "Memcpy")
        return [
            e for e in of_2023(events) if not (e.get("cat") == "cuda_runtime" and any(w in e["name"] for w in wanted))
        ]

    trace = trace_of(changed(program(), without_the_launches))
    assert not trace.kernels["linked"].any()


def test_more_kernels_than_calls_belong_to_the_latest_call_before_them() -> None:
    # A graph replayed in an operator: three kernels and one call with one External id.
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step(), b.op("my::decode"):
        b.graph([("a", 10), ("b", 10), ("c", 10)])
    trace = trace_of(changed(b, lambda events: without(events, external="call", flows=False)))
    assert trace.kernels["linked"].tolist() == [True] * 3
    assert trace.kernels["graph"].tolist() == [True] * 3
    assert len(trace.launches) == 1


def test_a_trace_with_correlations_keeps_no_other_links() -> None:
    recorded = read_recorded(program().to_json())
    assert all("external" not in table for table in recorded.tables.values())
    assert "flow" not in recorded.tables
    assert recorded.notes == []


def test_nonsense_ids_tie_nothing() -> None:
    def nonsense(events: list[Event]) -> list[Event]:
        events = without(events, external="call")
        for at, event in enumerate(events):
            value = [None, "x", -4, 1 << 90, [1], 2.5][at % 6]
            if "External id" in event.get("args", {}) and not isinstance(value, list):
                event["args"]["External id"] = value
            if "id" in event and not isinstance(value, list):
                event["id"] = value
        return events

    trace = trace_of(changed(program(), nonsense))
    assert len(trace.kernels) == 6
    assert not [note for note in trace.quality if note.code == "bad-values"]
