"""Resources: the catalogue of rules, the frames with their columns, and the glossary."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from advisor.errors import UsageError, nearest
from advisor.mcp import glossary

if TYPE_CHECKING:
    from advisor.rulebook import Rule

CATALOGUE, FRAMES, GLOSSARY = "advisor://catalogue", "advisor://frames", "advisor://glossary"
RULE, FRAME = "advisor://catalogue/{+rule}", "advisor://frames/{frame}"


class Resource(NamedTuple):
    """A resource with a fixed address."""

    uri: str
    name: str
    description: str
    write: Callable[[], str]


class Template(NamedTuple):
    """Resources whose address holds a name."""

    uri: str
    name: str
    description: str


@cache
def _book() -> dict[str, Rule]:
    from advisor import rulebook

    return {rule.id: rule for rule in rulebook.load([rulebook.builtin_rules_dir()]).rules}


def _catalogue() -> str:
    lines = [f"{name}: {rule.title}" for name, rule in _book().items()]
    return "\n".join(
        ["Rules that ship, each with the failing state that it looks for. One: advisor://catalogue/RULE.", *lines]
    )


def _rule(name: str) -> str:
    book = _book()
    if name not in book:
        raise UsageError(f'no rule "{name}"{nearest(name, book)}; they are listed in {CATALOGUE}')
    rule = book[name]
    parts = [f"{rule.id}: {rule.title}", rule.why, rule.more, f"needs: {', '.join(rule.needs) or 'nothing'}"]
    parts += [f"fix: {fix.title}" for fix in rule.variants]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _frames() -> str:
    from advisor.frames import SCHEMAS

    lines = [f"{name}: one row is {schema.row}" for name, schema in SCHEMAS.items()]
    return "\n".join(["Frames that query asks with SQL. Columns of one: advisor://frames/NAME.", *lines])


def _frame(name: str) -> str:
    from advisor.report.rows import describe

    return describe(name, "text")


RESOURCES = (
    Resource(CATALOGUE, "catalogue", "The rules, a line each.", _catalogue),
    Resource(FRAMES, "frames", "The frames that query asks, a line each.", _frames),
    Resource(GLOSSARY, "glossary", "Words and figures of answers, and what they mean.", glossary.write),
)
TEMPLATES = (
    Template(RULE, "rule", "A rule: why it matters, what it needs, its fix."),
    Template(FRAME, "frame", "The columns of a frame, with units and meaning."),
)


def read(uri: str) -> str:
    """Return the text of a resource. Raises ``UsageError`` where there is none at *uri*."""
    for resource in RESOURCES:
        if uri == resource.uri:
            return resource.write()
    if uri.startswith(f"{FRAMES}/"):
        return _frame(uri.removeprefix(f"{FRAMES}/"))
    if uri.startswith(f"{CATALOGUE}/"):
        return _rule(uri.removeprefix(f"{CATALOGUE}/"))
    raise UsageError(f"no resource {uri}; there are {', '.join(resource.uri for resource in RESOURCES)}")
