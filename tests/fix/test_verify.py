"""Verdicts on edits: by runs of a program whose times and losses are given."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest
from support.fixing import edit, finding, request, setting

from advisor.errors import UsageError
from advisor.fix import command
from advisor.fix.propose import Proposal, price
from advisor.fix.runs import OutOfTime, Program, RunFailed, _own_lines
from advisor.fix.tree import Tree
from advisor.fix.verify import (
    ENOUGH_BLOCKS,
    MOST_BLOCKS,
    Side,
    Verifier,
    judge,
    judge_processor,
    step_ms,
    without_drift,
)
from advisor.record.measured import Figure, Measured
from advisor.results.fixes import FixResult

TEXT = "import torch\nopt = torch.optim.AdamW(ps)\n"
FUSED = "import torch\nopt = torch.optim.AdamW(ps, fused=True)\n"


def figures(*values: float) -> tuple[Figure, ...]:
    """Return losses of one number each."""
    return tuple(Figure((1.0, value), ("float32",)) for value in values)


class Runs:
    """Runs of a program whose time a step and first losses follow from its text; noise goes up and down from run to run."""

    def __init__(
        self,
        root: Path,
        ms: Callable[[str], float],
        losses: Callable[[str], tuple[Figure, ...]] = lambda _text: figures(2.0, 1.0),
        noise: float = 0.01,
        fails: Callable[[str], str] = lambda _text: "",
        most: int = 1000,
        elsewhere: float = 0.0,
        device: str | None = None,
    ) -> None:
        self.project = type("P", (), {"root": root})()
        self.ranks, self._elsewhere, self._device = 1, elsewhere, device
        self.elsewhere: list[float] = []
        self.timed: list[str] = []
        self.plain_losses = losses
        self._ms, self._losses, self._noise, self._fails, self._most = ms, losses, noise, fails, most

    def measure(self, tree: Tree, *, check: bool = False, dropout: bool = True, **_amounts: Any) -> Measured:
        """Return what one run comes to."""
        path = tree.folder / "train.py"
        text = path.read_text()
        if message := self._fails(text):
            raise RunFailed(message)
        if check:
            of = self._losses if dropout else self.plain_losses
            return Measured(losses=of(text), loaded=(str(path.resolve()),), device=self._device)
        if len(self.timed) >= self._most:
            raise OutOfTime
        self.timed.append("after" if "fused" in text else "before")
        ms = self._ms(text) * (1 + self._noise * (-1) ** len(self.timed))
        self.elsewhere.append(self._elsewhere)
        # Processor time repeats to 1 % where other programs, not this one's own work, make the steps longer.
        own = self._ms(text) * (1 + 0.01 * (-1) ** len(self.timed)) if self._elsewhere else ms
        return Measured(step_ms=(ms,) * 20, cpu_ms=(own / 2,) * 20)


def proposal_of(root: Path) -> Proposal:
    """The edit that asks for the fused optimizer."""
    found = finding("cpu/unfused-optimizer", [setting("AdamW", "fused", "None", 2)])
    asked = request(root, TEXT, found)
    optimizer = edit("fused-optimizer")
    return Proposal(optimizer, [found], list(optimizer.make(asked)), price(found), request=asked)


def verified(tmp_path: Path, runs: Runs, *, allowed: bool = False, until: float = 1e18) -> tuple[FixResult, Verifier]:
    """Try the edit that asks for the fused optimizer."""
    tmp_path.mkdir(exist_ok=True)
    proposal = proposal_of(runs.project.root)
    verifier = Verifier(
        cast(Program, runs), proposal.request.files, tmp_path, lambda _line: None, training_changes=allowed
    )
    verifier.begin()
    return verifier.try_edit(proposal, until), verifier


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the project."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TEXT)
    return folder


def test_what_is_faster_and_computes_the_same_is_kept(root: Path, tmp_path: Path) -> None:
    runs = Runs(root, lambda text: 50.0 if "fused" in text else 100.0)
    result, verifier = verified(tmp_path, runs)
    assert (result.verdict, result.because) == ("kept", "faster")
    assert runs.timed[:4] == ["before", "after", "after", "before"]
    assert result.timing is not None
    assert result.timing.saved == pytest.approx(0.5, abs=0.02)
    assert result.timing.after_cpu_ms == pytest.approx(25, rel=0.02)
    assert result.losses == [(2.0, 2.0), (1.0, 1.0)]
    assert verifier.patch().splitlines()[-2:] == [
        "-opt = torch.optim.AdamW(ps)",
        "+opt = torch.optim.AdamW(ps, fused=True)",
    ]
    assert verifier.commits[0][1:] == (PurePosixPath("train.py"), FUSED)
    assert (root / "train.py").read_text() == TEXT  # writing is not its work


def test_what_is_slower_or_no_faster_is_reverted(root: Path, tmp_path: Path) -> None:
    slower, _ = verified(tmp_path / "1", Runs(root, lambda text: 150.0 if "fused" in text else 100.0))
    assert (slower.verdict, slower.because) == ("reverted", "slower")
    same = Runs(root, lambda _text: 100.0)
    result, verifier = verified(tmp_path / "2", same)
    assert result.verdict == "reverted"
    assert len(same.timed) == 4 * ENOUGH_BLOCKS
    assert verifier.patch() == ""


def test_an_edit_that_resizes_is_compared_without_dropout(root: Path, tmp_path: Path) -> None:
    faster: Callable[[str], float] = lambda text: 50.0 if "fused" in text else 100.0  # noqa: E731
    drawn: Callable[[str], tuple[Figure, ...]] = lambda text: figures(2.0, 1.5 if "fused" in text else 1.0)  # noqa: E731

    def tried(name: str, *, resizes: bool, plain: float) -> FixResult:
        runs = Runs(root, faster, drawn)
        runs.plain_losses = lambda text: figures(3.0, plain if "fused" in text else 1.0)
        proposal = proposal_of(root)
        proposal.edit = replace(proposal.edit, resizes=resizes)
        (tmp_path / name).mkdir()
        verifier = Verifier(cast(Program, runs), proposal.request.files, tmp_path / name, lambda _line: None)
        verifier.begin()
        return verifier.try_edit(proposal, 1e18)

    kept = tried("kept", resizes=True, plain=1.0)
    assert (kept.verdict, kept.losses) == ("kept", [(3.0, 3.0), (1.0, 1.0)])
    other = tried("other", resizes=True, plain=1.25)
    assert (other.verdict, other.because) == ("reverted", "computes something else: loss 2 is 1.25 instead of 1")
    assert tried("drawn", resizes=False, plain=1.0).because == "computes something else: loss 2 is 1.5 instead of 1"


def test_noise_that_hides_the_difference_keeps_nothing(root: Path, tmp_path: Path) -> None:
    runs = Runs(root, lambda text: 95.0 if "fused" in text else 100.0, noise=0.4)
    result, _ = verified(tmp_path, runs)
    assert (result.verdict, result.because) == ("reverted", "not certain to be faster within the noise of the runs")
    assert len(runs.timed) <= 4 * MOST_BLOCKS


def test_where_other_programs_use_the_cores_processor_time_tells_what_is_faster(root: Path, tmp_path: Path) -> None:
    """Found on two cores that others used for 75 %: of 753 ms of processor time 277 were left, and the edit was reverted."""
    faster: Callable[[str], float] = lambda text: 40.0 if "fused" in text else 100.0  # noqa: E731
    result, _ = verified(tmp_path / "1", Runs(root, faster, noise=0.6, elsewhere=0.75))
    assert result.verdict == "kept"
    assert result.because == "faster, by its processor time; other programs used 75% of the cores meanwhile"
    quiet, _ = verified(tmp_path / "2", Runs(root, faster, noise=0.6))
    assert quiet.verdict == "reverted"  # what makes these steps uncertain is the program's own
    on_gpu, _ = verified(tmp_path / "3", Runs(root, faster, noise=0.6, elsewhere=0.75, device="H100"))
    assert on_gpu.verdict == "reverted"  # there the host's time is not the step's
    ranks = Runs(root, faster, noise=0.6, elsewhere=0.75)
    ranks.ranks = 2
    assert verified(tmp_path / "4", ranks)[0].verdict == "reverted"  # what the others did is not in it


def test_what_was_measured_on_a_gpu_is_kept_as_the_gpus(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the code: the pairs of every machine said that they were of a CPU."""
    monkeypatch.setenv("ADVISOR_MEASUREMENTS", str(tmp_path / "pairs.jsonl"))
    fixed, verifier = verified(
        tmp_path / "1", Runs(root, lambda text: 50.0 if "fused" in text else 100.0, device="H100")
    )
    project: Any = None
    command._finish(project, "train.py", [fixed], [], verifier, command.Choices(), time.monotonic(), None)
    assert '"device":"H100"' in (tmp_path / "pairs.jsonl").read_text()


def test_less_processor_time_keeps_no_edit_that_moves_work(root: Path, tmp_path: Path) -> None:
    assert all(edit(name).moves for name in ("loader-workers", "fewer-workers", "persistent-workers", "threads"))
    runs = Runs(root, lambda text: 40.0 if "fused" in text else 100.0, noise=0.6, elsewhere=0.75)
    proposal = proposal_of(root)
    proposal.edit = replace(proposal.edit, moves=True)
    verifier = Verifier(cast(Program, runs), proposal.request.files, tmp_path, lambda _line: None)
    verifier.begin()
    assert verifier.try_edit(proposal, 1e18).verdict == "reverted"


def test_less_processor_time_is_no_gain_where_the_steps_are_longer() -> None:
    before, after = Side(wall=[100, 90, 110, 100], cpu=[100, 101, 99, 100]), [50.0, 51, 49, 50]
    assert judge_processor(before, Side(wall=[80, 95, 110, 90], cpu=after)).outcome == "better"
    assert judge_processor(before, Side(wall=[110, 95, 110, 90], cpu=after)).outcome == "inconclusive"
    assert judge_processor(Side(wall=[1, 1], cpu=[0, 0]), Side(wall=[1, 1], cpu=[0, 0])).outcome == "inconclusive"


def test_other_losses_are_reverted_without_being_timed(root: Path, tmp_path: Path) -> None:
    losses: Callable[[str], tuple[Figure, ...]] = lambda text: figures(2.0, 1.1 if "fused" in text else 1.0)  # noqa: E731
    runs = Runs(root, lambda _text: 1.0, losses)
    result, _ = verified(tmp_path, runs)
    assert (result.verdict, runs.timed) == ("reverted", [])
    assert result.because == "computes something else: loss 2 is 1.1 instead of 1"


def test_other_losses_are_kept_where_they_are_allowed_and_said(root: Path, tmp_path: Path) -> None:
    losses: Callable[[str], tuple[Figure, ...]] = lambda text: figures(2.0, 1.1 if "fused" in text else 1.0)  # noqa: E731
    runs = Runs(root, lambda text: 50.0 if "fused" in text else 100.0, losses)
    result, _ = verified(tmp_path, runs, allowed=True)
    assert result.verdict == "kept"
    assert "loss 2 is 1.1 instead of 1, which was allowed" in result.because


def test_a_program_that_does_not_repeat_keeps_nothing(root: Path, tmp_path: Path) -> None:
    values = iter(range(100))
    runs = Runs(root, lambda text: 50.0 if "fused" in text else 100.0, lambda _text: figures(float(next(values))))
    result, _ = verified(tmp_path, runs)
    assert result.verdict == "reverted"
    assert result.because.startswith("the program does not repeat with the same seeds")


def test_a_program_that_fails_with_the_edit_is_reverted(root: Path, tmp_path: Path) -> None:
    runs = Runs(root, lambda _text: 1.0, fails=lambda text: "ValueError: fused" if "fused" in text else "")
    result, _ = verified(tmp_path, runs)
    assert (result.verdict, result.because) == ("reverted", "the program fails with it: ValueError: fused")


def test_a_budget_that_ends_is_no_verdict_before_the_first_block_and_one_after(root: Path, tmp_path: Path) -> None:
    early, _ = verified(tmp_path / "1", Runs(root, lambda _text: 100.0, most=3))
    assert early.verdict == "not tried"
    later, _ = verified(tmp_path / "2", Runs(root, lambda _text: 100.0, most=6))
    assert later.verdict == "reverted"
    assert later.timing is not None
    assert later.timing.runs >= 2
    # Its share of the budget is over: the first block is measured, and no second.
    share = Runs(root, lambda _text: 100.0)
    verified(tmp_path / "3", share, until=0.0)
    assert len(share.timed) == 4


def test_steps_that_warm_up_do_not_count() -> None:
    assert step_ms((100.0, 50.0, 20.0, *[10.0] * 8)) == 10.0
    assert step_ms((100.0, 10.0, 12.0)) == 11.0
    assert step_ms((90.0, 10.0, 10.0, 10.0, 70.0, *[10.0] * 7), (0, 4)) == 10.0
    # It compiles again in the second half, and will go on to.
    assert step_ms((90.0, 10.0, 10.0, 10.0, 70.0, *[10.0] * 5, 70.0, 10.0), (0, 4, 10)) == pytest.approx(210 / 9)
    with pytest.raises(RunFailed, match="no steps"):
        step_ms((100.0,))


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ((100, 101, 99, 100), (60, 61, 59, 60), "better"),
        ((100, 101, 99, 100), (140, 141, 139, 140), "worse"),
        ((100, 101, 99, 100), (99, 100, 101, 100), "same"),
        ((100, 160, 80, 120), (90, 150, 70, 110), "inconclusive"),
    ],
)
def test_runs_are_judged_by_their_means(before: tuple[float, ...], after: tuple[float, ...], outcome: str) -> None:
    assert judge(Side(wall=list(before)), Side(wall=list(after))).outcome == outcome


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
def test_an_edit_that_changes_nothing_is_hardly_ever_kept(spread: float) -> None:
    """Of 300 edits two at most, though it is asked after each of six blocks."""
    import random

    rng = random.Random(1)
    kept = 0
    for _ in range(300):
        before, after = ([100 * (1 + rng.gauss(0, spread)) for _ in range(12)] for _ in range(2))
        sides = ((Side(wall=before[:runs]), Side(wall=after[:runs])) for runs in range(2, 13, 2))
        kept += any(judge(*side).outcome == "better" for side in sides)
    assert kept <= 2


def test_a_machine_whose_speed_drifts_hides_no_edit() -> None:
    """Runs of 60 to 110 ms within minutes, as on cores that others share: a fifth less shows, beside its fellows in each block."""
    speeds = [60, 62, 66, 70, 80, 84, 90, 95, 110, 108, 104, 106, 70, 66, 63, 61]
    before = [float(speeds[at]) for block in range(4) for at in (4 * block, 4 * block + 3)]
    after = [0.8 * speeds[at] for block in range(4) for at in (4 * block + 1, 4 * block + 2)]
    assert judge(Side(wall=before), Side(wall=after)).outcome == "better"
    assert judge(Side(wall=before), Side(wall=[value / 0.8 for value in after])).outcome != "better"
    level, reached = without_drift([80.0, 80.0, 120.0, 120.0], [64.0, 64.0, 96.0, 96.0])
    # Blocks of 72 and 108 ms on average become blocks of 90.
    assert level == pytest.approx([100.0] * 4)
    assert reached == pytest.approx([80.0] * 4)
    # Two blocks: six spreads are left of five where a block has a level of its own.
    spread, _ = without_drift([90.0, 110.0, 90.0, 110.0], [100.0] * 4)
    assert spread == pytest.approx([100 - 10 * (6 / 5) ** 0.5, 100 + 10 * (6 / 5) ** 0.5] * 2)


def test_the_speed_of_the_machine_is_taken_out_where_runs_differ_less_then() -> None:
    """Of steps of 80 and 72 ms, on a machine that is up to twice as slow from run to run; additions show it to 1 %."""
    slow = [1.0, 1.9, 1.2, 1.6, 1.1, 1.7, 1.5, 1.3]
    off = [0.99, 1.0, 1.01, 1.0, 1.0, 0.99, 1.01, 1.0]
    before = Side(wall=[80 * by for by in slow], even=[400 * one for one in off])
    after = Side(wall=[72 * by for by in reversed(slow)], even=[360 * one for one in off])
    assert judge(before, after).outcome != "better"
    found = judge(before, after, evened=True)
    assert found.outcome == "better"
    assert found.change == pytest.approx(-0.1 * found.base) if found.base else False
    # Additions that tell nothing of the steps' speed make runs differ more: they are left aside.
    steady = Side(wall=[80.0, 80.4, 79.6, 80.0] * 2, even=[80 / by for by in slow])
    quicker = Side(wall=[72.0, 72.4, 71.6, 72.0] * 2, even=[80 / by for by in slow])
    assert judge(steady, quicker, evened=True) == judge(steady, quicker)
    # Steps that are no shorter are not kept for what additions say.
    assert (
        judge(before, Side(wall=[value * 1.1 for value in before.wall], even=after.even), evened=True).outcome
        != "better"
    )


def test_a_run_is_evened_step_by_step() -> None:
    """Steps of 10, and of 20 while additions take twice as long; one sum that is off tells nothing."""
    side = Side()
    steps, sums = [10.0] * 10 + [20.0] * 10, [0.2] * 10 + [0.4] * 10
    side.add(Measured(step_ms=tuple(steps), cpu_ms=tuple(steps), sum_ms=(*sums[:5], 9.0, *sums[6:])))
    assert side.wall == [pytest.approx(270 / 17)]
    assert side.even == [pytest.approx(50.0)]
    side.add(Measured(step_ms=tuple(steps), cpu_ms=tuple(steps)))
    assert len(side.even) == 1


@pytest.mark.parametrize("drift", [0.1, 0.3])
def test_an_edit_that_changes_nothing_is_hardly_ever_kept_while_the_machine_drifts(drift: float) -> None:
    """Of 300 edits two at most, where what a run takes follows from the run before it as well."""
    import random

    rng = random.Random(3)
    kept = 0
    for _ in range(300):
        level, times = 0.0, list[float]()
        for _run in range(24):
            level = 0.8 * level + rng.gauss(0, 0.6 * drift)
            times.append(100 * math.exp(level + rng.gauss(0, 0.03)))
        before = [times[at] for block in range(6) for at in (4 * block, 4 * block + 3)]
        after = [times[at] for block in range(6) for at in (4 * block + 1, 4 * block + 2)]
        sides = ((Side(wall=before[:runs]), Side(wall=after[:runs])) for runs in range(2, 13, 2))
        kept += any(judge(*side).outcome == "better" for side in sides)
    assert kept <= 2


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
def test_an_edit_that_changes_nothing_is_hardly_ever_kept_on_a_busy_machine(spread: float) -> None:
    """Of 300 edits two at most, where wall and processor time are asked after each of six blocks, and wall time is worth little."""
    import random

    rng = random.Random(1)
    kept = 0
    for _ in range(300):
        walls = [[100 * (1 + rng.gauss(0, 0.3)) for _ in range(12)] for _ in range(2)]
        cpus = [[100 * (1 + rng.gauss(0, spread)) for _ in range(12)] for _ in range(2)]
        for runs in range(2, 13, 2):
            before, after = (Side(wall=wall[:runs], cpu=cpu[:runs]) for wall, cpu in zip(walls, cpus, strict=True))
            if "better" in (judge(before, after).outcome, judge_processor(before, after).outcome):
                kept += 1
                break
    assert kept <= 2


def test_a_program_of_which_nothing_can_be_recorded_is_not_said_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found on a service whose models are called from a thread of its own: its last line was told as that of a failure."""
    said = "nothing was recorded: no call of a module was seen in the main thread of this process."
    (tmp_path / "serve.py").write_text(
        f"import sys\nprint('480 requests')\nsys.stderr.write('advisor: {said}\\n')\nsys.exit(2)\n"
    )
    project: Any = type("P", (), {"root": tmp_path, "folder": tmp_path, "script_path": PurePosixPath("serve.py")})()
    program = Program(project, "serve.py")
    with pytest.raises(RunFailed) as failed:
        program._run(Tree(tmp_path, tmp_path.parent / "copy"), [str(tmp_path / "serve.py")])
    assert failed.value.unrecorded == said
    failing = type(
        "Q", (), {"record": staticmethod(lambda *_: (_ for _ in ()).throw(failed.value)), "script": "serve.py"}
    )()
    failing.project = project
    monkeypatch.setattr("advisor.record.require_torch", lambda: None)
    with pytest.raises(UsageError, match=r"serve\.py runs, but nothing was recorded: no call of a module"):
        command._record(failing, tmp_path.parent)


# ---- the budget, and how a program ended


def test_a_budget_that_cannot_hold_one_edit_is_said_at_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes 8 s, an edit five runs of which four are timed for 3 s more: 52 s; 90 s of which 60 are gone do not hold it."""
    monkeypatch.setattr("advisor.record.require_torch", lambda: None)
    monkeypatch.setattr(Verifier, "begin", lambda _self: 8.0)
    tried: list[str] = []
    monkeypatch.setattr(Verifier, "try_edit", lambda _self, proposal, _until: tried.append(proposal.edit.name))
    runs = Runs(root, lambda _text: 10.0)
    runs.script, runs.deadline = "train.py", time.monotonic() + 30.0  # type: ignore[attr-defined]
    proposals = [proposal_of(root), proposal_of(root)]
    with pytest.raises(UsageError) as told:
        command._verify(cast(Program, runs), proposals, tmp_path, command.Choices(budget_s=90.0), lambda _line: None)
    assert tried == []
    assert "a run takes 8 s, and an edit needs 5 runs: 52 seconds at the least, of which 30 seconds are left" in str(
        told.value
    )
    # 60 s gone and 52 s for one edit, a fifth to spare: 134.4 s; with a second one 196.8 s
    assert str(told.value).endswith("give --budget 140s for one edit, 200s for 2 edits")


def test_the_programs_own_last_lines_are_kept_and_no_file_of_the_copy_is_named() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/tmp/copy/before/job.py", line 5, in <module>\n'
        "RuntimeError: boom\nUSDT:2026-11-25 23:14:39 16866:16866 SyncActivityProfilerHandler.cpp:59] profiler_stop\n"
        "advisor: wrote /tmp/copy/program.trace.json.gz; next: advisor analyze /tmp/copy/program.trace.json.gz\n"
    )
    assert _own_lines(text, "/tmp/copy/before", "/home/me") == [
        "Traceback (most recent call last):", '  File "/home/me/job.py", line 5, in <module>', "RuntimeError: boom",
    ]  # fmt: skip
    failed = RunFailed("RuntimeError: boom", ["in f", "RuntimeError: boom"])
    assert failed.told == "RuntimeError: boom:\n  in f\n  RuntimeError: boom"
