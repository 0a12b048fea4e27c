"""Proof of kernels/class-loop: traces on which it fires, and traces on which it does not."""

from collections.abc import Callable, Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

N, D = 1 << 18, 32
LABELS = [N]
A100 = "NVIDIA A100-SXM4-80GB"
Op = tuple[str, Sequence[list[int]], Sequence[str], Sequence[str]]
"""An operator, its operands' shapes, their types, and their values."""


def compared(number: object, name: str = "eq", shape: Sequence[int] = LABELS, dtype: str = "long int") -> Op:
    return f"aten::{name}", [[*shape], []], [dtype, "Scalar"], ["", str(number)]


def op(name: str, *shapes: list[int], dtype: str = "float") -> Op:
    return f"aten::{name}", shapes, [dtype if shape else "Scalar" for shape in shapes], []


COUNT = op("sum", LABELS, [], dtype="bool")


def steps(
    turn: Callable[[int], Sequence[Op]],
    *,
    classes: int = 21,
    rounds: int = 1,
    us: float = 100,
    training: bool = False,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 20 ms and a loop, whose operators take *us* each, and half as much backward."""
    b = TraceBuilder(device, host_us=5 if device else 0, record_shapes=shapes)

    def run(
        name: str, shapes: Sequence[list[int]], types: Sequence[str], values: Sequence[str], seq: int | None
    ) -> None:
        with b.op(name, shapes=[*shapes], dtypes=[*types], values=[*values] or None, seq=seq, us=5 if device else us):
            if device:
                b.kernel("elementwise_kernel", us=us)

    for step in range(3):
        with b.step():
            seq = 100_000 * step
            with b.python("metrics.py(7): per_class"):
                for _ in range(rounds):
                    for number in range(classes):
                        for one in turn(number):
                            seq += 1
                            run(*one, seq if training else None)
            with b.op("aten::mkldnn_convolution", shapes=[[8, 3, 64, 64]], us=0 if device else 20_000):
                if device:
                    b.kernel("implicit_gemm", us=20_000)
            for back in range(seq, 100_000 * step, -1) if training else ():
                with b.backward("IndexBackward0", back), b.op("aten::index_put_", us=us / 2):
                    pass
            if device:
                b.sync()
    return b


def iou(number: int) -> list[Op]:
    both = [op(name, LABELS, LABELS, dtype="bool") for name in ("bitwise_and", "bitwise_or")]
    return [compared(number), compared(number), both[0], COUNT, both[1], COUNT, op("div", [], [])]


# Seven operators of 0.1 ms, 21 times.
@fires(cost_ms=14.7, occurrences=3, severity="high", op="aten::eq", line="metrics.py:7")
def iou_of_each_class() -> TraceBuilder:
    return steps(iou)


# Six of 0.1 ms for each of 12 x 12 pairs.
@fires(cost_ms=86.4)
def a_confusion_matrix() -> TraceBuilder:
    def turn(number: int) -> list[Op]:
        pair = [compared(number // 12), compared(number % 12, shape=LABELS)]
        cell = [op("select", [12, 12], [], []), op("add_", [], [], [])]
        return [*pair, op("bitwise_and", LABELS, LABELS, dtype="bool"), COUNT, *cell]

    return steps(turn, classes=144)


def mean(number: int) -> list[Op]:
    return [compared(number), op("index", [N // 16, D], LABELS), op("mean", [N // 16, D], [], [], [])]


# Three of 0.1 ms for each of 100 groups, and half as much for the backward pass of each.
@fires(cost_ms=45.0)
def means_of_groups_with_gradients() -> TraceBuilder:
    return steps(mean, classes=100, training=True)


# Each of eight takes 0.4 ms: to find the bin of a number takes longer than to count it.
@fires(cost_ms=67.2)
def bins_between_edges() -> TraceBuilder:
    def turn(number: int) -> list[Op]:
        ends = [compared(end / 21, name, dtype="float") for name, end in (("gt", number), ("le", number + 1))]
        inside = op("bitwise_and", LABELS, LABELS, dtype="bool")
        return [*ends, inside, COUNT, *(op(name, LABELS, LABELS) for name in ("mul", "sum", "mul", "sum"))]

    return steps(turn, us=400)


@fires(cost_ms=8.0)
def labels_that_are_mapped_one_by_one() -> TraceBuilder:
    return steps(lambda number: [compared(number), op("index_put_", LABELS, LABELS, [], [])], classes=40)


# The same classes for each of four images: four rounds of a loop of 21.
@fires(cost_ms=58.8)
def every_image_of_a_batch() -> TraceBuilder:
    return steps(iou, rounds=4)


# 147 kernels of 50 us; 20 ms are the model's.
@fires(cost_ms=7.35, op="aten::eq")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(iou, us=50, device=A100)


# A layer for each expert: no one call for all.
@quiet
def layers_of_experts() -> TraceBuilder:
    def turn(number: int) -> list[Op]:
        return [
            *mean(number)[:2],
            op("addmm", [D], [N // 16, D], [D, D]),
            op("index_put_", [N, D], LABELS, [N // 16, D]),
        ]

    return steps(turn)


@quiet
def a_sample_of_each_class() -> TraceBuilder:
    return steps(
        lambda number: [
            compared(number),
            op("nonzero", LABELS, dtype="bool"),
            op("randperm", [], []),
            op("index", LABELS),
        ]
    )


@quiet
def an_order_of_each_class() -> TraceBuilder:
    return steps(lambda number: [*mean(number)[:2], op("sort", [N // 16, D], [], [])])


@quiet
def the_same_number_every_time() -> TraceBuilder:
    return steps(lambda number: [compared(255), COUNT])


# Each layer's activations, and a threshold of its own.
@quiet
def tensors_that_are_computed_anew() -> TraceBuilder:
    return steps(lambda number: [op("abs", LABELS), compared(number / 100, "gt", dtype="float"), COUNT])


# A map of distances to each object, and a radius that is computed from its size.
@quiet
def maps_of_each_object() -> TraceBuilder:
    return steps(
        lambda number: [op("div", LABELS, []), op("mul", [1], []), compared(number / 100, "gt", dtype="float"), COUNT]
    )


@quiet
def a_search_by_bisection() -> TraceBuilder:
    return steps(lambda number: [compared(0.5 + (-0.5) ** (number + 2), "gt", dtype="float"), COUNT, op("item", [])])


# Each level is written by those before it.
@quiet
def levels_of_a_graph() -> TraceBuilder:
    def turn(number: int) -> list[Op]:
        around = op("index", [N, 8], LABELS, dtype="long int")
        new = op("any", [N, 8], [], dtype="bool")
        fresh = op("bitwise_and", LABELS, LABELS, dtype="bool")
        return [compared(number), around, new, fresh, op("index_put_", LABELS, LABELS, dtype="long int")]

    return steps(turn)


# A state that goes on from time step to time step, while the sequence lasts.
@quiet
def a_recurrence_with_lengths() -> TraceBuilder:
    return steps(lambda number: [compared(number, "gt"), op("where", LABELS, LABELS, LABELS)])


@quiet
def masks_that_nothing_reduces() -> TraceBuilder:
    return steps(lambda number: [compared(number), op("mul", LABELS, LABELS)])


# 21 turns of 0.2 ms to find the bins of numbers, each of which takes 50 ns at once.
@quiet
def edges_that_are_compared_fast() -> TraceBuilder:
    return steps(lambda number: [compared(number / 21, "gt", dtype="float"), COUNT])


@edge
def six_classes(over: bool) -> TraceBuilder:
    return steps(lambda number: [compared(number), COUNT], classes=6 if over else 5, us=1000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(iou, shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("elementwise_kernel")
