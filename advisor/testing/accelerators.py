"""Traces of accelerators by makers of their own: the runtime has a call for each kernel, and none for a copy."""

from __future__ import annotations

from typing import Any

from advisor.testing.builder import TraceBuilder
from advisor.testing.timeline import Micros, Span, ns

_MTIA = {"kernel": "ccp_events", "memcpy": "ccp_events"}


class Accelerator(TraceBuilder):
    """One trace of a device that *maker* names, as the categories of its events say: ``mtia``, ``mlu``, ``privateuse1``."""

    def __init__(self, maker: str = "mtia", **options: Any) -> None:
        super().__init__(None, **options)
        self.maker = maker
        self._jobs = 0

    def job(self, name: str, us: Micros, *, host_us: Micros = 20, waits: bool = False) -> Span:
        """Add a kernel and its call, which takes *host_us*; one that *waits* returns when the kernel has ended."""
        self._jobs += 1
        start, length = self.now_ns, ns(host_us)
        ended = length + ns(us) if waits else length
        self.event(
            {
                "ph": "X", "cat": f"{self.maker}_runtime", "name": "runFunction", "pid": self._line.pid,
                "tid": self._line.thread.tid, "args": {"correlation": self._jobs},
            },
            us=ended / 1000,
        )  # fmt: skip
        span = self._work("kernel", name, us, start + length, correlation=self._jobs)
        self.idle(us=ended / 1000)
        return span

    def transfer(self, us: Micros = 8, *, host_us: Micros = 200, waits: bool = True, name: str = "dma_request") -> Span:
        """Add a copy without a call, *host_us* from now; the host goes on then, or behind it where it *waits*."""
        start = self.now_ns + ns(host_us)
        span = self._work("memcpy", name, us, start)
        self.idle(us=host_us)
        if waits:
            self.idle(us=us)
        return span

    def _work(self, kind: str, name: str, us: Micros, start: int, **args: int) -> Span:
        category = f"{self.maker}_{_MTIA[kind] if self.maker == 'mtia' else kind}"
        facts = {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 4, "args": {"stream": 1, **args}}
        return self.event(facts, us=us, at_us=start / 1000)
