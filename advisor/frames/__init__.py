"""One file a frame: its schema (columns, units, meaning) and the function that builds it.

``SCHEMAS`` knows every frame without importing pandas; ``build`` imports what it needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from advisor.frames.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd

    from advisor.timeline.context import Context

__all__ = ["SCHEMAS", "Column", "Schema", "build"]

# frame -> (module, name of its schema, name of its builder)
_PLACES = {
    "trace": ("trace", "SCHEMA", "build"),
    "devices": ("devices", "SCHEMA", "build"),
    "steps": ("steps", "SCHEMA", "build"),
    "ops": ("hosts", "OPS", "build_ops"),
    "launches": ("hosts", "LAUNCHES", "build_launches"),
    "kernels": ("kernels", "SCHEMA", "build"),
    "copies": ("copies", "SCHEMA", "build"),
    "memsets": ("copies", "MEMSETS", "build_memsets"),
    "gaps": ("idle", "GAPS", "build_gaps"),
    "syncs": ("idle", "SYNCS", "build_syncs"),
    "loader": ("idle", "LOADER", "build_loader"),
    "collectives": ("collectives", "SCHEMA", "build"),
    "arrivals": ("arrivals", "SCHEMA", "build"),
    "allocations": ("memory", "ALLOCATIONS", "build_allocations"),
    "memory": ("memory", "MEMORY", "build_memory"),
    "python": ("hosts", "PYTHON_CALLS", "build_python"),
    "functions": ("functions", "SCHEMA", "build"),
    "compiles": ("compiles", "SCHEMA", "build"),
    "patterns": ("patterns.frame", "SCHEMA", "build"),
    "settings": ("settings", "SCHEMA", "build"),
}


class _Schemas(Mapping[str, Schema]):
    """Schemas by frame, each imported when it is first asked for."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}

    def __getitem__(self, frame: str) -> Schema:
        schema = self._known.get(frame)
        if schema is None:
            module, name, _ = _PLACES[frame]
            schema = getattr(importlib.import_module(f"advisor.frames.{module}"), name)
            assert isinstance(schema, Schema)
            self._known[frame] = schema
        return schema

    def __contains__(self, frame: object) -> bool:
        return frame in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


SCHEMAS: Mapping[str, Schema] = _Schemas()


def build(frame: str, context: Context) -> pd.DataFrame:
    """Build one frame."""
    module, _, function = _PLACES[frame]
    table: pd.DataFrame = getattr(importlib.import_module(f"advisor.frames.{module}"), function)(context)
    return table
