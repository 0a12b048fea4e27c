"""Verification of edits: the program is run before and after each, in turns, and what is kept is faster and computes the same."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from advisor.fix.edit import Change, Files
from advisor.fix.propose import Proposal, diff
from advisor.fix.runs import OutOfTime, Program, RunFailed
from advisor.fix.sameness import difference, losses
from advisor.fix.source import NotEditable
from advisor.fix.tree import Tree
from advisor.gating.significance import LEAST_STEPS, Decision, decide
from advisor.record.measured import Measured
from advisor.results.fixes import FixResult, Timing

LEAST_BLOCKS, MOST_BLOCKS = 1, 6
"""Blocks of four runs: before, after, after, before."""
_EACH = 2
"""Runs of a side in a block."""
ENOUGH_BLOCKS = 3
"""Blocks after which an edit that is no slower, and not certain to be faster, is given up."""
MATTERS = 0.02
"""Least change of the step that is worth an edit, as a share."""
LEVEL = 0.0005
"""Chance of one block's decision to keep an edit that changes nothing; there are six at most."""
PROCESSOR_LEVEL = LEVEL / 2
"""The same for a decision by processor time, which is asked for beside that by wall time."""
BUSY = 0.1
"""Share of the cores from which on it is said that other programs used them: threads that wait for each other lose most."""
_WARMUP = 3
_MOST_STEPS, _LEAST_STEPS, SECONDS = 400, 12, 3.0
_CHECKED_STEPS = 8


@dataclass
class Side:
    """Runs of one side: of each the mean step without the first ones, wall and processor time in ms.

    ``even`` are wall times in what some additions took around each step: a machine that others share is half as fast for
    seconds. Shorter than the others where a run does not tell.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    even: list[float] = field(default_factory=list)

    def add(self, run: Measured) -> None:
        """Take a run's steps in. Raises ``RunFailed`` where it has too few."""
        self.wall.append(step_ms(run.step_ms, run.compiled))
        self.cpu.append(step_ms(run.cpu_ms, run.compiled))
        if len(run.sum_ms) == len(run.step_ms):
            sums = zip(run.step_ms, _smooth(run.sum_ms), strict=True)
            self.even.append(step_ms(tuple(step / summed for step, summed in sums), run.compiled))

    @property
    def mean(self) -> float:
        """Mean of the runs' wall times."""
        return math.fsum(self.wall) / len(self.wall)


def _smooth(values: Sequence[float]) -> list[float]:
    """Return the median of each value and the two on either side of it."""
    return [statistics.median(values[max(at - 2, 0) : at + 3]) for at in range(len(values))]


def step_ms(steps: tuple[float, ...], compiled: tuple[int, ...] = ()) -> float:
    """Return the mean of a run's steps, those that warm up left out: where there are few, the first alone.

    *compiled* are the steps in which something was compiled. What compiles in the first half of a run alone warms up until
    then; what still compiles later does so for good, and each of its steps counts.
    """
    warm = _WARMUP if len(steps) > 3 * _WARMUP else 1
    last = max(compiled, default=-1)
    rest = steps[max(warm, last + 1) if 2 * last < len(steps) else warm :]
    if not rest:
        raise RunFailed("it has no steps that could be timed: no optimizer step, batch or call repeats")
    return math.fsum(rest) / len(rest)


class Verifier:
    """Tries edits one after the other, each on top of those that were kept. *say* is told what is done."""

    def __init__(
        self,
        program: Program,
        files: Files,
        workplace: Path,
        say: Callable[[str], None],
        *,
        training_changes: bool = False,
    ) -> None:
        self.outside: dict[str, None] = {}
        self.device: str | None = None
        """Name of the GPU that the program uses; None where it uses none."""
        self.before_ms: float | None = None
        self.after_ms: float | None = None
        self.commits: list[tuple[str, PurePosixPath, str]] = []
        """Message, path and text of each kept edit, in order."""
        self._program, self._files, self._say = program, files, say
        self._training_changes = training_changes
        root = program.project.root
        self._before = Tree(root, workplace / "before")
        self._after = Tree(root, workplace / "after")
        self._steady: Measured | None = None
        self._checked: Measured | None = None
        self._unrepeatable = ""

    def begin(self) -> float:
        """Run the program twice as it is: it has to run, and to repeat. Returns how long a run takes, in s."""
        first = self._check(self._before)
        began = time.monotonic()
        second = self._check(self._before)
        took = time.monotonic() - began
        self._steady, self.device = first, first.device
        differs = difference(first, second)
        if differs:
            self._unrepeatable = f"the program does not repeat with the same seeds ({differs})"
        return took

    def try_edit(self, proposal: Proposal, until: float) -> FixResult:
        """Judge one edit by the first of its ways that holds; *until* is when its share of the budget ends."""
        try:
            changes = proposal.renewed()
        except NotEditable as reason:
            return result(proposal, proposal.changes[0], "reverted", str(reason))
        judged = [self._judge(proposal, change, until) for change in changes[:1]]
        for change in changes[1:]:
            if judged[-1].verdict == "kept":
                break
            judged.append(self._judge(proposal, change, until))
        best = judged[-1] if judged[-1].verdict == "kept" else judged[0]
        if best.verdict == "kept":
            self._keep(changes[judged.index(best)], best)
            self._steady = self._checked  # what the next edit is compared with
        return best

    def patch(self) -> str:
        """Return all kept edits as one unified diff."""
        kept = self._files.kept.items()
        return "".join(diff(Change(path, self._files.original(path), text, "")) for path, text in sorted(kept))

    def _keep(self, change: Change, kept: FixResult) -> None:
        self.commits.append((f"{kept.title}\n\n{kept.what}", change.path, change.after))
        self._files.kept[change.path] = change.after
        self._before.put(change.path, change.after)
        self._after.put(change.path, change.after)
        if kept.timing is not None:
            self.before_ms = self.before_ms or kept.timing.before_ms
            self.after_ms = kept.timing.after_ms

    def _judge(self, proposal: Proposal, change: Change, until: float) -> FixResult:
        trains = proposal.edit.trains
        if trains and not self._training_changes:
            return result(proposal, change, "not tried", "it changes what is learned; give --allow-training-changes")
        self._say(f"{proposal.edit.name}: {change.what}")
        self._after.put(change.path, change.after)
        try:
            return self._run(proposal, change, until)
        except RunFailed as error:
            return result(proposal, change, "reverted", f"the program fails with it: {error}")
        except OutOfTime:
            return result(proposal, change, "not tried", "the budget ended before it was judged")
        finally:
            self._after.put(change.path, change.before)

    def _run(self, proposal: Proposal, change: Change, until: float) -> FixResult:
        checked = self._checked = self._check(self._after)
        if not _is_loaded(self._after, change.path, checked):
            return result(proposal, change, "reverted", f"{change.path} is not what the program imports")
        assert self._steady is not None
        pairs = losses(self._steady, checked)
        differs = self._unrepeatable or difference(self._steady, checked)
        if differs and not self._unrepeatable and proposal.edit.resizes:
            plain = [self._check(tree, dropout=False) for tree in (self._before, self._after)]
            pairs, differs = losses(*plain), difference(*plain)
        if differs and not self._training_changes:
            because = differs if self._unrepeatable else f"computes something else: {differs}"
            return result(proposal, change, "reverted", because, losses=pairs)
        ran = len(self._program.elsewhere)
        before, after, decision, by_processor = self._timed(
            until, moves=proposal.edit.moves, processor=self._is_told_by_processor(proposal)
        )
        shares = self._program.elsewhere[ran:]
        elsewhere = math.fsum(shares) / len(shares) if shares else None
        timing = timing_of(before, after, decision, elsewhere)
        busy = f"; other programs used {elsewhere:.0%} of the cores meanwhile" if (elsewhere or 0.0) > BUSY else ""
        if decision.outcome == "better":
            note = f"; {differs}, which was allowed" if differs else ""
            how = "faster, by its processor time" if by_processor else "faster"
            return result(proposal, change, "kept", f"{how}{note}{busy}", timing=timing, losses=pairs)
        words = {"worse": "slower", "same": "no faster"}
        because = words.get(decision.outcome, "not certain to be faster within the noise of the runs")
        return result(proposal, change, "reverted", because + busy, timing=timing, losses=pairs)

    def _is_told_by_processor(self, proposal: Proposal) -> bool:
        """Tell whether a step of less processor time is a faster one: one process that computes, and an edit that moves no work."""
        return not proposal.edit.moves and self._program.ranks == 1 and self.device is None

    def _timed(self, until: float, *, moves: bool, processor: bool) -> tuple[Side, Side, Decision, bool]:
        """Run blocks until the statistics decide, or the time is over. Raises ``OutOfTime`` before the first is whole.

        Tells last whether it was *processor* time by which they did: of cores that other programs use, too, wall time says little.
        *moves*: whether the edit moves work to other threads or processes.
        """
        before, after = Side(), Side()
        decision: Decision | None = None
        ran = len(self._program.elsewhere)
        for block in range(MOST_BLOCKS):
            if decision is not None and time.monotonic() > until:
                break
            try:
                self._block(before, after)
            except OutOfTime:
                if decision is None:
                    raise
                break
            # What moves work to other threads and processes changes how fast this one adds as well.
            decision = judge(before, after, evened=not moves)
            shares = self._program.elsewhere[ran:]
            if processor and shares and math.fsum(shares) / len(shares) > BUSY:
                other = judge_processor(before, after)
                if decision.outcome not in ("better", "worse") and other.outcome == "better":
                    return before, after, replace(decision, outcome="better"), True
            # No regression is not enough to keep it, and to end: what is small may show with more runs, up to here.
            given_up = decision.outcome == "same" and block + 1 >= ENOUGH_BLOCKS
            if decision.outcome in ("better", "worse") or given_up:
                break
        assert decision is not None
        return before, after, decision, False

    def _block(self, before: Side, after: Side) -> None:
        for tree, side in (
            (self._before, before), (self._after, after), (self._after, after), (self._before, before),
        ):  # fmt: skip
            run = self._program.measure(tree, most=_MOST_STEPS, least=_LEAST_STEPS, seconds=SECONDS)
            side.add(run)

    def _check(self, tree: Tree, *, dropout: bool = True) -> Measured:
        steps = _CHECKED_STEPS
        run = self._program.measure(tree, check=True, dropout=dropout, most=steps, least=steps, seconds=0.0)
        self.outside.update(dict.fromkeys(run.outside))
        return run


def judge(before: Side, after: Side, *, evened: bool = False) -> Decision:
    """Decide whether the steps of one side are faster, by the gate's statistics of several runs.

    Two answers have to agree: one supposes that runs differ by a twentieth at least, for few runs may look alike by chance;
    the other takes the spread that they show, however large, for few runs know little of it. *evened*: the speed that the
    machine showed beside each step may be taken out of the times, which is done where they differ less then.
    """
    sides = without_drift(before.wall, after.wall)
    if evened and len(before.even) == len(before.wall) and len(after.even) == len(after.wall):
        unit = math.fsum([*before.wall, *after.wall]) / math.fsum([*before.even, *after.even])
        even = without_drift(*([value * unit for value in side.even] for side in (before, after)))
        if _spread(*even) < _spread(*sides):
            decision = _judged(*even, LEVEL)
            shorter = after.mean <= before.mean
            return decision if shorter or decision.outcome != "better" else replace(decision, outcome="inconclusive")
    return _judged(*sides, LEVEL)


def _spread(*sides: list[float]) -> float:
    """Return the squares by which runs differ from the mean of their side, as a share of it."""
    means = [math.fsum(side) / len(side) for side in sides]
    return math.fsum((value / mean - 1) ** 2 for side, mean in zip(sides, means, strict=True) for value in side)


def judge_processor(before: Side, after: Side) -> Decision:
    """Decide by processor time in the same way: *better* only where the wall time of the runs, too, is no longer than before."""
    decision = _judged(*without_drift(before.cpu, after.cpu), PROCESSOR_LEVEL)
    certain = after.mean <= before.mean and min(before.cpu) > 0
    return decision if certain else replace(decision, outcome="inconclusive")


def without_drift(before: list[float], after: list[float]) -> tuple[list[float], list[float]]:
    """Return the figures of runs in blocks, before, after, after, before, as if the machine had been as fast in each block.

    A machine that others share is half as fast for a minute: that is common to the four runs of a block, and tells nothing of
    the edit. What runs differ by beside it is made as much larger as a level for each block makes it smaller.
    """
    blocks = len(before) // _EACH
    if blocks < _EACH or len(before) != len(after) or len(before) % _EACH:
        return before, after
    slices = [slice(_EACH * at, _EACH * (at + 1)) for at in range(blocks)]
    levels = [math.fsum([*before[block], *after[block]]) / (2 * _EACH) for block in slices]
    if min(levels) <= 0:
        return before, after
    whole = math.fsum(levels) / blocks
    larger = math.sqrt((4 * blocks - 2) / (3 * blocks - 1))

    def level(side: list[float]) -> list[float]:
        moved = [value * whole / levels[at // _EACH] for at, value in enumerate(side)]
        mean = math.fsum(moved) / len(moved)
        return [mean + larger * (value - mean) for value in moved]

    return level(before), level(after)


def _judged(before: list[float], after: list[float], level: float) -> Decision:
    base = math.fsum(before) / len(before)
    runs = [[[value] * LEAST_STEPS for value in values] for values in (before, after)]
    supposed, shown = (
        decide(runs[0], runs[1], threshold=MATTERS * base, name="fix", quiet=quiet, level=level)
        for quiet in (None, 0.0)
    )
    if supposed.outcome in ("better", "worse") and shown.outcome != supposed.outcome:
        return replace(shown, outcome="inconclusive")
    return supposed


def timing_of(before: Side, after: Side, decision: Decision, elsewhere: float | None = None) -> Timing:
    """Return what was measured: by the times that were decided on, without what the machine's speed did to them."""
    return Timing(
        runs=len(before.wall),
        before_ms=before.mean if decision.base is None else decision.base,
        after_ms=after.mean if decision.now is None else decision.now,
        low_ms=decision.low,
        high_ms=decision.high,
        before_cpu_ms=math.fsum(before.cpu) / len(before.cpu),
        after_cpu_ms=math.fsum(after.cpu) / len(after.cpu),
        elsewhere=elsewhere,
    )


def result(
    proposal: Proposal,
    change: Change,
    verdict: str,
    because: str = "",
    *,
    timing: Timing | None = None,
    losses: list[tuple[float, float]] | None = None,
) -> FixResult:
    """Return the result of one edit."""
    return FixResult(
        edit=proposal.edit.name,
        title=proposal.edit.title,
        rules=list(dict.fromkeys(finding.rule for finding in proposal.findings)),
        file=str(change.path),
        what=change.what,
        diff=diff(change),
        price=proposal.price,
        changes_training=proposal.edit.trains,
        verdict=verdict,  # type: ignore[arg-type]
        because=because,
        timing=timing,
        losses=losses,
    )


def _is_loaded(tree: Tree, path: PurePosixPath, run: Measured) -> bool:
    return str((tree.folder / path).resolve()) in run.loaded
