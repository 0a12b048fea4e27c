"""Proof of gradient/l2-penalty: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.penalties import MAGNITUDES, MUL, NORM, POW, SQUARE, SUB, SUM, penalized
from advisor.testing.proof import edge, fires, lacks, quiet

ADAMW = "Add the penalty's gradient once, before the optimizer's step"
DECAY = "Give the optimizer weight_decay: twice the factor of the penalty"


# A parameter is squared in 100 us and summed in 50; backward takes 203, and the addition to the layer's gradient 40. Four sums of
# 5 us lead from one to the next, and back in 2: 6 x 393 + 4 x 7 = 2,386 us of a step of 7,406.
@fires(cost_ms=2.386, occurrences=3, severity="high", line="train.py:30", fix=DECAY)
def squares_of_six_parameters() -> TraceBuilder:
    return penalized()


@fires(cost_ms=2.386, fix=ADAMW)
def with_a_decoupled_weight_decay() -> TraceBuilder:
    return penalized(optimizer="AdamW")


# 2 us more a parameter.
@fires(cost_ms=2.398, occurrences=3)
def norms_that_are_squared() -> TraceBuilder:
    return penalized((NORM, SQUARE))


# 1 us more a parameter.
@fires(cost_ms=2.392, occurrences=3)
def products_of_parameters_with_themselves() -> TraceBuilder:
    return penalized((MUL, SUM), doubled=True)


# Four micro-batches: each pays.
@fires(cost_ms=4 * 2.386, occurrences=12)
def in_each_micro_batch() -> TraceBuilder:
    return penalized(passes=4)


# The same times, in kernels.
@fires(cost_ms=2.386, occurrences=3, severity="high")
def on_a_gpu() -> TraceBuilder:
    return penalized(device="NVIDIA A100-SXM4-80GB")


@quiet
def norms_that_are_logged() -> TraceBuilder:
    return penalized(through=False)


# An activation, or a parameter that no layer has a gradient for.
@quiet
def tensors_with_one_gradient() -> TraceBuilder:
    return penalized(added=False)


@quiet
def differences_from_other_weights() -> TraceBuilder:
    return penalized((SUB, POW, SUM))


@quiet
def products_with_another_tensor() -> TraceBuilder:
    return penalized((MUL, SUM))


@quiet
def weights_that_are_divided_by_their_norm() -> TraceBuilder:
    return penalized((NORM, SQUARE, SUB))


# A batch of as many rows as the layers are wide: activations have the shape of the parameters, and two gradients.
@quiet
def tensors_as_large_as_activations() -> TraceBuilder:
    return penalized(activation=True)


# Its line search compares losses: they must hold the penalty.
@quiet("not_applicable")
def an_optimizer_that_searches() -> TraceBuilder:
    return penalized(optimizer="LBFGS")


# gradient/l1-penalty
@quiet
def absolute_values() -> TraceBuilder:
    return penalized(MAGNITUDES)


@quiet
def a_norm_that_is_not_squared() -> TraceBuilder:
    return penalized((NORM,))


# One parameter: 393 us of 25.4 ms, of which 293 are spared.
@quiet
def one_small_layer() -> TraceBuilder:
    return penalized(parameters=1, rest_us=25_000)


# All but the 600 us of the squares are spared: the middle of 40 and 100 % of 1,786 us is 1,250 us, 2 % of 62.5 ms.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return penalized(rest_us=59_700 if over else 60_500)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return penalized(shapes=False)
