"""Times of ``advisor mcp`` in a process of its own: the least of some runs, which a busy machine lengthens little."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import pytest
from support import agents

from advisor.mcp.roots import Roots

SAMPLES = agents.ROOT / "sample_traces"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
pytestmark = [
    pytest.mark.study,
    pytest.mark.skipif(not os.environ.get("ADVISOR_TIMED"), reason="timed: needs quiet cores and ADVISOR_TIMED=1"),
]


def cpu() -> float:
    """Processor time of all processes that this one has waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_initialize_takes_little_more_than_to_import_the_protocol() -> None:
    agents.installed()
    imports, answers = [], []
    for _ in range(5):
        before = cpu()
        subprocess.run([sys.executable, "-c", "import mcp.server"], env=agents.environment(), check=True)
        imports.append(cpu() - before)
        before = cpu()
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        process = subprocess.Popen(agents.command("--root", str(SAMPLES)), env=agents.environment(), text=True, **pipes)  # type: ignore[call-overload]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "advisor"
        process.communicate()
        answers.append(cpu() - before)
    assert min(answers) - min(imports) < 0.3, (imports, answers)


def test_explain_is_answered_at_once_after_the_first_analysis() -> None:
    agents.installed()
    from advisor.mcp.server import call
    from advisor.mcp.workspace import Workspace

    workspace = Workspace(Roots([SAMPLES]))
    trace = "article/rung0_baseline.json.gz"
    assert not call(workspace, "analyze", {"trace": trace})[1]
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        assert not call(workspace, "explain", {"trace": trace, "finding": "1"})[1]
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.2, seconds
