"""Proof of gradient/repeated-slicing: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

V100 = "Tesla V100-SXM2-16GB"
ENGINE = "autograd::engine::evaluate_function: "


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU."""

    def __init__(self, device: str | None, *, record_shapes: bool) -> None:
        super().__init__(device, host_us=0, record_shapes=record_shapes)
        self.gpu = device is not None

    def run(self, name: str, us: float, shapes: list[object] | None = None, values: list[str] | None = None) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        with self.op(name, shapes=shapes, values=values, us=1 if self.gpu else us):
            if self.gpu:
                self.kernel("vectorized_elementwise_kernel", us=us)


def numbers(part: int, place: int) -> list[str]:
    """The arguments of a slice: dimension, from, to, each."""
    return ["1", str(part * place), str(part * (place + 1)), "1"]


def training(
    count: int = 40,
    *,
    rows: int = 32,
    part: int = 25,
    tensors: int = 1,
    masked: bool = False,
    looked: str = "",
    between: str = "",
    used_before: bool = False,
    grad: bool = True,
    library: str = "",
    rest_us: float = 10_000,
    device: str | None = None,
    shapes: bool = True,
    passes: int = 1,
) -> TraceBuilder:
    """Four steps of *passes*, each of *rest_us* of other work and *count* slices of [*rows*, 1000], of *part* columns each.

    Several passes end in an optimizer's step.

    A slice takes 2 us, and 70 us in the backward pass: zeros for 60, its own part for 10. Adding it to those before takes 30.
    *looked*: lookups in a table of that shape, whose gradients are "dense" or "sparse".
    """
    b = Program(device, record_shapes=shapes)
    whole, each = [rows, 1000], count // tensors
    forward, node = ("aten::index", "IndexBackward0") if masked else ("aten::slice", "SliceBackward0")
    if looked:
        forward, node, library = "aten::embedding", "EmbeddingBackward0", "torch/nn/functional.py(2000): embedding"
    for step in range(4):
        with b.step():
            for turn in range(passes):
                for number in range(count):
                    values = ["", ""] if masked or looked else ["", *numbers(part, number % each)]
                    with b.python("train.py(30): cut"), b.python(library) if library else nullcontext():
                        with b.op(
                            forward,
                            shapes=[whole, [number + 1]] if looked else [whole, *([] for _ in values[1:])],
                            values=values,
                            seq=1000 * (passes * step + turn) + number,
                            us=2,
                        ):
                            pass
                        if between:
                            b.run("aten::mul", 2, [whole if between == "whole" else [rows, part], []])
                b.run("aten::mm", rest_us, [[512, 64], [64, 8]])
                for number in reversed(range(count)) if grad else ():
                    last = number % each == each - 1
                    with b.op(ENGINE + node, seq=1000 * (passes * step + turn) + number, fwd_thread=1):
                        with b.op(
                            node, seq=1000 * (passes * step + turn) + number, fwd_thread=1, shapes=[[rows, part]]
                        ):
                            if looked == "sparse":
                                b.run("aten::embedding_sparse_backward", 70, [[rows, part], [rows]])
                            elif masked or looked:
                                b.run("aten::zero_", 60, [whole])
                                b.run("aten::_index_put_impl_", 10, [whole, [], [rows, part]])
                            else:
                                sizes = ["", f"[{rows}, 1000]", *numbers(part, number % each)]
                                with b.op("aten::slice_backward", shapes=[[rows, part]], values=sizes):
                                    b.run("aten::zero_", 60, [whole])
                                    b.run("aten::copy_", 10, [[rows, part], [rows, part]])
                        if used_before or not last:
                            b.run("aten::add_", 30, [whole, whole, []])
            if passes > 1:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::_foreach_add_", us=100):
                    pass
            if device is not None:
                b.sync()
    return b


# 40 backward passes of 70 us, 39 additions of 30 us, 40 slices of 2 us.
@fires(cost_ms=4.05, occurrences=4, severity="high", op="aten::slice", line="train.py:30")
def slices_of_one_tensor() -> TraceBuilder:
    return training()


@fires(cost_ms=4.0, op="aten::index", line="train.py:30")
def masks() -> TraceBuilder:
    """Picking by masks goes on in some form: the forward pass is none of it."""
    return training(masked=True, used_before=True)


# 210 masks of 2 us, with 210 products of what they pick between: the whole loop, forward.
@fires(cost_ms=21.84)
def a_loop_of_hundreds_of_tiny_operators() -> TraceBuilder:
    return training(210, part=4, masked=True, used_before=True, between="part")


# 210 slices, with as many products: the slices alone.
@fires(cost_ms=21.39)
def half_of_a_loop() -> TraceBuilder:
    return training(210, part=4, between="part")


# As of masks: 40 backward passes of 70 us, 39 additions of 30 us; the picks of the forward pass stay.
@fires(cost_ms=3.97, op="aten::embedding", line="train.py:30", fix="Look all rows up at once, before the loop")
def lookups_in_one_table() -> TraceBuilder:
    return training(looked="dense")


# A layer has a weight of the table's shape.
@fires(cost_ms=3.97, op="aten::embedding")
def lookups_beside_a_layer_of_that_shape() -> TraceBuilder:
    return training(looked="dense", between="whole")


# The engine puts one sparse gradient behind the other.
@fires(cost_ms=3.97, op="aten::embedding", fix="Look all rows up at once, before the loop")
def lookups_with_sparse_gradients() -> TraceBuilder:
    return training(looked="sparse")


@quiet
def a_lookup_in_each_of_many_tables() -> TraceBuilder:
    return training(looked="dense", tensors=40)


@fires(cost_ms=3.97, op="aten::slice", line="train.py:30")
def on_a_gpu() -> TraceBuilder:
    return training(device=V100)


@edge
def gradients_of_sixteen_thousand_numbers(over: bool) -> TraceBuilder:
    return training(rows=17 if over else 16)


@quiet
def slices_that_torchs_own_layer_takes() -> TraceBuilder:
    return training(library="torch/nn/functional.py(5718): _in_projection_packed")


@quiet
def no_gradient_is_needed() -> TraceBuilder:
    return training(grad=False)


# 95 % of each gradient is the slice's own.
@quiet
def slices_of_nearly_the_whole() -> TraceBuilder:
    return training(part=950)


# As from layer to layer: two slices of each of twenty tensors, which other operators read between.
@quiet
def two_slices_of_each_tensor() -> TraceBuilder:
    return training(tensors=20)


@quiet
def two_slices_of_tensors_with_another_use() -> TraceBuilder:
    return training(tensors=20, used_before=True)


@quiet
def masks_of_one_tensor_after_the_other() -> TraceBuilder:
    return training(masked=True, used_before=True, between="whole")


@quiet
def a_small_part_of_the_step() -> TraceBuilder:
    return training(4, part=250)


@edge
def three_slices_of_each_tensor(over: bool) -> TraceBuilder:
    return training(60, part=10, tensors=20 if over else 30)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel")


@quiet
def a_lookup_in_each_of_many_micro_batches() -> TraceBuilder:
    """Each has a gradient of its own: no lookup before the loop over them would spare it."""
    return training(1, looked="dense", passes=8, rest_us=1_000, used_before=True)


@fires(cost_ms=4 * 0.97, occurrences=16)  # of ten lookups 700 us, of their nine additions 270
def lookups_in_a_loop_of_each_micro_batch() -> TraceBuilder:
    return training(10, looked="dense", passes=4, rest_us=1_000)
