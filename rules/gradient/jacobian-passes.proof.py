"""Proof of gradient/jacobian-passes: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, OUTPUTS, INPUTS = 8, 3, 5
WHOLE = [BATCH, OUTPUTS, BATCH, INPUTS]
TAKEN = ("aten::diagonal", [WHOLE, [], [], []], ["", "0", "0", "2"])
Call = tuple[str, list[object], list[str]]


def jacobians(
    us: float = 100,
    *,
    outputs: int = OUTPUTS,
    passes: int | None = None,
    behind: Sequence[Call] = (TAKEN,),
    nested: bool = False,
    summed: bool = False,
    later: bool = False,
    adds: bool = False,
    shapes: bool = True,
    device: str | None = None,
    rest_us: float = 2000,
) -> TraceBuilder:
    """Steps of 2 ms of forward work, and a pass of one node of *us* for each element of outputs of 8 rows; then *behind*."""
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    whole = [BATCH, outputs]
    count = passes or (outputs if summed else BATCH * outputs)
    for step in range(4):
        base = 1000 * step
        with b.step():
            with b.op("aten::addmm", shapes=[[outputs], [BATCH, 64], [64, outputs]], seq=base + 1, us=rest_us):
                work(b, rest_us, device)
            if summed:
                call(b, "aten::sum", [whole, [], [], []], seq=base + 2)
            for turn in range(count):
                with b.python("kalman.py(72): transition"):
                    element = base + 10 + 2 * turn
                    if nested:
                        call(b, "aten::select", [whole, [], []], seq=element)
                        call(b, "aten::select", [[outputs], [], []], seq=element + 1)
                    elif summed:
                        call(b, "aten::select", [[outputs], [], []], seq=element + 1)
                    else:
                        call(b, "aten::reshape", [whole, []], seq=element)
                        call(b, "aten::select", [[BATCH * outputs], [], []], seq=element + 1)
                    call(b, "aten::ones_like", [[]])
                    with b.backward("SelectBackward0", element + 1, us=0.1):
                        pass
                    with (
                        b.backward("AddmmBackward0", base + 1),
                        b.op("aten::mm", shapes=[[BATCH, outputs], [outputs, 64]]),
                    ):
                        work(b, us, device)
                    if adds:
                        store = "torch::autograd::AccumulateGrad"
                        with (
                            b.op(f"autograd::engine::evaluate_function: {store}", us=1),
                            b.op(store, shapes=[[OUTPUTS, 64]], us=1),
                        ):
                            pass
            for name, operands, values in behind:
                call(b, name, operands, values)
            if later:
                call(b, "aten::matmul", [[64, BATCH * outputs], [BATCH * outputs, BATCH * INPUTS]])
            if device:
                b.sync()
    return b


def call(
    b: TraceBuilder, name: str, shapes: list[object], values: list[str] | None = None, seq: int | None = None
) -> None:
    with b.op(name, shapes=shapes, values=values, seq=seq, us=0.1):
        pass


def work(b: TraceBuilder, us: float, device: str | None) -> None:
    if device:
        b.kernel("ampere_sgemm_128x64_nn", us=us)
    else:
        with b.op("aten::bmm", us=us):
            pass


# 24 passes of 0.1 ms in each of four steps, with 0.4 us for picking an element, and what leads to its pass.
@fires(cost_ms=2.41, occurrences=4, severity="high", line="kalman.py:72")
def the_blocks_on_the_diagonal() -> TraceBuilder:
    return jacobians()


@fires(cost_ms=2.41)
def elements_by_row_and_column() -> TraceBuilder:
    return jacobians(nested=True)


@fires(cost_ms=2.41)
def summed_with_the_zeros_beside_them() -> TraceBuilder:
    return jacobians(behind=[("aten::sum", [WHOLE, [], [], []], ["", "[2]", "False", ""])])


@fires(cost_ms=2.41)
def by_indices_of_both() -> TraceBuilder:
    return jacobians(behind=[("aten::index", [WHOLE, []], ["", ""])])


@fires(cost_ms=2.4)
def on_a_gpu() -> TraceBuilder:
    return jacobians(device="NVIDIA A100-SXM4-80GB")


# Nodes of 0.1 and 10 us: mostly calls. Passes of 10 us each, with 0.5 us for picking an element.
@fires(cost_ms=0.25, fix="Pass vectorize=True: all passes at once, by vmap")
def short_passes_used_whole() -> TraceBuilder:
    return jacobians(10, behind=[("aten::mul", [WHOLE, WHOLE], ["", ""])])


@quiet
def short_passes_whose_gradients_add_up() -> TraceBuilder:
    return jacobians(10, behind=(), adds=True)


@quiet
def used_whole() -> TraceBuilder:
    return jacobians(behind=[("aten::mul", [WHOLE, WHOLE], ["", ""])])


@quiet
def used_whole_beside_the_blocks() -> TraceBuilder:
    return jacobians(behind=[TAKEN, ("aten::linalg_vector_norm", [WHOLE, [], [], [], []], ["", "2", "", "", ""])])


@quiet
def made_into_a_matrix() -> TraceBuilder:
    return jacobians(behind=(), later=True)


# Rows of one output by all others: a sum over outputs.
@quiet
def summed_over_something_else() -> TraceBuilder:
    return jacobians(behind=[("aten::sum", [WHOLE, [], [], []], ["", "[1]", "False", ""])])


@quiet
def another_diagonal() -> TraceBuilder:
    return jacobians(behind=[("aten::diagonal", [WHOLE, [], [], []], ["", "0", "1", "3"])])


# One pass for each output of a row already.
@quiet
def of_the_sum_over_the_batch() -> TraceBuilder:
    return jacobians(summed=True, behind=[("aten::transpose", [[OUTPUTS, BATCH, INPUTS], [], []], ["", "0", "1"])])


@quiet
def of_some_elements() -> TraceBuilder:
    return jacobians(passes=12)


# A vector of losses, one a row: gradient/per-sample-backward.
@quiet
def of_one_output_a_row() -> TraceBuilder:
    return jacobians(outputs=1, behind=[("aten::diagonal", [[BATCH, 1, BATCH, INPUTS]], ["", "0", "0", "2"])])


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """92.5 % of seven eighths of the passes' time: 38 or 35 us of 24, of 24 ms."""
    return jacobians(38 if over else 35, rest_us=24_000 - 24 * (38 if over else 35))


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return jacobians(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
