"""Proof of cpu/cast-weights: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

INPUT, WEIGHT = [4, 512], [1536, 512]


def convert(b: TraceBuilder, us: float, what: list[int], types: tuple[str, str]) -> None:
    inner = b.op("aten::copy_", us=us, shapes=[what, what, []], dtypes=[*types, "Scalar"])
    with b.op("aten::to", us=0, shapes=[what]), b.op("aten::_to_copy", us=0, shapes=[what]), inner:
        pass


def serving(
    cast_us: float = 300,
    *,
    layers: int = 4,
    what: list[int] = WEIGHT,
    types: tuple[str, str] = ("c10::BFloat16", "float"),
    layer: str = "aten::linear",
    operands: list[list[int]] | None = None,
    trains: bool = False,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Four steps of some layers of 1 ms, each of which converts a tensor of the shape *what* in *cast_us*."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            for number in range(layers):
                with b.op(layer, shapes=operands or [INPUT, WEIGHT, []], seq=number if trains else None):
                    convert(b, cast_us, what, types)
                    with b.op("aten::mm", us=1000, shapes=[INPUT, WEIGHT]):
                        pass
            if trains:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=1):
                    pass
            if device:
                b.kernel("sgemm", us=5)
    return b


# Four layers of 0.3 ms a step.
@fires(cost_ms=1.2, occurrences=16, severity="high")
def weights_of_linear_layers() -> TraceBuilder:
    return serving()


@fires(cost_ms=1.2, occurrences=16)
def weights_of_convolutions_in_half() -> TraceBuilder:
    return serving(layer="aten::conv2d", types=("c10::Half", "float"))


# A fused layer of an encoder: bias, input and weight, in this order.
@fires(cost_ms=1.2, occurrences=16)
def weights_of_an_encoder_layers_products() -> TraceBuilder:
    return serving(layer="aten::_addmm_activation", operands=[[1536], INPUT, WEIGHT])


@fires(cost_ms=1.2, occurrences=16)
def weights_of_a_fused_attention() -> TraceBuilder:
    return serving(layer="aten::_native_multi_head_attention", operands=[INPUT, INPUT, INPUT, [], [], WEIGHT, [1536]])


@quiet
def inputs_of_a_fused_attention() -> TraceBuilder:
    layer = "aten::_native_multi_head_attention"
    return serving(what=INPUT, layer=layer, operands=[INPUT, INPUT, INPUT, [], [], WEIGHT, [1536]])


@quiet
def biases() -> TraceBuilder:
    return serving(what=[1536], layer="aten::addmm", operands=[[1536], INPUT, WEIGHT])


@quiet
def activations() -> TraceBuilder:
    return serving(what=INPUT)


@quiet
def results_that_are_widened() -> TraceBuilder:
    return serving(types=("float", "c10::BFloat16"))


@quiet
def conversions_of_the_programs_own() -> TraceBuilder:
    return serving(layer="aten::fancy")


# Once a step, as the weights change.
@quiet("not_applicable")
def a_training() -> TraceBuilder:
    return serving(trains=True)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return serving(device="Tesla V100-SXM2-16GB")


# Of 4 x (1,000 us + the conversion), 0.9 times: of 27 us 2.37 %, of 35 us 3.04 %.
@edge
def twenty_seven_thousandths(over: bool) -> TraceBuilder:
    return serving(35 if over else 27)


@lacks("shapes")
def no_shapes() -> TraceBuilder:
    return serving(shapes=False)
