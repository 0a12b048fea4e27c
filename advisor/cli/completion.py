"""Completion in the shell: rule ids, frames, files and folders, found without reading a rule or a trace.

What a callback returns is what fits; where it fails the shell shows nothing, so that none of it may be slow or raise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def rules(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids that begin so, of the rules that ship and of those in the folders of ``--rules``."""
    return [rule for rule in _ids(ctx) if rule.startswith(incomplete)]


def globs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return ids and whole categories, ``sync/*``, that begin so; of a list with commas what its last part begins."""
    head, comma, last = incomplete.rpartition(",")
    ids = list(_ids(ctx))
    categories = dict.fromkeys(f"{rule.partition('/')[0]}/*" for rule in ids)
    return [head + comma + name for name in (*categories, *ids) if name.startswith(last)]


def frames(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the frames that begin so."""
    from advisor.frames import SCHEMAS

    return [name for name in SCHEMAS if name.startswith(incomplete)]


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which knows its files."""
    return _left(incomplete, "file")


def folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which knows its folders."""
    return _left(incomplete, "dir")


def _left(incomplete: str, kind: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


def _ids(ctx: click.Context) -> Iterator[str]:
    """Yield the ids of rules by the names of their files, each once."""
    from advisor.rulebook import builtin_rules_dir

    given: Iterable[str] = ctx.params.get("folders") or ()
    seen = set[str]()
    for folder in (builtin_rules_dir(), *map(Path, given)):
        for place, _folders, names in sorted(os.walk(folder)):
            category = os.path.basename(place)
            for name in sorted(names):
                rule = f"{category}/{name.removesuffix('.toml')}"
                if name.endswith(".toml") and rule not in seen:
                    seen.add(rule)
                    yield rule
