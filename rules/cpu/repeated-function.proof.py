"""Proof of cpu/repeated-function: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence
from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

# Of two calls of line 18 the second one computes again.
LOOP = {"calls": 2, "share": 0.5, "backward": 0.5, "earlier": 18, "file": "run.py", "line": 18}
# Line 7 computes again where line 19 leads to it, and not where line 18 does.
SECOND = {"calls": 1, "share": 1.0, "backward": 1.0, "under": [{"file": "run.py", "line": 19}], "earlier": 18, "file": "run.py",
          "line": 7}  # fmt: skip


def steps(
    us: float = 250,
    *,
    rest: float = 500,
    found: dict[str, Any] | None = LOOP,
    lines: tuple[int, ...] = (18, 18),
    stacks: bool = True,
    backward: float = 0,
    singles: Sequence[dict[str, Any]] = (),
) -> TraceBuilder:
    """Steps whose *lines* each call a propagation, of one operator in line 7, and where line 30 takes a product, if *rest*."""
    b = TraceBuilder(None, host_us=0).ran_with(**({} if found is None else {"again": [found] if found else []}))
    if singles:
        b.ran_with(again=[found], singles=singles)
    for step in range(3):
        with b.step():
            for call, line in enumerate(lines):
                stack = f"run.py(7): propagate;run.py({line}): scores;run.py(40): main"
                with b.op("aten::addmm", us=us, seq=10 * step + call, args={"Call stack": stack} if stacks else {}):
                    pass
            if rest:
                with b.op("aten::mm", us=rest, args={"Call stack": "run.py(30): main"} if stacks else {}):
                    pass
            for call in range(len(lines) if backward else 0):
                with b.backward("AddmmBackward0", 10 * step + call), b.op("aten::mm", us=backward):
                    pass
    return b


# 2 x 250 us of 1000 a step, of which a half goes.
@fires(cost_ms=0.5, occurrences=6, severity="high", line="run.py:18")
def a_propagation_for_each_sign() -> TraceBuilder:
    return steps()


# And 2 x 400 us of its backward pass, of which a half goes as well.
@fires(cost_ms=1.3, occurrences=24, severity="high", line="run.py:18")
def with_its_backward_pass() -> TraceBuilder:
    return steps(backward=400)


# The second of two calls, 250 us of 1000 a step.
@fires(cost_ms=0.25, occurrences=3, severity="high", line="run.py:7")
def at_another_line() -> TraceBuilder:
    return steps(found=SECOND, lines=(18, 19))


SINGLES = {"module": "Net", "calls": 20, "loops": 1, "share": 1.0, "file": "run.py", "line": 18}


# Of a product of 250 us one batch spares 0.95 (8 + 0.4 x 242) us of it, 0.4.
@fires(cost_ms=0.5, occurrences=6, severity="high")
def calls_with_one_sample_each_of_which_half_come_again() -> TraceBuilder:
    return steps(singles=[SINGLES])


@quiet
def calls_with_one_sample_each_that_a_batch_spares_more_of() -> TraceBuilder:
    return steps(found=LOOP | {"share": 0.3}, singles=[SINGLES])


# Of a level of each size one call is made, 250 us of 1500, beside the one that computes again.
@fires(cost_ms=0.25, occurrences=3, severity="high", line="run.py:7")
def beside_calls_that_differ() -> TraceBuilder:
    return steps(found=SECOND, lines=(17, 18, 16, 19))


# And 400 us of the second one's backward pass: 650 us of 1800.
@fires(cost_ms=0.65, occurrences=12, severity="high", line="run.py:7")
def at_another_line_with_its_backward_pass() -> TraceBuilder:
    return steps(found=SECOND, lines=(18, 19), backward=400)


# A step that is nothing but three such calls: 750 us, of which two thirds go.
@fires(cost_ms=0.75, occurrences=9, severity="high", line="run.py:18")
def nothing_else_in_the_step() -> TraceBuilder:
    return steps(found=LOOP | {"calls": 3, "share": 0.6667}, lines=(18, 18, 18), rest=0)


# Of the forward pass a half goes, of the backward pass nothing: 0.9 x 10 of 20 + 2 x 400 + 130 us are under 4.5 % of 950.
@quiet
def of_which_one_call_has_a_gradient() -> TraceBuilder:
    return steps(us=10, rest=130, backward=400, found=LOOP | {"backward": 0.0})


@quiet
def calls_that_differ() -> TraceBuilder:
    return steps(found={})


@quiet("not_applicable")
def steps_that_nobody_watched() -> TraceBuilder:
    return steps(found=None)


@quiet
def another_line() -> TraceBuilder:
    return steps(lines=(19, 19))


@quiet
def a_line_reached_by_another_way() -> TraceBuilder:
    return steps(found=SECOND, lines=(17, 18))


@quiet
def a_cheap_function() -> TraceBuilder:
    return steps(us=10)


# 0.9 of 250 us in the middle: 4.5 % of 5 ms.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return steps(rest=4450 if over else 4550)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return steps(stacks=False)
