"""The work on one trace, as it is done in any process: settings and an address in, an analysis and a digest out, as bytes.

Both travel as msgpack, which msgspec checks against their types; nothing that a trace says is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from advisor.cache import codec
from advisor.errors import NotATrace, TraceError
from advisor.frames import SCHEMAS
from advisor.hardware import Hardware
from advisor.pipeline import analyze
from advisor.ranks.digest import Digest, digest
from advisor.reading.remote import public
from advisor.results.analysis import Analysis
from advisor.results.version import __version__
from advisor.rulebook import Rule, Rulebook
from advisor.trace import Trace, read, without_gc


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The checked rules, and how every trace is read and analyzed."""

    version: str = __version__
    rules: tuple[Rule, ...]
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    views: bool = False
    safe: bool = False
    what_if: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    rates: tuple[Hardware, ...] = ()
    reading: Mapping[str, Any] = {}
    """Further arguments of ``advisor.read``."""

    @property
    def rulebook(self) -> Rulebook:
        """The rules as the engine takes them."""
        return Rulebook(self.rules, SCHEMAS)

    def read(self, address: str, **more: Any) -> Trace:
        """Read the trace at *address*. Raises ``TraceError`` where it cannot be read."""
        # Pairs arrive from another process as lists.
        reading: Any = {name: tuple(arg) if isinstance(arg, list) else arg for name, arg in self.reading.items()}
        return read(address, libraries=self.libraries, rates=self.rates, **reading, **more)

    def analyze(self, trace: Trace) -> Analysis:
        """Analyze a trace as the settings say."""
        return analyze(
            trace,
            self.rulebook,
            only=self.only,
            skip=self.skip,
            views=self.views,
            safe=self.safe,
            what_if=self.what_if,
        )


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one trace: an analysis with its digest, or an error."""

    version: str = __version__
    analysis: Analysis | None = None
    digest: Digest | None = None
    error: str = ""
    foreign: bool = False
    """True where the file is sound, but no trace."""
    cache_problem: str = ""
    """Reason why the trace could not be put into the cache, where that was asked for."""


def encode(settings: Settings) -> bytes:
    """Encode settings to travel."""
    return msgspec.msgpack.encode(settings)


def work(address: str, settings: bytes, name: str = "") -> bytes:
    """Read and analyze the trace at *address*, which reports call *name*. Never raises for what is wrong with the file."""
    return codec.encode(_result(address, _decoded(settings), public(name or address)))


def _result(address: str, settings: Settings, name: str) -> Result:
    if settings.version != __version__:
        return Result()
    try:
        trace = settings.read(address, source=name)
    except TraceError as error:
        return Result(error=str(error), foreign=isinstance(error, NotATrace))
    with without_gc():
        analysis = settings.analyze(trace)
        summary = digest(trace)
    return Result(analysis=analysis, digest=summary, cache_problem=trace.keep())


@lru_cache(maxsize=2)
def _decoded(settings: bytes) -> Settings:
    return msgspec.msgpack.decode(settings, type=Settings)


def decode(result: bytes) -> Result:
    """Decode a worker's result. Raises ``AdvisorError`` where it is none."""
    return codec.decode(result, Result)
