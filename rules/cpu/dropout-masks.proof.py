"""Proof of cpu/dropout-masks: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

MASK = [[32, 65, 128], [], []]
"""266,240 elements."""


def training(
    us: float = 1600,
    mask: list[list[int]] = MASK,
    *,
    around: str = "aten::dropout",
    rest_us: float = 8000,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Three steps of a convolution, and a dropout of which the drawing takes so long."""
    b = TraceBuilder(device, record_shapes=shapes, host_us=0)
    for _ in range(3):
        with b.step(), b.python("train.py(8): forward"):
            with b.op("aten::mkldnn_convolution", us=rest_us):
                pass
            with b.op(around, shapes=[mask[0], [], []], us=10), b.op("aten::bernoulli_", shapes=mask, us=us):
                pass
    return b


# 1.6 ms of a step of 9.61 ms. At 1.5 ns an element 0.4 ms are left of them.
@fires(cost_ms=1.6, cost_share=0.1665, occurrences=3, severity="high", line="train.py:8")
def a_mask_at_six_ns_an_element() -> TraceBuilder:
    return training()


@fires(cost_ms=1.6, occurrences=3)
def dropout_in_place() -> TraceBuilder:
    return training(around="aten::dropout_")


@quiet
def a_mask_of_attention() -> TraceBuilder:
    return training(around="aten::scaled_dot_product_attention")


@quiet
def random_numbers_of_the_program_itself() -> TraceBuilder:
    return training(around="aten::bernoulli_")


@quiet
def a_library_that_draws_in_vectors() -> TraceBuilder:
    return training(us=400)


@quiet
def beside_much_more_work() -> TraceBuilder:
    return training(rest_us=80_000)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def four_thousand_elements(over: bool) -> TraceBuilder:
    return training(us=30, mask=[[4096 if over else 4095], [], []], rest_us=100)


@edge
def three_ns_an_element(over: bool) -> TraceBuilder:
    return training(us=301 if over else 299, mask=[[100_000], [], []], rest_us=1000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)
