"""Proof of gradient/dense-embedding: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

STORE = "torch::autograd::AccumulateGrad"
TABLE = [100_000, 64]
V100 = "Tesla V100-SXM2-16GB"


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU."""

    def __init__(self, device: str | None, *, record_shapes: bool) -> None:
        super().__init__(device, record_shapes=record_shapes)
        self.gpu = device is not None

    def run(self, name: str, us: float, shapes: list[object] | None = None) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        with self.op(name, shapes=shapes, us=0 if self.gpu else us):
            if self.gpu:
                self.kernel("vectorized_elementwise_kernel", us=us)

    def gradient(self, seq: int, indices: int, us: float, *, joins: bool) -> None:
        """Add the gradient of a lookup, as the engine runs it; *joins*: it is added to an earlier one of the same tensor."""
        name = "EmbeddingBackward0"
        with self.op(f"autograd::engine::evaluate_function: {name}", seq=seq, fwd_thread=1):
            with self.op(name, seq=seq, fwd_thread=1):
                self.run("aten::embedding_dense_backward", us, [[indices, 64], [indices], [], [], []])
            if joins:
                self.run("aten::add_", us, [TABLE, TABLE, []])

    def store(self, shape: list[int] = TABLE) -> None:
        """Store what the engine has summed up."""
        with self.op(f"autograd::engine::evaluate_function: {STORE}"), self.op(STORE, shapes=[shape]):
            pass


def training(
    indices: int = 512,
    *,
    form: str = "single",
    optimizer: str = "Adam",
    device: str | None = None,
    lookups: tuple[int, ...] = (0,),
    passes: int = 1,
    tied: bool = False,
    layer: bool = False,
    zeros: bool = False,
    other_us: float = 5000,
    us: float = 500,
    lookup_us: float = 5,
    shapes: bool = True,
) -> TraceBuilder:
    """Four steps: 5 ms of other work, *us* for the gradient of a table, and four times as long for the optimizer's four passes.

    *lookups* are tables, by number, in the order in which they are looked up; *passes* backward passes accumulate gradients. A
    *layer* multiplies by a matrix of the table's shape: its own or, *tied*, the table.
    """
    b = Program(device, record_shapes=shapes)
    for step in range(4):
        with b.step():
            for turn in range(passes):
                seq = 1000 * step + 100 * turn
                for at in range(len(lookups)):
                    with (
                        b.python("train.py(30): look_up"),
                        b.op("aten::embedding", shapes=[TABLE, [indices]], seq=seq + at, us=lookup_us),
                    ):
                        pass
                b.run("aten::mm", other_us / passes, [[512, 64], TABLE[::-1] if tied or layer else [64, 8]])
                if layer:
                    with b.backward("MmBackward0", seq + 90):
                        b.run("aten::mm", 100, [[64, 512], [512, 100_000]])
                    b.store()
                left = list(lookups)
                for at, table in reversed(list(enumerate(lookups))):
                    left.pop()
                    b.gradient(seq + at, indices, us, joins=tied or table in lookups[at + 1 :])
                    if table not in left:
                        b.store()
            tables = len(set(lookups)) + layer
            with b.annotation(f"Optimizer.step#{optimizer}.step"):
                if form == "single":
                    for _ in range(tables):
                        for name in ("lerp_", "mul_", "sqrt", "addcdiv_"):
                            b.run(f"aten::{name}", us, [TABLE, TABLE, []])
                    b.run("aten::addcdiv_", 100, [[8, 64], [8, 64], []])
                else:
                    all_ = [TABLE] * tables
                    b.run("aten::_fused_adam_", 4 * us * tables, [all_, all_, all_, all_])
            if zeros:
                with b.annotation("Optimizer.zero_grad#Adam.zero_grad"):
                    b.run("aten::_foreach_zero_", us, [[TABLE]])
            if device is not None:
                b.sync()
    return b


# 0.5 ms for the gradient and 2 ms for four passes over the table.
@fires(cost_ms=2.5, occurrences=4, severity="high", op="aten::embedding_dense_backward", line="train.py:30")
def a_table_of_which_a_batch_reads_two_hundredths() -> TraceBuilder:
    return training()


@fires(cost_ms=2.5, occurrences=4)
def the_fused_form() -> TraceBuilder:
    return training(form="fused")


@fires(cost_ms=3.0, occurrences=4)
def gradients_that_are_zeroed() -> TraceBuilder:
    return training(zeros=True)


@fires(cost_ms=2.5, occurrences=4)
def on_a_gpu() -> TraceBuilder:
    return training(device=V100)


# Both tables: 1 ms for the gradients, 4 ms for the passes.
@fires(cost_ms=5.0, occurrences=8)
def two_tables_of_one_shape() -> TraceBuilder:
    return training(lookups=(0, 1))


# 0.5 ms, and the table's half of eight passes.
@fires(cost_ms=2.5, occurrences=4)
def a_layer_of_the_tables_shape() -> TraceBuilder:
    return training(layer=True)


# 0.4 ms and the one operator of 3.2 ms, of which the price takes the table's half.
@fires(cost_ms=3.6, occurrences=4)
def a_layer_of_the_tables_shape_in_one_fused_step() -> TraceBuilder:
    return training(layer=True, form="fused", us=400, lookup_us=1)


# 1.5 ms for three gradients, 1 ms for two sums, 2 ms for the passes.
@fires(cost_ms=4.5, occurrences=12)
def a_table_looked_up_three_times() -> TraceBuilder:
    return training(lookups=(0, 0, 0))


# The first and the last lookup are of one table: four gradients of 0.5 ms, two sums, eight passes.
@fires(cost_ms=7.0, occurrences=16)
def two_tables_looked_up_in_turns() -> TraceBuilder:
    return training(lookups=(0, 1, 0, 1))


@fires(cost_ms=3.0, occurrences=8)
def gradients_of_two_passes() -> TraceBuilder:
    return training(passes=2)


@quiet
def tied_weights() -> TraceBuilder:
    return training(tied=True)


@quiet
def a_small_part_of_the_step() -> TraceBuilder:
    return training(us=10)


# A sparse step would take 16 lookups of 0.15 ms and 0.3 ms, the dense one takes 2.5 ms.
@quiet
def lookups_that_take_long() -> TraceBuilder:
    return training(1024, lookup_us=150)


# With SGD it would take 2.5 lookups.
@fires(cost_ms=2.5, occurrences=4)
def lookups_that_take_long_with_sgd() -> TraceBuilder:
    return training(1024, lookup_us=150, optimizer="SGD")


@edge
def as_many_indices_as_rows(over: bool) -> TraceBuilder:
    return training(50_000 if over else 50_001, lookups=(0, 0))


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    # A sparse step takes 0.38 ms (16 lookups of 5 us, and 0.3 ms): 85 % of 2.5 ms go, at least 80 % of these.
    # In the middle that is 1.91 ms: 2.1 % of 92.6 ms, and 1.9 % of 102.6 ms.
    return training(other_us=90_000 if over else 100_000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("embedding_backward_kernel")
