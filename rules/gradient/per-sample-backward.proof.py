"""Proof of gradient/per-sample-backward: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, WIDTH = 8, 64


def samples(
    us: float = 500,
    count: int = BATCH,
    *,
    length: int = BATCH,
    pick: str = "SelectBackward0",
    summed: str = "",
    stored: bool = False,
    shapes: bool = True,
    device: str | None = None,
    rest_us: float = 2000,
) -> TraceBuilder:
    """Steps of a forward pass of 2 ms over a batch, and *count* passes of one node of *us*, each from an element of a vector."""
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    for step in range(4):
        base = 100 * step
        with b.step():
            with b.op("aten::linear", shapes=[[BATCH, WIDTH], [WIDTH, WIDTH], [WIDTH]], seq=base + 1, us=rest_us):
                with b.op("aten::t", shapes=[[WIDTH, WIDTH]]):
                    pass
                work(b, rest_us, device)
            if summed:
                with b.op("aten::sum", shapes=[[BATCH, length], [], []], values=["", summed, ""], seq=base + 2, us=1):
                    pass
            for sample in range(count):
                with b.python("influence.py(12): scores"):
                    with b.op("aten::select", shapes=[[length], [], []], seq=base + 10 + sample, us=1):
                        pass
                    with b.op("aten::ones_like", shapes=[[]], us=1):
                        pass
                    with b.backward(pick, base + 10 + sample, us=1):
                        pass
                    if summed:
                        with b.backward("SumBackward1", base + 2, us=1):
                            pass
                    with (
                        b.backward("AddmmBackward0", base + 1),
                        b.op("aten::mm", shapes=[[WIDTH, BATCH], [BATCH, WIDTH]]),
                    ):
                        work(b, us, device)
                    if stored:
                        with (
                            b.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", us=1),
                            b.op("torch::autograd::AccumulateGrad", shapes=[[WIDTH, WIDTH]], us=1),
                        ):
                            pass
                with b.op("aten::square", shapes=[[WIDTH, WIDTH]], us=1):
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


# Seven of eight passes of 0.5 ms run again what the first has run.
@fires(cost_ms=3.5, occurrences=28, severity="high", line="influence.py:12")
def a_gradient_for_each_loss() -> TraceBuilder:
    return samples()


@fires(cost_ms=3.5, occurrences=28)
def on_a_gpu() -> TraceBuilder:
    return samples(device="NVIDIA A100-SXM4-80GB")


# Each sample's loss is a sum over its outputs.
@fires(cost_ms=3.51, occurrences=28)
def losses_that_are_sums() -> TraceBuilder:
    return samples(summed="[1]")


# As many outputs as rows, each summed over the rows: a Jacobian of the sum over the batch.
@quiet
def sums_over_the_batch() -> TraceBuilder:
    return samples(summed="[0]")


# Rows of a Jacobian: as many outputs, of another length than the batch.
@quiet
def a_vector_of_another_length() -> TraceBuilder:
    return samples(length=12)


@quiet
def another_operator_picks_no_element() -> TraceBuilder:
    return samples(pick="SumBackward0")


# Gradients that backward stores are cleared in between, and may be meant for something else.
@quiet
def gradients_that_are_stored() -> TraceBuilder:
    return samples(stored=True)


@edge
def four_samples(over: bool) -> TraceBuilder:
    return samples(count=4 if over else 3)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """78.5 % of seven times 57 or 53 us, of 10.0 ms: 3.13 or 2.91 %."""
    us = 57 if over else 53
    return samples(us, rest_us=10_000 - 8 * us - 32)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return samples(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
