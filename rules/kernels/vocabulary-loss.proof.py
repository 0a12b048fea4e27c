"""Proof of kernels/vocabulary-loss: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>"
)
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"


def training(
    words: int = 50304, us: float = 2000, *, name: str = SOFTMAX, backward: bool = True, shapes: bool = True
) -> TraceBuilder:
    """Steps of a cast and a log-softmax over so many words, of a product of 4 ms, and of a backward pass."""
    b = TraceBuilder(H100, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            logits = [8192, words]
            with b.op("aten::copy_", shapes=[logits, logits, []], dtypes=["float", "c10::BFloat16", "Scalar"]):
                b.kernel(CAST, us=us / 2)
            with b.op("aten::_log_softmax", shapes=[logits, [], []], dtypes=["float", "Scalar", "Scalar"], seq=1):
                b.kernel(name, us=us)
            if backward:
                with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                    b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=4000)
            b.sync()
    return b


@fires(cost_ms=3.0, occurrences=8, op="aten::_log_softmax")
def fifty_thousand_words() -> TraceBuilder:
    return training()


@quiet
def a_thousand_classes() -> TraceBuilder:
    return training(1000)


@quiet("not_applicable")
def inference() -> TraceBuilder:
    return training(backward=False)


@edge
def eight_thousand_columns(over: bool) -> TraceBuilder:
    return training(8192 if over else 8191)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op(
                    "aten::_log_softmax", shapes=[[16, 50304], [], []], dtypes=["float", "Scalar", "Scalar"], seq=1
                ):
                    b.kernel(SOFTMAX, us=20 if over else 19.9)
            with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=40)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::_log_softmax", shapes=[[64, 50304]], device=H100)
