"""Proof of kernels/one-hot-loss: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

N, K = 4096, 1024
MATRIX = [N, K]
A100 = "NVIDIA A100-SXM4-80GB"


def step_of(
    *,
    logarithm: str = "log_softmax",
    changed: str = "",
    picks: str = "aten::mul",
    dim: str = "[1]",
    behind: str = "",
    again: str = "",
    value: str = "1",
    train: bool = True,
    us: float = 1000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 30 ms: zeros, ones, floats, the product, its sum and its gradient in *us* each."""
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    left = 30_000.0

    def run(
        name: str,
        time: float,
        operands: list[list[int]],
        *values: str,
        seq: int | None = None,
        dtypes: list[str] | None = None,
    ) -> None:
        nonlocal left
        left -= time
        with b.op(name, shapes=operands, us=0 if device else time, seq=seq, values=list(values) or None, dtypes=dtypes):
            if device and time:
                b.kernel("elementwise_kernel", us=time)

    for step in range(3):
        seq, left = 10 * step, 30_000.0
        with b.step():
            if logarithm == "log_softmax":
                run("aten::log_softmax", 500, [MATRIX, [], []], seq=seq)
            elif logarithm:
                run("aten::softmax", 500, [MATRIX, [], []], seq=seq)
            with b.op("aten::one_hot", shapes=[[N], []]):
                with b.op("aten::zeros", shapes=[[], []]):
                    run("aten::zero_", us, [MATRIX])
                kinds = ["long int", "Scalar", "long int", "Scalar"]
                run("aten::scatter_", us, [MATRIX, [], [N, 1], []], "", "-1", "", value, dtypes=kinds)
            run("aten::to", us, [MATRIX, [], []], dtypes=["long int", "Scalar", "Scalar"])
            if changed:
                run(changed, 100, [MATRIX, []])
            if logarithm == "log":
                run("aten::add", us, [MATRIX, [], []], seq=seq + 1)
                run("aten::log", us, [MATRIX], seq=seq + 2)
            if picks == "aten::cross_entropy_loss":
                with b.op(picks, shapes=[MATRIX, MATRIX, [], [], [], []]):
                    run("aten::log_softmax", 500, [MATRIX, [], []], seq=seq)
                    run("aten::mul", us, [MATRIX, MATRIX], seq=seq + 3)
                    run("aten::sum", us, [MATRIX, [], []], "", "", "", seq=seq + 4)
            else:
                run(picks, us, [MATRIX, MATRIX], seq=seq + 3)
                if behind:
                    run(behind, 100, [MATRIX, [N, 1]])
                run("aten::sum", us, [MATRIX, [], [], []], "", dim, "False", "", seq=seq + 4)
            if again:
                run(again, 100, [MATRIX, MATRIX])
            if train:
                left -= 500 + us * (2 if logarithm == "log" else 1)
            run("aten::gelu", left, [[4, 10]])
            if train:
                with b.backward("MulBackward0", seq + 3):
                    run("aten::mul", us, [MATRIX, MATRIX])
                if logarithm == "log":
                    with b.backward("LogBackward0", seq + 2):
                        run("aten::div", us, [MATRIX, MATRIX])
                with b.backward("LogSoftmaxBackward0", seq):
                    run("aten::_log_softmax_backward_data", 500, [MATRIX, MATRIX, [], []])
            if device:
                b.sync()
    return b


# Zeros, ones, floats, the product, its sum and its gradient: six times 1 ms of 30.
@fires(cost_ms=6.0, occurrences=3, severity="high", op="aten::mul")
def one_hot_rows_times_log_probabilities() -> TraceBuilder:
    return step_of()


# The sum that keeps it from zero, the logarithm and its gradient besides.
@fires(cost_ms=9.0)
def a_logarithm_of_a_softmax() -> TraceBuilder:
    return step_of(logarithm="log")


@fires(cost_ms=6.0, op="aten::cross_entropy_loss")
def one_hot_rows_as_the_target() -> TraceBuilder:
    return step_of(logarithm="", picks="aten::cross_entropy_loss")


@fires(cost_ms=5.0)
def in_evaluation() -> TraceBuilder:
    return step_of(train=False)


@fires(cost_ms=6.0)
def all_numbers_are_summed_at_once() -> TraceBuilder:
    return step_of(dim="")


@fires(cost_ms=6.0)
def on_a_gpu() -> TraceBuilder:
    return step_of(device=A100)


# The matrix is used otherwise as well: the product, the sum and the gradient.
@fires(cost_ms=3.0)
def an_overlap_takes_the_rows_too() -> TraceBuilder:
    return step_of(again="aten::minimum")


@quiet
def smoothed_labels() -> TraceBuilder:
    return step_of(changed="aten::mul")


@quiet
def smoothed_labels_as_the_target() -> TraceBuilder:
    return step_of(logarithm="", changed="aten::mul", picks="aten::cross_entropy_loss")


@quiet
def probabilities_without_a_logarithm() -> TraceBuilder:
    return step_of(logarithm="softmax")


@quiet
def a_squared_error() -> TraceBuilder:
    return step_of(picks="aten::sub")


@quiet
def a_sum_over_the_rows() -> TraceBuilder:
    return step_of(dim="[0]")


@quiet
def a_weight_for_each_row_before_the_sum() -> TraceBuilder:
    return step_of(behind="aten::mul")


@quiet
def soft_labels() -> TraceBuilder:
    return step_of(value="0.9")


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("elementwise_kernel")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 5 times *us* all but a call's 0.06 ms goes, and 1.1 times the middle of that is 2 % of 30 ms."""
    return step_of(train=False, us=135 if over else 130)
