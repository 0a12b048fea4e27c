"""Proof of kernels/pairwise-intermediate: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

Shape = list[int]
Step = tuple[str, list[Shape], list[str]]
ROWS, COLUMNS, WIDTH = 256, 128, 64
H100 = "NVIDIA H100 80GB HBM3"
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor>(int)"


def chain(width: int = WIDTH, *, dim: str = "[-1]") -> list[Step]:
    """Squares of all pairs, and their sum."""
    whole = [ROWS, COLUMNS, width]
    return [
        ("aten::pow", [whole, []], ["", "2"]),
        ("aten::sum", [whole, [], [], []], ["", dim, "False", ""]),
    ]


def steps(
    *follow: Step,
    first: str = "aten::sub",
    width: int = WIDTH,
    us: float = 1000,
    step_us: float = 20_000,
    backward_us: float = 0,
    shapes: bool = True,
    device: str | None = H100,
) -> TraceBuilder:
    """Steps of *step_us*: a kernel of *us* on two tensors, as long ones on its result, two of backward, and a product."""
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    operands: list[Shape] = [[ROWS, 1, width], [1, COLUMNS, width], []]
    strides: list[Shape] = [[width, 1, 1], [1, width, 1], []]
    for number in range(3):
        left = step_us
        with b.step():
            for at, (name, dims, values) in enumerate([(first, operands, ["", "", "1"]), *follow]):
                seq = 10 * number + at + 1 if backward_us else None
                steps_of = [[] for _ in dims] if at else strides
                with b.op(name, shapes=dims, values=values, strides=steps_of, seq=seq, us=0 if device else us):
                    if device:
                        b.kernel(KERNEL, us=us)
                left -= us
            for at in (1, 0) if backward_us else ():
                node = "PowBackward0" if at else "SubBackward0"
                with b.backward(node, 10 * number + at + 1), b.op("aten::mul", shapes=[operands[0]]):
                    b.kernel(KERNEL, us=backward_us)
                left -= backward_us
            with b.op("aten::mm", us=0 if device else left):
                if device:
                    b.kernel("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", us=left)
            if device:
                b.sync()
    return b


# Three kernels of 1 ms of 20.
@fires(cost_ms=3.0, occurrences=3, op="aten::sub")
def squared_distances() -> TraceBuilder:
    return steps(*chain())


@fires(cost_ms=7.0, severity="high")
def with_their_backward_pass() -> TraceBuilder:
    return steps(*chain(), backward_us=2000)


@fires(cost_ms=2.0)
def products_that_are_summed() -> TraceBuilder:
    return steps(chain()[1], first="aten::mul")


@fires(cost_ms=2.0)
def a_norm_of_differences() -> TraceBuilder:
    whole = [ROWS, COLUMNS, WIDTH]
    return steps(("aten::linalg_vector_norm", [whole, [], [], [], []], ["", "2", "[-1]", "False", ""]))


# torch.cdist(p=1) writes a tensor of all pairs for their gradient.
@quiet
def absolute_differences() -> TraceBuilder:
    whole = [ROWS, COLUMNS, WIDTH]
    return steps(("aten::abs", [whole], [""]), chain()[1])


@quiet
def the_differences_are_used_again() -> TraceBuilder:
    return steps(*chain(), ("aten::mul", [[ROWS, COLUMNS, WIDTH], [ROWS, COLUMNS, 1]], ["", ""]))


@quiet
def summed_over_the_pairs() -> TraceBuilder:
    return steps(*chain(dim="[1]"))


# Of 3 times 5 us six passes of 2 us at least stay.
@quiet
def kernels_of_microseconds() -> TraceBuilder:
    return steps(*chain(), us=5, step_us=100)


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return steps(*chain(), device=None)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(*chain(), shapes=False)


@lacks("host")
def the_gpu_alone() -> TraceBuilder:
    return kernels_alone(KERNEL)


@edge
def three_numbers_a_pair(over: bool) -> TraceBuilder:
    """6 passes over one number a pair, and 0.06 of a kernel: 2.06 of 3 kernels stay with three numbers, 3.06 with two."""
    width = 3 if over else 2
    return steps(*chain(width), width=width)


@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    """85 % of 1.05 times 95 %, as 6 passes of 2 us and 0.06 of 138 or 132 us stay: of 3 times that in 20 ms 1.76 or 1.68 %."""
    return steps(*chain(), us=138 if over else 132)
