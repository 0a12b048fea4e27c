"""Proof of kernels/conv-bias-before-bn: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

CONV = "cudnn::cnn::implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>"
ADD = "void at::native::elementwise_kernel<128, 2, at::native::CUDAFunctor_add<float>>(int)"
SUM = "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float>>"
NORM = "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>"
X, W = [32, 64, 56, 56], [128, 64, 3, 3]


def block(
    b: TraceBuilder,
    seq: int,
    *,
    bias: bool = True,
    follower: str = "aten::batch_norm",
    add_us: float = 40,
    sum_us: float = 60,
    between: list[int] | None = None,
    fused: bool = False,
    autocast: bool = False,
) -> None:
    """A convolution of 400 us; its bias is added in *add_us*, and the gradient of the bias summed in *sum_us*."""
    y = [32, 128, 56, 56]
    operands = [X, W, [128] if bias else [], [], [], [], []]
    types = ["float", "float", "float" if bias else "", "ScalarList", "ScalarList", "ScalarList", "Scalar"]

    def convolution() -> None:
        with (
            b.op("aten::conv2d", shapes=operands, dtypes=types, seq=seq),
            b.op("aten::convolution", shapes=operands, seq=seq),
            b.op("aten::_convolution", shapes=operands),
        ):
            with b.op("aten::cudnn_convolution", shapes=[X, W]):
                b.kernel(CONV, us=400)
            if bias and not fused:
                with b.op("aten::add_", shapes=[y, [1, 128, 1, 1], []]):
                    b.kernel(ADD, us=add_us)

    if autocast:
        with b.op("aten::conv2d", shapes=operands, dtypes=types, seq=seq):
            convolution()
    else:
        convolution()
    with b.op("aten::add_", shapes=[between or [], [], []], dtypes=["long int", "long int", "Scalar"]):
        b.kernel(ADD, us=1)  # batches seen, which the module counts
    with b.op(follower, shapes=[y, [128], [128], [128], [128]], seq=seq + 1):
        b.kernel(NORM, us=100)


def model(*, train: bool = True, rest_us: float = 0, **options: object) -> TraceBuilder:
    b = TraceBuilder()
    sum_us = options.get("sum_us", 60)
    for step in range(3):
        with b.step():
            seq = 100 * (step + 1)
            block(b, seq, **options)  # type: ignore[arg-type]
            if rest_us:
                b.kernel(CONV, us=rest_us)
            if train:
                with b.backward("ConvolutionBackward0", seq), b.op("aten::convolution_backward"):
                    b.kernel(CONV, us=800)
                    if options.get("bias", True):
                        with b.op("aten::sum", shapes=[[32, 128, 56, 56]]):
                            b.kernel(SUM, us=sum_us)  # type: ignore[arg-type]
    return b


# 40 us to add the bias and 60 to sum its gradient.
@fires(cost_ms=0.1, occurrences=3, severity="medium")
def a_bias_before_a_batch_norm() -> TraceBuilder:
    return model()


# Added inside the convolution's kernel: the gradient alone is left.
@fires(cost_ms=0.06, occurrences=3)
def a_bias_that_the_convolution_adds_itself() -> TraceBuilder:
    return model(fused=True)


@fires(cost_ms=0.1, occurrences=3)
def under_autocast() -> TraceBuilder:
    return model(autocast=True)


@quiet
def no_bias() -> TraceBuilder:
    return model(bias=False)


@quiet
def another_normalization() -> TraceBuilder:
    """Group and layer norms subtract a mean over channels: there the bias counts."""
    return model(follower="aten::group_norm")


@quiet
def something_in_between() -> TraceBuilder:
    return model(between=[32, 128, 56, 56])


@quiet("not_applicable")
def inference() -> TraceBuilder:
    return model(train=False)


@edge
def a_thousandth_of_the_step(over: bool) -> TraceBuilder:
    # 2 + 1 us of a step of about 2.9 or 3.3 ms.
    return model(add_us=2, sum_us=1, rest_us=1500 if over else 1900)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::conv2d", shapes=[X, W, [128]])


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    b = TraceBuilder(record_shapes=False)
    for step in range(3):
        with b.step():
            block(b, 100 * step)
            with b.backward("ConvolutionBackward0", 100 * step):
                b.kernel(CONV, us=800)
    return b


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(CONV)
