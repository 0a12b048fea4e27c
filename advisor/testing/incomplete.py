"""Traces that lack one thing and hold nothing odd besides, for the ``@lacks`` cases of proofs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from advisor.testing.builder import TraceBuilder


def kernels_alone(name: str, **options: Any) -> TraceBuilder:
    """Build a kernel and nothing of the host, as ``activities=[ProfilerActivity.CUDA]`` records; *options* are the builder's."""
    b = TraceBuilder(**options)
    b.kernel(name, ms=90, launched=False)
    return b


def launches_alone(
    *ops: str, annotation: str = "", backward: str = "", shapes: Sequence[Any] | None = None, **options: Any
) -> TraceBuilder:
    """Build a step that launches a kernel from within *ops*, and no GPU work, as ``activities=[ProfilerActivity.CPU]`` records.

    The operators lie inside one another, within an *annotation* and a node *backward* of the graph where these are named;
    *shapes* are those of each operator, *options* the builder's.
    """
    b = TraceBuilder(**options)
    with _step(b, ops, annotation, backward, shapes):
        b.call("cudaLaunchKernel", 10)
    return b


def host_alone(*ops: str, annotation: str = "") -> TraceBuilder:
    """Build a step on a machine without a GPU: 1 ms in *ops*, one inside another, within an *annotation* where one is named."""
    b = TraceBuilder(None)
    with _step(b, ops, annotation):
        b.idle(ms=1)
    return b


@contextmanager
def _step(
    b: TraceBuilder, ops: Sequence[str], annotation: str, backward: str = "", shapes: Sequence[Any] | None = None
) -> Iterator[None]:
    with b.step(), ExitStack() as outer:
        if annotation:
            outer.enter_context(b.annotation(annotation))
        if backward:
            outer.enter_context(b.backward(backward, 1))
        for op in ops:
            outer.enter_context(b.op(op, shapes=shapes))
        yield


def copies_unsaid() -> TraceBuilder:
    """Build three steps, each with a copy to the device without its bytes and its host memory, as older ROCm writes them."""
    b = TraceBuilder("AMD Instinct MI250X")
    place = {"cat": "gpu_memcpy", "pid": 0, "tid": 0, "args": {"device": 0, "stream": 0, "kind": "HtoD"}}
    for _ in range(3):
        with b.step():
            b.event({"ph": "X", "name": "Memcpy HtoD (Host -> Device)", **place}, us=1000)
            b.idle(us=1000)
            b.kernel("Cijk_Ailk_Bjlk_SB", us=9000)
    return b
