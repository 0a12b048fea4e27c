"""Proof of cpu/product-order: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

OUT, IN, RANK = 1000, 800, 8
WEIGHT = [OUT, IN]
A100 = "NVIDIA A100-SXM4-80GB"
STORE = "torch::autograd::AccumulateGrad"


def step_of(
    *,
    rows: int = 64,
    rank: int = RANK,
    added: bool = True,
    fused: bool = False,
    between: Sequence[str] = (),
    uses: int = 1,
    learns: bool = False,
    train: bool = True,
    us: float = 500,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of about 20 ms: factors multiplied out in *us*, scaled and added in as much each, used in twice that; and backward."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)

    def run(name: str, time: float, *operands: list[int], seq: int | None = None) -> None:
        with b.op(name, shapes=list(operands), dtypes=["float"] * len(operands), seq=seq, us=1 if device else time):
            if device:
                b.kernel("volta_sgemm_128x64_nn", us=time)

    for step in range(3):
        seq = 100 * step
        with b.step():
            if fused:
                run("aten::addmm", us, WEIGHT, [OUT, rank], [rank, IN], [], [], seq=seq + 1)
            else:
                with b.op("aten::matmul", shapes=[[OUT, rank], [rank, IN]]):
                    run("aten::mm", us, [OUT, rank], [rank, IN], seq=seq + 1)
                if added:
                    run("aten::mul", us, WEIGHT, [], seq=seq + 2)
                    run("aten::add", us, WEIGHT, WEIGHT, [], seq=seq + 3)
            for name in between:
                run(name, us, WEIGHT, [OUT, 1])
            for _ in range(uses):
                with b.op("aten::linear", shapes=[[rows, IN], WEIGHT, [OUT]]):
                    run("aten::addmm", 2 * us, [OUT], [rows, IN], [IN, OUT], [], [], seq=seq + 4)
            run("aten::softmax", 20_000 - 10 * us, [rows, OUT])
            if train:
                with b.backward("AddmmBackward0", seq + 4):
                    run("aten::mm", 2 * us, [rows, OUT], WEIGHT)
                    run("aten::mm", 2 * us, [OUT, rows], [rows, IN])
                if learns:
                    with b.op(f"autograd::engine::evaluate_function: {STORE}"), b.op(STORE, shapes=[WEIGHT]):
                        pass
                if added and not fused:
                    with b.backward("MulBackward0", seq + 2):
                        run("aten::mul", us, WEIGHT, [])
                with b.backward("MmBackward0", seq + 1):
                    run("aten::mm", us, [rank, OUT], WEIGHT)
                    run("aten::mm", us, WEIGHT, [IN, rank])
    return b


# Forward 3 · 0.5 ms, backward the sum's gradient of 1 ms, and 0.5 + 1. The large product does 64 · 800,000 multiply-adds in 1 ms;
# thin ones take 3 · 64 · 8 · 1,800 at half that rate, 0.11 ms, and passes over their result 2 · 1 ms · 64 / 800.
@fires(cost_ms=4.0, occurrences=3, severity="high", op="aten::matmul")
def an_adapter_added_to_a_frozen_weight() -> TraceBuilder:
    return step_of()


@fires(cost_ms=1.5)
def an_adapter_in_inference() -> TraceBuilder:
    return step_of(train=False)


# The product itself goes, too: 0.5 + 1, and in the backward pass 2 and 1.
@fires(cost_ms=4.5)
def two_factors_instead_of_a_weight() -> TraceBuilder:
    return step_of(added=False)


@fires(cost_ms=2.5)
def added_by_the_product_itself() -> TraceBuilder:
    return step_of(fused=True)


@fires(cost_ms=3.0)
def the_weight_learns_as_well() -> TraceBuilder:
    return step_of(learns=True)


# Passes move 4 · 800,000 numbers a ms; the other order 64 · (800 + 5 · 1,000), and 15 us for three kernels: 0.13 of 1.5 ms.
@fires(cost_ms=1.5, severity="medium")
def an_adapter_on_a_gpu() -> TraceBuilder:
    return step_of(train=False, device=A100)


@fires(cost_ms=4.0, severity="high")
def an_adapter_that_trains_on_a_gpu() -> TraceBuilder:
    return step_of(device=A100)


# The arithmetic is a twentieth, but 1,024 rows move 3 times 5.9 million numbers, which takes 1.1 ms: nothing is spared of 0.8 ms.
@quiet
def many_rows_on_a_gpu() -> TraceBuilder:
    return step_of(rows=1024, us=100, device=A100)


@quiet
def one_product_for_many_rows() -> TraceBuilder:
    return step_of(rows=4096)


@quiet
def used_again_and_again() -> TraceBuilder:
    return step_of(uses=30, train=False)


@quiet
def an_inner_dimension_as_large() -> TraceBuilder:
    return step_of(rank=600)


# A norm of the rows (DoRA), a mask, an activation: no order but this.
@quiet
def scaled_by_another_matrix() -> TraceBuilder:
    return step_of(between=["aten::mul"])


@quiet
def an_activation_between_the_products() -> TraceBuilder:
    return step_of(added=False, between=["aten::relu"])


@quiet
def nothing_uses_it() -> TraceBuilder:
    return step_of(uses=0, train=False)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_twenty_fifth_of_the_step(over: bool) -> TraceBuilder:
    """Of 8 times as many us of 20 ms 93 % go, and the middle of that is 3.5 % of the step."""
    return step_of(us=112 if over else 104)
