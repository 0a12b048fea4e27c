"""Findings of one process with several GPUs: the report says of which GPU each is, and speaks of another where it is asked to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import advisor
from advisor.cli import main
from advisor.errors import UsageError
from advisor.testing import TraceBuilder


def command(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def two_gpus() -> TraceBuilder:
    """GPU 0 multiplies for 8 ms of each step; meanwhile GPU 1 is given ten copies of 0.2 ms out of pageable memory."""
    b = TraceBuilder("Tesla V100-SXM2-16GB", devices=2, host_us=1)
    for _ in range(4):
        with b.step():
            with b.python("first.py(10): multiply"), b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=8000, device=0)
            for _ in range(10):
                with b.python("second.py(30): copy_in"), b.op("aten::copy_"):
                    b.copy("HtoD", 2 << 20, us=200, pinned=False, device=1)
                with b.op("aten::mm"):
                    b.kernel("volta_sgemm_128x64_nn", us=300, device=1)
            b.sync()
    return b


def test_each_finding_names_its_gpu_and_another_one_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    two_gpus().write(path)
    first, second = (advisor.analyze(advisor.read(str(path), gpu=gpu)) for gpu in (0, 1))
    assert (first.summary.device, second.summary.device) == (0, 1)
    assert "transfer/pageable-copy" not in [finding.rule for finding in first.findings]
    found = next(finding for finding in second.findings if finding.rule == "transfer/pageable-copy")
    assert found.devices == [1]
    assert all(set(finding.devices) <= {0, 1} for finding in first.findings + second.findings)
    assert advisor.analyze(advisor.read(str(path))).summary.device == 0


def test_the_report_says_of_which_gpu_it_speaks(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    two_gpus().write(path)
    text = command("analyze", str(path), "--gpu", "1").stdout
    assert "figures of GPU 1" in text
    assert "second.py:30 in copy_in, GPU 1" in text
    whole = json.loads(command("analyze", str(path), "--gpu", "1", "-f", "json").stdout)
    assert {finding["rule"]: finding["devices"] for finding in whole["findings"]}["transfer/pageable-copy"] == [1]


def test_of_one_gpu_nothing_is_said(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            b.copy("HtoD", 2 << 20, us=900, pinned=False)
    path = b.write(tmp_path / "one.json")
    assert all(finding.devices == [] for finding in advisor.analyze(advisor.read(str(path))).findings)
    assert "figures of GPU" not in command("analyze", str(path)).stdout


def test_a_gpu_that_did_nothing_is_an_error_that_names_the_others(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    two_gpus().write(path)
    with pytest.raises(UsageError, match="GPU 5 did no work here; those that did: 0, 1"):
        advisor.read(str(path), gpu=5)
