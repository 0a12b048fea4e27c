"""Settings, steps and versions, as the recorder wrote them of the program: damaged inside traces that are sound otherwise."""

from __future__ import annotations

from random import Random
from typing import Any

from advisor.reading.program_settings import KEY, NAMES
from fuzz import documents, structure
from fuzz.inputs import edited, encode
from fuzz.kinds import trace
from fuzz.seeds import Root
from fuzz.world import Files, World

_VALUES: list[Any] = [
    *[0, 1, 16, 4096, 4097, 1 << 16, (1 << 40) + 1, 86_400_001.0, 1e-12, "SGD", "Adam", "cuda", "bfloat16", "second pass"],
    *["inductor", "optimizer", "max-autotune", "2.11.0", "13.0", [0.001] * 1000, [1.5] * 3000, *NAMES],
]  # fmt: skip
_VERSIONS = [
    "pytorch_version",
    "torch_version",
    "cuda_runtime_version",
    "with_stack",
    "record_shapes",
    "profile_memory",
]


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A sound trace with damaged settings; some with damaged versions, or steps, besides."""
    name, seed = rng.choice(world.recorded)
    root: Root = {**seed, KEY: documents.damaged(rng, {"x": seed[KEY]}, _VALUES).get("x")}
    damage = "settings"
    if rng.random() < 0.25:
        root[rng.choice(_VERSIONS)] = rng.choice([*documents.SECRETS, *_VALUES, 10**30, None, [], {}])
        damage = "settings, versions"
    if rng.random() < 0.25:
        root["traceEvents"] = [dict(event) if isinstance(event, dict) else event for event in root["traceEvents"]]
        rng.choice([structure.steps, _other_steps])(rng, root, root)
        damage += ", steps"
    text = encode(root, rng)
    if rng.random() < 0.15:  # the bytes of the settings alone
        at = text.find(f'"{KEY}"'.encode())
        if at >= 0:
            text, damage = text[:at] + edited(rng, text[at : at + 600]) + text[at + 600 :], f"{damage}, bytes"
    return f"{damage}: {name}", {trace.NAME: text}


def _other_steps(rng: Random, root: Root, _: Root) -> None:
    """Steps of other numbers and lengths than the recorder's own."""
    for event in root["traceEvents"]:
        if isinstance(event, dict) and str(event.get("name", "")).startswith("ProfilerStep#") and rng.random() < 0.5:
            event[rng.choice(["name", "dur", "ts", "tid"])] = rng.choice(
                ["ProfilerStep#-1", "ProfilerStep#9e9", 0, 1, -1, 1e15, None]
            )


tried = trace.tried
