"""Proof of gradient/l1-penalty: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.penalties import MAGNITUDES, NORM, POW, SQUARES, Call, penalized
from advisor.testing.proof import edge, fires, lacks, quiet

MEAN = Call("aten::mean", 50, "MeanBackward0", 3)


# As in the proof of gradient/l2-penalty: 6 x 393 + 4 x 7 us of a step of 7,406.
@fires(cost_ms=2.386, occurrences=3, severity="medium", line="train.py:30")
def absolute_values_of_six_parameters() -> TraceBuilder:
    return penalized(MAGNITUDES)


# A norm and two additions stay: 230 of 393 us a parameter.
@fires(cost_ms=2.386, occurrences=3, severity="medium")
def norms() -> TraceBuilder:
    return penalized((NORM,))


@fires(cost_ms=2.386, occurrences=3)
def means_of_squares() -> TraceBuilder:
    return penalized((POW, MEAN))


@fires(cost_ms=2 * 2.386, occurrences=6)
def in_each_micro_batch() -> TraceBuilder:
    return penalized(MAGNITUDES, passes=2, optimizer="AdamW")


@fires(cost_ms=2.386, occurrences=3, severity="medium")
def on_a_gpu() -> TraceBuilder:
    return penalized(MAGNITUDES, device="NVIDIA A100-SXM4-80GB")


# gradient/l2-penalty
@quiet
def squares() -> TraceBuilder:
    return penalized(SQUARES)


@quiet
def absolute_values_that_are_logged() -> TraceBuilder:
    return penalized(MAGNITUDES, through=False)


@quiet
def tensors_with_one_gradient() -> TraceBuilder:
    return penalized(MAGNITUDES, added=False)


@quiet
def one_small_layer() -> TraceBuilder:
    return penalized(MAGNITUDES, parameters=1, rest_us=25_000)


# Signs and their addition take 140 us a parameter: the middle of 40 and 100 % of 2,386 - 840 us is 1,082 us, 2 % of 54.1 ms.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return penalized(MAGNITUDES, rest_us=51_300 if over else 52_000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return penalized(MAGNITUDES, shapes=False)
