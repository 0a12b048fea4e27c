"""The score that docs/agents.md publishes: keys from the raw JSON, answers of the scripted agent, grades."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import agents, real, traces

FOLDER = agents.ROOT / "benchmarks" / "questions"
sys.path.append(str(FOLDER))

import grading  # noqa: E402
import keys  # noqa: E402


def test_answers_are_graded() -> None:
    for key, answer, tolerance, floor, right in (
        (None, None, 0.0, 0.0, True), (None, 0, 0.0, 0.0, False), (0, None, 0.0, 0.0, False), (0, 0.0, 0.0, 0.0, True),
        (100, 101, 0.01, 0.0, True), (100, 101.1, 0.01, 0.0, False), (0.0, 0.04, 0.01, 0.05, True), ("yes", " YES", 0.0, 0.0, True),
        ("yes", "no", 0.0, 0.0, False), (3, "three", 0.0, 0.0, False), (3, "3", 0.0, 0.0, True), ("3", None, 0.0, 0.0, False),
        (1e9, 1e9 + 1, 0.0, 0.0, False),
    ):  # fmt: skip
        assert grading.right(key, answer, tolerance, floor) is right, (key, answer)


def test_kinds_of_keys_on_a_trace_made_by_hand(tmp_path: Path) -> None:
    """Two kernels of 10 and 30 us that overlap by 5, an all-reduce of 20 behind a gap of 45, a copy of 4 MB in 10 us."""

    def event(name: str, category: str, start: float, dur: float, **arguments: Any) -> dict[str, Any]:
        where = {"device": 0, "stream": 7} if category in keys.GPU else {}
        return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": dur, "args": where | arguments}

    stack = "/x/site-packages/torch/a.py(3): f;run.py(42): main"
    events = [
        event("gemm", "kernel", 100, 10, correlation=1),
        event("add", "kernel", 105, 30, correlation=2),
        event("ncclKernel_AllReduce", "kernel", 180, 20, correlation=9),
        event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 190, 10, bytes=4_000_000),
        event("cudaLaunchKernel", "cuda_runtime", 90, 4, correlation=1),
        event("cudaLaunchKernel", "cuda_runtime", 95, 2, correlation=2),
        event("aten::mm", "cpu_op", 88, 20, **{"Input Dims": [[2, 3], [3, 4]], "Call stack": stack}),
        event("ProfilerStep#1", "user_annotation", 80, 60),
        event("ProfilerStep#2", "user_annotation", 140, 70),
    ]
    import gzip

    path = tmp_path / "t.json.gz"
    path.write_bytes(
        gzip.compress(json.dumps({"traceEvents": events, "deviceProperties": [{"id": 0, "name": "A100"}]}).encode())
    )
    trace = keys.Raw(path)
    expected: dict[str, tuple[str, object]] = {
        "kernel_count": ("", 3),
        "kernel_ms": ("", 0.06),
        "top_kernel": ("", "add"),
        "top_kernel_share": ("", 50.0),
        "longest_kernel_us": ("", 30.0),
        "short_kernels": ("15", 1),
        "name_share": ("GEMM", 100 / 6),
        "stream_count": ("", 1),
        "unlinked_kernels": ("", 1),
        "launch_delay_us": ("", 10.0),
        "busy_share": ("", 55.0),
        "longest_idle_ms": ("", 0.045),
        "collective_count": ("", 1),
        "collective_share": ("", 100 / 3),
        "overlap_share": ("", 0.0),
        "collective_bytes": ("", None),
        "op_calls": ("aten::mm", 1),
        "op_total_ms": ("aten::mm", 0.02),
        "most_called_op": ("", "aten::mm"),
        "op_shapes": ("aten::mm", 1),
        "op_place": ("aten::mm", "run.py:42"),
        "runtime_calls": ("cudaLaunchKernel", 2),
        "longest_runtime_ms": ("cudaLaunchKernel", 0.004),
        "copies_count": ("HtoD", 1),
        "copies_bytes": ("HtoD", 4.0),
        "copies_gbps": ("HtoD", 400.0),
        "copies_memory": ("HtoD", "pinned"),
        "step_count": ("", 2),
        "step_host_ms": ("", 0.07),
        "loader_ms": ("", None),
        "single_process_loader": ("", None),
        "loader_workers": ("", None),
        "device_name": ("", "A100"),
        "peak_memory": ("", None),
        "rank": ("", None),
        "world_size": ("", None),
        "figure": ("loss", None),
        "main_cause": ("", "startup"),
    }
    assert set(expected) == set(keys.KINDS) - {"top_launching_op"}
    for kind, (argument, value) in expected.items():
        found = keys.KINDS[kind](trace, argument)
        assert found == (pytest.approx(value) if isinstance(value, float) else value), kind


def test_an_error_of_the_server_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once read as "cannot answer", and made a question right by accident."""
    agents.installed()
    import run

    class Refusing:
        async def call_tool(self, _tool: str, _arguments: dict[str, Any]) -> SimpleNamespace:
            return SimpleNamespace(content=[SimpleNamespace(text="SQL: no such column")], is_error=True)

    @asynccontextmanager
    async def connected(_over_http: bool) -> AsyncIterator[Refusing]:
        yield Refusing()

    monkeypatch.setattr(run, "connected", connected)
    monkeypatch.setattr(run, "_relative", lambda trace: trace)
    (result,) = asyncio.run(run.scripted([{"id": "x", "trace": "t", "kind": "kernel_count"}], False))
    assert result["answer"] == "error: SQL: no such column"
    assert not grading.right(None, result["answer"])


@pytest.mark.study
def test_the_scripted_agent_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agents.installed()
    for question in keys.questions():
        place = (
            real.path_of(question["trace"]),
            real.path_of(f"audited/{question['trace']}"),
            real.TRACES / question["trace"],
        )
        if not any(path.exists() for path in place):
            traces.missing()
    monkeypatch.setenv("ADVISOR_TRACES", str(real.TRACES))
    known = json.loads((FOLDER / "keys.json").read_text(encoding="utf-8"))
    assert {name: pytest.approx(key) if isinstance(key, float) else key for name, key in keys.all_keys()} == known
    output = tmp_path / "results.json"
    subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "-o", str(output)],
        check=True, env={**os.environ, "PYTHONPATH": str(agents.ROOT)}, capture_output=True,
    )  # fmt: skip
    results = json.loads(output.read_text(encoding="utf-8"))
    unknown = [result for result in results if result["key"] is None]
    assert len(unknown) >= 12
    assert all(result["right"] for result in unknown)
    assert sum(result["right"] for result in results) >= 0.95 * len(results)
    sizes = [size for result in results for size in result["bytes"]]
    assert statistics.median(sizes) <= 1500
    assert max(sizes) <= 4000
