"""Options that several commands take, in the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

folders = click.option("--rules", "folders", multiple=True, metavar="DIR", help="Add the rules in DIR.")
config = click.option("--config", metavar="FILE", help="Read settings from FILE, not from the nearest pyproject.toml.")
color = click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours [auto].")
force = click.option("--force", is_flag=True, help="Overwrite an output that exists.")
output = click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write to FILE, in the format of its suffix; - is stdout. Several -f and -o pair up in order.",
)


def reports(formats: Iterable[str]) -> Callable[[Command], Command]:
    """The options of a command that writes reports: in which of *formats*, where to, and whether over what exists."""
    chosen = click.Choice(list(formats))
    which = click.option("-f", "--format", "formats", multiple=True, type=chosen, help="Format of the report [text].")
    return lambda command: which(output(force(command)))


def catalogue(command: Command) -> Command:
    """The options of a command that runs rules: rules of one's own, and the settings."""
    return folders(config(command))
