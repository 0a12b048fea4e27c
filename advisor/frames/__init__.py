"""One file a frame, named as the frame: its columns, its builder, and what its rows are (:class:`advisor.frames.frame.Frame`).

``FRAMES`` and ``SCHEMAS`` know every name without importing pandas; a frame is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from advisor.frames.schema import Column, Schema

if TYPE_CHECKING:
    from advisor.frames.frame import Frame

__all__ = ["FRAMES", "SCHEMAS", "Column", "Schema"]

_NAMES = (
    "trace",
    "devices",
    "steps",
    "batches",
    "annotations",
    "ops",
    "operator_calls",
    "launches",
    "kernels",
    "copies",
    "memsets",
    "gaps",
    "optimizers",
    "syncs",
    "stalls",
    "loader",
    "collectives",
    "collective_calls",
    "cpu_collectives",
    "repeated_calls",
    "repeated_operators",
    "shared_cores",
    "single_calls",
    "constant_calls",
    "unchanged_calls",
    "factorizations",
    "zero_products",
    "arrivals",
    "launchers",
    "stages",
    "allocations",
    "memory",
    "python",
    "functions",
    "compiles",
    "patterns",
    "settings",
)


Value = TypeVar("Value")


class _ByName(Mapping[str, Value]):
    """Something of each frame, by name, loaded when it is asked for."""

    def __init__(self, load: Callable[[str], Value]) -> None:
        self._load = load

    def __getitem__(self, name: str) -> Value:
        if name not in _NAMES:
            raise KeyError(name)
        return self._load(name)

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


def _load(name: str) -> Frame:
    frame: Frame = importlib.import_module(f"advisor.frames.{name}").FRAME
    return frame


FRAMES: Mapping[str, Frame] = _ByName(_load)
SCHEMAS: Mapping[str, Schema] = _ByName(lambda name: FRAMES[name].schema)
