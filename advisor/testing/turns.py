"""Ranks whose launching threads stop now and then: in turn, as too few cores make them, or each by itself; for tests of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as numbers

from advisor.testing.builder import TraceBuilder
from advisor.testing.timeline import Work

Slots = Iterator[tuple[int, int]]
"""When a thread runs: start and end in us, one after the other."""
OP_US, KERNEL_US, MESSAGE_US = 100, 20, 1_000
_OPS = ("aten::add", "aten::mul", "aten::view", "aten::sub", "aten::exp")


def in_turn(rank: int, *, ranks: int, cores: int) -> Slots:
    """Slots of one of some ranks on fewer cores: each core goes from one of its ranks to the next, after 4 to 6 ms."""
    core, place, sharing = rank % cores, rank // cores, len(range(rank % cores, ranks, cores))
    at = 0
    for turn in numbers():
        end = at + 4_000 + (turn * 7 + core * 3) % 19 * 100
        if turn % sharing == place:
            yield at, end
        at = end


def by_itself(rank: int, *, ranks: int, cores: int) -> Slots:
    """Slots as long as those of ``in_turn``, at random: each rank runs as often, whatever the others do."""
    seed = 12_345 + 7_919 * rank
    at = rank * 1_700 % 9_000
    while True:
        seed = (seed * 1_103_515_245 + 12_345) % (1 << 31)
        length = 4_000 + seed // 65_536 % 19 * 100
        yield at, at + length
        at += length + length * (ranks - cores) // cores * (50 + seed // 1_024 % 101) // 100


def launching_ranks(
    slots: Callable[..., Slots] = in_turn,
    *,
    ranks: int = 4,
    cores: int = 1,
    steps: int = 4,
    ops: int = 200,
    devices: int = 8,
    clock_ns: Mapping[int, int] | None = None,
    waits: str = "",
) -> list[TraceBuilder]:
    """Ranks that launch *ops* kernels a step from operators of 100 us and then take part in an all-reduce, that the next step's
    kernels wait for. Whatever is going on when a thread stops lasts until it runs again; where it *waits* in a call of that name
    (``"-"``: in Python, where nothing is recorded), it was not stopped."""
    plans = [_plan(slots(rank, ranks=ranks, cores=cores), steps, ops) for rank in range(ranks)]
    latest = [max(plan[step][-1][1] for plan in plans) for step in range(steps)]
    return [
        _build(rank, plan, latest, ranks, devices, (clock_ns or {}).get(rank, 0), waits)
        for rank, plan in enumerate(plans)
    ]


def _plan(slots: Slots, steps: int, ops: int) -> list[list[tuple[int, int]]]:
    """Start and end of each operator of each step."""
    at, end = next(slots)
    plan: list[list[tuple[int, int]]] = []
    for _ in range(steps):
        step: list[tuple[int, int]] = []
        for _ in range(ops):
            start = at
            if (left := end - at) >= OP_US:
                at += OP_US
            else:
                began, end = next(slots)
                at = began + OP_US - left
            step.append((start, at))
        plan.append(step)
    return plan


def _build(
    rank: int,
    plan: Sequence[Sequence[tuple[int, int]]],
    latest: Sequence[int],
    ranks: int,
    devices: int,
    ahead: int,
    waits: str,
) -> TraceBuilder:
    b = TraceBuilder(
        "NVIDIA A100-SXM4-80GB", rank=rank, world_size=ranks, devices=devices, base_ns=1_700_000_000_000_000_000 + ahead,
        pid=4_000 + rank, host_us=2, with_stack=False,
    )  # fmt: skip
    before: list[Work] = []
    device = rank % devices
    layer = numbers()  # each its own: turns of one length end at the same places of each step, as no real ones do
    for step, last in zip(plan, latest, strict=True):
        b.seek(step[0][0])
        with b.step():
            for number, (start, end) in enumerate(step):
                b.seek(max(start, b.now_ns // 1000))
                with b.annotation(f"layer {next(layer)}"), b.op(_OPS[number % 5]):
                    b.kernel("vectorized_elementwise_kernel", us=KERNEL_US, device=device, after=before)
                    if not waits or end - start <= OP_US:
                        b.seek(end - 1)
                if waits and end - start > OP_US:
                    if waits != "-":
                        with b.op(waits):
                            b.seek(end - 2)
                    b.seek(end - 1)
            at = step[-1][1]
            before = [
                b.collective(
                    "all_reduce", 4_000_000, us=max(last - at, 0) + MESSAGE_US, device=device, after=before, host_us=1
                )
            ]
    return b
