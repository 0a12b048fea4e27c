"""Traces and analyses that the server keeps: each is read once, whichever session asks; memory is bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from advisor.errors import TraceError, UsageError
from advisor.mcp.answers import MOST_BYTES
from advisor.mcp.roots import Roots

if TYPE_CHECKING:
    from advisor.config import Config
    from advisor.results.analysis import Analysis
    from advisor.results.several import Several
    from advisor.rulebook import Rulebook
    from advisor.trace import Trace

MOST_ANALYSES = 64
MOST_EVENTS = 500_000
"""Events of the traces that are kept, of which frames and columns take up to 1 kB each; the latest trace always is."""
MOST_FILES = 64
"""Traces of a folder that are analyzed together."""

Value = TypeVar("Value")


class Version(NamedTuple):
    """A file as it was when it was read: one that has changed since is another."""

    path: str
    size: int
    changed_ns: int


class Kept(Generic[Value]):
    """Values that are kept, the latest used last; beyond *most* the first go. ``weigh`` says what a value counts."""

    def __init__(self, most: int, weigh: Callable[[Value], int] = lambda _value: 1) -> None:
        self._values: OrderedDict[Any, Value] = OrderedDict()
        self._most, self._weigh = most, weigh
        self._lock = threading.Lock()

    def get(self, key: object) -> Value | None:
        """Return what is kept, or None."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: object, value: Value) -> None:
        """Keep a value, and let go of the oldest while they are too many; never of this one."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > 1 and sum(map(self._weigh, self._values.values())) > self._most:
                self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)


class Workspace:
    """All that tools ask: files within the roots, settings and rules, traces and their analyses.

    Work on traces is done one at a time, under ``lock``; what is kept is read without it.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        config: str | None = None,
        rules: Sequence[str] = (),
        allow_write: bool = False,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.roots, self.allow_write, self.most_bytes = roots, allow_write, most_bytes
        self.lock = threading.RLock()
        self._config, self._rules = config, tuple(rules)
        self._traces: Kept[Trace] = Kept(MOST_EVENTS, lambda trace: trace.events)
        self._documents: Kept[Analysis | Several] = Kept(MOST_ANALYSES)

    @cached_property
    def settings(self) -> Config:
        """The project's settings, as the command line reads them. Raises ``UsageError``."""
        from advisor.config import load

        settings = load(self._config)
        settings, _ = settings.renamed(self.rulebook_of(settings).former)
        return settings

    def rulebook_of(self, settings: Config) -> Rulebook:
        """Load the rules that some settings ask for."""
        from advisor.gating.run import rules

        return rules(settings, self._rules)

    @cached_property
    def rulebook(self) -> Rulebook:
        """The rules that ship, those of the settings, and those of ``--rules``."""
        book = self.rulebook_of(self.settings)
        self.settings.require_fit(rule.id for rule in book.rules)
        return book

    def trace(self, path: str) -> Trace:
        """Read a trace, or return it where it is kept. Raises ``UsageError`` and ``TraceError``."""
        return self._trace(self.roots.file(path))

    def analysis(self, path: str) -> Analysis:
        """Analyze a trace with the samples that the gate compares, or return what is kept. Raises as ``trace``."""
        return self._analysis(self.roots.file(path))

    def document(self, path: str) -> Analysis | Several:
        """Analyze a trace, or the traces of a folder together. Raises as ``trace``."""
        place = self.roots.existing(path)
        if not place.is_dir():
            return self.analysis(path)
        files = self._files(place)
        return self._keep(tuple(map(_version, files)), lambda: self._several(files))

    def viewed(self, path: str) -> Analysis:
        """Analyze a trace with its tables and timeline, which are large and not kept. Raises as ``trace``."""
        with self.lock:
            return self._analyze(self.trace(path), views=True)

    def asked(self, path: str, rules: Sequence[str]) -> Analysis:
        """Analyze a trace with the fixes of some rules priced together. Raises as ``trace``."""
        with self.lock:
            return self._analyze(self.trace(path), what_if=rules)

    def among(self, path: str, rules: Sequence[str]) -> Analysis:
        """Analyze a trace by some rules alone. Raises as ``trace``."""
        with self.lock:
            return self._analyze(self.trace(path), only=rules)

    def _analysis(self, file: Path) -> Analysis:
        found = self._keep(_version(file), lambda: self._analyze(self._trace(file)))
        return cast("Analysis", found)  # the key of a file; that of a folder is a tuple of these

    def _keep(self, key: object, make: Callable[[], Analysis | Several]) -> Analysis | Several:
        found = self._documents.get(key)
        if found is None:
            with self.lock:
                found = self._documents.get(key)  # another session has made it while this one waited
                if found is None:
                    found = make()
                    self._documents.put(key, found)
        return found

    def _trace(self, file: Path) -> Trace:
        version = _version(file)
        with self.lock:
            trace = self._traces.get(version)
            if trace is None:
                from advisor.trace import read

                settings = self.settings
                try:
                    trace = read(
                        str(file),
                        source=self.roots.shown(file),
                        libraries=settings.library,
                        rates=[settings.hardware],
                    )
                except OSError as error:
                    raise TraceError(f"{self.roots.shown(file)}: {error.strerror or error}") from error
                self._traces.put(version, trace)
            return trace

    def _analyze(self, trace: Trace, **more: Any) -> Analysis:
        from advisor.pipeline import analyze

        usual: dict[str, Any] = {
            "only": self.settings.only,
            "skip": self.settings.skip,
            "samples": True,
            "views": False,
        }
        return analyze(trace, self.rulebook, **(usual | more))

    def _files(self, folder: Path) -> list[Path]:
        """Return the traces of a folder. Raises ``UsageError`` where a symlink leads out, and where there are none, or many."""
        from advisor.execution import inputs

        found = [self.roots.file(address) for address in inputs.find([str(folder)]).addresses]
        if len(found) > MOST_FILES:
            raise UsageError(
                f"{self.roots.shown(folder)}: holds {len(found)} traces, and {MOST_FILES} are analyzed together at most; "
                "name one of them, or run `advisor analyze` on the folder"
            )
        return found

    def _several(self, files: Sequence[Path]) -> Several:
        from advisor.combining import combine
        from advisor.ranks.digest import digest
        from advisor.results.several import Several

        pairs = [(self._analysis(file), digest(self._trace(file))) for file in files]
        settings = self.settings
        analyses, across = combine(
            [analysis for analysis, _ in pairs],
            [summary for _, summary in pairs],
            self.rulebook,
            only=settings.only,
            skip=settings.skip,
        )
        return Several(traces=analyses, across=across)


def _version(file: Path) -> Version:
    state = file.stat()
    return Version(str(file), state.st_size, state.st_mtime_ns)
