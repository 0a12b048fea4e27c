"""Ranks of a training on the CPU that meet in a collective of gloo's in each step; for tests of what only several ranks show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.testing.builder import TraceBuilder

ROW_US, EXCHANGE_US = 10, 500
Amounts = Mapping[int, Sequence[int]]
"""By rank: a figure for each step. A rank that is not listed has the usual one."""


def host_ranks(
    rows: Sequence[Sequence[int]] = ((1000,) * 6, (1000,) * 6),
    *,
    slower: Mapping[int, float] | None = None,
    extra_us: Amounts | None = None,
    host_us: Amounts | None = None,
    loader_us: Amounts | None = None,
    buckets: int = 1,
    shapes: bool = True,
    clock_ns: Mapping[int, int] | None = None,
) -> list[TraceBuilder]:
    """Build the steps of each rank: it loads its batch, computes 10 us a row (more where it is *slower*), then more operators for
    *extra_us* and Python for *host_us*, and all-reduces that end 0.5 ms after the last rank has come. With several *buckets* each
    but the last is in flight while a rank computes its next part."""
    count, steps = len(rows), len(rows[0])

    def figure(amounts: Amounts | None, rank: int, step: int) -> int:
        return (amounts or {}).get(rank, (0,) * steps)[step]

    builders = [
        TraceBuilder(
            None,
            rank=rank,
            world_size=count,
            backend="gloo",
            record_shapes=shapes,
            base_ns=1_700_000_000_000_000_000 + (clock_ns or {}).get(rank, 0),
        )
        for rank in range(count)
    ]
    start = 0
    for step in range(steps):
        parts = [int(ROW_US * rows[rank][step] * (slower or {}).get(rank, 1.0)) // buckets for rank in range(count)]
        before = [
            300 + sum(figure(amounts, rank, step) for amounts in (loader_us, extra_us, host_us))
            for rank in range(count)
        ]
        ends = [
            max(first + part * (bucket + 1) for first, part in zip(before, parts, strict=True)) + EXCHANGE_US
            for bucket in range(buckets)
        ]
        for rank, b in enumerate(builders):
            if step == 0:
                b.seek(0)
            with b.step():
                with b.loader(us=300 + figure(loader_us, rank, step)):
                    pass
                if extra := figure(extra_us, rank, step):
                    with b.op("aten::mkldnn_linear", us=extra, shapes=[[1000, 64], [64, 64]]):
                        pass
                b.seek(start + before[rank])  # Python, where there is some
                for bucket in range(buckets):
                    with b.op("aten::mkldnn_linear", us=parts[rank], shapes=[[rows[rank][step], 64], [64, 64]]):
                        pass
                    at = before[rank] + parts[rank] * (bucket + 1)
                    with (
                        b.thread(77 + bucket, join=bucket == buckets - 1),
                        b.annotation("gloo:all_reduce", us=ends[bucket] - at),
                    ):
                        pass
                with b.op("Optimizer.step#SGD.step", us=10):
                    pass
                b.seek(start + ends[-1] + 100)
        start += ends[-1] + 100
    return builders
