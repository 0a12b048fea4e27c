"""Programs on the pages that record: they run, and what they leave is a trace with steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.paths import ROOT
from support.recording import needs_torch

import advisor

pytestmark = [needs_torch, pytest.mark.filterwarnings("ignore::UserWarning")]  # torch's, of a machine without a GPU


def programs(page: str) -> list[str]:
    """Blocks of Python on a page that record, and need no package beside torch."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [
        block for block in blocks if "profile(" in block and not re.search(r"import (?:lightning|transformers)", block)
    ]


@pytest.mark.parametrize(
    ("page", "number", "steps"), [("docs/record.md", 0, 5), ("docs/record.md", 1, 5), ("docs/gate.md", 0, 8)]
)
def test_the_program_leaves_a_trace_of_so_many_steps(
    page: str, number: int, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(batch: torch.Tensor) -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    monkeypatch.chdir(tmp_path)
    loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=4)  # 16: a second cycle would be cut short
    assert len(programs(page)) == (2 if page == "docs/record.md" else 1)
    exec(compile(programs(page)[number], page, "exec"), {"loader": loader, "train_step": train_step})  # noqa: S102
    trace = advisor.read(str(tmp_path / "trace.json.gz"))
    assert len(trace.steps) == steps
