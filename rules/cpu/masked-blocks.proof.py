"""Proof of cpu/masked-blocks: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Mask
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LENGTH = 1024


def training(
    us: float = 2000,
    *,
    length: int = LENGTH,
    share: float = 0.88,
    tiles: float = 0.18,
    shapes: bool = True,
    device: str | None = None,
    **recorded: Any,
) -> TraceBuilder:
    """Steps of 10 ms: a product of queries and keys, mask, softmax and product in a quarter of *us* each."""
    mask = Mask(LENGTH, LENGTH, share, tiles, file="train.py", line=30)
    b = TraceBuilder(device, host_us=0, record_shapes=shapes).ran_with(**({"masks": (mask,)} | recorded))
    heads, scores = [8, length, 32], [2, 4, length, length]
    for _ in range(3):
        with b.step():
            for name, operands in (
                ("aten::bmm", [heads, [8, 32, length]]),
                ("aten::masked_fill", [scores, [length, length]]),
                ("aten::_softmax", [scores]),
                ("aten::bmm", [[8, length, length], heads]),
            ):
                with b.op(name, shapes=operands, us=us / 4):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=us / 4)
            with b.op("aten::mm", shapes=[[2 * LENGTH, 128], [128, 512]], us=10_000 - us):
                pass
    return b


@fires(cost_ms=2.0, occurrences=12, severity="medium")  # of 10 ms 20 %, at 0.92 of 60 to 100 %
def a_window() -> TraceBuilder:
    return training()


@fires(cost_ms=2.0, severity="medium")
def packed_sequences() -> TraceBuilder:
    return training(share=0.985, tiles=0.2)


@fires(cost_ms=2.0, severity="medium")
def a_batch_that_is_longer_than_the_one_that_was_watched() -> TraceBuilder:
    return training(share=0.985, tiles=0.2, length=1200)


@quiet
def scores_of_another_kind() -> TraceBuilder:
    return training(length=200)


@quiet
def edges_scattered_over_few_tiles() -> TraceBuilder:
    return training(share=0.9999, tiles=0.3)


@quiet
def a_mask_of_what_lies_ahead() -> TraceBuilder:
    return training(share=0.6, tiles=0.53)


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
def four_tiles_in_ten(over: bool) -> TraceBuilder:
    return training(tiles=0.4 if over else 0.41)
