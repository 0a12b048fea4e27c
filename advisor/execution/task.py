"""The work on one trace, as it is done in any process: settings and an address in, an analysis and a digest out, as bytes.

Both travel as msgpack, which msgspec checks against their types; nothing that a trace says is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from advisor import rulebook
from advisor.cache import codec
from advisor.errors import NotATrace, TraceError
from advisor.frames import SCHEMAS
from advisor.pipeline import analyze
from advisor.ranks.digest import Digest, digest
from advisor.reading.remote import public, shown
from advisor.results.analysis import Analysis
from advisor.results.version import __version__
from advisor.rulebook import Rule, Rulebook
from advisor.trace import read, uncollected


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is done with every trace: the checked rules and how to read and analyze."""

    version: str
    rules: tuple[Rule, ...]
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    views: bool = False
    safe: bool = False
    what_if: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    digests: bool = True
    reading: Mapping[str, Any] = {}
    """Further arguments of ``advisor.read``."""

    @property
    def book(self) -> Rulebook:
        """The rules as the engine takes them."""
        return Rulebook(self.rules, SCHEMAS)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one trace came to. Either an analysis, with its digest where several were asked for, or what went wrong."""

    version: str
    analysis: Analysis | None = None
    digest: Digest | None = None
    error: str = ""
    foreign: bool = False
    """Whether the file is sound, but no trace."""
    unkept: str = ""
    """Why what was read could not be put into the cache, where that was asked for."""


def settings(
    book: Rulebook | None = None,
    *,
    only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (),
    views: bool = False,
    safe: bool = False,
    what_if: tuple[str, ...] = (),
    libraries: tuple[str, ...] = (),
    digests: bool = True,
    reading: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings of this version, with the rules of *book* (the built-in ones)."""
    rules = (book or rulebook.load([rulebook.builtin_rules_dir()])).rules
    return Settings(
        version=__version__,
        rules=rules,
        only=only,
        skip=skip,
        views=views,
        safe=safe,
        what_if=what_if,
        libraries=libraries,
        digests=digests,
        reading=reading or {},
    )


def packed(asked: Settings) -> bytes:
    """Settings as they travel."""
    return msgspec.msgpack.encode(asked)


def one(address: str, asked: bytes, name: str = "") -> bytes:
    """Read and analyze the trace at *address*, which reports call *name*. Never raises for what is wrong with the file."""
    return codec.encode(_result(address, _unpacked(asked), public(name or address)))


def _result(address: str, asked: Settings, name: str) -> Result:
    version = __version__
    if asked.version != version:
        return Result(version=version)
    try:
        try:
            trace = read(
                address,
                source=name,
                libraries=asked.libraries,
                **{name: _pair(value) for name, value in asked.reading.items()},
            )
        except OSError as error:
            raise TraceError(f"{shown(address)}: {error.strerror or error}") from error
    except NotATrace as error:
        return Result(version=version, error=str(error), foreign=True)
    except TraceError as error:
        return Result(version=version, error=str(error))
    with uncollected():
        analysis = analyze(
            trace,
            asked.book,
            only=asked.only,
            skip=asked.skip,
            views=asked.views,
            safe=asked.safe,
            what_if=asked.what_if,
        )
        small = digest(trace) if asked.digests else None
    return Result(version=version, analysis=analysis, digest=small, unkept=trace.keep())


def _pair(value: Any) -> Any:
    """An argument as it was before it travelled: pairs arrive as lists."""
    return tuple(value) if isinstance(value, list) else value


@lru_cache(maxsize=2)
def _unpacked(asked: bytes) -> Settings:
    return msgspec.msgpack.decode(asked, type=Settings)


def opened(made: bytes) -> Result:
    """What a worker returned. Raises ``AdvisorError`` where it is no result."""
    return codec.decode(made, Result)
