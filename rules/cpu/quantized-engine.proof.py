"""Proof of cpu/quantized-engine: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

X86 = ("avx2", "avx512f", "avx512_vnni")


def serving(
    us: float = 1000, *, name: str = "quantized::linear_dynamic", device: str | None = None, **settings: Any
) -> TraceBuilder:
    """Steps of a quantized layer and 9 ms of other operators."""
    b = TraceBuilder(device).ran_with(**({"quantized_engine": "qnnpack", "instruction_sets": X86} | settings))
    for _ in range(3):
        with b.step():
            with b.op(name, us=us):
                pass
            with b.op("aten::mkldnn_convolution", us=9000):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@fires(cost_ms=1.0, cost_share=0.1, occurrences=3, severity="medium")
def a_tenth_in_quantized_layers() -> TraceBuilder:
    return serving()


@fires(cost_ms=9.0, cost_share=0.5, severity="high")
def half_of_the_step() -> TraceBuilder:
    return serving(9000, name="quantized::conv2d_relu")


@quiet("not_applicable")
def the_default_engine() -> TraceBuilder:
    return serving(quantized_engine="x86")


@quiet("not_applicable")
def an_arm_processor() -> TraceBuilder:
    return serving(instruction_sets=("sve", "i8mm"))


@quiet("not_applicable")
def a_processor_that_was_not_recorded() -> TraceBuilder:
    return serving(instruction_sets=None)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return serving(device="Tesla V100-SXM2-16GB")


@quiet
def no_quantized_layer() -> TraceBuilder:
    return serving(name="aten::addmm")


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return serving(474 if over else 473)
