"""The host's side of a built trace: cursors, operators, annotations, Python frames, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from advisor.testing.layout import Event
from advisor.testing.timeline import Allocation, Micros, Span, Timeline, ns

_BLOCK = 2 << 20  # the caching allocator reserves in blocks of 2 MiB
_CPU, _CUDA, _HIP = 0, 1, 6  # c10::DeviceType


class HostSide:
    """The host's threads of a process. Everything that takes time moves the current thread's cursor on."""

    def __init__(self, line: Timeline, *, features: Mapping[str, bool], hip: bool, first_step: int) -> None:
        self._line = line
        self._features = dict(features)
        self._hip = hip
        self._next_step = first_step
        self.allocated: dict[int, int] = {}
        self.reserved: dict[int, int] = {}

    # ---- time on the host

    @property
    def now_ns(self) -> int:
        """Time of the current thread's cursor, in ns."""
        return self._line.thread.cursor_ns

    def idle(self, us: Micros | None = None, *, ms: Micros | None = None) -> Span:
        """Let the host spend time in which nothing is recorded: Python, another library."""
        start = self.now_ns
        self._line.advance(start + ns(us, ms))
        return Span(start, self.now_ns)

    def seek(self, us: Micros | None = None, *, ms: Micros | None = None) -> Span:
        """Move the cursor to a time since the start of the recording. It goes forward only."""
        start, to = self.now_ns, ns(us, ms)
        if to < start:
            raise ValueError(f"the cursor stands at {start} ns and cannot go back to {to} ns")
        self._line.advance(to)
        return Span(start, to)

    @contextmanager
    def thread(self, tid: int, *, join: bool = True) -> Iterator[Span]:
        """Run the calls of the body on another thread, from now on; with *join* the caller waits until they are done."""
        outer, inner = self._line.thread, self._line.thread_numbered(tid)
        inner.cursor_ns = max(inner.cursor_ns, outer.cursor_ns)
        span = Span(inner.cursor_ns, inner.cursor_ns)
        self._line.thread = inner
        try:
            yield span
        finally:
            span.end_ns = inner.cursor_ns
            self._line.thread = outer
            if join:
                self._line.advance(inner.cursor_ns)

    # ---- what the host is in

    @contextmanager
    def step(self, number: int | None = None, *, gpu: bool = False, us: Micros = 0) -> Iterator[Span]:
        """Mark one iteration, ``ProfilerStep#N``; with *gpu* also its copies on the GPU's side."""
        number = self._next_step if number is None else number
        self._next_step = number + 1
        with self.annotation(f"ProfilerStep#{number}", gpu=gpu, us=us) as span:
            yield span

    @contextmanager
    def annotation(self, name: str, *, gpu: bool = False, us: Micros = 0) -> Iterator[Span]:
        """Add a ``user_annotation``: record_function, an optimizer's step, a loader's wait."""
        before = len(self._line.works)
        event = self._host_event("user_annotation", name, {})
        with self._line.within(event, ns(us)) as span:
            yield span
        if gpu:
            for (device, stream), cover in self._line.covered(self._line.works[before:]).items():
                # Kineto widens its copy by a ns on either side.
                args = {"External id": event.args["External id"]}
                self._line.add(
                    Event("gpu_user_annotation", name, device, stream, cover.start_ns - 1, cover.end_ns + 1, args)
                )

    @contextmanager
    def loader(self, us: Micros | None = None, *, ms: Micros | None = None, workers: int = 0) -> Iterator[Span]:
        """Add a wait for the next batch: at least so long; the time of the body counts into it."""
        kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
        event = self._host_event("user_annotation", f"enumerate(DataLoader)#{kind}.__next__", {})
        with self._line.within(event, 0 if us is None and ms is None else ns(us, ms)) as span:
            yield span

    @contextmanager
    def op(
        self,
        name: str,
        *,
        shapes: Sequence[Any] | None = None,
        dtypes: Sequence[str] | None = None,
        values: Sequence[str] | None = None,
        strides: Sequence[Any] | None = None,
        seq: int | None = None,
        fwd_thread: int = 0,
        us: Micros = 0,
        args: Mapping[str, Any] | None = None,
    ) -> Iterator[Span]:
        """Add an operator. *seq* ties a forward operator to its backward; *fwd_thread* is not 0 on the backward's side."""
        full: dict[str, Any] = {}
        if seq is not None:
            full |= {"Sequence number": seq, "Fwd thread id": fwd_thread}
        if shapes is not None and self._features["record_shapes"]:
            full["Concrete Inputs"] = list(values) if values is not None else [""] * len(shapes)
            full["Input type"] = list(dtypes) if dtypes is not None else ["float" if shape else "" for shape in shapes]
            if strides is not None:
                full["Input Strides"] = list(strides)
            full["Input Dims"] = list(shapes)
        with self._line.within(self._host_event("cpu_op", name, full | dict(args or {})), ns(us)) as span:
            yield span

    @contextmanager
    def backward(self, name: str, seq: int, *, shapes: Sequence[Any] | None = None, us: Micros = 0) -> Iterator[Span]:
        """Add a node of the autograd graph as its engine runs it, tied to the forward operator with the same *seq*."""
        with (
            self.op(f"autograd::engine::evaluate_function: {name}", seq=seq, fwd_thread=1, us=us) as span,
            self.op(name, seq=seq, fwd_thread=1, shapes=shapes),
        ):
            yield span

    def python(self, name: str, *, us: Micros = 0) -> AbstractContextManager[Span]:
        """Add a Python frame, named as the profiler does: ``path/file.py(LINE): function``."""
        return self._frame(name, ns(us), {})

    def module(self, name: str, *, us: Micros = 0) -> AbstractContextManager[Span]:
        """Add a call of an nn.Module, named as the profiler counts them: ``Conv2d_3``."""
        return self._frame(f"nn.Module: {name}", ns(us), {"Python module id": int(name.rpartition("_")[2] or 0)})

    @contextmanager
    def _frame(self, name: str, least_ns: int, extra: dict[str, Any]) -> Iterator[Span]:
        if not self._features["with_stack"]:
            with self._line.within(None, least_ns) as span:
                yield span
            return
        frames, number = self._line.thread.frames, self._line.next("python")
        args = (
            {"Python parent id": frames[-1][0] if frames else None, "Python id": number}
            | extra
            | {"Ev Idx": self._line.index()}
        )
        event = self._line.host("python_function", name, self.now_ns, args)
        frames.append((number, name))
        try:
            with self._line.within(event, least_ns) as span:
                yield span
        finally:
            frames.pop()

    def _host_event(self, category: str, name: str, args: dict[str, Any]) -> Event:
        full = (
            {"External id": self._line.next("external"), "Record function id": 0}
            | args
            | {"Ev Idx": self._line.index()}
        )
        return self._line.host(category, name, self.now_ns, full)

    # ---- pauses that are nobody's work

    def gc(self, us: Micros | None = None, *, ms: Micros | None = None) -> Span:
        """Add a pause of Python's garbage collector."""
        with self._frame("Python GC", ns(us, ms), {}) as span:
            pass
        return span

    def overhead(self, name: str = "Activity Buffer Request", *, us: Micros, blocks: bool = True) -> Span:
        """Add time of the profiler itself or of lazy loading; with *blocks* the host stands still meanwhile."""
        span = Span(self.now_ns, self.now_ns + ns(us))
        self._line.add(Event("overhead", name, -1, 0, span.start_ns, span.end_ns))
        if blocks:
            self._line.advance(span.end_ns)
        return span

    def counters(self, name: str = "__missing__", *, us: Micros = 100) -> Span:
        """Add a range in which CUPTI read hardware counters; the host waits for it."""
        span = Span(self.now_ns, self.now_ns + ns(us))
        args = {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1024}
        self._line.add(Event("cuda_profiler_range", name, 0, 0, span.start_ns, span.end_ns, args))
        self._line.advance(span.end_ns)
        return span

    def taken_out(self, count: int) -> None:
        """Leave a number of events out of the file, as a tool that filters it does: their numbers are missing in it."""
        self._line.next("index", count)

    # ---- memory

    def pool(self, allocated: int, reserved: int, *, device: int = 0) -> None:
        """Set the bytes allocated and reserved before the recording began (device -1: the host)."""
        self.allocated[device], self.reserved[device] = allocated, reserved

    def memory(self, nbytes: int, *, device: int = 0, address: int | None = None) -> Allocation:
        """Add an allocation, or a free where *nbytes* is negative; totals are kept. The host's memory is device -1."""
        if address is None:
            address = 140_000_000_000_000 + (self._line.next("address") << 21)
        total = self.allocated[device] = self.allocated.get(device, 0) + nbytes
        reserved = self.reserved.get(device, 0)
        if device >= 0 and total > reserved:
            reserved = -(-total // _BLOCK) * _BLOCK
        self.reserved[device] = reserved
        if self._features["profile_memory"]:
            kind = _CPU if device < 0 else _HIP if self._hip else _CUDA
            args = {"Total Reserved": reserved, "Total Allocated": total, "Bytes": nbytes, "Addr": address}
            args |= {"Device Id": device, "Device Type": kind, "Ev Idx": self._line.index()}
            self._line.host("cpu_instant_event", "[memory]", self.now_ns, args)
        return Allocation(self.now_ns, self.now_ns, nbytes, address, device)

    def release(self, allocation: Allocation) -> Allocation:
        """Free an allocation of :meth:`memory`."""
        return self.memory(-allocation.nbytes, device=allocation.device, address=allocation.address)
