"""Proof of gradient/unread-gradients: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "ampere_sgemm_128x64_nn"
ROWS, WIDE = 4096, 256
WEIGHT, BIAS, POSITIONS = [WIDE, WIDE], [WIDE], [ROWS, 3]


def store(b: TraceBuilder, shape: list[int], *, added: bool) -> None:
    with (
        b.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"),
        b.op("torch::autograd::AccumulateGrad", shapes=[shape]),
    ):
        if added:
            with b.op("aten::add_", shapes=[shape, shape, []]):
                b.kernel("vectorized_elementwise_kernel<add>", us=10)
        else:
            with b.op("aten::detach", shapes=[shape]):
                b.idle(us=1)


def forces(
    *,
    steps: int = 3,
    added: bool = True,
    weight: int = 150,
    update: str = "",
    read: str = "aten::neg",
    optimizer: list[list[int]] | None = None,
    zeroed: bool = False,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 3 ms: a layer's forward of 1 ms, the input's gradient of 1 ms; gradients of weight and bias of 150 and 40 us."""
    b = TraceBuilder(record_shapes=shapes)
    for number in range(steps):
        with b.step():
            with b.op("aten::linear", shapes=[[ROWS, WIDE], WEIGHT, BIAS], seq=10 * number):
                b.kernel(GEMM, us=1000)
            with b.thread(77):
                with (
                    b.op("autograd::engine::evaluate_function: AddmmBackward0"),
                    b.backward("AddmmBackward0", 10 * number),
                ):
                    with b.op("aten::mm", shapes=[[ROWS, WIDE], WEIGHT]):
                        b.kernel(GEMM, us=1000)
                    with b.op("aten::mm", shapes=[[WIDE, ROWS], [ROWS, WIDE]]):
                        b.kernel(GEMM, us=weight)
                    with b.op("aten::sum", shapes=[[ROWS, WIDE], [], [], []]):
                        b.kernel("reduce_kernel<sum>", us=20)
                store(b, WEIGHT, added=added)
                store(b, BIAS, added=added)
                store(b, POSITIONS, added=False)
            with b.op(read, shapes=[POSITIONS]):
                b.kernel("vectorized_elementwise_kernel<neg>", us=5)
            if update:
                for shape in (WEIGHT, BIAS):
                    with b.op(update, shapes=[shape, shape, []]):
                        b.kernel("vectorized_elementwise_kernel<add>", us=10)
            if optimizer:
                with b.annotation("Optimizer.step#SGD.step"):
                    for shape in optimizer:
                        with b.op("aten::add_", shapes=[shape, shape, []]):
                            b.kernel("vectorized_elementwise_kernel<add>", us=5)
                if zeroed:
                    with b.op("aten::_foreach_zero_", shapes=[[WEIGHT, BIAS]]):
                        b.kernel("multi_tensor_apply_kernel", us=5)
            b.sync()
    return b


# The product of the weight's gradient (150 us), the bias's sum (20) and two additions of 10 in each step.
@fires(cost_ms=0.19, occurrences=3)
def forces_by_a_backward_through_the_model() -> TraceBuilder:
    return forces()


@fires(cost_ms=0.19, occurrences=3)
def a_fixed_network_between_the_loss_and_what_is_trained() -> TraceBuilder:
    return forces(optimizer=[POSITIONS])


@quiet
def an_optimizer_that_updates_them() -> TraceBuilder:
    return forces(optimizer=[POSITIONS, WEIGHT, BIAS])


@quiet
def an_optimizer_that_clears_them() -> TraceBuilder:
    """They may be those of another model, whose optimizer steps less often."""
    return forces(optimizer=[POSITIONS], zeroed=True)


@quiet
def gradients_that_are_stored_anew_in_each_pass() -> TraceBuilder:
    """Somebody sets them to None in between: they may be read before."""
    return forces(added=False)


@quiet
def parameters_that_are_updated_by_hand() -> TraceBuilder:
    return forces(update="aten::sub_")


@quiet
def one_pass_alone() -> TraceBuilder:
    return forces(steps=1)


@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    """20 + 20 us and the product: of the step's 2.05 ms and its pauses."""
    return forces(weight=15 if over else 2)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return forces(shapes=False)


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)
