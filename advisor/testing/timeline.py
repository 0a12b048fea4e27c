"""The clocks of a built trace: a cursor on each host thread, the end of the queue on each stream, and the ids between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from advisor.testing.layout import Event, Verbatim

Micros = int | float | Decimal


@dataclass
class Span:
    """An interval, in ns since the start of the recording."""

    start_ns: int
    end_ns: int

    @property
    def dur_ns(self) -> int:
        """Length in ns."""
        return self.end_ns - self.start_ns


@dataclass
class Work(Span):
    """GPU work, and the call that launched it (None where that lies outside the recording)."""

    correlation: int
    device: int
    stream: int
    call: Span | None = None


@dataclass
class Allocation(Span):
    """Memory that was taken at ``start_ns``; hand it to ``release``."""

    nbytes: int
    address: int
    device: int


@dataclass
class Thread:
    """A host thread: its clock, and the events that are open on it."""

    tid: int
    cursor_ns: int
    open: list[Event] = field(default_factory=list)
    frames: list[tuple[int, str]] = field(default_factory=list)


def ns(us: Micros | None = None, ms: Micros | None = None) -> int:
    """Convert a time given in us or ms (not both) to ns."""
    if (us is None) == (ms is None):
        raise ValueError("say how long: us=… or ms=…, one of the two")
    value = ns_of(us, 1000) if us is not None else ns_of(ms, 1_000_000)
    if value < 0:
        raise ValueError(f"a duration cannot be negative, and this one is {value} ns")
    return value


def ns_of(value: Micros | None, scale: int) -> int:
    """Multiply *value* by *scale*, rounded to an integer."""
    return round((Decimal(repr(value)) if isinstance(value, float) else Decimal(value or 0)) * scale)


class Timeline:
    """Events with exact integer times, and all counters that Kineto numbers them by."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.events: list[Event | Verbatim] = []
        self.threads: dict[int, Thread] = {}
        self.thread = self.thread_numbered(pid)
        self.streams: dict[tuple[int, int], int] = {}
        self.works: list[Work] = []
        self.end_ns = 0
        self.counts: dict[str, int] = {}

    # ---- numbers

    def next(self, counter: str, step: int = 1) -> int:
        """Move a counter on, and return its number: without *step* the next, from 1."""
        self.counts[counter] = self.counts.get(counter, 0) + step
        return self.counts[counter]

    def index(self) -> int:
        """Return the next ``Ev Idx``, from 0."""
        return self.next("index") - 1

    # ---- the host

    def thread_numbered(self, tid: int) -> Thread:
        """Return the thread, created where it is new."""
        return self.threads.setdefault(tid, Thread(tid, 0))

    def advance(self, to_ns: int) -> None:
        """Move the current thread's cursor on; never back."""
        self.thread.cursor_ns = max(self.thread.cursor_ns, to_ns)
        self.end_ns = max(self.end_ns, self.thread.cursor_ns)

    def add(self, event: Event) -> Event:
        """Keep an event."""
        self.events.append(event)
        self.end_ns = max(self.end_ns, event.end_ns)
        return event

    def host(self, category: str, name: str, end_ns: int, args: dict[str, Any]) -> Event:
        """Add an event on the current thread, from its cursor on."""
        thread = self.thread
        frames = tuple(frame for _, frame in reversed(thread.frames) if not frame.startswith("nn.Module: "))
        return self.add(Event(category, name, self.pid, thread.tid, thread.cursor_ns, end_ns, args, stack=frames))

    @contextmanager
    def within(self, event: Event | None, least_ns: int) -> Iterator[Span]:
        """Record the body of a `with` as one event: it ends with the body, and lasts *least_ns* at least."""
        thread = self.thread
        span = Span(thread.cursor_ns, thread.cursor_ns)
        if event is not None:
            thread.open.append(event)
        try:
            yield span
        finally:
            thread.cursor_ns = max(thread.cursor_ns, span.start_ns + least_ns)
            self.end_ns = max(self.end_ns, thread.cursor_ns)
            span.end_ns = thread.cursor_ns
            if event is not None:
                event.end_ns = span.end_ns
                thread.open.pop()

    def external_id(self) -> int | None:
        """Return the id of the innermost operator that is open here. Annotations do not count, as in Kineto."""
        events = reversed(self.thread.open)
        return next((event.args["External id"] for event in events if event.category == "cpu_op"), None)

    def call(self, name: str, end_ns: int, args: dict[str, Any], *, driver: bool = False) -> Event:
        """Add a runtime or driver call from the cursor to *end_ns*; the cursor moves there."""
        external = self.external_id()
        full: dict[str, Any] = {} if external is None else {"External id": external}
        full |= args | {"correlation": self.next("correlation")}
        event = self.host("cuda_driver" if driver else "cuda_runtime", name, end_ns, full)
        self.advance(end_ns)
        return event

    # ---- the device

    def free_ns(self, device: int, stream: int | None = None) -> int:
        """Return the time at which the stream runs dry; the whole device where no stream is named."""
        return max((end for (d, s), end in self.streams.items() if d == device and stream in (None, s)), default=0)

    def work(
        self, category: str, name: str, span: Span, device: int, stream: int, args: dict[str, Any], call: Event | None
    ) -> Work:
        """Add GPU work at a given time."""
        correlation = self.next("correlation") if call is None else int(call.args["correlation"])
        external = call.args.get("External id") if call is not None else None
        full: dict[str, Any] = {} if external is None else {"External id": external}
        full |= args | {"correlation": correlation}
        event = Event(category, name, device, stream, span.start_ns, span.end_ns, full)
        if call is not None:
            call.flow, event.flow = "s", "f"
        self.add(event)
        key = (device, stream)
        self.streams[key] = max(self.streams.get(key, 0), span.end_ns)
        launch = None if call is None else Span(call.start_ns, call.end_ns)
        work = Work(span.start_ns, span.end_ns, correlation, device, stream, launch)
        self.works.append(work)
        return work

    def covered(self, works: Iterable[Work]) -> dict[tuple[int, int], Span]:
        """Return the span from first start to last end of some work, per device and stream."""
        out: dict[tuple[int, int], Span] = {}
        for work in works:
            span = out.setdefault((work.device, work.stream), Span(work.start_ns, work.end_ns))
            span.start_ns, span.end_ns = min(span.start_ns, work.start_ns), max(span.end_ns, work.end_ns)
        return out
