"""Errors that a user can act on. Each carries the exit code of the command that meets it."""

from __future__ import annotations

from collections.abc import Iterable


class AdvisorError(Exception):
    """Error that says what is wrong, where, and what to do about it; shown on stderr without a traceback."""

    exit_code = 2


class UsageError(AdvisorError):
    """The command line or the configuration asks for something that cannot be."""

    exit_code = 2


class RuleError(AdvisorError):
    """One or more rules are malformed. ``problems`` lists every one that was found."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        head = "1 problem in the rules" if len(problems) == 1 else f"{len(problems)} problems in the rules"
        super().__init__("\n".join([head + ":", *(f"  {problem}" for problem in problems)]))


class TraceError(AdvisorError):
    """The trace cannot be read at all."""

    exit_code = 3


class NotATrace(TraceError):
    """The file is sound, but holds something else."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Name what is closest to *word*, for the end of a message: ``; nearest: x``, or nothing where nothing is near."""
    from difflib import get_close_matches

    matches = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; nearest: {matches[0]}" if matches else ""
