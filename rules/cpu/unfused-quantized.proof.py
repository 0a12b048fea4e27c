"""Proof of cpu/unfused-quantized: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

INT8 = "c10::quint8"


def network(
    conv: float = 500,
    norm: float = 300,
    relu: float = 200,
    *,
    layer: str = "quantized::conv2d",
    dtype: str = INT8,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of a block, and of 9 ms of another operator."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            with b.op(layer, us=conv, shapes=[[8, 32, 64, 64]], dtypes=[INT8]):
                pass
            if norm:
                with b.op("quantized::batch_norm2d", us=norm, shapes=[[8, 32, 64, 64]], dtypes=[INT8]):
                    pass
            with b.op("aten::relu_", us=relu, shapes=[[8, 32, 64, 64]], dtypes=[dtype]):
                pass
            with b.op("aten::mm", us=9000):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@fires(cost_ms=1.0, cost_share=0.1, occurrences=9, severity="medium")
def three_operators_for_one() -> TraceBuilder:
    return network()


@fires(cost_ms=9.0, cost_share=0.5, severity="high")
def half_of_the_step() -> TraceBuilder:
    return network(4500, 2700, 1800)


@fires(cost_ms=0.8, occurrences=6)
def a_relu_of_floats_is_none_of_it() -> TraceBuilder:
    return network(dtype="float")


@quiet
def layers_without_norms() -> TraceBuilder:
    return network(norm=0)


@quiet
def no_quantized_layer() -> TraceBuilder:
    return network(norm=0, layer="aten::mkldnn_convolution", dtype="float")


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return network(device="Tesla V100-SXM2-16GB")


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return network(238 if over else 236, 142, 95)
