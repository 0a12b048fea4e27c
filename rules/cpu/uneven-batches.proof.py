"""Proof of cpu/uneven-batches: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

OWN, OTHER = (100, 60, 140, 80, 120, 50), (80, 120, 70, 130, 60, 110)


def training(
    own: Sequence[int] = OWN,
    other: Sequence[int] = OTHER,
    *,
    exchange_us: int = 500,
    widths: Sequence[int] | None = None,
    slower: float = 1.0,
    stalls_us: Sequence[int] = (),
    hidden_us: int = 0,
    kind: str = "all_reduce",
    shapes: bool = True,
) -> TraceBuilder:
    """Steps on batches of the *own* widths, 100 us a place, and a collective that lasts until the *other* rank has come as well.

    *widths*: of the tensors, where they are not those that are computed on. The other rank is *slower*, or *stalls_us* in a step.
    """
    b = TraceBuilder(None, world_size=2, rank=0, backend="gloo")
    for number, (width, longer) in enumerate(zip(own, other, strict=True)):
        late = int(100 * (longer * slower - width)) + (stalls_us[number] if stalls_us else 0)
        operands = [[8 * (widths or own)[number], 64], [64, 64]] if shapes else None
        with b.step():
            with b.op("aten::mkldnn_linear", us=100 * width - hidden_us, shapes=operands):
                pass
            with b.thread(77, join=not hidden_us), b.annotation(f"gloo:{kind}", us=max(late, 0) + exchange_us):
                pass
            if hidden_us:
                with b.op("aten::mm", seq=number, us=hidden_us, shapes=operands):
                    pass
            with b.op("Optimizer.step#SGD.step", us=10):
                pass
            with b.op("MmBackward0", seq=number, us=10, fwd_thread=1):
                pass
    return b


# It waits 6, 5 and 6 ms for the other one, in the steps of its smallest batches; the exchange itself takes 0.5.
@fires(cost_ms=18.5 / 6, occurrences=3, severity="high")
def buckets_that_are_shuffled_before_they_are_dealt() -> TraceBuilder:
    return training()


@quiet
def batches_of_one_bucket_in_each_step() -> TraceBuilder:
    return training(OWN, [width + 2 for width in OWN])


@quiet
def another_rank_that_always_has_more_to_do() -> TraceBuilder:
    return training(OWN, [width + 60 for width in OWN])


@quiet
def another_rank_that_is_always_late() -> TraceBuilder:
    return training(OWN, [220] * 6)


@quiet
def a_slow_rank_with_batches_of_the_same_widths() -> TraceBuilder:
    return training(OWN, OWN, slower=1.5)


@quiet
def another_ones_loader_stalls_whatever_the_own_batch_is() -> TraceBuilder:
    return training(OWN, OWN, stalls_us=(0, 6000, 5000, 0, 6000, 0))


@quiet
def the_own_time_varies_and_the_batches_do_not() -> TraceBuilder:
    return training(widths=(96,) * 6)


@quiet
def an_exchange_that_is_slow_in_all_steps() -> TraceBuilder:
    return training(OWN, OWN, exchange_us=6000, hidden_us=3000)


@quiet
def exchanges_of_tokens() -> TraceBuilder:
    return training(kind="all_to_all")


@edge
def five_steps(over: bool) -> TraceBuilder:
    return training(OWN[:5] if over else OWN[:4], OTHER[:5] if over else OTHER[:4])


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")
