"""Turns of a loop that pick rows of a tensor which needs a gradient: taken all at once, the gradients of the picks go as well."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.trace import read

ENGINE = "autograd::engine::evaluate_function: "
TURNS, SLICES = "cpu/separate-turns", "gradient/repeated-slicing"


def loop(picks: int = 16, *, turns: int = 100, whole_us: float = 20, rest_us: float = 100) -> TraceBuilder:
    """Steps in which line 15 or 16 picks rows in each turn, and line 16 reduces them; each pick has a gradient of the whole."""
    b = TraceBuilder(None, host_us=0)
    chains = [
        {"turns": turns, "deeper": 0.0, "calls": 3 * turns, "file": "users.py", "line": line} for line in (16, picks)
    ]
    b.ran_with(chains=chains[: 1 + (picks != 16)], unprofiled_step_ms=(6.0, 6.0, 6.0))
    whole, part = [32, 1000], [32, 4]
    for step in range(4):
        with b.step():
            for turn in range(turns):
                numbers = {"seq": 1000 * step + turn}
                with (
                    b.python(f"users.py({picks}): forward"),
                    b.op("aten::index", us=5, shapes=[whole, [turn + 1]], **numbers),
                ):
                    pass
                for name in ("aten::mean", "aten::div", "aten::mul", "aten::exp"):
                    with b.python("users.py(16): forward"), b.op(name, us=5, shapes=[part]):
                        pass
            with b.op("aten::mm", us=rest_us, shapes=[[512, 64], [64, 8]]):
                pass
            for turn in reversed(range(turns)):
                numbers = {"seq": 1000 * step + turn, "fwd_thread": 1}
                with b.op(ENGINE + "IndexBackward0", **numbers):
                    with b.op("IndexBackward0", shapes=[part], **numbers):
                        for name, us in (("aten::zero_", whole_us), ("aten::_index_put_impl_", 5)):
                            with b.op(name, us=us, shapes=[whole]):
                                pass
                    with b.op("aten::add_", us=5, shapes=[whole, whole]):
                        pass
    return b


def analyzed(b: TraceBuilder, folder: Path) -> Analysis:
    return advisor.analyze(read(str(b.write(folder / "trace.json"))))


@pytest.mark.parametrize("line", [16, 15])
def test_the_slices_of_a_loop_go_with_its_turns(line: int, tmp_path: Path) -> None:
    """Where the picks are on a line of their own, slices may own all of it; it is a line of the loop that is gone all the same."""
    found = {finding.rule: finding for finding in analyzed(loop(line), tmp_path).findings}
    assert found[SLICES].done_by == TURNS
    saving = found[TURNS].saving
    assert saving is not None
    assert f"of {SLICES}" in saving.basis
    # 2.5 of 5.6 ms are the loop's operators, 3.0 the gradients of the picks; almost all of that returned where it was measured.
    assert saving.low_share > 0.6
    assert saving.high_share > 0.9


def test_what_is_one_change_spreads_no_wider_than_a_finding(tmp_path: Path) -> None:
    found = {finding.rule: finding for finding in analyzed(loop(), tmp_path).findings}
    saving = found[TURNS].saving
    assert saving is not None
    assert saving.high_share - saving.low_share < 0.34


def test_slices_elsewhere_are_a_change_of_their_own(tmp_path: Path) -> None:
    b = loop(40)
    b.ran_with(chains=[{"turns": 100, "deeper": 0.0, "calls": 400, "file": "users.py", "line": 16}])
    found = {finding.rule: finding for finding in analyzed(b, tmp_path).findings}
    assert {TURNS, SLICES} <= found.keys()
    assert found[SLICES].done_by is None
