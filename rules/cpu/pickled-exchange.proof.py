"""Proof of cpu/pickled-exchange: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

TORCH = "site-packages/torch/distributed/distributed_c10d.py"
USER = "metric.py(40): update;train.py(9): main"


def exchanging(
    size: int = 1 << 20, *, called: str = "all_gather_object", stacks: bool = True, device: str | None = None
) -> TraceBuilder:
    """Four steps of 10 ms, and an exchange of objects: 1 ms of pickling, 2 of waiting, 1 of unpickling, and 0.1 of operators."""
    b = TraceBuilder(device, world_size=2, rank=0, backend="gloo", host_us=0)

    def op(name: str, frames: str, shapes: list[object], us: float = 20) -> None:
        args = {"Call stack": ";".join(f"{TORCH}({line}): {name}" for line, name in frames_of(frames)) + ";" + USER}
        with b.op(name, us=us, shapes=shapes, args=args if stacks else {}):
            pass

    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_linear", us=10_000, args={"Call stack": "train.py(8): main"} if stacks else {}):
                pass
            b.idle(us=1_000)
            op("aten::empty", "_object_to_tensor", [[], []])
            op("aten::to", "_object_to_tensor", [[size], []])
            op("c10d::allgather_", f"all_gather {called}", [[[size]], [], []])
            with b.thread(77), b.annotation("gloo:all_gather", us=2_000):
                pass
            op("aten::select", called, [[2 * size], [], []])
            b.idle(us=1_000)
            op("aten::set_", "_tensor_to_object", [[size], []])
    return b


def frames_of(functions: str) -> list[tuple[int, str]]:
    return [(3400 + number, name) for number, name in enumerate(functions.split())]


# All of the exchange: 4.1 ms of each step of 14.1.
@fires(cost_ms=4.1, cost_share=4.1 / 14.1, occurrences=4, severity="high", line="metric.py:40")
def predictions_that_are_gathered_as_objects() -> TraceBuilder:
    return exchanging()


@fires(cost_ms=4.1, occurrences=4)
def predictions_that_one_rank_gathers() -> TraceBuilder:
    return exchanging(called="gather_object")


# A state that one rank gives to the others: nothing of it is a metric.
@quiet
def a_list_of_objects_that_one_rank_sends() -> TraceBuilder:
    return exchanging(called="broadcast_object_list")


@quiet
def parts_that_one_rank_gives_out() -> TraceBuilder:
    return exchanging(called="scatter_object_list")


@quiet
def a_tensor_that_is_gathered() -> TraceBuilder:
    b = TraceBuilder(None, world_size=2, rank=0, backend="gloo", host_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_linear", us=10_000):
                pass
            stack = {"Call stack": f"{TORCH}(4191): all_gather;{USER}"}
            with b.op("c10d::allgather_", us=20, shapes=[[[1 << 20]], [], []], args=stack):
                pass
            with b.thread(77), b.annotation("gloo:all_gather", us=2_000):
                pass
    return b


@edge
def sixty_four_kilobytes(over: bool) -> TraceBuilder:
    return exchanging(size=(1 << 16) if over else (1 << 15) - 1)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = exchanging(device="Tesla V100-SXM2-16GB")
    with b.op("aten::mm"):
        b.kernel("sgemm", us=50)
    return b


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return exchanging(stacks=False)
