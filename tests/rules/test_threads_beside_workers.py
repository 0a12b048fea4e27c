"""The caveat of loading in workers where the operators' threads use all cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.pipeline import analyze
from advisor.reading.program_settings import Loader, Optimizer
from advisor.testing import TraceBuilder
from advisor.trace import read


@pytest.mark.parametrize(("cores", "threads", "warned"), [(2, 2, True), (8, 8, True), (8, 4, False)])
def test_a_worker_beside_threads_on_all_cores_may_cost_time(
    tmp_path: Path, cores: int, threads: int, warned: bool
) -> None:
    b = TraceBuilder(None)
    for step in range(4):
        with b.step():
            with b.loader(us=2000, workers=0):
                pass
            with b.op("aten::mkldnn_linear", seq=step, us=4000):
                pass
            with b.backward("AddmmBackward0", step), b.op("aten::mm", us=4000):
                pass
    loaders, optimizers = [Loader(0, file="train.py", line=3)], [Optimizer("SGD")]
    b.ran_with(cores=cores, threads=threads, loaders=loaders, optimizers=optimizers)
    trace = read(str(b.write(tmp_path / "trace.json")))
    (found,) = analyze(trace, views=False, only=["cpu/loader-wait"]).findings
    assert ("the step may get longer" in found.fix.caveat) == warned
