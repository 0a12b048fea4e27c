"""On this machine: one trace after the other in this process, or side by side in a pool of processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from advisor.errors import UsageError
from advisor.execution import task as work
from advisor.reading import remote
from advisor.results.version import __version__

# Measured on the project's machine: what a process takes to start and import; bytes of text that are read and analyzed a
# second; how many times larger text is than its gzip; memory of a process that has imported all, and for a byte of text.
_START_S, _TEXT_PER_S, _TRACE_S = 1.5, 50e6, 0.12
_RATIO = 20
_BASE_BYTES, _PER_BYTE = 220 << 20, 1.2
_HERE = ("-", "memory:")


def choose(addresses: Sequence[str], asked: int | None) -> int:
    """How many processes to use: *asked*, else as many as cores, memory and the size of the files make worth while."""
    if asked is not None and asked < 1:
        raise UsageError(f"--jobs {asked}: give at least 1")
    if len(addresses) < 2 or any(address.startswith(_HERE) for address in addresses):
        return 1  # what only this process has, it reads itself
    if asked is not None:
        return min(asked, len(addresses))
    texts = [_text_bytes(address) for address in addresses]
    room = max(1, int(available_bytes() * 0.7 / (_BASE_BYTES + _PER_BYTE * max(texts))))
    jobs = min(cores(), room, len(addresses))
    alone = sum(texts) / _TEXT_PER_S + _TRACE_S * len(texts)
    return jobs if alone - alone / jobs > _START_S else 1


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_bytes() -> int:
    """Memory that can be had: what the system says is available, and no more than the container's limit leaves."""
    found = []
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) << 10)
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text().strip() for name in ("max", "current"))
        if limit.isdecimal():
            found.append(max(int(limit) - int(used), 0))
    except (OSError, KeyError, ValueError):
        pass
    return min(found, default=4 << 30)


def _text_bytes(address: str) -> int:
    """About how much text a file holds; for what lies elsewhere, as much as a step of a small model."""
    if remote.is_url(address):
        return 20_000_000
    try:
        size = Path(address).stat().st_size
    except OSError:
        return 0
    return size * _RATIO if address.endswith(".gz") else size


def serial(addresses: Sequence[str], asked: work.Settings) -> Iterator[tuple[int, work.Result]]:
    """One after the other, here."""
    packed = work.packed(asked)
    for index, address in enumerate(addresses):
        yield index, work.opened(work.one(address, packed))


def pool(addresses: Sequence[str], asked: work.Settings, jobs: int) -> Iterator[tuple[int, work.Result]]:
    """Side by side, in the order in which they are done.

    Where a process dies, what was not done is done again in a new pool; where one dies there too, each of the rest in a
    process of its own, so that a trace that kills its reader (memory, a crash) costs its own result alone.
    """
    packed = work.packed(asked)
    left = dict(enumerate(addresses))
    for size in (jobs, jobs):
        for index, result in _round(left, packed, size):
            del left[index]
            yield index, result
        if not left:
            return
    for index, address in left.items():
        done = dict(_round({index: address}, packed, 1))
        died = f"{remote.shown(address)}: the process that read it was killed, three times. Is there too little memory?"
        yield index, done.get(index) or work.Result(version=__version__, error=died)


def _round(left: dict[int, str], packed: bytes, jobs: int) -> Iterator[tuple[int, work.Result]]:
    """What of *left* a pool gets done before it ends or breaks."""
    executor = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin, initargs=(packed,))
    try:
        futures: dict[Future[bytes], int] = {}
        try:
            for index, address in left.items():
                futures[executor.submit(_one, address)] = index
        except BrokenProcessPool:
            pass
        for future in as_completed(futures):
            try:
                made = future.result()
            except BrokenProcessPool:
                continue
            yield futures.pop(future), work.opened(made)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """A server that has imported everything once and forks from there; where there is none, fresh processes."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["advisor.execution.task"])
    return context


_packed = b""


def _begin(packed: bytes) -> None:
    """Once in each process of a pool."""
    global _packed
    _packed = packed
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback


def _one(address: str) -> bytes:
    return work.one(address, _packed)
