"""The tool ``record`` of ``advisor mcp``: a script runs in a process of its own, and leaves a trace below the root."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support.recording import needs_torch

from advisor.errors import UsageError
from advisor.mcp.roots import Roots
from advisor.mcp.tools.record import TOOL
from advisor.mcp.workspace import Workspace

pytestmark = needs_torch

SCRIPT = """
import sys
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("<<<TRACE ended")
"""


def test_a_script_is_recorded_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    workspace = Workspace(Roots([tmp_path]), allow_write=True)
    given = {"script": "train.py", "output": "t.json.gz", "arguments": ["30"], "steps": 2, "skip": 2}
    answer = TOOL.run(workspace, TOOL.parse(given))
    assert answer.data.startswith("exit status 0, trace t.json.gz\n"), answer.data
    names = {
        event["name"] for event in json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]
    }
    assert any(name.startswith("ProfilerStep#") for name in names)
    with pytest.raises(UsageError, match="exists; name a new file"):
        TOOL.run(workspace, TOOL.parse(given))


def test_a_script_that_goes_on_is_ended(tmp_path: Path) -> None:
    (tmp_path / "hang.py").write_text("import time\ntime.sleep(600)\n")
    workspace = Workspace(Roots([tmp_path]), allow_write=True)
    with pytest.raises(UsageError, match="ended after 3 s"):
        TOOL.run(workspace, TOOL.parse({"script": "hang.py", "output": "t.json.gz", "seconds": 3}))
    assert not (tmp_path / "t.json.gz").exists()
