"""Proof of cpu/factored-again: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SOLVE = {"operator": "aten::_linalg_solve_ex", "calls": 1, "size": 400, "again": 2, "file": "filter.py", "line": 12}
DETERMINANT = SOLVE | {"operator": "aten::_linalg_slogdet", "line": 13}


def filtering(
    us: float = 300,
    *,
    rest: float = 1000,
    device: str | None = None,
    found: list[dict[str, Any]] | None = None,
    known: bool = True,
    stacks: bool = True,
) -> TraceBuilder:
    """Steps in which line 12 solves, line 13 takes a determinant, and line 20 sorts something."""
    entries = [SOLVE, DETERMINANT] if found is None else found
    b = TraceBuilder(device, host_us=0).ran_with(**({"factors": entries} if known else {}))
    for _ in range(3):
        with b.step():
            for line, name in ((12, "_linalg_solve_ex"), (13, "_linalg_slogdet")):
                args = {"Call stack": f"filter.py({line}): update;filter.py(7): main"} if stacks else {}
                with b.op(f"aten::{name}", us=1 if device else us, args=args):
                    if device:
                        b.kernel("getrf", us=us)
            with b.op(
                "aten::sort", us=1 if device else rest, args={"Call stack": "filter.py(20): main"} if stacks else {}
            ):
                if device:
                    b.kernel("radixSort", us=rest)
            if device:
                b.sync()
    return b


# Twice 300 us of 1600 a step.
@fires(cost_ms=0.6, occurrences=6, severity="high")
def a_determinant_beside_a_solution() -> TraceBuilder:
    return filtering()


# The price of the inverse is that of one factor for both: the rule on inverses leaves it.
@fires(cost_ms=0.6, occurrences=6)
def an_inverse_that_is_only_multiplied() -> TraceBuilder:
    return filtering(found=[SOLVE | {"columns": 1}, DETERMINANT])


@quiet
def a_gradient_flows() -> TraceBuilder:
    return filtering(found=[entry | {"gradient": True} for entry in (SOLVE, DETERMINANT)])


@quiet
def matrices_that_differ() -> TraceBuilder:
    return filtering(found=[SOLVE | {"again": 1}])


@quiet
def nothing_found() -> TraceBuilder:
    return filtering(found=[])


@quiet("not_applicable")
def steps_that_nobody_watched() -> TraceBuilder:
    return filtering(known=False)


@fires(cost_ms=0.6, occurrences=6, severity="medium")  # 0.75 of half of 600 of 1600 us: 14 %
def on_a_gpu() -> TraceBuilder:
    return filtering(device="Tesla V100-SXM2-16GB")


@quiet
def a_gradient_flows_on_a_gpu() -> TraceBuilder:
    entries = [entry | {"gradient": True} for entry in (SOLVE, DETERMINANT)]
    return filtering(found=entries, device="Tesla V100-SXM2-16GB")


# Three quarters of 0.8 x 0.6 ms: 4 % of 9 ms, of which 8.4 run elsewhere.
@edge
def four_of_a_hundred(over: bool) -> TraceBuilder:
    return filtering(rest=8_300 if over else 8_500)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return filtering(stacks=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("getrf").ran_with(factors=[SOLVE, DETERMINANT])
