"""Recordings of different work: the gate says what differs, and gives no figure."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from support.paths import ROOT
from support.reading import trace_of
from support.traces import analysis as analyzed
from support.traces import rules

import advisor
from advisor.cli import main
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.gating.alike import part_of, unlike
from advisor.gating.baseline import dump, load
from advisor.results.analysis import Analysis
from advisor.results.samples import Layer, Work
from advisor.testing import TraceBuilder

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


def tailed(batch: int, tail: int) -> dict[str, Layer]:
    """Layers of an epoch whose last batch is smaller."""
    made = layers(batch)
    for name, smaller in layers(tail).items():
        made[name] = REPLACE(made[name], inputs=sorted([*smaller.inputs, *made[name].inputs]))
    return made


@pytest.mark.parametrize(
    ("base", "now", "said"),
    [
        (tailed(32, 17), tailed(16, 9), "perhaps the batch halved (32 → 16, "),
        (tailed(32, 17), tailed(64, 33), "perhaps the batch doubled (32 → 64, "),
        (layers(32), tailed(16, 9), "perhaps the batch halved (32 → 16, "),
        (tailed(32, 17), tailed(32, 9), ""),
        (tailed(32, 17), layers(32), ""),
        (tailed(32, 17), tailed(28, 9), ""),  # of sizes that vary, the largest one may be chance
    ],
)
def test_a_smaller_last_batch_hides_no_other_batch(base: dict[str, Layer], now: dict[str, Layer], said: str) -> None:
    """Found by an attack: half the batch with an incomplete last one passed, as an improvement."""
    found = unlike(REPLACE(BASE, layers=base), REPLACE(BASE, layers=now))
    assert found == ([f"{said}the first size of what its layers take in)"] if said else [])


def test_sizes_of_which_only_some_were_kept_do_not_tell() -> None:
    def flat(least: int) -> dict[str, Layer]:
        return {f"aten::linear {n}": layer(*([least + step, 64] for step in range(12))) for n in range(3)}

    assert unlike(REPLACE(BASE, layers=flat(100)), REPLACE(BASE, layers=flat(300))) == []


def test_an_iteration_that_is_two_steps_now_is_no_faster_one() -> None:
    """Found by an attack: prof.step() twice in an iteration that is 30 % slower passed, as an improvement."""
    said = "a step is a part of one now: all that it calls it calls 0.5 times as often; is it still one iteration?"
    halved = {name: REPLACE(one, calls=1.0) for name, one in layers(32).items()}
    assert unlike(BASE, REPLACE(BASE, layers=halved, weights=12.75e6)) == [said]
    bare = REPLACE(BASE, layers={}, weights=None)
    less = unlike(REPLACE(bare, grids=grids(1)), REPLACE(bare, grids=grids(0.5, calls=5)))
    assert less == [f"perhaps {said}"]
    # One layer fewer in eight, or another kernel in place of one, is not the same share of all.
    some = {**grids(1), "relu": [5.0, 500.0]}
    assert unlike(REPLACE(bare, grids=grids(1)), REPLACE(bare, grids=some)) == []
    assert part_of({"aten::mm": 6.0, "aten::relu": 4.0}, {"aten::mm": 3.0, "aten::relu": 2.0}) == [f"perhaps {said}"]
    assert part_of({"aten::mm": 6.0, "aten::relu": 4.0}, {"aten::mm": 3.0, "aten::relu": 4.0}) == []
    assert part_of({"aten::mm": 6.0, "aten::relu": 4.0}, {"aten::mm": 12.0, "aten::relu": 8.0}) == []
    assert part_of({"aten::mm": 6.0}, {"aten::mm": 3.0}) == []  # one name may be one change


def iterations(marks: int, us: float = 10_000, **options: bool) -> Analysis:
    """Twenty iterations of two operators, each marked as so many steps."""
    b = TraceBuilder(profile_memory=False, with_stack=False, **options)
    for number in range(20 * marks):
        with b.step():
            for name in ("aten::mm", "aten::relu") * (2 // marks):
                with b.op(name):
                    b.kernel(name[6:], us=us / 4 + (0, 30, 10, 50, 20, 40)[number % 6])
            b.sync(us=0)
    return advisor.analyze(trace_of(b.to_bytes()), rules(), views=False, samples=True)


def test_it_is_said_without_shapes_and_grids_too() -> None:
    base, now = baseline.make([iterations(1)]), iterations(2, us=13_000)
    earlier = REPLACE(base, work=None)  # of an advisor that kept no work
    for known in (base, earlier):
        found = gating.judge([now], known)
        assert (found.verdict, found.checks) == ("inconclusive", [])
        assert found.headline.startswith("not comparable: perhaps a step is a part of one now: ")


@pytest.mark.parametrize(
    ("base", "now", "said"),
    [
        (
            "execute_32_context_0(sq0sk0)_generation_32(sq32)",
            "execute_context_1(888_788544)_generation_0(0)",
            "prefill",
        ),
        ("step[DECODE bs=32]", "step[EXTEND bs=32]", "prefill"),
        ("execute_new_0_cached_32", "execute_new_4_cached_28", "prefill and decode"),
        ("step[DECODE bs=32]", "step[MIXED bs=32]", "prefill and decode"),
    ],
)
def test_an_engine_at_its_prompts_is_not_compared_with_one_past_them(base: str, now: str, said: str) -> None:
    before, after = served(base), served(now)
    assert works(before, after) == [f"the program was in decode, and is in {said}"]
    assert works(before, before) == []
    # A baseline of an earlier advisor says inference of either.
    assert before.samples is not None
    assert before.samples.work is not None
    assert unlike(REPLACE(before.samples.work, phase="inference"), before.samples.work) == []
    assert unlike(REPLACE(before.samples.work, phase="training"), before.samples.work) != []


def served(name: str) -> Analysis:
    b = TraceBuilder(profile_memory=False, with_stack=False)
    for number in range(6):
        with b.annotation(name), b.op("vllm::attention"):
            b.kernel("gemm", us=1000 + 10 * number)
    return advisor.analyze(trace_of(b.to_bytes()), rules(), views=False, samples=True)


def works(base: Analysis, now: Analysis) -> list[str]:
    assert base.samples is not None
    assert now.samples is not None
    return unlike(base.samples.work, now.samples.work)


def test_the_rank_is_the_same_each_time() -> None:
    """Found by an attack: ranks of one run passed for runs, and any rank for any other."""

    def rank(number: int | None) -> Analysis:
        b = TraceBuilder(rank=number, world_size=8)
        for step in range(6):
            with b.step():
                b.kernel("gemm", us=1000 + 10 * step)
        return advisor.analyze(trace_of(b.to_bytes()), rules(), views=False, samples=True)

    found = gating.judge([rank(3)], baseline.make([rank(0)]))
    assert found.verdict == "inconclusive"
    assert found.incomparable == ["rank was 0 and is 3: take the same rank each time"]
    with pytest.raises(UsageError, match="trace 2 is no run of the same workload: rank was 0 and is 1"):
        baseline.make([rank(0), rank(1)])
    known = baseline.make([rank(0)])
    earlier = REPLACE(known, fingerprint=REPLACE(known.fingerprint, rank=None))
    assert gating.judge([rank(3)], earlier).verdict == "passed"  # of an advisor that did not keep it


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
    runs = [analyzed(f"h100_transformer_run{number}", samples=True) for number in (1, 2)]
    works = [run.samples.work for run in runs if run.samples]
    assert unlike(*works) == []
    assert works[0] is not None
    # A feed-forward block: 512 to 2048 and back, of 16 sequences of 128.
    assert works[0].layers["aten::linear 2048x512"].inputs == [[16, 128, 512]]
    assert works[0].weights == 2 * 2048 * 512
