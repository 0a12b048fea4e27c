"""Proof of cpu/mostly-zeros: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ZEROS = {
    "operator": "aten::mm", "calls": 4, "size": 1_690_000, "columns": 64, "share": 0.999, "file": "gin.py", "line": 82,
}  # fmt: skip


def training(
    us: float = 400,
    *,
    rest: float = 1000,
    device: str | None = None,
    found: list[dict[str, Any]] | None = None,
    line: int = 82,
    name: str = "aten::mm",
    stacks: bool = True,
) -> TraceBuilder:
    """Steps in which line 82 multiplies by an adjacency, with a backward pass as long, and line 90 runs a layer."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if found is None else {"zeros": found}))
    for step in range(3):
        with b.step():
            with b.op(name, us=us, seq=step, args={"Call stack": f"gin.py({line}): forward"} if stacks else {}):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=us)
            with b.op("aten::addmm", us=rest, args={"Call stack": "gin.py(90): forward"} if stacks else {}):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=rest)
            with b.backward("MmBackward0", step), b.op("aten::mm", us=us):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=us)
            if device:
                b.sync()
    return b


# 400 us and as many in the backward pass, of 1800 a step; the product, the node's two, and what that runs.
@fires(cost_ms=0.8, occurrences=12, severity="high", line="gin.py:82")
def a_batch_of_graphs_along_the_diagonal() -> TraceBuilder:
    return training(found=[ZEROS])


@fires(cost_ms=0.8, fix="Keep the list of what is not zero: gather along it, or torch.sparse.mm")
def one_in_two_hundred() -> TraceBuilder:
    return training(found=[ZEROS | {"share": 0.995}])


@quiet
def one_in_a_hundred() -> TraceBuilder:
    return training(found=[ZEROS | {"share": 0.99}])


@quiet
def no_such_matrices() -> TraceBuilder:
    return training(found=[])


@quiet("not_applicable")
def steps_that_nobody_watched() -> TraceBuilder:
    return training()


@quiet
def another_line() -> TraceBuilder:
    return training(found=[ZEROS], line=83)


@quiet
def another_operator_of_the_line() -> TraceBuilder:
    return training(found=[ZEROS], name="aten::addmm")


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(found=[ZEROS], device="Tesla V100-SXM2-16GB")


# The middle, 86.5 %, of 0.97 of 800 us: 4 % of 16.8 ms.
@edge
def four_of_a_hundred(over: bool) -> TraceBuilder:
    return training(found=[ZEROS], rest=15_500 if over else 16_500)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return training(found=[ZEROS], stacks=False)
