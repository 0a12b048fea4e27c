"""JSON of rocprofv3: damaged in what it says, and as bytes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fuzz import documents
from fuzz.builders import rocprof
from fuzz.inputs import edited, packed
from fuzz.kinds import trace
from fuzz.world import Files, World

_VALUES: list[Any] = [
    *[0, -1, 1 << 61, 1 << 70, 1.5, 1e300, None, [], {}, "x", True, {"handle": 42}, {"x": 1, "y": -1, "z": 1 << 40}],
    *documents.SECRETS,
]


def make(rng: Random, _world: World) -> tuple[str, Files]:
    """A sound file with damage."""
    root: Any = rocprof(rng.choice([3, 20]))
    damage = "bytes"
    if rng.random() < 0.6:
        root, damage = documents.damaged(rng, root, _VALUES), "structure"
    data = json.dumps(root).encode()
    if damage == "bytes" or rng.random() < 0.2:
        data = edited(rng, data)
    data, damage = packed(rng, data, damage)
    return damage, {trace.NAME: data}


tried = trace.tried
