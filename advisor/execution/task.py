"""The work on one trace, as it is done in any process: settings and an address in, an analysis and a digest out, as bytes."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from advisor.errors import NotATrace, TraceError
from advisor.execution.messages import Result, Settings, pack
from advisor.reading.remote import public
from advisor.results.version import __version__
from advisor.trace import without_gc


def work(address: str, settings: bytes, name: str = "") -> bytes:
    """Read and analyze the trace at *address*, which reports call *name*. Never raises for what is wrong with the file."""
    return msgspec.msgpack.encode(_result(address, _decoded(settings), public(name or address)))


def _result(address: str, settings: Settings, name: str) -> Result:
    if settings.version != __version__:
        return Result()
    from advisor.ranks.digest import digest

    try:
        trace = settings.read(address, source=name)
        with without_gc():
            analysis, summary = pack(settings.analyze(trace)), pack(digest(trace))
    except TraceError as error:
        return Result(error=str(error), foreign=isinstance(error, NotATrace))
    return Result(analysis=analysis, digest=summary, cache_problem=trace.keep())


@lru_cache(maxsize=2)
def _decoded(settings: bytes) -> Settings:
    return msgspec.msgpack.decode(settings, type=Settings)
