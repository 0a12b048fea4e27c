"""Recordings of different work: the gate says what differs, and gives no figure."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.traces import real_trace, rules

import advisor
from advisor.cli import main
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.gating.alike import unlike
from advisor.gating.baseline import dump, load
from advisor.results.analysis import Analysis
from advisor.results.samples import Layer, Work

REPLACE = msgspec.structs.replace
ARTICLE = ROOT / "sample_traces" / "article"


def layer(*inputs: list[int], calls: float = 2.0) -> Layer:
    return Layer(calls=calls, weights=[64, 3, 7, 7], inputs=list(inputs))


def layers(batch: int, side: int = 56) -> dict[str, Layer]:
    return {
        "aten::conv2d 64x3x7x7": layer([batch, 3, 4 * side, 4 * side]),
        "aten::conv2d 64x64x3x3": layer([batch, 64, side, side], [batch, 64, side // 2, side // 2]),
        "aten::linear 1000x2048": layer([batch, 2048]),
    }


BASE = Work(phase="training", precision="fp32", compiler="eager", weights=25.5e6, layers=layers(32))


def grids(times: float, calls: float = 10.0) -> dict[str, list[float]]:
    return {name: [calls, times * 1000 * (number + 1)] for number, name in enumerate(("relu", "add", "bn", "copy"))}


@pytest.mark.parametrize(
    ("base", "now", "reasons"),
    [
        pytest.param({}, {}, [], id="alike"),
        pytest.param(
            {}, {"layers": layers(64)}, ["the batch doubled (32 → 64, the first size of what its layers take in)"]
        ),
        pytest.param(
            {}, {"layers": layers(16)}, ["the batch halved (32 → 16, the first size of what its layers take in)"]
        ),
        pytest.param(
            {}, {"layers": layers(48)}, ["the batch grew (32 → 48, the first size of what its layers take in)"]
        ),
        pytest.param({"batch": 32}, {"batch": 64}, ["the batch doubled (32 → 64, as recorded)"]),
        pytest.param({}, {"layers": layers(32, 64)}, ["the sizes of its inputs changed (32x3x224x224 → 32x3x256x256)"]),
        pytest.param({}, {"precision": "bf16"}, ["the precision was fp32, and is bf16"]),
        pytest.param({}, {"precision": None}, [], id="a fact that one side does not tell"),
        pytest.param({}, {"compiler": "inductor"}, ["its code was eager, and is inductor"]),
        pytest.param({}, {"phase": "inference"}, ["the program was in training, and is in inference"]),
        pytest.param({"framework": "vllm"}, {"framework": "sglang"}, ["the framework was vllm, and is sglang"]),
        pytest.param(
            {}, {"weights": 51e6}, ["the model's size changed: a step's layers hold 25.5 → 51 million weights"]
        ),
        pytest.param({}, {"weights": 26e6}, [], id="a layer that is fused with another"),
    ],
)
def test_what_differs_is_said(base: dict[str, object], now: dict[str, object], reasons: list[str]) -> None:
    assert unlike(REPLACE(BASE, **base), REPLACE(BASE, **now)) == reasons


def test_lengths_that_vary_within_a_recording_are_no_other_work() -> None:
    """Sentences of any length: what a run caught of them says nothing of the next."""
    short, long = ({"aten::linear 512x512": layer([8, 20 + n, 512], [8, 31 + n, 512])} for n in (0, 7))
    assert unlike(REPLACE(BASE, layers=short), REPLACE(BASE, layers=long)) == []


def test_grids_alone_hint() -> None:
    bare = REPLACE(BASE, layers={}, weights=None)
    twice = unlike(REPLACE(bare, grids=grids(1)), REPLACE(bare, grids=grids(2)))
    assert twice == [
        "perhaps the batch doubled: the same kernels launch 2 times the thread blocks; record shapes to tell"
    ]
    assert unlike(REPLACE(bare, grids=grids(1)), REPLACE(bare, grids=grids(1.2))) == []
    # Twice the calls are twice the work of a step, which is what the gate is for.
    assert unlike(REPLACE(bare, grids=grids(1)), REPLACE(bare, grids=grids(2, calls=20))) == []
    # With shapes on both sides, they answer.
    assert unlike(REPLACE(BASE, grids=grids(1)), REPLACE(BASE, grids=grids(2))) == []


def test_a_baseline_of_before_is_compared_with_anything() -> None:
    assert unlike(None, BASE) == []


@cache
def rung(name: str) -> Analysis:
    return advisor.analyze(advisor.read(str(ARTICLE / f"{name}.json.gz"), source=name), rules(), samples=True)


def test_the_gate_says_so_before_any_figure() -> None:
    before, after = rung("rung2_pinned"), rung("rung3_batch512")
    found = gating.judge([after], baseline.make([before]))
    assert (found.verdict, found.checks) == ("inconclusive", [])
    assert found.headline == "not comparable: the batch grew (32 → 512, the first size of what its layers take in)"
    assert found.update == ""


def test_the_command_exits_with_4(tmp_path: Path) -> None:
    base = tmp_path / "b.json"
    base.write_bytes(dump(baseline.make([rung("rung3_batch512")])))
    result = CliRunner().invoke(main, ["gate", str(ARTICLE / "rung6_amp.json.gz"), "-b", str(base), "-q"])
    assert result.exit_code == 4
    said = " ".join(result.stdout.split())
    assert (
        "not comparable: the batch doubled (512 → 1024, the first size of what its layers take in); the precision"
        in said
    )


def test_a_baseline_is_made_of_alike_runs_and_keeps_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trace 2 is no run of the same workload: the batch grew"):
        baseline.make([rung("rung2_pinned"), rung("rung3_batch512")])
    path = tmp_path / "b.json"
    made = baseline.make([rung("rung2_pinned")])
    path.write_bytes(dump(made))
    assert load(path) == made
    assert made.work is not None
    assert (made.work.phase, made.work.precision, made.work.compiler) == ("training", "fp32", "eager")


@pytest.mark.real
def test_runs_of_one_program_are_alike() -> None:
    runs = [
        advisor.analyze(advisor.read(real_trace(f"h100_transformer_run{number}.json.gz")), rules(), samples=True)
        for number in (1, 2)
    ]
    works = [run.samples.work for run in runs if run.samples]
    assert unlike(*works) == []
    assert works[0] is not None
    # A feed-forward block: 512 to 2048 and back, of 16 sequences of 128.
    assert works[0].layers["aten::linear 2048x512"].inputs == [[16, 128, 512]]
    assert works[0].weights == 2 * 2048 * 512
