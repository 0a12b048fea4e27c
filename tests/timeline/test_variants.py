"""Recompilations that end by themselves are start-up; beyond the limit of eight variants they are a cause of every step."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.report import savings
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read


def trace_of(b: TraceBuilder, folder: Path) -> Trace:
    """Read what was built."""
    return read(str(b.write(folder / "trace.json")))


def lengths(first: int, *, gpu: bool, last_runs: bool = True) -> TraceBuilder:
    """Four steps of 70 ms, each of which first compiles the same code for 30 ms: as its variants from *first* on."""
    b = TraceBuilder(latency_us=0) if gpu else TraceBuilder(None)
    for k in range(first, first + 4):
        with b.step():
            with b.op("dynamo"), b.annotation(f"dynamo_data: compile_id=0/{k}"):
                b.idle(ms=30)
            with b.op(f"Torch-Compiled Region: 0/{k}" if last_runs or k < first + 3 else "aten::relu"):
                if gpu:
                    b.kernel("triton_poi_fused_relu_0", ms=70, host_us=0)
                    b.sync(us=0)
                else:
                    b.idle(ms=70)
    return b


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize(
    ("first", "last_runs", "bounded"),
    [(1, True, True), (4, True, True), (5, False, True), (5, True, False), (9, True, False)],
    ids=["few", "up to the eighth", "a ninth that is given up", "a ninth that runs", "many"],
)
def test_variants_up_to_the_eighth_are_compiled_once(
    first: int, gpu: bool, last_runs: bool, bounded: bool, tmp_path: Path
) -> None:
    trace = trace_of(lengths(first, gpu=gpu, last_runs=last_runs), tmp_path)
    rows = trace.compiles
    assert rows[rows["kind"] == "recompilation"]["bounded"].tolist() == [bounded] * 4
    causes = trace.ledger.of_extent()
    assert causes["startup"] / 1e6 == pytest.approx(120 if bounded else 0, abs=0.1)
    assert causes["compile"] / 1e6 == pytest.approx(0 if bounded else 120, abs=0.1)


@pytest.mark.parametrize("gpu", [True, False])
def test_what_ends_by_itself_is_said_once_and_never_priced_by_the_step(gpu: bool, tmp_path: Path) -> None:
    analysis = advisor.analyze(trace_of(lengths(3, gpu=gpu), tmp_path))
    (found,) = [finding for finding in analysis.findings if finding.rule == "compile/recompilation"]
    # Of the three steps that count 30 ms each: the first is filled by start-up.
    assert (found.saving, found.cost_ms, found.severity) == (None, 0, "medium")
    assert found.once_ms == pytest.approx(90, abs=0.1)
    assert savings.saving(found, analysis.findings) == "90.0 ms once, ends by itself"
    assert analysis.summary.priced_ms == pytest.approx(70, abs=0.1)


def test_what_goes_on_has_a_price_and_no_once(tmp_path: Path) -> None:
    analysis = advisor.analyze(trace_of(lengths(9, gpu=True), tmp_path))
    (found,) = [finding for finding in analysis.findings if finding.rule == "compile/recompilation"]
    assert found.saving is not None
    assert (found.once_ms, found.cost_ms) == (0, pytest.approx(30, abs=0.1))


@pytest.mark.parametrize(("before", "startup"), [(0, 30), (10, 0)])
def test_without_steps_a_compilation_on_the_cpu_is_start_up_where_nothing_ran_before_it(
    before: int, startup: float, tmp_path: Path
) -> None:
    b = TraceBuilder(None)
    for number in range(20):
        if number == before:
            with b.op("dynamo"):
                b.idle(ms=30)
        with b.op("aten::mm"):
            b.idle(ms=1)
    causes = trace_of(b, tmp_path).ledger.of_extent()
    assert (causes["startup"] / 1e6, causes["compile"] / 1e6) == (startup, 30 - startup)
