"""Threads of an operator on the CPU: as many as there are cores."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.fix.arguments import set_to
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable

_NAME = "torch.set_num_threads"


def _make(request: Request) -> Iterator[Change]:
    advised = [s.advice for s in request.finding.settings if s.name == "torch.get_num_threads()" and s.advice]
    if not advised or not advised[0].isdigit():
        raise NotEditable("the recording does not say how many cores there are")
    count = advised[0]
    source = request.script()
    calls = source.calls(_NAME)
    if len(calls) > 1:
        raise NotEditable(f"{source.path} sets the threads {len(calls)} times")
    if calls:
        yield changed(source, set_to(source, calls[0], "int", count, 0), f"torch.set_num_threads({count})")
        return
    if "set_num_threads" in source.text or "OMP_NUM_THREADS" in source.text:
        raise NotEditable(f"{source.path} sets the threads in another way")
    torch = source.imported_as("torch")
    if torch is None:
        raise NotEditable(f"{source.path} does not import torch at its head")
    yield changed(
        source, [source.after_imports(f"{torch}.set_num_threads({count})")], f"torch.set_num_threads({count})"
    )


EDITS = (
    Edit("threads", "Use as many threads as there are cores", ("cpu/thread-oversubscription",), _make, moves=True),
)
