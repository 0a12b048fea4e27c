"""Proof of kernels/one-hot-product: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

N, K, D = 4096, 1024, 64
MATRIX, TABLE = [N, K], [K, D]
A100 = "NVIDIA A100-SXM4-80GB"


def step_of(
    *,
    made: str = "one_hot",
    between: str = "",
    after: str = "",
    product: list[list[int]] | None = None,
    value: str = "1",
    index: list[int] | None = None,
    train: bool = True,
    us: float = 2000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 30 ms: zeros and the scatter in *us* each, a copy, the product and its gradient likewise."""
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    kinds = ["long int", "Scalar", "long int", "Scalar"]

    def run(name: str, time: float, operands: list[list[int]], seq: int | None = None, **more: object) -> None:
        with b.op(name, shapes=operands, us=0 if device else time, seq=seq, **more):  # type: ignore[arg-type]
            if device and time:
                b.kernel("elementwise_kernel", us=time)

    def zeros() -> None:
        with b.op("aten::zeros", shapes=[[], []]):
            run("aten::zero_", us, [MATRIX])

    def scatter() -> None:
        operands = [MATRIX, [], index or [N, 1], []]
        run("aten::scatter_", us, operands, dtypes=kinds, values=["", "-1", "", value])

    for step in range(3):
        seq = 10 * step
        with b.step():
            if made == "one_hot":
                with b.op("aten::one_hot", shapes=[[N], []]):
                    zeros()
                    scatter()
            elif made == "scatter_":
                zeros()
                scatter()
            elif made == "filled":
                scatter()
            else:
                with b.op("aten::arange", shapes=[[], [], [], [], []], values=[str(K), "", "", "", ""]):
                    pass
                run("aten::eq", 2 * us, [[N, 1], [K]], dtypes=["long int", "long int"])
            run("aten::to", us, [MATRIX, [], []])
            if between:
                run(between, 100, [MATRIX, MATRIX, []])
            left, right = product or [MATRIX, TABLE]
            with b.op("aten::matmul", shapes=[left, right]):
                run("aten::mm", us, [left, right], seq=seq + 1)
            if after:
                run(after, 100, [MATRIX, MATRIX, []])
            run("aten::softmax", 30_000 - (5 if train else 4) * us, [[N, D], [], []])
            if train:
                with b.backward("MmBackward0", seq + 1):
                    run("aten::mm", us, [[K, N], [N, D]])
            if device:
                b.sync()
    return b


# Zeros, ones, floats, product, gradient: five times 2 ms of 30.
@fires(cost_ms=10.0, occurrences=3, severity="high", op="aten::matmul")
def one_hot_rows_times_a_table_in_training() -> TraceBuilder:
    return step_of()


@fires(cost_ms=8.0)
def in_inference() -> TraceBuilder:
    return step_of(train=False)


@fires(cost_ms=10.0)
def ones_scattered_by_hand() -> TraceBuilder:
    return step_of(made="scatter_", value="1.")


@fires(cost_ms=10.0)
def indices_compared_with_a_range() -> TraceBuilder:
    return step_of(made="eq")


@fires(cost_ms=10.0)
def rows_added_up_by_the_transposed_matrix() -> TraceBuilder:
    return step_of(product=[[K, N], [N, D]])


# A loss takes the matrix as well: product and gradient go, 4 ms.
@fires(cost_ms=4.0)
def it_is_the_target_of_a_loss_too() -> TraceBuilder:
    return step_of(after="aten::mul")


@fires(cost_ms=10.0)
def on_a_gpu() -> TraceBuilder:
    return step_of(device=A100)


@quiet
def a_target_of_a_loss() -> TraceBuilder:
    return step_of(product=[[N, 8], [8, D]])


# Hard in the forward pass, soft in the backward pass: the product has a gradient for the matrix.
@quiet
def a_straight_through_estimate() -> TraceBuilder:
    return step_of(between="aten::sub")


@quiet
def other_numbers_scattered() -> TraceBuilder:
    return step_of(value="0.5")


@quiet
def several_for_each_row() -> TraceBuilder:
    return step_of(index=[N, 4])


@quiet
def scattered_to_what_is_not_zero() -> TraceBuilder:
    return step_of(made="filled")


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("elementwise_kernel")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 4 times *us* all but a lookup's 0.32 ms go, and 1.15 times the middle of that is 2 % of 30 ms."""
    return step_of(train=False, us=240 if over else 215)
