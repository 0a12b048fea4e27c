"""``with advisor.profile(...)``: a loop of one's own, recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch

import advisor
from advisor.errors import UsageError

pytestmark = needs_torch


def train(steps: int, session: Any = None) -> None:
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if session is not None:
            session.step()


def root_of(path: Path) -> dict[str, Any]:
    root: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return root


def steps_in(root: dict[str, Any]) -> list[str]:
    return [event["name"] for event in root["traceEvents"] if event["name"].startswith("ProfilerStep#")]


def test_marked_steps_are_recorded_with_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json.gz"
    with advisor.profile(path, steps=3, skip=2) as p:
        train(10, p)
    assert p.written == path
    root = root_of(path)
    assert len(steps_in(root)) == 3
    assert root["advisor"]["steps_by"] == "marked"
    assert root["advisor"]["stacks"] == "second pass"
    # The optimizer was made inside the block, two steps were skipped, and the time of one of them is known.
    assert root["advisor"]["optimizers"][0]["kind"] == "SGD"
    assert len(root["advisor"]["unprofiled_step_ms"]) == 1
    ops = advisor.read(str(path)).frame("ops")
    linear = ops[ops["name"] == "aten::linear"]
    lines = Path(__file__).read_text().splitlines()
    assert {lines[int(line) - 1].strip() for line in linear["line"]} == {"model(torch.ones(2, 4)).sum().backward()"}
    assert "recorded 3 steps, a step being one p.step(); skipped 2 before" in capsys.readouterr().err


def test_without_marks_the_whole_block_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json.gz"
    with advisor.profile(path):
        train(4)
    root = root_of(path)
    assert steps_in(root) == []
    assert "steps_by" not in root["advisor"]
    assert sum(event["name"] == "Optimizer.step#SGD.step" for event in root["traceEvents"]) == 4
    assert "recorded the whole block" in capsys.readouterr().err


def test_stacks_inline_are_in_the_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    with advisor.profile(path, stacks="inline", quiet=True):
        train(2)
    root = root_of(path)
    names = [event["name"] for event in root["traceEvents"] if event.get("cat") == "python_function"]
    assert any(name.endswith(": train") for name in names)
    assert not any(name.startswith("advisor/record/") for name in names)
    assert root["with_stack"] == 1


def test_too_few_marks_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json.gz"
    with advisor.profile(path, skip=5) as p:
        train(3, p)
    assert p.written is None
    assert not path.exists()
    assert "nothing was recorded: 3 calls of p.step(), and 5 are skipped" in capsys.readouterr().err


def test_an_error_in_the_block_passes_and_the_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"

    def fail() -> None:
        with advisor.profile(path, quiet=True):
            train(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.exists()


def test_a_failure_of_the_recorder_does_not_end_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def fail(*_: Any, **_options: Any) -> None:
        raise RuntimeError("no space left")

    monkeypatch.setattr("advisor.record.session.write", fail)
    with advisor.profile(tmp_path / "trace.json.gz", skip=1, steps=1) as p:
        train(10, p)
    assert p.written is None
    assert "recording failed, the program goes on: RuntimeError: no space left" in capsys.readouterr().err
    assert not torch._C._autograd._profiler_enabled()
    assert not hasattr(torch.autograd.backward, "__wrapped__")


def test_what_cannot_be_asked_for_is_refused_before_anything_runs(tmp_path: Path) -> None:
    taken = tmp_path / "taken.json.gz"
    taken.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        advisor.profile(taken)
    with pytest.raises(UsageError, match="no such folder"):
        advisor.profile(tmp_path / "none" / "trace.json.gz")
    with pytest.raises(UsageError, match='stacks="all"'):
        advisor.profile(tmp_path / "x.json.gz", stacks="all")
    with pytest.raises(UsageError, match="1 or more"):
        advisor.profile(tmp_path / "x.json.gz", steps=0)


@pytest.mark.filterwarnings("ignore")
def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    from support.recorded_frameworks import fit_lightning

    path = tmp_path / "trace.json.gz"
    fit_lightning(path, tmp_path)
    assert len(steps_in(root_of(path))) == 5


@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from support.recorded_frameworks import train_transformers

    path = tmp_path / "trace.json.gz"
    train_transformers(path, tmp_path)
    assert len(steps_in(root_of(path))) == 5
