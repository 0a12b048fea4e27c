"""Proof of kernels/separate-heads: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
BATCH, TOKENS, WIDTH, SIZE = 4, 16, 32, 8
Op = tuple[str, list[object]]
"""An operator and its operands' shapes."""


def linear(takes: int = WIDTH, gives: int = SIZE, tokens: int = TOKENS) -> Op:
    return "aten::linear", [[BATCH, tokens, takes], [gives, takes], []]


PART, SCORES = [BATCH, TOKENS, SIZE], [BATCH, TOKENS, TOKENS]
LAYERS = [linear(), linear(), linear()]
ATTEND: list[Op] = [
    ("aten::transpose", [PART, [], []]),
    ("aten::matmul", [PART, [BATCH, SIZE, TOKENS]]),
    ("aten::mul", [SCORES, []]),
    ("aten::masked_fill", [SCORES, [TOKENS, TOKENS], []]),
    ("aten::softmax", [SCORES, [], []]),
    ("aten::matmul", [SCORES, PART]),
]
FUSED: Op = ("aten::scaled_dot_product_attention", [PART, PART, PART, [], [], []])


def steps(
    *turn: Op,
    count: int = 4,
    kernel_us: float = 5,
    joined: list[int] | None = None,
    one_input: bool = True,
    shapes: bool = True,
    training: bool = True,
) -> TraceBuilder:
    """Steps of *count* heads, each a turn, what joins their results, and a kernel of 5 ms.

    Each operator takes the host 100 us and launches a kernel of *kernel_us*, and does the same backward. The gradients of the
    layers' input are added up in 3 us each if the heads have *one_input*, else those of each head alone.
    """
    b = TraceBuilder(host_us=0, record_shapes=shapes)
    layers = [place for place, (name, _) in enumerate(turn) if name == "aten::linear"]
    for step in range(3):
        with b.step():
            with b.op("aten::_convolution"):
                b.kernel("sm80_xmma_fprop_implicit_gemm", ms=5)
            b.sync()
            with b.python("train.py(30): forward"):
                for number in range(count):
                    for place, (name, operands) in enumerate(turn):
                        seq = 1000 * step + 20 * number + place if training else None
                        with b.op(name, shapes=operands, seq=seq, us=100):
                            b.kernel(GEMM, us=kernel_us)
                with b.op("aten::cat", shapes=[[joined or PART] * count, []], us=100):
                    b.kernel(POINTWISE, us=5)
            b.sync()
            for number in reversed(range(count)) if training else ():
                for place in reversed(range(len(turn))):
                    with b.backward("MmBackward0", 1000 * step + 20 * number + place):
                        with b.op("aten::mm", us=100):
                            b.kernel(GEMM, us=kernel_us)
                        last = place == layers[-1] and (not one_input or number == count - 1)
                        if place in layers and not last:
                            with b.op("aten::add_", us=3):
                                b.kernel(POINTWISE, us=2)
            b.sync()
    return b


@fires(occurrences=3, severity="high", op="aten::linear", line="train.py:30")
def heads_of_a_small_model() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND)


@fires(occurrences=3)
def a_fused_operator_for_each_head() -> TraceBuilder:
    return steps(*LAYERS, FUSED)


# 37 kernels of 5 us. The GPU idles for 95 us between two of them, and 93 behind the last, until the host waits.
@fires(cost_ms=3.698, occurrences=3)
def inference() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, training=False)


# Each has an input of its own, whose three gradients alone are added up.
@quiet
def heads_on_inputs_of_their_own() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, one_input=False)


@quiet
def attention_to_another_input() -> TraceBuilder:
    return steps(linear(), linear(tokens=24), linear(tokens=24), FUSED)


@quiet
def other_results_are_joined() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, joined=[BATCH, TOKENS, 5])


# 8.6 billion multiply-adds in each layer: each head fills the GPU, and no launch is waited for.
@quiet
def large_heads() -> TraceBuilder:
    part = [4096, 64, 64]
    large: Op = ("aten::linear", [[4096, 64, 512], [64, 512], []])
    return steps(large, large, large, (FUSED[0], [part, part, part, [], [], []]), kernel_us=1000, joined=part)


@edge
def three_heads(over: bool) -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, count=3 if over else 2)


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.op("aten::mkldnn_linear", shapes=linear()[1], us=100):
            pass
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, shapes=False)


@lacks("host")
def a_trace_of_the_gpu_alone() -> TraceBuilder:
    return kernels_alone(GEMM)
