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
    embedding: bool = False,
) -> TraceBuilder:
    """Steps of 3 ms: a layer's forward of 1 ms, the input's gradient of 1 ms; gradients of weight and bias of 150 and 40 us."""
    b = TraceBuilder(record_shapes=shapes)
    for number in range(steps):
        with b.step():
            if embedding:
                with b.op("aten::linear", shapes=[[ROWS, 16], [WIDE, 16]], seq=10 * number + 1):
                    b.kernel(GEMM, us=30)
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
                if embedding:
                    with (
                        b.op("autograd::engine::evaluate_function: AddmmBackward0"),
                        b.backward("AddmmBackward0", 10 * number + 1),
                        b.op("aten::mm", shapes=[[16, ROWS], [ROWS, WIDE]]),
                    ):
                        b.kernel(GEMM, us=30)
                    store(b, [16, WIDE], added=added)
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


# A branch that is given no gradient ends last, behind the input's gradient, which needs all of the other: 190 us, 30 and 10.
@fires(cost_ms=0.23, occurrences=3)
def an_embedding_of_the_time_beside_the_input() -> TraceBuilder:
    return forces(embedding=True)


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


def distilled(*, input_gradient: bool = False) -> TraceBuilder:
    """Steps of a student's layer, and of a teacher's two, whose gradients nothing reads."""
    b = TraceBuilder()
    student = [WIDE, 64]
    for number in range(3):
        with b.step():
            for layer in range(3):
                with b.op("aten::linear", shapes=[[ROWS, WIDE], WEIGHT, BIAS], seq=10 * number + layer):
                    b.kernel(GEMM, us=500)
            with b.thread(77):
                for layer, shape in ((2, WEIGHT), (1, [WIDE, 3]), (0, student)):
                    node = "AddmmBackward0"
                    with b.op(f"autograd::engine::evaluate_function: {node}"), b.backward(node, 10 * number + layer):
                        if layer == 2 or input_gradient:
                            with b.op("aten::mm", shapes=[[ROWS, shape[0]], shape]):
                                b.kernel(GEMM, us=1000)
                        with b.op("aten::mm", shapes=[[shape[0], ROWS], [ROWS, shape[1]]]):
                            b.kernel(GEMM, us=100)
                    store(b, shape, added=layer > 0)
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", shapes=[student, student, []]):
                b.kernel("vectorized_elementwise_kernel<add>", us=5)
            b.sync()
    return b


# The teacher's first layer makes no gradient of its input: with 1,000 us of its second layer's input all goes, 1,220 us.
@fires(cost_ms=1.22, occurrences=3)
def a_teacher_that_is_given_the_data() -> TraceBuilder:
    return distilled()


# What goes on into the student has to pass through: two products of 100 us, and two additions of 10.
@fires(cost_ms=0.22, occurrences=3)
def a_fixed_network_behind_the_one_that_is_trained() -> TraceBuilder:
    return distilled(input_gradient=True)
