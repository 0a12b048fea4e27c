"""Steps that several proofs are made of; a proof says what is odd about its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from advisor.regex import regex
from advisor.testing.builder import TraceBuilder

Part = Callable[[TraceBuilder], object]
"""Part of a step besides its work, as calls of the builder."""
GEMM = "volta_sgemm_128x64_nn"
_PRODUCT = regex("gem[mv]")


def kernels(*names: tuple[str, float], device: str = "Tesla V100-SXM2-16GB") -> TraceBuilder:
    """Build four steps of these kernels, each of its us, one by one: products in ``aten::addmm``, others in ``aten::add``."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            for name, us in names:
                with b.op("aten::addmm" if _PRODUCT.search(name) else "aten::add"):
                    b.kernel(name, us=us)
            b.sync()
    return b


def stalled(
    wait: Part | None,
    bubble_us: int = 1000,
    *,
    work_us: int = 8000,
    last_us: int = 1000,
    every: int = 1,
    steps: int = 4,
    ahead: bool = False,
) -> TraceBuilder:
    """Build steps of 8 ms of kernels, a *wait* for them, 1 ms in which the host launches nothing, and another ms of kernels.

    The host waits in one step of *every* so many; with *ahead* another stream has work for longer than the bubble lasts.
    """
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(steps):
        with b.step(), b.python("train.py(61): train"):
            first = b.kernel(GEMM, us=work_us)
            if wait is not None and number % every == 0:
                if ahead:
                    b.kernel(GEMM, us=2 * bubble_us, stream=20, after=[first])
                wait(b)
            with b.op("aten::add", us=bubble_us):
                pass
            b.kernel(GEMM, us=last_us)
            with b.op("aten::mul", us=last_us):
                pass
    return b


def behind(part: Part, *, work_us: float = 17_000, steps: int = 4, **options: Any) -> TraceBuilder:
    """Build steps of 17 ms of kernels behind a *part* of the host in which the GPU has nothing to do; *options* are the builder's.

    The launch takes as long as its kernel: so the next part begins when the GPU runs dry.
    """
    b = TraceBuilder(host_us=0, latency_us=0, **options)
    for _ in range(steps):
        with b.step(), b.python("train.py(20): main"):
            part(b)
            with b.op("aten::mm", us=work_us):
                b.kernel(GEMM, us=work_us)
    return b


def zeroed(
    zero: Part, count: int = 60, *, work_us: int = 9400, inside: str = "Optimizer.zero_grad#SGD.zero_grad"
) -> TraceBuilder:
    """Build four steps of 9.4 ms of kernels behind *count* tensors that are zeroed in ``aten::zero_``, in an annotation."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation(inside):
                for _ in range(count):
                    with b.op("aten::zero_"):
                        zero(b)
            with b.op("aten::mm"):
                b.kernel(GEMM, us=work_us)
                b.sync(us=0)
    return b


_RANK_STEP_US, _RANK_COMPUTE_US, _MESSAGE_US = 100_000, 60_000, 1_000


def ranks(
    late_us: Mapping[int, int],
    *,
    count: int = 4,
    rows: Mapping[int, int] | None = None,
    more_us: Mapping[int, int] | None = None,
    shapes: bool = True,
) -> list[TraceBuilder]:
    """Build four steps on each rank: a matrix product, then an all-reduce that ends when all have come and the message is through.

    A rank computes as much longer as *late_us* says, on as many rows as *rows* says (4096), and the others wait for the
    latest; *more_us* is computed behind the message, where nobody waits.
    """
    latest = max(late_us.values(), default=0)
    builders = []
    for rank in range(count):
        late = late_us.get(rank, 0)
        b = TraceBuilder("NVIDIA A100-SXM4-80GB", rank=rank, world_size=count, record_shapes=shapes)
        for number in range(4):
            with b.step():
                start = number * _RANK_STEP_US
                size = [[(rows or {}).get(rank, 4096), 4096], [4096, 4096]]
                with b.op("aten::mm", shapes=size):
                    b.kernel("ampere_sgemm_128x64_tn", us=_RANK_COMPUTE_US + late - 200, at_us=start + 200)
                b.collective(
                    "all_reduce", 4_000_000, us=latest - late + _MESSAGE_US, at_us=start + _RANK_COMPUTE_US + late
                )
                if after := (more_us or {}).get(rank, 0):
                    with b.op("aten::mm", shapes=[[4096, 4096], [4096, 4096]]):
                        b.kernel("ampere_sgemm_128x64_tn", us=after, at_us=start + _RANK_COMPUTE_US + latest + 2_000)
                b.seek((number + 1) * _RANK_STEP_US)
        builders.append(b)
    return builders
