"""Words for the user on what became of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from advisor.record import INLINE, NONE, SECOND_PASS
from advisor.record.steps import BATCHES, CALLS, LOOPS, OPTIMIZER, Steps

if TYPE_CHECKING:
    from advisor.record.passes import Passes
    from advisor.record.plain import Found
    from advisor.record.session import Options

MARKED = "marked"
_WORDS = {
    "optimizer": "optimizer step",
    "batches": "batch",
    "calls": "call of the model",
    "turns": "turn of the loop that calls the model",
    "iterations": "iteration of the loop around the optimizer's steps",
    "loops": "turn of a loop around tensor operators",
    MARKED: "p.step()",
}


def of_block(stacks: str) -> str:
    """Word that a block was recorded without marks of steps."""
    lines = "" if stacks == INLINE else '; source lines need stacks="inline", or p.step() after every step'
    return f"recorded the whole block, as p.step() was not called{lines}"


def of_steps(
    options: Options,
    passes: Passes,
    steps: Steps[Any] | None,
    stacks: str,
    *,
    earlier: str | None,
    interrupted: bool,
    loop: Found | None = None,
) -> Iterator[str]:
    """Word the steps that were recorded, and with which *stacks*, line by line.

    *steps* is None where the program marks them, *earlier* the unit of steps that they take the place of; *interrupted*: another
    profiler ran. *loop* is that around plain tensor code.
    """
    word = _WORDS[(steps.unit if steps is not None else MARKED) or MARKED]
    count = passes.steps["timing"]
    fed = steps is not None and steps.unit == OPTIMIZER and steps.fed
    message = f"recorded {_counted('step', count)}, a step being one {word}"
    message += ", from the request for its batch" if fed else ""
    if count < options.steps:
        reason = "another profiler began" if interrupted else "the program ended"
        reason = "the recording was large" if passes.large else reason
        reason = "more would not fit into memory" if passes.short_of_memory else reason
        message += f" ({reason} before all {options.steps})"
    left_out = len(steps.stamps) if steps is not None else 0
    yield f"{message}; skipped {max(left_out, options.skip)} before"
    if steps is not None and steps.unit == LOOPS:
        yield from _of_loop(loop)
    if earlier is not None:
        yield f"they take the place of the steps by {_WORDS[earlier]} that came before them"
    if steps is not None and steps.unit == OPTIMIZER and steps.has_others:
        yield (
            "several optimizers step: a step begins with each step of the first. Where it steps more than once an "
            "iteration, record with --by batches."
        )
    if stacks == NONE and options.stacks == SECOND_PASS:
        missing = "memory" if passes.short_of_memory else "time"
        yield f"no source lines: there was no {missing} for the pass that records stacks"


def _of_loop(loop: Found | None) -> Iterator[str]:
    """Word which loop's turns, or which function's calls, the steps are."""
    if loop is not None:
        what = "calls of" if loop.calls else "turns of the loop in"
        yield (
            f"no optimizer step, no batch and no call of a module was seen: the steps are {what} {loop.function} "
            f"({loop.file}:{loop.line}). For another loop use advisor.profile: docs/record.md."
        )


def of_nothing(
    options: Options, steps: Steps[Any] | None, marks: int, *, interrupted: bool, idle: Found | None = None
) -> str:
    """Word that nothing was recorded, and why; *steps* is None where the program marks them, *marks* times.

    *idle* is a loop in which no operator ran.
    """
    if interrupted:
        return (
            "nothing was recorded: the program runs torch.profiler itself, and only one profiler can run in a process. "
            "Switch it off, or read the trace that it writes."
        )
    if steps is None:
        return f"nothing was recorded: {marks} calls of p.step(), and {options.skip} are skipped. Lower skip=."
    counts = [(unit, steps.count(unit)) for unit in (OPTIMIZER, BATCHES, CALLS)]
    activity = ", ".join(_counted(_WORDS[unit], count) for unit, count in counts if count)
    if not activity:
        loop = "no loop around tensor operators that turns a few times in a second"
        if idle is not None:
            loop = f"no tensor operator in the loop that takes the time ({idle.function}, {idle.file}:{idle.line})"
        return (
            "nothing was recorded: no optimizer step, no batch of a DataLoader, no call of a module and "
            f"{loop} was seen in this process. Child processes are not recorded, but for ranks (torchrun, "
            "torch.multiprocessing.spawn). For a loop that only you can see, use advisor.profile: docs/record.md."
        )
    if steps.waits:
        activity += ", in a loop that took turns of several calls each"
    return (
        f"nothing was recorded: the program ended after {activity}; {options.skip} steps are skipped, 1 warms the "
        f"profiler up, {options.steps} are recorded. Let it run longer, lower --skip, or say what a step is with --by"
        + (" (--by calls: each call)." if steps.waits else ".")
    )


def of_bursts(share: float, burst: int | None) -> str:
    """Word that a share of the time lies between bursts of steps, and was not recorded."""
    return (
        f"{share:.0%} of the time lies between bursts of {burst or 'several'} optimizer steps, and was not recorded "
        "(an evaluation, a rollout, a checkpoint). Record it with --by iterations."
    )


def _counted(word: str, count: int) -> str:
    several = {"batch": "batches", "call of the model": "calls of the model"}.get(word, word + "s")
    return f"{count} {word if count == 1 else several}"
