"""Many traces: each analyzed where the work runs, what comes back put together here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import msgspec

from advisor.execution import pool as local
from advisor.execution import task as work
from advisor.execution.cluster import cluster
from advisor.pipeline import combine
from advisor.ranks.digest import Digest
from advisor.ranks.summary import AT_LENGTH, at_length
from advisor.ranks.wire import unpack
from advisor.reading import remote
from advisor.results.analysis import Across, Analysis, Finding

Shared = TypeVar("Shared")


@dataclass
class Many:
    """What the traces came to. ``failed`` are traces that could not be read, ``foreign`` sound files that are no traces;
    each says which file and why."""

    analyses: list[Analysis]
    across: Across | None
    failed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unkept: str = ""
    """Why the cache could not keep what was read; empty where it could, or was not asked to."""


def run(
    addresses: Sequence[str],
    asked: work.Settings,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    say: Callable[[str], None] = lambda _text: None,
    foreign: Callable[[str], bool] = lambda _address: False,
) -> Many:
    """Analyze all of *addresses*: on the cluster of *scheduler*, else in *jobs* processes (None: as many as pay).

    What comes of it does not depend on where. A file that is no trace counts as failed unless *foreign* expects such.
    Raises ``UsageError`` where the cluster, or a package for an address, is missing.
    """
    first = msgspec.structs.replace(asked, views=asked.views and len(addresses) <= AT_LENGTH)
    made = Many([], None)
    kept: list[tuple[str, Analysis, Digest]] = []
    sharing = _Sharing()
    found: dict[int, tuple[Analysis, Digest]] = {}
    wrong: dict[int, work.Result] = {}
    say(f"analyzing {len(addresses):,} traces")
    for index, result in _running(addresses, first, jobs, scheduler, say):
        say(f"analyzed {len(found) + len(wrong) + 1:,} of {len(addresses):,}: {remote.shown(addresses[index])}")
        if result.analysis is None or result.digest is None:
            wrong[index] = result
        else:
            found[index] = sharing.of(result.analysis), unpack(result.digest)
            made.unkept = made.unkept or result.unkept
    for index, result in sorted(wrong.items()):
        (made.foreign if result.foreign and foreign(addresses[index]) else made.failed).append(result.error)
    kept = [(addresses[index], *found.pop(index)) for index in sorted(found)]
    digests = [digest for _, _, digest in kept]
    made.analyses, made.across = combine(
        [analysis for _, analysis, _ in kept], digests, asked.book, only=asked.only, skip=asked.skip
    )
    if asked.views and not first.views:
        _view(made, [address for address, _, _ in kept], asked, jobs, scheduler, say)
    return made


def _running(
    addresses: Sequence[str],
    asked: work.Settings,
    jobs: int | None,
    scheduler: str | None,
    say: Callable[[str], None],
) -> Iterator[tuple[int, work.Result]]:
    if scheduler is not None:
        return cluster(addresses, asked, scheduler, say)
    size = local.choose(addresses, jobs)
    return local.pool(addresses, asked, size) if size > 1 else local.serial(addresses, asked)


def _view(
    made: Many,
    addresses: Sequence[str],
    asked: work.Settings,
    jobs: int | None,
    scheduler: str | None,
    say: Callable[[str], None],
) -> None:
    """Views of those that are told of at length: they are read once more, now that it is known which they are."""
    shown = at_length(made.analyses, made.across)
    say(f"drawing {len(shown)} of {len(addresses):,} traces")
    for position, result in _running([addresses[index] for index in shown], asked, jobs, scheduler, say):
        if result.analysis is not None:
            index = shown[position]
            made.analyses[index] = msgspec.structs.replace(made.analyses[index], views=result.analysis.views)


class _Sharing:
    """What findings of one rule say alike in every trace is kept once: of a thousand ranks it would be most of the memory."""

    def __init__(self) -> None:
        self._kept: dict[object, object] = {}

    def of(self, analysis: Analysis) -> Analysis:
        """*analysis* with the texts of those before it."""
        replace = msgspec.structs.replace
        return replace(
            analysis,
            findings=[self._finding(finding) for finding in analysis.findings],
            verdicts=self._same(analysis.verdicts),
        )

    def _finding(self, finding: Finding) -> Finding:
        return msgspec.structs.replace(
            finding,
            title=self._same(finding.title),
            why=self._same(finding.why),
            fix=self._same(finding.fix),
            references=self._same(finding.references),
        )

    def _same(self, value: Shared) -> Shared:
        key = value if isinstance(value, str) else msgspec.msgpack.encode(value)
        kept = self._kept.setdefault(key, value)
        return cast(Shared, kept)
