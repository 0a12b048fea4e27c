"""The work on one trace as it travels between processes: settings and an address out, what came of it back.

Both travel as msgpack, which msgspec checks against their types; nothing that a trace says is ever unpickled. What reads and
analyzes is imported where it is used: a process that only gives out work and gathers results has no need of it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from isal import isal_zlib

from advisor.cache import codec
from advisor.errors import AdvisorError
from advisor.frames import SCHEMAS
from advisor.hardware import Hardware
from advisor.results.version import __version__
from advisor.rulebook import Rule, Rulebook

if TYPE_CHECKING:
    from advisor.ranks.digest import Digest
    from advisor.results.analysis import Analysis
    from advisor.trace import Trace

Part = TypeVar("Part")


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
        from advisor.trace import read

        return read(address, libraries=self.libraries, rates=self.rates, **reading, **more)

    def analyze(self, trace: Trace) -> Analysis:
        """Analyze a trace as the settings say."""
        from advisor.pipeline import analyze

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
    """The result of one trace: an analysis with its digest, or an error.

    Both stay packed until they are asked for: of a thousand ranks the objects are most of the memory, while processes that read
    the rest have theirs.
    """

    version: str = __version__
    analysis: bytes = b""
    digest: bytes = b""
    error: str = ""
    foreign: bool = False
    """True where the file is sound, but no trace."""
    cache_problem: str = ""
    """Reason why the trace could not be put into the cache, where that was asked for."""


def pack(value: Analysis | Digest) -> bytes:
    """Encode and deflate a part of a result."""
    packed: bytes = isal_zlib.compress(codec.encode(value), 1)
    return packed


def unpack(packed: bytes, kind: type[Part]) -> Part:
    """Return what was packed. Raises ``AdvisorError`` where it is nothing of that kind."""
    try:
        return codec.decode(isal_zlib.decompress(packed), kind)
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub says an instance
        raise AdvisorError(f"these bytes are no {kind.__name__}: {error}") from None


def encode(settings: Settings) -> bytes:
    """Encode settings to travel."""
    return msgspec.msgpack.encode(settings)


def decode(result: bytes) -> Result:
    """Decode a worker's result. Raises ``AdvisorError`` where it is none."""
    try:
        return msgspec.msgpack.decode(result, type=Result)
    except (ValueError, RecursionError) as error:
        raise AdvisorError(f"these bytes hold no result: {error}") from error
