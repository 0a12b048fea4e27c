"""On this machine: one trace after the other in this process, or side by side in a pool of processes."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from pathlib import Path

from advisor.errors import UsageError
from advisor.execution import messages
from advisor.reading import machine, remote

# Measured on the project's machine: what a process takes to start and import; bytes of text that are read and analyzed a
# second; how many times larger text is than its gzip; memory of a process that has imported all, and for a byte of text.
_START_S, _TEXT_PER_S, _TRACE_S = 1.5, 50e6, 0.12
_RATIO = 20
_BASE_BYTES, _PER_BYTE = 220 << 20, 1.2
_HERE = ("-", "memory:")


def choose(addresses: Sequence[str], jobs: int | None) -> int:
    """Choose the number of processes: *jobs*, else as many as cores, memory and the size of the files make worth while."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: give at least 1")
    if len(addresses) < 2 or any(address.startswith(_HERE) for address in addresses):
        return 1  # what only this process has, it reads itself
    if jobs is not None:
        return min(jobs, len(addresses))
    texts = [_text_bytes(address) for address in addresses]
    room = max(1, int(machine.available_bytes() * 0.7 / (_BASE_BYTES + _PER_BYTE * max(texts))))
    most = min(machine.cores(), room, len(addresses))
    serial_s = sum(texts) / _TEXT_PER_S + _TRACE_S * len(texts)
    return most if serial_s - serial_s / most > _START_S else 1


def _text_bytes(address: str) -> int:
    """Estimate the text that a file holds; of one that lies elsewhere, as much as a step of a small model."""
    if remote.is_url(address):
        return 20_000_000
    try:
        size = Path(address).stat().st_size
    except OSError:
        return 0
    return size * _RATIO if address.endswith(".gz") else size


def serial(addresses: Sequence[str], settings: messages.Settings) -> Iterator[tuple[int, messages.Result]]:
    """Work on one trace after the other, in this process."""
    from advisor.execution import task

    encoded = messages.encode(settings)
    for index, address in enumerate(addresses):
        yield index, messages.decode(task.work(address, encoded))
        _let_go()


def pool(addresses: Sequence[str], settings: messages.Settings, jobs: int) -> Iterator[tuple[int, messages.Result]]:
    """Work on the traces side by side; results come in the order in which they are done.

    Where a process dies, what was not done is done again in a new pool; where one dies there too, each of the rest in a
    process of its own, so that a trace that kills its reader (memory, a crash) costs its own result alone.
    """
    encoded = messages.encode(settings)
    left = dict(enumerate(addresses))
    with _server_of_its_own():
        for size in (jobs, jobs):
            for index, result in _round(left, encoded, size):
                del left[index]
                yield index, result
            if not left:
                return
        for index, address in left.items():
            done = dict(_round({index: address}, encoded, 1))
            died = f"{remote.shown(address)}: the process that read it was killed, three times. Is there too little memory?"
            yield index, done.get(index) or messages.Result(error=died)


@contextmanager
def _server_of_its_own() -> Iterator[None]:
    """End the server when the work is done, unless somebody had started one before: it holds as much as this process then has
    to compare a thousand ranks.

    Python has no public call for that. Where the private one is missing the server ends with this process.
    """
    server = getattr(forkserver, "_forkserver", None)
    idle = getattr(server, "_forkserver_pid", 0) is None
    try:
        yield
    finally:
        stop = getattr(server, "_stop", None)
        if idle and stop is not None:
            with suppress(OSError):
                stop()


def _round(left: dict[int, str], settings: bytes, jobs: int) -> Iterator[tuple[int, messages.Result]]:
    """Yield the results of *left* from one pool, until it ends or breaks."""
    executor = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin, initargs=(settings,))
    try:
        futures: dict[Future[bytes], int] = {}
        try:
            for index, address in left.items():
                futures[executor.submit(_work, address)] = index
        except BrokenProcessPool:
            pass
        for future in as_completed(futures):
            try:
                result = future.result()
            except BrokenProcessPool:
                continue
            yield futures.pop(future), messages.decode(result)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """Choose a server that has imported everything once and forks from there; where there is none, fresh processes."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["advisor.execution.task"])
    return context


_settings = b""


def _begin(settings: bytes) -> None:
    """Set up a process of a pool."""
    global _settings
    _settings = settings
    machine.alone()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback


def _work(address: str) -> bytes:
    from advisor.execution import task  # what works, and not what gives out work

    try:
        return task.work(address, _settings)
    finally:
        _let_go()
        gc.freeze()  # what is there now stays: it need not be looked at again, which would take a twentieth of the time


def _let_go() -> None:
    """Free what a trace left, before the next one: what refers to itself, and what lies free. After forty traces of 4 MB that is
    30 of 128 MB."""
    gc.collect()
    machine.trim()
