"""One trace or many: each analyzed where the work runs, the results put together here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct, field

from advisor.counting import counted
from advisor.execution import messages
from advisor.execution.inputs import Inputs
from advisor.reading import containers, machine, remote
from advisor.results.analysis import Analysis
from advisor.results.ranks import Across
from advisor.results.several import AT_LENGTH

if TYPE_CHECKING:
    from advisor.ranks.digest import Digest
    from advisor.trace import Trace

Say = Callable[[str], None]
Progress = Callable[[int, int | None], None]
Result = TypeVar("Result", bound=msgspec.Struct)


class Results(Struct):
    """The analyses, in the order of the traces. ``failed`` are traces that could not be read, ``foreign`` sound files that
    are no traces; each says which file and why."""

    analyses: list[Analysis] = field(default_factory=list)
    across: Across | None = None
    failed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    cache_problem: str = ""
    """Reason why the cache could not keep a trace; empty where it could, or was not asked to."""
    trace: Trace | None = None
    """A single trace that was read here: it is put into the cache once the report is out."""


def run(
    inputs: Inputs,
    settings: messages.Settings,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    say: Say = lambda _text: None,
    progress: Progress | None = None,
    own: bool = False,
) -> Results:
    """Analyze the traces: a single one here; of several each on the cluster of *scheduler*, else in *jobs* processes.

    The results do not depend on where; *jobs* None takes as many processes as pay. *own* is True where this process is there for
    nothing else: it may be forked then. *progress* is called with the bytes that are
    read of a single trace, and ``TraceError`` is raised where it cannot be; of several such a trace counts as failed. Raises
    ``UsageError`` where the cluster, or a package for an address, is missing.
    """
    if inputs.several or jobs is not None or scheduler is not None:
        return run_many(inputs, settings, Workers(jobs, scheduler, say))
    return run_one(inputs.addresses[0], settings, say, progress, own=own)


def run_one(
    address: str, settings: messages.Settings, say: Say, progress: Progress | None, *, own: bool = False
) -> Results:
    """Analyze a single trace in this process, and beside a fork of it where it is the command's *own*."""
    from advisor.execution.aside import beside
    from advisor.trace import without_gc

    say(f"analyzing {remote.shown(address)}{containers.waiting(address)}")
    with without_gc():
        trace = settings.read(address, progress=progress)
        with beside(trace) if own else nullcontext():
            return Results([settings.analyze(trace)], trace=trace)


class Workers(Struct, frozen=True):
    """The processes that work on traces: those of a cluster, else *jobs* of this machine."""

    jobs: int | None
    scheduler: str | None
    say: Say

    def results(self, addresses: Sequence[str], settings: messages.Settings) -> Iterator[tuple[int, messages.Result]]:
        """Work on the traces; yields the place of each among the addresses, in the order in which they are done."""
        if self.scheduler is not None:
            from advisor.execution.cluster import cluster

            # The workers' disks are not this user's: nothing is cached there.
            reading = {name: value for name, value in settings.reading.items() if name != "cache"}
            return cluster(addresses, msgspec.structs.replace(settings, reading=reading), self.scheduler, self.say)
        from advisor.execution import pool  # a single trace needs none of what starts processes

        size = pool.choose(addresses, self.jobs)
        return pool.pool(addresses, settings, size) if size > 1 else pool.serial(addresses, settings)


def run_many(inputs: Inputs, settings: messages.Settings, workers: Workers) -> Results:
    """Analyze all traces. A file that is no trace counts as failed, unless nobody named it by itself."""
    addresses, say = inputs.addresses, workers.say
    first = msgspec.structs.replace(settings, views=settings.views and len(addresses) <= AT_LENGTH)
    results = Results()
    done: dict[int, messages.Result] = {}
    failures: dict[int, messages.Result] = {}
    say(f"analyzing {counted(len(addresses), 'trace')}")
    machine.trim()  # of what compiling the rules took, while the traces are read
    for index, result in workers.results(addresses, first):
        say(f"analyzed {len(done) + len(failures) + 1:,} of {len(addresses):,}: {remote.shown(addresses[index])}")
        (done if result.analysis else failures)[index] = result
        results.cache_problem = results.cache_problem or result.cache_problem
    for index, result in sorted(failures.items()):
        is_foreign = result.foreign and addresses[index] in inputs.implicit
        (results.foreign if is_foreign else results.failed).append(result.error)
    order = sorted(done)
    results.analyses, results.across = _together([done.pop(index) for index in order], settings)
    machine.trim()  # before the report is made
    if settings.views and not first.views:
        _view(results, [addresses[index] for index in order], settings, workers)
    return results


def _together(results: list[messages.Result], settings: messages.Settings) -> tuple[list[Analysis], Across | None]:
    """Combine the *results* of all traces, and let go of them."""
    from advisor.combining import combine  # once those who read are gone
    from advisor.ranks.digest import Digest

    sharing = _Sharing()
    # What stays comes first and lies together: between what goes when it is compared it would keep the memory of both.
    analyses = [sharing.share(messages.unpack(result.analysis, Analysis)) for result in results]
    digests = [sharing.share_tables(messages.unpack(result.digest, Digest)) for result in results]
    results.clear()
    return combine(analyses, digests, settings.rulebook, only=settings.only, skip=settings.skip)


def _view(results: Results, addresses: Sequence[str], settings: messages.Settings, workers: Workers) -> None:
    """Add the views of the traces that are shown at length: they are read once more, now that it is known which they are."""
    from advisor.ranks.at_length import at_length

    shown = at_length(results.analyses, results.across)
    workers.say(f"drawing {len(shown)} of {len(addresses):,} traces")
    for position, result in workers.results([addresses[index] for index in shown], settings):
        if result.analysis:
            index, views = shown[position], messages.unpack(result.analysis, Analysis).views
            results.analyses[index] = msgspec.structs.replace(results.analyses[index], views=views)


class _Sharing:
    """One copy of the texts that findings of a rule share in every trace: of a thousand ranks they would be most of the memory."""

    def __init__(self) -> None:
        self._texts: dict[object, object] = {}
        self._empty: dict[str, object] = {}

    def share(self, analysis: Analysis) -> Analysis:
        """Replace the texts of *analysis* by equal ones of those before it."""
        findings = [
            self._replace(finding, "title", "why", "more", "fix", "references") for finding in analysis.findings
        ]
        return self._replace(msgspec.structs.replace(analysis, findings=findings), "verdicts")

    def share_tables(self, digest: Digest) -> Digest:
        """Replace the names of facts, and the tables without a row, by those of the digests before it."""
        empty = {name: self._empty.setdefault(name, getattr(digest, name)) for name in digest.without_rows}
        return msgspec.structs.replace(
            digest, facts={sys.intern(name): fact for name, fact in digest.facts.items()}, **empty
        )

    def _replace(self, result: Result, *fields: str) -> Result:
        values = {name: getattr(result, name) for name in fields}
        keys = {name: text if isinstance(text, str) else msgspec.msgpack.encode(text) for name, text in values.items()}
        equal = {name: self._texts.setdefault(keys[name], text) for name, text in values.items()}
        return msgspec.structs.replace(result, **equal)
