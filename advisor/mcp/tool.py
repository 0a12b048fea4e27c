"""A tool of the server: its name, what it is for, its arguments as a struct, and the function that answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from advisor.errors import UsageError

if TYPE_CHECKING:
    from advisor.mcp.answers import Answer
    from advisor.mcp.workspace import Workspace

Path = Annotated[str, Meta(min_length=1, max_length=1000)]
Trace = Annotated[Path, Meta(description="Trace (.json or .json.gz), relative to a root of the server.")]
Folder = Annotated[
    Path, Meta(description="Trace, or a folder with one of each rank, relative to a root of the server.")
]
Short = Annotated[str, Meta(max_length=200)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments that every tool has."""

    page: Annotated[int, Meta(ge=1, le=10_000, description="Page of a long answer, from 1.")] = 1


@dataclass(frozen=True)
class Tool:
    """A tool. ``writes``: it changes files or runs a program, and is there only where the server was started with
    ``--allow-write``. ``may_write``: an argument of it does, and is refused elsewhere."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Workspace, Any], Answer]
    writes: bool = False
    may_write: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        (reference,), parts = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = dict(parts.pop(reference["$ref"].rpartition("/")[2]))
        own.pop("title", None)
        own.pop("description", None)
        return own | ({"$defs": parts} if parts else {})

    def parse(self, values: dict[str, Any] | None) -> Arguments:
        """Check what a client sent. Raises ``UsageError`` that names the argument, and those that there are."""
        try:
            return msgspec.convert(values or {}, self.arguments)
        except msgspec.ValidationError as error:
            known = ", ".join(self.arguments.__struct_fields__)
            raise UsageError(f"{self.name}: {error}. Its arguments are {known}.") from error
