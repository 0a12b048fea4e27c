"""Samples that a loader fetches one by one as rows in memory: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import advisor
from advisor.testing import TraceBuilder


def frame(
    tmp_path: Path,
    *each: str,
    samples: int = 32,
    python_us: float = 6,
    unsqueezed: bool = False,
    empty: str = "[]",
    slow: int = -1,
) -> pd.DataFrame:
    """Three waits: operators of 2 us for each sample and Python, and a stack of 10 us of which 8 copy."""
    b = TraceBuilder(None, host_us=0)
    for number in range(3):
        with b.step():
            with b.loader(us=0):
                for _ in range(samples):
                    for name in each:
                        values: dict[str, Any] = {"shapes": [[]], "values": [empty]} if name == "aten::empty" else {}
                        with b.op(name, us=2, **values):
                            pass
                    b.idle(1000 if number == slow else python_us)
                with b.op("aten::stack", us=10):
                    for _ in range(samples if unsqueezed else 0):
                        with b.op("aten::unsqueeze", us=1):
                            pass
                    with b.op("aten::cat", us=8):
                        pass
                    if not unsqueezed:
                        with b.op("aten::view", shapes=[[8], []], values=["", f"[{samples}, 8]"], us=1):
                            pass
            with b.op("aten::mm", us=500):
                pass
    return advisor.read(str(b.write(tmp_path / "trace.json"))).frame("loader")


@pytest.mark.parametrize("unsqueezed", [False, True])
def test_samples_are_counted_by_what_stacks_them(tmp_path: Path, unsqueezed: bool) -> None:
    table = frame(tmp_path, "aten::select", "aten::select", unsqueezed=unsqueezed)
    assert table["samples"].tolist() == [32] * 3
    # 32 samples of 10 us, and the stack: 10 us, or 40 with a view of 1 us for each.
    assert table["copied_share"].tolist() == pytest.approx([8 / (320 + (40 if unsqueezed else 10))] * 3, rel=1e-6)


def test_a_wait_in_which_the_machine_did_something_else_counts_like_the_others(tmp_path: Path) -> None:
    assert frame(tmp_path, "aten::select", slow=1)["samples"].tolist() == [32] * 3


@pytest.mark.parametrize(
    "what",
    [
        {"each": ("aten::select", "aten::mul")},  # computes
        {"each": ("aten::select",), "samples": 15},
        {
            "each": ("aten::select",),
            "python_us": 100,
        },  # decodes in Python: 100 us are more than 30 and 5 for the operator
        {"each": ("aten::empty", "aten::to"), "empty": "[64]"},  # of a Python list: tokens
        {"each": ("aten::select",) * 25},
        {"each": ()},
    ],
)
def test_samples_that_are_no_rows_in_memory(tmp_path: Path, what: dict[str, Any]) -> None:
    table = frame(tmp_path, *what.pop("each"), **what)
    assert table["samples"].isna().all()
    assert table["copied_share"].isna().all()


def test_single_numbers_that_become_tensors(tmp_path: Path) -> None:
    assert frame(tmp_path, "aten::empty", "aten::to", "aten::lift_fresh")["samples"].tolist() == [32] * 3
