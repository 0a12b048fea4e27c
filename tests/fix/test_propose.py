"""Prices of edits: beside the edits before them, not beside fixes that none of them makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.fixing import finding, setting

from advisor.fix.command import proposed
from advisor.fix.project import Project
from advisor.fix.propose import propose
from advisor.pipeline import analyze
from advisor.reading.program_settings import Optimizer
from advisor.results.analysis import Analysis
from advisor.results.fixes import Price
from advisor.testing import TraceBuilder
from advisor.trace import read

SOURCE = """
import torch
from torch import nn

table = nn.Embedding(100_000, 64)
optimizer = torch.optim.Adam(table.parameters(), lr=1e-3)
for step in range(10):
    loss = table(torch.randint(0, 100_000, (512,))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TABLE = [100_000, 64]


def training(*, table: bool = True) -> TraceBuilder:
    """Steps of 5 ms of other work and 21 passes of 1 ms over a *table* of which a batch reads few rows, or over a layer."""
    b = TraceBuilder(None)
    for step in range(4):
        with b.step():
            if table:
                with (
                    b.python("train.py(8): look_up"),
                    b.op("aten::embedding", shapes=[TABLE, [512]], seq=step, us=10),
                ):
                    pass
            with b.op("aten::mm", shapes=[[512, 64], [64, 8]], us=5000 - 10 * table):
                pass
            if table:
                name = "EmbeddingBackward0"
                with (
                    b.op(f"autograd::engine::evaluate_function: {name}", seq=step, fwd_thread=1),
                    b.op(name, seq=step, fwd_thread=1),
                    b.op("aten::embedding_dense_backward", shapes=[[512, 64], [512], [], [], []], us=10),
                ):
                    pass
                store = "torch::autograd::AccumulateGrad"
                with b.op(f"autograd::engine::evaluate_function: {store}"), b.op(store, shapes=[TABLE]):
                    pass
            with b.annotation("Optimizer.step#Adam.step"):
                for _ in range(21):
                    with b.op("aten::mul_", shapes=[TABLE, TABLE, []], us=1000):
                        pass
    return b.ran_with(optimizers=[Optimizer("Adam", tensors=1, file="train.py", line=6)])


def prices(b: TraceBuilder, folder: Path, asked: list[list[str]]) -> dict[str, tuple[float, float]]:
    """Return the prices of the edits of a trace; *asked* gets the rules of each analysis that is made for them."""
    trace = read(str(b.write(folder / "trace.json")))
    (folder / "train.py").write_text(SOURCE)

    def among(rules: Sequence[str]) -> Analysis:
        asked.append(list(rules))
        return analyze(trace, views=False, only=rules)

    project = Project(folder / "train.py", root=folder)
    fixes = proposed("train.py", analyze(trace, views=False), None, project, among).fixes
    return {one.edit: (one.price.low, one.price.high) for one in fixes if one.price is not None}


def test_a_price_does_not_stand_behind_a_fix_that_no_edit_makes(tmp_path: Path) -> None:
    asked: list[list[str]] = []
    # A sparse gradient would spare the passes, but is told, not made: Adam takes none. Alone, fused=True returns 40 to 95 % of the
    # 21 ms of passes, of a step of 5 + 0.01 + 21 ms.
    step = 26.01
    found = prices(training(), tmp_path, asked)
    assert found == {"fused-optimizer": pytest.approx((0.4 * 21 / step, 0.95 * 21 / step), rel=1e-3)}
    assert asked == [["cpu/unfused-optimizer"]]


def test_a_price_that_is_the_same_alone_is_not_asked_for_again(tmp_path: Path) -> None:
    asked: list[list[str]] = []
    found = prices(training(table=False), tmp_path, asked)
    assert found == {"fused-optimizer": pytest.approx((0.4 * 21 / 26, 0.95 * 21 / 26), rel=1e-3)}
    assert asked == []


def test_an_edit_that_does_part_of_a_fix_is_priced_from_nothing_on(tmp_path: Path) -> None:
    """Rows that a collate function writes at once are some of the work on a batch; a worker takes all of it."""
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "def collate(batch):\n    x = torch.zeros(len(batch), 9)\n    for i, row in enumerate(batch):\n"
        "        for j in range(len(row)):\n            x[i, j] = row[j]\n    return x\n"
        "loader = DataLoader(data, collate_fn=collate, num_workers=0)\n"
    )
    found = finding("cpu/loader-wait", [setting("DataLoader", "num_workers", "0", 9)], line=4, share=(0.1, 0.3))
    analysis = cast(Any, SimpleNamespace(findings=[found]))
    proposals, _ = propose(
        analysis, Project(tmp_path / "train.py", root=tmp_path), lambda _: analysis, cores=2, writes=False
    )
    assert [(one.edit.name, one.price) for one in proposals] == [
        ("loader-workers", Price(low=0.1, high=0.3)),
        ("elements-at-once", Price(low=0.0, high=0.3)),
    ]
