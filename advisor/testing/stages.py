"""Traces of the ranks of a pipeline: stages that pass activations and gradients to each other, on a known schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from advisor.testing.builder import TraceBuilder

FORWARD, BACKWARD = "forward", "backward"
_GPU = "NVIDIA A100-SXM4-80GB"
_KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_LEAD_US = 200
_REDUCE_US, _NORM_US, _OPTIMIZER_US = 500, 20, 500


@dataclass
class _Event:
    """A piece of a rank's work in one step: computation, or a message to or from the stage *other*."""

    what: str
    start: float
    end: float
    other: int = -1
    micro_batch: int = 0


@dataclass
class _Stage:
    free: float
    events: list[_Event] = field(default_factory=list)


def order(stage: int, stages: int, micro_batches: int, schedule: str) -> list[tuple[str, int]]:
    """Passes of one stage, in order: one forward, one backward (``1f1b``), or all forward, then all backward (``gpipe``)."""
    warm = micro_batches if schedule == "gpipe" else min(stages - stage - 1, micro_batches)
    passes = [(FORWARD, number) for number in range(warm)]
    for number in range(micro_batches - warm):
        passes += [(FORWARD, warm + number), (BACKWARD, number)]
    return passes + [(BACKWARD, number) for number in range(micro_batches - warm, micro_batches)]


def simulate(
    passes_us: Sequence[tuple[float, float]],
    micro_batches: int,
    schedule: str = "1f1b",
    message_us: float = 50,
    free_us: Sequence[float] = (),
) -> list[list[_Event]]:
    """Return the events of each stage in one step, from *free_us* on, else from 0; a message begins when both sides are there."""
    count = len(passes_us)
    stages = [_Stage(free_us[stage] if free_us else 0.0) for stage in range(count)]
    todo = [order(stage, count, micro_batches, schedule) for stage in range(count)]
    ready: dict[tuple[str, int, int], tuple[float, int]] = {}
    while any(todo):
        for number, passes in enumerate(todo):
            while passes and (_needs(passes[0], number, count) is None or (*passes[0], number) in ready):
                _run(stages, number, passes.pop(0), passes_us[number], ready, message_us)
    return [stage.events for stage in stages]


def _needs(one: tuple[str, int], stage: int, count: int) -> int | None:
    """The stage that a pass gets its input from."""
    other = stage - 1 if one[0] == FORWARD else stage + 1
    return other if 0 <= other < count else None


def _run(
    stages: list[_Stage], number: int, one: tuple[str, int], passes_us: tuple[float, float],
    ready: dict[tuple[str, int, int], tuple[float, int]], message_us: float,
) -> None:  # fmt: skip
    """Receive, compute and send one pass."""
    stage, (what, micro_batch) = stages[number], one
    source = _needs(one, number, len(stages))
    if source is not None:
        offered, place = ready[(*one, number)]
        end = max(stage.free, offered) + message_us
        stage.events.append(_Event("recv", stage.free, end, source, micro_batch))
        sender = stages[source]
        sender.events[place].end = end
        stage.free = end
    end = stage.free + passes_us[what == BACKWARD]
    stage.events.append(_Event(what, stage.free, end, micro_batch=micro_batch))
    stage.free = end
    target = number + (1 if what == FORWARD else -1)
    if 0 <= target < len(stages):
        ready[what, micro_batch, target] = (end, len(stage.events))
        stage.events.append(_Event("send", end, end, target, micro_batch))


def pipeline(
    passes_us: Sequence[tuple[float, float]],
    micro_batches: int,
    *,
    replicas: int = 1,
    schedule: str = "1f1b",
    message_us: float = 50,
    nbytes: int = 16_777_216,
    coalesced: bool = False,
    norm: bool = True,
    steps: int = 4,
    slow: Mapping[int, float] | None = None,
    shapes: bool = True,
) -> list[TraceBuilder]:
    """Build the ranks of *replicas* pipelines whose stages take *passes_us* (forward, backward) for a micro-batch.

    Rank ``stage * replicas + replica``, as Megatron numbers them. Behind the passes the copies of each stage meet in an all-reduce
    of 500 us, then (with *norm*) all ranks in one of 20 us, and the optimizer takes 500 us. *slow* ranks compute so many times as
    long. With *coalesced* a send and the receive behind it are one kernel, as ``batch_isend_irecv`` has it.
    """
    world = len(passes_us) * replicas
    free = [[0.0] * len(passes_us) for _ in range(replicas)]
    builders = [
        TraceBuilder(_GPU, rank=rank, world_size=world, host_us=1, latency_us=0, record_shapes=shapes)
        for rank in range(world)
    ]
    for _ in range(steps):
        plans = [
            simulate(
                _times(passes_us, replica, replicas, slow or {}), micro_batches, schedule, message_us, free[replica]
            )
            for replica in range(replicas)
        ]
        ends = [[max(event.end for event in events) for events in plan] for plan in plans]
        # Copies of a stage meet first, then all ranks.
        copies = [max(end[stage] for end in ends) + _REDUCE_US * (replicas > 1) for stage in range(len(passes_us))]
        for rank, b in enumerate(builders):
            stage, replica = divmod(rank, replicas)
            with b.step():
                group = [place * replicas + replica for place in range(len(passes_us))]
                _step(b, plans[replica][stage], _LEAD_US, group, stage, nbytes, coalesced)
                end = _LEAD_US + ends[replica][stage]
                if replicas > 1:
                    alike = [stage * replicas + place for place in range(replicas)]
                    until = _LEAD_US + copies[stage]
                    b.collective(
                        "all_reduce",
                        4_000_000,
                        us=until - end,
                        at_us=end,
                        group=f"copies of {stage}",
                        group_ranks=alike,
                    )
                    end = until
                if norm:
                    until = _LEAD_US + max(copies) + _NORM_US
                    b.collective("all_reduce", 4, us=until - end, at_us=end, stream=30)
                    end = until
                with b.annotation("Optimizer.step#AdamW.step"), b.op("aten::_fused_adamw_"):
                    b.kernel("multi_tensor_apply_kernel", us=_OPTIMIZER_US, at_us=end)
                free[replica][stage] = end + _OPTIMIZER_US - _LEAD_US
                b.sync("cudaDeviceSynchronize")
    return builders


def _times(
    passes_us: Sequence[tuple[float, float]], replica: int, replicas: int, slow: Mapping[int, float]
) -> list[tuple[float, float]]:
    factors = [slow.get(stage * replicas + replica, 1.0) for stage in range(len(passes_us))]
    return [
        (forward * factor, backward * factor) for (forward, backward), factor in zip(passes_us, factors, strict=True)
    ]


def _step(
    b: TraceBuilder, events: list[_Event], start: float, group: Sequence[int], stage: int, nbytes: int, coalesced: bool
) -> None:
    """Add the events of one step of a stage in the order of its calls."""
    at = 0
    while at < len(events):
        event = events[at]
        following = events[at + 1] if at + 1 < len(events) else None
        if event.what in (FORWARD, BACKWARD):
            _compute(b, event, start)
        elif coalesced:
            joined = [event]
            if (
                event.what == "send"
                and following is not None
                and following.what == "recv"
                and following.other == event.other
            ):
                joined.append(following)
                at += 1
            _coalesced(b, joined, start, group, stage, nbytes)
        else:
            with b.op("record_param_comms", args=record(event.what, event.other, group, nbytes)):
                sign = "->" if event.what == "send" else "<-"
                stream = 21 + 2 * (event.other > stage) + (event.what == "recv")
                with b.annotation(f"nccl:{event.what} {stage}{sign}{event.other}"):
                    b.kernel(_KERNEL, us=event.end - event.start, at_us=start + event.start, stream=stream)
        at += 1


def _coalesced(
    b: TraceBuilder, events: list[_Event], start: float, group: Sequence[int], stage: int, nbytes: int
) -> None:
    for event in events:
        with b.op("record_param_comms", args=record(event.what, event.other, group, nbytes)):
            pass
    begin, end = min(event.start for event in events), max(event.end for event in events)
    stream = 21 + (events[0].other > stage)
    if len(events) == 1:
        stream += 2 + 2 * (events[0].what == "recv")
    with b.annotation("nccl:coalesced"):
        b.kernel(_KERNEL, us=end - begin, at_us=start + begin, stream=stream)


def _compute(b: TraceBuilder, event: _Event, start: float) -> None:
    """Add a pass: three kernels one after another."""
    us, at = event.end - event.start, start + event.start
    size = [[4096, 4096], [4096, 4096]]
    with b.backward("MmBackward0", seq=1 + event.micro_batch) if event.what == BACKWARD else b.op("aten::linear"):
        for part in range(2):
            with b.op("aten::mm", shapes=size, seq=1 + event.micro_batch):
                b.kernel("ampere_bf16_s16816gemm_128x64_tn", us=us / 2, at_us=at + part * us / 2)


def record(what: str, other: int, group: Sequence[int], nbytes: int) -> dict[str, object]:
    """Return what c10d records of a message to or from the member *other* of a group."""
    peer = {"Dst Rank" if what == "send" else "Src Rank": group[other]}
    return {
        "Collective name": what,
        "dtype": "BFloat16",
        "In msg nelems": nbytes // 2,
        "Out msg nelems": nbytes // 2,
        "In split size": "[]",
        "Out split size": "[]",
        "Global rank start": group[0],
        "Global rank stride": 1 if len(group) < 2 else group[1] - group[0],
        "Group size": len(group),
        "Process Group Name": f"pipeline {group[0]}",
        "Process Group Description": "PIPELINE_MODEL_PARALLEL_GROUP",
        "Process Group Ranks": str(list(group)),
        "Rank": other,
    } | peer
