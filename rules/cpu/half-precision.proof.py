"""Proof of cpu/half-precision: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

HALF, FLOAT = "c10::Half", "float"


def served(
    half_us: float = 8000,
    float_us: float = 2000,
    *,
    op: str = "aten::addmm",
    dtype: str = HALF,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            for kind, us in ((dtype, half_us), (FLOAT, float_us)):
                with b.op(
                    op if kind == dtype else "aten::mm", shapes=[[10], [64, 20], [20, 10]], dtypes=[kind] * 3, us=us
                ):
                    pass
    return b


@fires(cost_ms=8.0, cost_share=0.8, occurrences=3, severity="high", op="aten::addmm")  # 8 of 10 ms
def a_model_in_half() -> TraceBuilder:
    return served()


@fires(cost_ms=8.0)
def convolutions_in_half() -> TraceBuilder:
    return served(op="aten::_slow_conv2d_forward")


@quiet
def a_model_in_float() -> TraceBuilder:
    return served(dtype=FLOAT)


@quiet
def activations_in_half() -> TraceBuilder:
    return served(op="aten::gelu")


@quiet
def bfloat16() -> TraceBuilder:
    return served(dtype="c10::BFloat16")


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return served(510 if over else 480, 9500)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("aten::mm", shapes=[[64, 64], [64, 64]], dtypes=[HALF, HALF]):
        b.kernel("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", us=100)
    return b


@quiet("not_applicable")
def a_processor_with_units_for_it() -> TraceBuilder:
    return served().ran_with(instruction_sets=("avx512f", "avx512_fp16"))


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return served(shapes=False)
