"""Proof of kernels/separate-layers: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH = 16
ENGINE = "autograd::engine::evaluate_function: "
STORE = "torch::autograd::AccumulateGrad"
GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
Op = tuple[str, list[object]]
"""An operator and its operands' shapes."""


def linear(takes: int, gives: int) -> Op:
    return "aten::linear", [[BATCH, takes], [gives, takes], [gives]]


def steps(
    *turn: Op,
    count: int = 12,
    picked: int = 0,
    own: bool = True,
    added: bool = False,
    products: int = 1,
    kernel_us: float = 5,
    shapes: bool = True,
    training: bool = True,
) -> TraceBuilder:
    """Steps of a loop over layers, and a kernel of 5 ms.

    A turn picks *picked* columns of its own, if it does; each of its operators takes the host 100 us and launches a kernel of
    *kernel_us*. Backward each takes 100 us as well, in so many *products*, and adds to the gradient of an input that all have, if
    it is *added*. A gradient is stored for each turn's weights if each has its *own*.
    """
    b = TraceBuilder(host_us=0, record_shapes=shapes)
    stored = [tensor for name, operands in turn if name in ("aten::linear", "aten::conv1d") for tensor in operands[1:3]]
    stored *= count if own else 1
    for step in range(3):
        with b.step():
            with b.op("aten::_convolution"):
                b.kernel("sm80_xmma_fprop_implicit_gemm", ms=5)
            b.sync()
            with b.python("train.py(30): forward"):
                for number in range(count):
                    if picked:
                        values = ["", "1", str(number)]
                        with b.op("aten::select", shapes=[[BATCH, count, picked], [], []], values=values):
                            pass
                    for place, (name, operands) in enumerate(turn):
                        seq = 1000 * step + 10 * number + place if training else None
                        with b.op(name, shapes=operands, seq=seq, us=100):
                            b.kernel(GEMM, us=kernel_us)
            b.sync()
            for number in reversed(range(count)) if training else ():
                for place in reversed(range(len(turn))):
                    with b.backward("AddmmBackward0", 1000 * step + 10 * number + place):
                        for _ in range(products):
                            with b.op("aten::mm", us=100 / products):
                                b.kernel(GEMM, us=kernel_us / products)
                        if added:
                            with b.op("aten::add_"):
                                b.kernel(POINTWISE, us=2)
            for tensor in stored if training else ():
                with b.op(ENGINE + STORE, fwd_thread=1), b.op(STORE, fwd_thread=1, shapes=[tensor]):
                    pass
            b.sync()
    return b


HEAD, SQUARE, RELU = linear(32, 8), linear(32, 32), ("aten::relu", [[BATCH, 32]])


# 24 kernels of 5 us. Forward the GPU idles for 95 us between two of them, and 93 behind the last, until the host waits; backward
# 11 times 95 us.
@fires(cost_ms=2.303, occurrences=3, severity="high", op="aten::linear", line="train.py:30")
def heads_on_one_input() -> TraceBuilder:
    return steps(HEAD)


@fires(occurrences=3)
def a_layer_for_each_channel() -> TraceBuilder:
    return steps(SQUARE, picked=32)


@fires(occurrences=3)
def members_of_an_ensemble() -> TraceBuilder:
    return steps(SQUARE, RELU, linear(32, 4))


# As wide as their input, whose gradients are added up.
@fires(occurrences=3)
def square_layers_on_one_input() -> TraceBuilder:
    return steps(SQUARE, products=2, added=True)


# A stack of layers: each needs the gradient of its input, and none is added to another's.
@quiet
def square_layers_that_follow_each_other() -> TraceBuilder:
    return steps(SQUARE, products=2)


@quiet
def layers_with_an_activation_between() -> TraceBuilder:
    return steps(SQUARE, RELU)


@quiet
def one_layer_for_all() -> TraceBuilder:
    return steps(HEAD, own=False)


@quiet
def inference() -> TraceBuilder:
    return steps(HEAD, training=False)


# One with groups may take as long on a GPU.
@quiet
def convolutions() -> TraceBuilder:
    return steps(("aten::conv1d", [[BATCH, 1, 64], [8, 1, 5], [8], [], [], [], []]))


# 8.6 billion multiply-adds each, in 400 us: no launch is waited for.
@quiet
def large_layers() -> TraceBuilder:
    return steps(("aten::linear", [[4096, 1024], [2048, 1024], [2048]]), kernel_us=400)


@edge
def eight_layers(over: bool) -> TraceBuilder:
    return steps(HEAD, count=8 if over else 7)


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        for _ in range(12):
            with b.op("aten::mkldnn_linear", shapes=HEAD[1], us=100):
                pass
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(HEAD, shapes=False)


@lacks("host")
def the_gpu_alone() -> TraceBuilder:
    return kernels_alone(GEMM)
