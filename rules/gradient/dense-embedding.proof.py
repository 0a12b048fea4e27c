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


def training(
    indices: int = 512,
    *,
    form: str = "single",
    device: str | None = None,
    tied: bool = False,
    zeros: bool = False,
    other_us: float = 5000,
    us: float = 500,
    shapes: bool = True,
) -> TraceBuilder:
    """Four steps: 5 ms of other work, *us* for the gradient of a table, and four times as long for the optimizer's four passes."""
    b = Program(device, record_shapes=shapes)
    for step in range(4):
        with b.step():
            with b.python("train.py(30): look_up"), b.op("aten::embedding", shapes=[TABLE, [indices]], seq=step, us=5):
                pass
            b.run("aten::mm", other_us, [[512, 64], TABLE[::-1] if tied else [64, 8]])
            with b.backward("EmbeddingBackward0", step):
                b.run("aten::embedding_dense_backward", us, [[indices, 64], [indices], [], [], []])
            with b.op(f"autograd::engine::evaluate_function: {STORE}"), b.op(STORE, shapes=[TABLE]):
                pass
            with b.annotation("Optimizer.step#Adam.step"):
                if form == "single":
                    for name in ("lerp_", "mul_", "sqrt", "addcdiv_"):
                        b.run(f"aten::{name}", us, [TABLE, TABLE, []])
                    b.run("aten::addcdiv_", 100, [[8, 64], [8, 64], []])
                else:
                    both = [TABLE, TABLE]
                    b.run("aten::_fused_adam_", 4 * us, [[TABLE], both[:1], both[:1], both[:1]])
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


@quiet
def tied_weights() -> TraceBuilder:
    return training(tied=True)


@quiet
def a_small_part_of_the_step() -> TraceBuilder:
    return training(us=10)


@edge
def a_fifth_of_the_rows(over: bool) -> TraceBuilder:
    return training(20_000 if over else 20_001)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    # 85 % of 2.5 ms are 2.1 % of 100 ms, and 1.97 % of 107 ms; 0.5 % of the rows are read.
    return training(other_us=97_000 if over else 105_000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("embedding_backward_kernel")
