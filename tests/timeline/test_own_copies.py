"""Copies that operators make by themselves, of accelerators whose runtime has no call for them. Times in us, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import advisor
from advisor.testing.accelerators import Accelerator
from advisor.trace import Trace

STEPS, FILLS = 4, 5


def trace_of(builder: Accelerator, folder: Path) -> Trace:
    return advisor.read(str(builder.write(folder / "trace.json")))


def falling_back(
    maker: str = "mtia",
    *,
    fills: int = FILLS,
    steps: int = STEPS,
    launching: bool = False,
    cpu_us: float = 0,
    names: tuple[str, str] = ("dma_request", "dma_request"),
) -> Accelerator:
    """Steps of a product, and fills of two transfers of 8 us, each 200 us behind what was before it; a sum behind each fill.

    With *launching* the operators launch a kernel as well; *cpu_us* is what the fill takes on the CPU between the transfers.
    """
    b = Accelerator(maker, with_stack=False)
    for _ in range(steps):
        with b.step():
            with b.op("aten::mm"):
                b.job("fc", 10_000, waits=True)
            for _ in range(fills):
                with b.op("aten::zero_"), b.op("aten::fill_"):
                    for turn in range(2):
                        b.transfer(8, host_us=200, name=names[turn])
                        if turn == 0 and cpu_us:
                            with b.op("aten::fill_"):
                                b.idle(us=cpu_us)
                    if launching:
                        b.job("fill", 8, host_us=20, waits=True)
                with b.op("aten::add"):
                    b.job("sum", 10, waits=True)
    return b


def by_cause(trace: Trace) -> dict[str, float]:
    """Us of each cause in a step, but for causes without any."""
    return {cause: ns / 1000 / STEPS for cause, ns in trace.ledger.by_cause().items() if ns}


@pytest.mark.parametrize("maker", ["mtia", "mlu", "privateuse1"])
def test_an_operator_that_encloses_its_copies_waits_for_them(maker: str, tmp_path: Path) -> None:
    trace = trace_of(falling_back(maker), tmp_path)
    # 5 fills of 2 transfers, each 200 us before it begins; 6 launches of 20 us.
    assert by_cause(trace) == {"compute": 10_050, "copy": 80, "blocking_copy": 2_000, "host": 120}
    syncs = trace.syncs
    assert len(syncs) == 2 * FILLS * STEPS
    assert set(syncs["kind"]) == {"copy"}
    assert set(syncs["name"]) == {"aten::fill_"}
    assert (syncs["call_ns"] == 208_000).all()
    copies = trace.copies
    assert copies["blocking"].all()
    assert (copies["cost_ns"] == 208_000).all()
    waited = trace.gaps.query("cause == 'blocking_copy'")
    assert set(waited["copying_op"]) == {"aten::fill_"}
    assert trace.gaps.query("cause == 'host'")["copying_op"].isna().all()


def test_the_work_on_the_cpu_between_the_copies_is_part_of_the_wait(tmp_path: Path) -> None:
    # The fill on the CPU is an operator of the same name inside; it takes 300 us, and the second transfer waits for it.
    causes = by_cause(trace_of(falling_back(cpu_us=300), tmp_path))
    assert causes["blocking_copy"] == 2_000 + 5 * 300
    assert "operator" not in causes


def test_copies_that_begin_when_their_operator_has_returned_are_not_waited_for(tmp_path: Path) -> None:
    # Each call takes 100 us, and the device 5,000 for what it hands over: operators return long before.
    b = Accelerator("mtia", with_stack=False)
    for _ in range(STEPS):
        with b.step():
            with b.op("aten::mm"):
                b.job("fc", 1_000, waits=True)
            for _ in range(FILLS):
                with b.op("aten::fill_"):
                    b.transfer(500, host_us=100, waits=False)
                    b.idle(us=10)
                b.idle(us=1_000)
    trace = trace_of(b, tmp_path)
    assert "blocking_copy" not in by_cause(trace)
    assert not len(trace.syncs)


def test_copies_inside_an_operator_that_launches_go_with_its_launch(tmp_path: Path) -> None:
    # Arguments of a kernel, that is: the operator waits for its kernel.
    causes = by_cause(trace_of(falling_back(launching=True), tmp_path))
    assert "blocking_copy" not in causes
    assert causes["host"] == 2_000 + 6 * 20 + 5 * 20


def test_a_few_copies_prove_nothing(tmp_path: Path) -> None:
    assert "blocking_copy" not in by_cause(trace_of(falling_back(fills=2, steps=2), tmp_path))


def test_makers_whose_copies_have_calls_are_read_by_these(tmp_path: Path) -> None:
    assert "blocking_copy" not in by_cause(trace_of(falling_back("xpu"), tmp_path))


def test_clocks_some_ten_us_apart(tmp_path: Path) -> None:
    """By the device's clock the last transfer ends 30 us behind its operator, and is its own all the same."""
    b = Accelerator("mtia", with_stack=False)
    for _ in range(STEPS):
        with b.step():
            with b.op("aten::mm"):
                b.job("fc", 10_000, waits=True)
            for _ in range(FILLS):
                with b.op("aten::fill_"):
                    b.transfer(60, host_us=200)
                    b.transfer(60, host_us=200, waits=False)
                    b.idle(us=30)  # past its middle, of 60
                b.idle(us=100)
    trace = trace_of(b, tmp_path)
    assert len(trace.syncs) == 2 * FILLS * STEPS
    assert by_cause(trace)["blocking_copy"] == 5 * 400


def test_a_launch_that_waits_does_not_answer_for_them(tmp_path: Path) -> None:
    result = advisor.analyze(trace_of(falling_back(), tmp_path))
    found = {finding.rule: finding.cost_ms for finding in result.findings}
    # 120 us of launches in a step are 1 % of it, and 0.62 % what they return: too little to name. 2,000 are the copies'.
    assert found == {"transfer/copy-through-host": pytest.approx(2.0)}


FETCH, SEND = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"


def test_copies_to_the_host_and_back_are_no_fetches_of_the_program(tmp_path: Path) -> None:
    result = advisor.analyze(trace_of(falling_back("privateuse1", names=(FETCH, SEND)), tmp_path))
    assert [finding.rule for finding in result.findings] == ["transfer/copy-through-host"]


def test_copies_to_the_host_alone_are_those_of_the_program(tmp_path: Path) -> None:
    trace = trace_of(falling_back("privateuse1", names=(FETCH, FETCH)), tmp_path)
    assert by_cause(trace)["blocking_copy"] == 2_000
    assert trace.gaps["copying_op"].isna().all()
    assert [finding.rule for finding in advisor.analyze(trace).findings] == ["transfer/d2h-sync-copy"]


def test_a_device_without_any_event_of_the_host_is_read(tmp_path: Path) -> None:
    """The transfers alone: nobody called them."""
    kept = [
        event
        for event in json.loads((falling_back("mtia")).to_json())["traceEvents"]
        if "ccp_events" in str(event.get("cat", ""))
    ]
    assert len(kept) > 10
    path = tmp_path / "device.json"
    path.write_text(json.dumps({"traceEvents": kept}))
    assert advisor.analyze(str(path)).summary is not None
