"""Proof of cpu/masked-pairs: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Mask
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

NODES = 1400


def training(
    us: float = 2000,
    *,
    share: float = 0.995,
    tiles: float = 1.0,
    nodes: int = NODES,
    weight: int = 0,
    shapes: bool = True,
    device: str | None = None,
    **recorded: Any,
) -> TraceBuilder:
    """Steps of 10 ms of a GAT: scores by broadcasting, mask, softmax and product in a quarter of *us* each."""
    mask = Mask(NODES, NODES, share, tiles, file="train.py", line=30)
    b = TraceBuilder(device, host_us=0, record_shapes=shapes).ran_with(**({"masks": (mask,)} | recorded))
    pairs = [nodes, nodes]
    for _ in range(3):
        with b.step():
            for name, operands in (
                ("aten::add", [[nodes, 1], [1, nodes]]),
                ("aten::masked_fill", [pairs, pairs]),
                ("aten::_softmax", [pairs]),
                ("aten::mm", [pairs, [nodes, 8]]),
            ):
                with b.op(name, shapes=operands, us=us / 4):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=us / 4)
            with b.op("aten::mm", shapes=[[nodes, 300], [300, 8]], us=10_000 - us):
                pass
            if weight:
                with (
                    b.annotation("Optimizer.step#Adam.step"),
                    b.op("aten::add_", shapes=[[weight, weight], [weight, weight]], us=10),
                ):
                    pass
    return b


@fires(cost_ms=2.0, occurrences=12, severity="medium")  # of 10 ms 20 %, at 0.99 of 42 to 100 %
def a_graph_of_seven_neighbours_each() -> TraceBuilder:
    return training()


@quiet
def a_graph_of_a_fifth_of_all_pairs() -> TraceBuilder:
    return training(share=0.8)


@quiet
def packed_sequences() -> TraceBuilder:
    return training(tiles=0.2, share=0.985)


@fires(cost_ms=2.0, severity="medium")
def a_large_graph_whose_edges_lie_in_few_tiles_but_scattered() -> TraceBuilder:
    return training(tiles=0.3, share=0.9999)


@quiet
def other_shapes_than_those_of_the_scores() -> TraceBuilder:
    return training(nodes=600)


@quiet
def a_weight_of_the_same_size() -> TraceBuilder:
    return training(weight=NODES)


@quiet
def masks_that_were_not_recorded() -> TraceBuilder:
    return training(masks=None)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@edge
def three_in_two_hundred_pairs(over: bool) -> TraceBuilder:
    return training(share=0.985 if over else 0.984)
