"""Fixes that need a newer torch or Python than the recording was made with say so; no others do."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from advisor.pipeline import analyze
from advisor.rulebook.releases import noted
from advisor.rulebook.rule import Fix
from advisor.testing import TraceBuilder
from advisor.trace import read

COMPILED = Fix(title="Compile it", before="y = model(x)", after="model = torch.compile(model)", caveat="It takes time.")
SCALED = Fix(title="Scale", before="loss.backward()", after="scaler = torch.amp.GradScaler('cuda')", caveat="Compare.")


@pytest.mark.parametrize(
    ("fix", "figures", "caveat"),
    [
        (COMPILED, {"torch_at_most": None}, "It takes time."),
        (COMPILED, {"torch_at_most": 200, "torch": "2.0.1"}, "It takes time."),
        (
            COMPILED,
            {"torch_at_most": 113, "torch": "1.13.1"},
            "torch.compile needs torch 2.0; this was recorded with torch 1.13.1. It takes time.",
        ),
        (
            COMPILED,
            {"torch_at_most": 111, "torch": None, "python_minor": 7},
            "torch.compile needs torch 2.0; this was recorded with torch 1.11 or older. torch 2.0 needs Python 3.8; this ran under "
            "3.7. It takes time.",
        ),
        (
            SCALED,
            {"torch_at_most": 202, "torch": "2.2.0", "python_minor": 7},
            "torch.amp.GradScaler needs torch 2.3 (before that torch.cuda.amp.GradScaler); this was recorded with torch 2.2.0. "
            "Compare.",
        ),
    ],
)
def test_a_fix_names_the_release_it_needs_where_the_recording_is_older(
    fix: Fix, figures: dict[str, object], caveat: str
) -> None:
    assert noted(fix, figures).caveat == caveat


@pytest.mark.parametrize(
    ("fix", "newest", "title"),
    [
        (COMPILED, 113, "Compile it (torch 2.0 or later)"),
        (COMPILED, 200, "Compile it"),
        # An older torch has it under another name: it can be made there.
        (SCALED, 202, "Scale"),
    ],
)
def test_the_title_says_that_the_recording_s_torch_is_too_old(fix: Fix, newest: int, title: str) -> None:
    assert noted(fix, {"torch_at_most": newest, "torch": None}).title == title


def test_the_class_that_stepped_is_the_one_whose_release_counts() -> None:
    """SGD has had fused=True since 2.3, and a fix names the optimizer only where it is shown."""
    fix = Fix(title="", before="", after="optimizer = torch.optim.{optimizers}(parameters, fused=True)", caveat="Keep.")
    figures = {"torch_at_most": 200, "torch": "2.0.1", "optimizers": "SGD"}
    assert (
        noted(fix, figures).caveat == "SGD with fused=True needs torch 2.3; this was recorded with torch 2.0.1. Keep."
    )
    assert noted(fix, figures | {"optimizers": "Adam"}).caveat == "Keep."


def test_what_the_program_has_already_needs_no_release() -> None:
    fix = Fix(title="", before="f = torch.compile(f)", after="f = torch.compile(f, fullgraph=True)", caveat="Read on.")
    assert noted(fix, {"torch_at_most": 111}).caveat == "Read on."


@pytest.mark.parametrize(("dialect", "older"), [("2021", True), ("kineto", False)])
def test_a_recording_in_the_names_of_2021_is_older_than_torch_1_12(dialect: str, older: bool, tmp_path: Path) -> None:
    b = TraceBuilder(dialect=dialect, host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            for _ in range(40):
                with b.op("aten::linear", us=100):
                    b.kernel("volta_sgemm_128x64_nn", us=10)
    trace = read(str(b.write(tmp_path / "trace.json")))
    newest = trace.frame("trace")["torch_at_most"][0]
    found = next(finding for finding in analyze(trace).findings if finding.rule == "gpu-idle/launch-bound")
    assert (pd.notna(newest) and int(newest) == 111) is older
    assert found.fix.caveat.startswith("torch.compile needs torch 2.0") is older


def test_the_release_that_the_trace_says_counts(tmp_path: Path) -> None:
    b = TraceBuilder(metadata={"pytorch_version": "2.10.0+cu128"})
    b.kernel("add", us=10)
    row = read(str(b.write(tmp_path / "trace.json"))).frame("trace").iloc[0]
    assert (row["torch"], row["torch_at_most"]) == ("2.10.0+cu128", 210)


def test_python_is_told_by_the_paths_of_packages(tmp_path: Path) -> None:
    b = TraceBuilder(with_stack=True)
    with b.python("/opt/conda/lib/python3.8/site-packages/torch/nn/modules/module.py(10): _call_impl"):
        b.kernel("add", us=10)
    row = read(str(b.write(tmp_path / "trace.json"))).frame("trace").iloc[0]
    # Python 3.8 ran torch up to 2.4.
    assert (row["python_minor"], row["torch_at_most"]) == (8, 204)
