"""Damaged and hostile traces: read, and a share of them through all rules and every format of a report."""

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzz import checks, inputs
from fuzz.world import Files, World

NAME = "input.json"
COMPARED = 0.1


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A trace, damaged as bytes or in what it says."""
    damage, content = inputs.make(rng, world.seeds)
    return damage, {NAME: content}


def tried(folder: Path, rng: Random, world: World, share: float = 1.0) -> str:
    """Read it, and analyze it with the probability *share*."""
    trace = checks.read(folder / NAME)
    if isinstance(trace, str):
        return "refused"
    if rng.random() >= share:
        return "read"
    analysis = checks.analyzed(trace, world.book)
    checks.reports(analysis, world.schemas.get("analysis") if rng.random() < COMPARED else None)
    if rng.random() < COMPARED:
        checks.frames(trace)
        if world.last is not None:
            checks.judged(world.last, analysis)
        world.last = analysis
    return "analyzed"
