"""The price of fewer workers: what is waited for beyond the time in which one worker puts a batch together."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.pipeline import analyze
from advisor.reading.program_settings import Loader, Recorded
from advisor.results.analysis import Saving
from advisor.testing import TraceBuilder
from advisor.timeline.unprofiled import bare_times, slowed_by_workers
from advisor.trace import read


def saving(folder: Path, *, workers: int, fetch_ms: float | None, bare: bool = False) -> Saving:
    """Return the saving of a trace of four steps of 10 ms, 6 of them waited for *workers*; two cores, one batch a step."""
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            with b.loader(us=6000, workers=workers):
                pass
            with b.op("aten::mkldnn_convolution", us=4000):
                pass
    times = {"unprofiled_step_ms": [9.0] * 60, "unprofiled_wait_ms": [7.0] * 60} if bare else {}
    loader = Loader(workers, file="train.py", line=42)
    b.ran_with(cores=2, threads=1, loaders=[loader], worker_fetch_ms=fetch_ms, **times)
    found = analyze(read(str(b.write(folder / "trace.json"))), views=False, only=["cpu/slow-workers"]).findings
    assert len(found) == 1
    assert found[0].saving is not None
    return found[0].saving


def test_a_fetch_is_left_of_the_wait(tmp_path: Path) -> None:
    # Of 6 ms 1.5 are left, three quarters go: 90 to 100 % of 4.5 ms.
    found = saving(tmp_path, workers=8, fetch_ms=1.5)
    assert (found.low_ms, found.high_ms) == (pytest.approx(4.05), pytest.approx(4.5))


def test_of_steps_without_the_profiler_their_wait_counts(tmp_path: Path) -> None:
    # 7 of 9 ms: four fifths go where a fetch takes 1.4 ms, 5.6 ms at 100 %. 90 % are 5.04 ms; the upper end is 50 % more, and no
    # more than a third of the step, 3 ms, above the lower end.
    found = saving(tmp_path, workers=8, fetch_ms=1.4, bare=True)
    assert (found.low_ms, found.high_ms) == (pytest.approx(5.04, rel=0.01), pytest.approx(5.04 + 3.0, rel=0.01))


@pytest.mark.parametrize(("workers", "fetch_ms"), [(8, None), (2, 1.5)])
def test_without_the_time_or_with_a_core_for_each_it_begins_at_nothing(
    tmp_path: Path, workers: int, fetch_ms: float | None
) -> None:
    found = saving(tmp_path, workers=workers, fetch_ms=fetch_ms)
    assert (found.low_ms, found.high_ms) == (0.0, pytest.approx(5.4))  # 90 % of 6 ms


TURNS = [(1.1, 0.05), (4.5, 2.5), (1.0, 0.05), (2.4, 1.0)]
"""Steps without the profiler, and the waits in them, of workers that take turns: of 8 on two cores, handing over rows in memory."""


def recorded(*turns: tuple[float, float], workers: int = 8) -> Recorded:
    steps, waits = [step for step, _ in turns], [wait for _, wait in turns]
    return Recorded(cores=2, loaders=[Loader(workers)], unprofiled_step_ms=steps, unprofiled_wait_ms=waits)


def test_first_steps_that_wait_like_the_others_were_not_fed_by_what_lay_ready() -> None:
    steps, waits = bare_times(recorded(*TURNS * 5))
    assert waits is not None
    assert (len(steps), float(waits.mean())) == (20, pytest.approx(0.9e6))


def test_first_steps_that_hardly_wait_were() -> None:
    steps, _ = bare_times(recorded(*[(9.0, 8.0), *[(1.1, 0.05)] * 15], *TURNS))
    assert len(steps) == 4


def test_steps_that_wait_for_no_batch_tell_what_the_workers_take_of_the_others() -> None:
    # 1.35 ms beside the waits on average, and 1.0 in steps that wait for none.
    assert slowed_by_workers(recorded(*TURNS * 5)) == pytest.approx(1 - 1.0 / 1.35, abs=0.01)


@pytest.mark.parametrize(("turns", "workers"), [(TURNS * 5, 2), (TURNS, 8), ([(1.1, 0.05)] * 20, 8)])
def test_with_a_core_for_each_or_few_steps_nothing_tells_it(turns: list[tuple[float, float]], workers: int) -> None:
    assert slowed_by_workers(recorded(*turns, workers=workers)) is None


def test_what_workers_wait_and_what_they_take_of_the_operators_is_one_change(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            with b.loader(us=900, workers=8):
                pass
            with b.op("aten::mkldnn_convolution", us=1400):
                pass
    turns = TURNS * 5
    b.ran_with(
        cores=2,
        threads=2,
        loaders=[Loader(8, file="train.py", line=42)],
        worker_fetch_ms=0.2,
        own_cores=1.3,
        workers_cores=0.4,
        others_cores=0.2,
        waited_share=0.3,
        unprofiled_step_ms=[step for step, _ in turns],
        unprofiled_wait_ms=[wait for _, wait in turns],
    )
    found = {
        finding.rule: finding for finding in analyze(read(str(b.write(tmp_path / "trace.json"))), views=False).findings
    }
    assert found["cpu/busy-workers"].done_by == "cpu/slow-workers"
    saving = found["cpu/slow-workers"].saving
    assert saving is not None
    # Of 2.25 ms 0.7 are waited beyond a fetch, and 0.35 are the operators' without a core.
    assert saving.low_ms < 0.7 + 0.35 < saving.high_ms
