"""Proof of cpu/quantized-again: traces on which it fires, and traces on which it does not."""

import math

from advisor.testing import TraceBuilder
from advisor.testing.host import Allocation
from advisor.testing.proof import edge, fires, lacks, quiet

INT8, FLOAT, SHAPE = "c10::quint8", "float", [8, 32, 64, 64]
CONV = ("quantized::conv2d_relu", INT8, 1000.0)
BACK, AGAIN = ("aten::dequantize", INT8, 700.0), ("aten::quantize_per_tensor", FLOAT, 300.0)


def network(
    *items: tuple[str, str, float], rest: float = 5000, device: str | None = None, shapes: bool = True
) -> TraceBuilder:
    """Steps of such operators, and of one more."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            for name, dtype, us in items:
                with b.op(name, us=us, shapes=[SHAPE], dtypes=[dtype]):
                    pass
            with b.op("aten::mm", us=rest, shapes=[[64, 64], [64, 64]], dtypes=[FLOAT, FLOAT]):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


# 1 ms of 8.
@fires(cost_ms=1.0, cost_share=0.125, occurrences=3, severity="high")
def between_two_blocks() -> TraceBuilder:
    return network(CONV, BACK, AGAIN, CONV)


@fires(cost_ms=2.0, occurrences=6)
def between_three_blocks() -> TraceBuilder:
    return network(CONV, BACK, AGAIN, CONV, BACK, AGAIN, CONV)


def blocks(held: int) -> TraceBuilder:
    """Steps of five blocks; the floats that a block gives are kept until *held* more have given theirs."""
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    numbers = math.prod(SHAPE)
    for _ in range(3):
        floats: list[Allocation] = []
        with b.step():
            for _block in range(5):
                for name, dtype, us in (AGAIN, CONV, BACK):
                    with b.op(name, us=us, shapes=[SHAPE], dtypes=[dtype]):
                        if name == "aten::dequantize":
                            floats.append(b.memory(4 * numbers, device=-1))
                while len(floats) > held:
                    b.release(floats.pop(0))
            with b.op("aten::mm", us=5000, shapes=[[64, 64], [64, 64]], dtypes=[FLOAT, FLOAT]):
                pass
            while floats:
                b.release(floats.pop(0))
    return b


# Four pairs of 1 ms.
@fires(cost_ms=4.0, occurrences=12)
def floats_that_are_freed_as_the_next_block_returns() -> TraceBuilder:
    return blocks(1)


# What makes them stays, 0.7 ms of each pair but for the last one.
@fires(cost_ms=1.2, occurrences=12)
def floats_that_are_concatenated_at_the_end() -> TraceBuilder:
    return blocks(5)


# A number, or what was recorded without sizes.
@quiet
def tensors_without_a_dimension() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    for _ in range(3):
        with b.step():
            for name, dtype, us in (CONV, BACK, AGAIN, CONV):
                with b.op(name, us=us, shapes=[[]], dtypes=[dtype]):
                    pass
    return b


@quiet
def the_end_of_the_network() -> TraceBuilder:
    return network(AGAIN, CONV, BACK)


@quiet
def one_image_after_the_other() -> TraceBuilder:
    """An image in, an image out: the floats of one step are not what the next one begins with."""
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    for _ in range(4):
        with b.step():
            for name, dtype, us in (AGAIN, CONV, BACK):
                with b.op(name, us=us, shapes=[SHAPE], dtypes=[dtype]):
                    pass
    return b


@quiet
def an_operator_without_an_int8_form_between() -> TraceBuilder:
    return network(CONV, BACK, ("aten::gelu", FLOAT, 100), AGAIN, CONV)


@quiet
def weights_that_are_simulated_one_after_the_other() -> TraceBuilder:
    return network(AGAIN, BACK, AGAIN, BACK)


@quiet
def floats_go_on() -> TraceBuilder:
    return network(CONV, BACK, AGAIN, BACK)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return network(CONV, BACK, AGAIN, CONV, device="Tesla V100-SXM2-16GB")


# 95 % of 1 ms: of 49 ms 1.94 %, of 51 ms 1.86 %.
@edge
def two_hundredths_of_the_step(over: bool) -> TraceBuilder:
    return network(CONV, BACK, AGAIN, CONV, rest=46_000 if over else 48_000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return network(CONV, BACK, AGAIN, CONV, shapes=False)
