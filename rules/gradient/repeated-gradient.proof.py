"""Proof of gradient/repeated-gradient: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SHAPE = [512, 64]


def gradients(
    us: float = 1000,
    roots: Sequence[int] = (3, 3),
    *,
    vector: str = "aten::ones_like",
    root: str = "SelectBackward0",
    differentiated: bool = False,
    stored: bool = False,
    shapes: bool = True,
    outputs: int = 0,
    ahead: Sequence[Sequence[tuple[str, list[str]]]] = (),
    device: str | None = None,
    rest_us: float = 6000,
) -> TraceBuilder:
    """Steps of 6 ms of forward work, and passes from *roots* through two nodes of *us*, behind an operator that makes *vector*.

    The first node joins the gradients of *outputs*, of which one is given and the others are zeros. *ahead* are for each pass
    operators that it makes of that node's output first, the last called first, with what they are asked for.
    *differentiated*: each pass makes a graph, which a last pass runs for *us*; *stored*: the last of them stores a gradient.
    """
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    for step in range(4):
        base = 100 * step
        with b.step():
            for number in (1, 2, 3, 4):
                with b.op(
                    "aten::mm" if number < 3 else "aten::select", shapes=[SHAPE], seq=base + number, us=rest_us / 4
                ):
                    work(b, rest_us / 4, device)
            for turn, first in enumerate(roots):
                with b.python("pde.py(19): derivative"):
                    made = ahead[turn] if ahead else ()
                    for place, (name, values) in reversed(list(enumerate(made))):
                        with b.op(
                            name,
                            shapes=[SHAPE, *([[]] * (len(values) - 1))],
                            values=values,
                            seq=base + 70 + 10 * turn + place,
                            us=1,
                        ):
                            pass
                    if vector:
                        with b.op(vector, shapes=[[512]], us=1):
                            pass
                    for place, (name, _) in enumerate(made):
                        with b.backward(
                            f"{name.removeprefix('aten::').title()}Backward0", base + 70 + 10 * turn + place, us=1
                        ):
                            pass
                    with b.backward(root, base + first, us=1):
                        for _ in range(outputs - 1):
                            with b.op("aten::zeros", us=0.1):
                                pass
                        if outputs:
                            with b.op("aten::cat", shapes=[[[512, 1]] * outputs, []], us=0.1):
                                pass
                    for number in (2, 1):
                        with b.backward("MmBackward0", base + number), b.op("aten::mm", shapes=[SHAPE]):
                            work(b, us, device)
                            if differentiated and number == 2:
                                with b.op("aten::mm", shapes=[SHAPE], seq=base + 50 + turn, us=1):
                                    pass
                    if stored and turn:
                        with (
                            b.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", us=1),
                            b.op("torch::autograd::AccumulateGrad", shapes=[SHAPE], us=1),
                        ):
                            pass
                with b.op("aten::select", shapes=[[512, 3], [], []], us=1):
                    pass
            if differentiated:
                for turn in reversed(range(len(roots))):
                    with b.backward("MmBackward0", base + 50 + turn), b.op("aten::mm", shapes=[SHAPE]):
                        work(b, us, device)
                with b.backward("MmBackward0", base + 2), b.op("aten::mm", shapes=[SHAPE]):
                    work(b, us, device)
            with b.op("aten::add", shapes=[[]], us=1):
                pass
            if device:
                b.sync()
    return b


def work(b: TraceBuilder, us: float, device: str | None) -> None:
    if device:
        b.kernel("ampere_sgemm_128x64_nn", us=us)
    else:
        with b.op("aten::bmm", us=us):
            pass


# Two nodes of 1 ms run again, in each of four steps of 10 ms.
@fires(cost_ms=2.0, occurrences=4, severity="high", line="pde.py:19")
def two_columns_of_one_gradient() -> TraceBuilder:
    return gradients()


@fires(cost_ms=4.0, occurrences=8)
def three_columns_of_one_gradient() -> TraceBuilder:
    return gradients(roots=(3, 3, 3))


# Another output comes between the two of the first.
@fires(cost_ms=2.0, occurrences=4)
def outputs_in_turn() -> TraceBuilder:
    return gradients(roots=(3, 4, 3))


# Each pass goes back from a sum of its own: of the same column of the same output.
@fires(cost_ms=2.0, occurrences=4)
def a_sum_of_its_own_for_each() -> TraceBuilder:
    total, column = ("aten::sum", ["", ""]), ("aten::select", ["", "1", "0"])
    return gradients(root="MmBackward0", ahead=[(total, column)] * 2)


# What the second made for the last pass is spared as well: 1 ms more.
@fires(cost_ms=3.0, occurrences=4)
def differentiated_again() -> TraceBuilder:
    return gradients(differentiated=True)


@fires(cost_ms=2.0, occurrences=4)
def an_input_and_then_the_weights() -> TraceBuilder:
    return gradients(stored=True)


@fires(cost_ms=2.0, occurrences=4)
def on_a_gpu() -> TraceBuilder:
    return gradients(device="NVIDIA A100-SXM4-80GB")


@quiet
def one_gradient() -> TraceBuilder:
    return gradients(roots=(3,))


@quiet
def one_gradient_that_is_differentiated() -> TraceBuilder:
    return gradients(roots=(3,), differentiated=True)


@quiet
def other_columns_of_one_output() -> TraceBuilder:
    total = ("aten::sum", ["", ""])
    return gradients(root="MmBackward0", ahead=[(total, ("aten::select", ["", "1", at])) for at in "01"])


@quiet
def a_sum_and_a_mean() -> TraceBuilder:
    return gradients(root="MmBackward0", ahead=[((name, ["", ""]),) for name in ("aten::sum", "aten::mean")])


@quiet
def weighted_sums() -> TraceBuilder:
    """Sums with weights that the recording does not tell: they may differ."""
    return gradients(root="MmBackward0", ahead=[(("aten::sum", ["", ""]), ("aten::mul", ["", ""]))] * 2)


@quiet
def sums_of_outputs_of_an_unbind() -> TraceBuilder:
    return gradients(root="UnbindBackward0", ahead=[(("aten::sum", ["", ""]),)] * 2)


@quiet
def other_outputs() -> TraceBuilder:
    return gradients(roots=(4, 3))


# Rows of a Jacobian, by a vector for each.
@quiet
def other_vectors() -> TraceBuilder:
    return gradients(vector="aten::fill_")


@quiet
def vectors_that_were_made_before() -> TraceBuilder:
    return gradients(vector="")


# A node of several outputs: which of them a pass begins at is not recorded.
@quiet
def outputs_of_an_unbind() -> TraceBuilder:
    return gradients(root="UnbindBackward0")


# Three outputs, and as many passes: each may be of another one. The fourth is of one that had a pass already.
@quiet
def as_many_passes_as_outputs() -> TraceBuilder:
    return gradients(root="SplitBackward0", roots=(3, 3, 3), outputs=3)


@fires(cost_ms=2.0, occurrences=4)
def more_passes_than_outputs() -> TraceBuilder:
    return gradients(root="SplitBackward0", roots=(3, 3, 3, 3), outputs=3)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """87.5 % of two nodes of 173 or 170 us, of 10.0 ms: 3.03 or 2.98 %."""
    us = 173 if over else 170
    return gradients(us, rest_us=10_000 - 4 * us)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return gradients(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
