"""The price of fewer workers: what is waited for beyond the time in which one worker puts a batch together."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.pipeline import analyze
from advisor.reading.program_settings import Loader
from advisor.results.analysis import Saving
from advisor.testing import TraceBuilder
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
