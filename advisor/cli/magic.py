"""``%advisor`` in notebooks, after ``%load_ext advisor``: the analysis of a trace, as the notebook shows it."""

from __future__ import annotations

import os
import shlex
from typing import Any, Protocol

from advisor.cli import complain
from advisor.errors import AdvisorError, UsageError
from advisor.results.analysis import Analysis
from advisor.trace import Trace

_USE = "%advisor TRACE [--only GLOB] [--skip GLOB]"


class Shell(Protocol):
    """The part of IPython that is used here."""

    user_ns: dict[str, Any]

    def register_magic_function(self, func: Any, magic_kind: str, magic_name: str) -> None:
        """Make a function a magic."""


def load_ipython_extension(shell: Shell) -> None:
    """Register ``%advisor``; IPython calls it on ``%load_ext advisor``."""

    def magic(line: str) -> Analysis | None:
        """Analyze a trace: %advisor TRACE [--only GLOB] [--skip GLOB].

        TRACE is a path, or a variable that holds one, or what advisor.read returned. The value is the analysis, so that
        `found = %advisor trace.json.gz` keeps it.
        """
        try:
            return run(line, shell.user_ns)
        except AdvisorError as error:
            complain(str(error))
            return None

    shell.register_magic_function(magic, "line", "advisor")


def run(line: str, names: dict[str, Any]) -> Analysis:
    """Analyze what a line asks for; *names* are the notebook's variables. Raises ``AdvisorError``."""
    from advisor.config import load
    from advisor.gating.run import rules
    from advisor.pipeline import analyze
    from advisor.trace import read

    source, globs = _parse(line)
    config = load()
    trace = names.get(source, source)
    if not isinstance(trace, Trace):
        if isinstance(trace, Analysis):
            raise UsageError(f"{source} is an analysis already; show it by its name")
        path = os.path.expanduser(str(trace) if isinstance(trace, str | os.PathLike) else source)
        trace = read(path, libraries=config.library, rates=[config.hardware])
    book = rules(config)
    only = globs["--only"] or list(config.only)
    return analyze(trace, book, only=only, skip=[*globs["--skip"], *config.skip])


def _parse(line: str) -> tuple[str, dict[str, list[str]]]:
    """Return the trace that is named, and the globs by their options."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%advisor: {error}. Use: {_USE}") from None
    globs: dict[str, list[str]] = {"--only": [], "--skip": []}
    sources: list[str] = []
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option in globs and (equals or words):
            globs[option].append(value if equals else words.pop(0))
        elif word.startswith("-"):
            raise UsageError(f"%advisor: no option {word} here. Use: {_USE}; more by !advisor analyze")
        else:
            sources.append(word)
    if len(sources) != 1:
        raise UsageError(f"%advisor: one trace is needed, {len(sources)} are named. Use: {_USE}")
    return sources[0], globs
