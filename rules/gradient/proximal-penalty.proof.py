"""Proof of gradient/proximal-penalty: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.penalties import MAGNITUDES, MUL, NORM, POW, SQUARE, SQUARES, SUB, SUM, WEIGHT, Call, penalized
from advisor.testing.proof import edge, fires, lacks, quiet

FAR = Call("aten::sub", 100, "SubBackward0", 1, (WEIGHT, WEIGHT, []))
DISTANCE = (FAR, POW, SUM)


# A difference takes 100 us, backward 1; a square 100 and its sum 50, backward 203; the addition to the layer's gradient 40. Four
# sums of 5 us lead from one to the next, and back in 2: 6 x 494 + 4 x 7 = 2,992 us.
@fires(cost_ms=2.992, occurrences=3, severity="high", line="train.py:30")
def a_proximal_term() -> TraceBuilder:
    return penalized(DISTANCE)


# 6 x (100 + 200) us more.
@fires(cost_ms=4.792)
def weighted_by_element() -> TraceBuilder:
    return penalized((FAR, POW, MUL, SUM))


# As in the proof of gradient/l2-penalty, 6 x 101 us more.
@fires(cost_ms=3.004)
def norms_of_differences_that_are_squared() -> TraceBuilder:
    return penalized((FAR, NORM, SQUARE))


@fires(cost_ms=2.992, occurrences=3)
def on_a_gpu() -> TraceBuilder:
    return penalized(DISTANCE, device="NVIDIA A100-SXM4-80GB")


# The gradient of a root is divided by it.
@quiet
def the_root_of_the_distance() -> TraceBuilder:
    return penalized(DISTANCE, behind=(Call("aten::sqrt", 5, "SqrtBackward0", 2, ([],)),))


@quiet
def distances_that_are_logged() -> TraceBuilder:
    return penalized(DISTANCE, through=False)


# A loss of activations: nothing stores their gradient behind an addition.
@quiet
def of_activations() -> TraceBuilder:
    return penalized(DISTANCE, added=False)


@quiet
def tensors_as_large_as_activations() -> TraceBuilder:
    return penalized(DISTANCE, activation=True)


# gradient/l2-penalty, gradient/l1-penalty
@quiet
def squares_of_the_parameters() -> TraceBuilder:
    return penalized(SQUARES)


@quiet
def absolute_differences() -> TraceBuilder:
    return penalized((FAR, *MAGNITUDES))


@quiet
def norms_of_differences() -> TraceBuilder:
    return penalized((SUB, NORM))


@quiet("not_applicable")
def an_optimizer_that_searches() -> TraceBuilder:
    return penalized(DISTANCE, optimizer="LBFGS")


# All but two passes of 600 us are spared: the middle of 40 and 100 % of 1,792 us is 1,254 us, 5 % of 25.1 ms.
@edge
def five_percent_of_the_step(over: bool) -> TraceBuilder:
    return penalized(DISTANCE, rest_us=21_500 if over else 22_700)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return penalized(DISTANCE, shapes=False)
