"""What a batch of today's size takes within a larger one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT

import advisor
from advisor import rulebook
from advisor.frames.filling import per_sample
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

RULE = "memory/low-peak"
SMS = 80


@pytest.mark.parametrize(
    ("blocks", "times", "left"),
    [
        (0.5, 2, 0.5),  # half of the multiprocessors idle: twice the blocks in the same time
        (0.5, 8, 0.5),  # four times that: four blocks a multiprocessor for eight times the samples
        (0.1, 4, 0.25),  # a tenth of them busy: four times the blocks still fit beside each other
        (1.5, 2, 0.75),  # two rounds, the second half empty; three full ones for twice the samples
        (4.0, 4, 1.0),  # full rounds stay full
        (2.1, 1, 1.0),
        (float("nan"), 4, 1.0),  # the trace does not say
        (0.0, 4, 1.0),
    ],
)
def test_a_kernel_is_charged_for_whole_blocks_a_multiprocessor(blocks: float, times: float, left: float) -> None:
    with np.errstate(all="ignore"):
        assert per_sample(np.array([blocks]), times).tolist() == [pytest.approx(left)]


def training(grid: int, *, peak: float = 0.1, idle_us: float = 6000) -> TraceBuilder:
    """Four steps of 10 ms at *peak* of the memory: the host alone first, then one kernel of *grid* blocks for the rest."""
    memory = 16_000_000_000
    b = TraceBuilder("Tesla V100-SXM2-16GB", memory_bytes=memory, host_us=0, latency_us=0)
    b.pool(0, memory // 2)
    for number in range(4):
        start = number * 10_000
        with b.step():
            batch = b.memory(round(peak * memory))
            b.seek(us=start + idle_us)
            with b.backward("AddmmBackward0", 1):
                b.kernel("volta_sgemm_128x64_nn", us=10_000 - idle_us, at_us=start + idle_us, grid=(grid, 1, 1))
            b.release(batch)
            b.seek(us=start + 10_000)
    return b


def what_if(b: TraceBuilder) -> tuple[float, float]:
    """The step in ms with the larger batch: at best, and at worst."""
    after = analyzed(b).what_if
    assert after is not None
    return after.step_ms_after["low"], after.step_ms_after["high"]


def analyzed(b: TraceBuilder, only: tuple[str, ...] = ()) -> Analysis:
    with tempfile.TemporaryDirectory() as folder:
        trace = advisor.read(str(b.write(Path(folder) / "t.json")))
    return advisor.analyze(trace, rulebook.load([rulebook.builtin_rules_dir()]), what_if=[RULE], only=only)


# In each, the host takes 10 ms a step, of which the GPU works through the last 4.


def test_the_hosts_time_is_spread_until_full_kernels_set_the_pace() -> None:
    # Cautiously half of the host's 10 ms stay. Hopefully 1.5 do, and the GPU's 4 ms, whole rounds of blocks, are longer.
    assert what_if(training(64 * SMS)) == (pytest.approx(4.0, rel=0.02), pytest.approx(5.0, rel=0.02))


def test_kernels_that_leave_multiprocessors_idle_fill_up_in_the_hopeful_price_alone() -> None:
    # Half of the multiprocessors are busy. At 1 / 0.15 = 6.67 times the batch a kernel takes ceil(3.33) = 4 rounds for 6.67
    # batches: 0.6 of its 4 ms. Cautiously it takes what it took, and the host 5 ms.
    assert what_if(training(SMS // 2)) == (pytest.approx(2.4, rel=0.02), pytest.approx(5.0, rel=0.02))


def test_the_batch_grows_no_further_than_the_memory() -> None:
    # At 39 % of the memory a batch 0.9 / 0.39 = 2.31 times as large fits: 10 / 2.31 = 4.33 ms of the host stay.
    analysis = analyzed(training(64 * SMS, peak=0.39))
    assert analysis.what_if is not None
    assert analysis.what_if.step_ms_after["low"] == pytest.approx(4.33, rel=0.02)
    alone = analyzed(
        training(64 * SMS, peak=0.39), only=(RULE,)
    )  # beside the fix of the host's time nothing is left to it
    (basis,) = [f.saving.basis for f in alone.findings if f.saving is not None]
    assert basis.endswith("here no more than 56.7 %: no batch over 2.31 times as large surely fits the memory")


def sleeping(sleep_us: int) -> TraceBuilder:
    """Four steps: 4 ms of a kernel behind which a function holds the host for so long, then 60 launches of 50 us."""
    b = TraceBuilder("Tesla V100-SXM2-16GB", memory_bytes=16_000_000_000, with_stack=True, host_us=0, latency_us=0)
    b.pool(0, 2_000_000_000)
    number = 0
    for _ in range(4):
        with b.step(), b.python("train.py(20): main"):
            batch = b.memory(1_000_000_000)
            b.kernel("volta_sgemm_128x64_nn", us=4000)
            with b.python("report.py(5): write"):
                b.idle(us=sleep_us)
            for _ in range(60):
                number += 1
                with b.backward("AddmmBackward0", number), b.op("aten::mm", us=50):
                    b.kernel("volta_sgemm_128x64_nn", us=5)
            b.release(batch)
    return b


def test_a_function_that_launches_nothing_is_not_spread_nor_counted_as_room() -> None:
    """Of a sleep of 7 ms the device waits for 3: neither these nor the 4 behind its work are the larger batch's to return."""
    found = {finding.rule: finding for finding in analyzed(sleeping(7000)).findings}
    batch, launches_ms = found[RULE], 60 * 0.05
    assert found["gpu-idle/host-function"].cost_ms == pytest.approx(3, rel=0.05)
    assert batch.cost_ms <= launches_ms
    assert batch.saving is not None
    assert batch.saving.high_ms <= launches_ms
    assert "report.py" not in {place.file for place in batch.where}


def test_a_sleep_is_left_to_its_own_finding_on_the_clock_without_start_up() -> None:
    """A sleep of 5 ms a step, of which the device waits for 2: start-up comes before it, so the replay's clock runs behind."""
    result = advisor.analyze(str(ROOT / "sample_traces" / "h100" / "known" / "idle_sleep.json.gz"))
    (own, batch) = ({found.rule: found for found in result.findings}[rule] for rule in ("gpu-idle/host-function", RULE))
    assert (own.cost_ms, batch.cost_ms) == (pytest.approx(1.96, rel=0.01), pytest.approx(0.513, rel=0.01))
    assert own.saving is not None
    # What the function's own fix leaves of the sleep bounds the plan.
    assert result.plan[-1].rules == [RULE]
    assert result.plan[-1].step_ms_after["low"] >= 5.08 - own.saving.high_ms
