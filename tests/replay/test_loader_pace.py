"""Worker processes that come too late set the pace: what is saved elsewhere lengthens the wait for them."""

from __future__ import annotations

import pytest

import advisor
from advisor.testing import TraceBuilder
from tests.replay.test_predictions import FASTER, PRECISION, step, trace_of

STALL = "data-loading/loader-stall"
PERIOD_MS, PRODUCTS = 20.0, 10


def fed(*, product_us: float = 1000, workers: int = 2, loads: float = 0.0, wait: bool = True) -> TraceBuilder:
    """Steps of ten products and a readback, for which a batch comes every 20 ms, or is there at once; *loads* of it unpickles."""
    b = TraceBuilder()
    begun = b.now_ns
    for number in range(1, 7):
        with b.step():
            if wait:
                with b.loader(workers=workers):
                    b.idle(us=max((number * PERIOD_MS - loads) * 1e3 - (b.now_ns - begun) / 1e3, 0))
                    if loads:
                        with b.python("<built-in function loads>"):
                            b.idle(ms=loads)
            for _ in range(PRODUCTS):
                with b.op("aten::mm"):
                    b.kernel("volta_sgemm_128x64_nn", us=product_us)
            b.item()
            b.idle(us=500)
    return b


def with_fixes(b: TraceBuilder, *rules: str) -> dict[str, float]:
    return advisor.what_if(trace_of(b), list(rules)).step.step_ms_after


def test_the_recorded_step_is_the_pace_of_the_workers() -> None:
    assert step(fed()) == pytest.approx(PERIOD_MS, abs=0.1)


def test_faster_products_return_nothing_while_batches_come_late() -> None:
    assert with_fixes(fed(), PRECISION)["low"] == pytest.approx(step(fed(product_us=1000 * FASTER)), abs=0.1)
    assert step(fed(product_us=1000 * FASTER)) == pytest.approx(PERIOD_MS, abs=0.1)


def test_with_a_loader_that_delivers_at_will_they_return_all_that_they_can() -> None:
    best = with_fixes(fed(), PRECISION, STALL)["low"]
    assert best == pytest.approx(step(fed(product_us=1000 * FASTER, wait=False)), abs=0.1)


def test_cautiously_the_loader_keeps_a_pace_of_its_own() -> None:
    """Three tenths of each wait go, as the rule assumes at least: of some 9 ms in each 20."""
    waited = PERIOD_MS - step(fed(wait=False))
    worst = with_fixes(fed(), PRECISION, STALL)["high"]
    assert worst == pytest.approx(PERIOD_MS - 0.3 * waited, abs=0.15)


def test_a_loader_in_the_main_process_is_asked_and_answers() -> None:
    """Its wait is work of the loop's own: faster products return what they take less."""
    saved = step(fed(workers=0)) - with_fixes(fed(workers=0), PRECISION)["low"]
    assert saved == pytest.approx(PRODUCTS * (1 - FASTER), abs=0.1)


def test_unpickling_a_batch_that_is_there_is_no_wait_for_workers() -> None:
    found = trace_of(fed(loads=8.5)).loader
    assert found.unpickling_ns.tolist() == [8_500_000] * 6
    saved = step(fed(loads=8.5)) - with_fixes(fed(loads=8.5), PRECISION)["low"]
    assert saved == pytest.approx(PRODUCTS * (1 - FASTER), abs=0.1)


def test_where_no_python_was_recorded_unpickling_is_unknown() -> None:
    assert trace_of(fed()).loader.unpickling_ns.isna().all()
