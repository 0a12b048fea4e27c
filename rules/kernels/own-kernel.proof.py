"""Proof of kernels/own-kernel: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SIZES = [[16384, 8192]]
HALF = ["c10::Half"]


def training(us: float = 2000, op: str = "MySoftmax", *, device: str = H100, shapes: bool = True) -> TraceBuilder:
    """Steps of a softmax over 268 MB, 73 us to read at what an H100 reaches, less what its cache holds; and 1 ms of other work."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op(op, shapes=SIZES, dtypes=HALF):
                b.kernel("softmax_rows(half*, half*, int)", us=us)
            with b.op("aten::relu"):
                b.kernel("vectorized_elementwise_kernel", us=1000)
            b.sync()
    return b


@fires(cost_ms=2.0, occurrences=4, severity="high", op="MySoftmax")
def a_thread_a_row() -> TraceBuilder:
    return training()


@fires(cost_ms=2.0, op="mylib::fused_rms_norm")
def a_normalization_on_amd() -> TraceBuilder:
    return training(op="mylib::fused_rms_norm", device="AMD Instinct MI300X")


@quiet
def one_pass_over_memory() -> TraceBuilder:
    return training(180)


@quiet
def a_softmax_of_torch() -> TraceBuilder:
    return training(op="aten::_softmax")


@quiet
def an_operator_that_does_more() -> TraceBuilder:
    return training(op="mylib::softmax_attention")


@quiet
def a_backward_pass() -> TraceBuilder:
    return training(op="MySoftmaxBackward")


# 268.4 MB less three quarters of 52.4 MB (50 MiB of cache, four times as fast) at 3,063 GB/s are 74.8 us: a quarter is 299 us.
@edge
def a_quarter_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    return training(310 if over else 285)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("MySoftmax", shapes=[[512, 512]], dtypes=HALF):
                    b.kernel("softmax_rows(half*, half*, int)", us=20 if over else 19.9)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return training(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("MySoftmax", shapes=SIZES, device=H100)
