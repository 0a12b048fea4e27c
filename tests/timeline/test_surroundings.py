"""Surroundings of rows of which no line is known."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.report.documents import screen
from advisor.results.analysis import Finding
from advisor.testing import TraceBuilder


def readback(folder: Path, *, ranges: tuple[str, ...]) -> Finding:
    """Three steps of two branches on a value of the GPU, each in a range of its own; 4 ms of the host's behind each."""
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(3):
        with b.step():
            for name in ranges:
                with b.annotation(name):
                    b.kernel("volta_sgemm_128x64_nn", us=5_000)
                    with b.op("aten::is_nonzero"):
                        b.item()
                b.idle(us=4_000)
    found = advisor.analyze(advisor.read(str(b.write(folder / "t.json"))), only=["sync/scalar-readback"])
    (one,) = found.findings
    return one


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        (("## forward ##",), "aten::_local_scalar_dense in aten::is_nonzero under ## forward ##"),
        # Half lies in the one, half in the other: neither is the place.
        (("## forward ##", "## metrics ##"), "aten::_local_scalar_dense in aten::is_nonzero"),
    ],
)
def test_a_readback_without_a_line_is_told_by_what_is_around_it(
    ranges: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    assert screen.where(readback(tmp_path, ranges=ranges)) == text
