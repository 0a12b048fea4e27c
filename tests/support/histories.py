"""Stores of runs for tests, made of small baselines, without a trace."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.gating.baseline import SCHEMA_VERSION, Baseline, Change, Fingerprint, Series
from advisor.gating.history.record import add
from advisor.gating.history.store import Store
from advisor.results.samples import Work

FIRST_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def run_of(
    step_ms: float, *, device: str = "A100", batch: int = 32, steps: int = 5, launches: float = 10.0
) -> Baseline:
    """Return a run all of whose steps take as long."""
    return Baseline(
        schema_version=SCHEMA_VERSION,
        advisor="1",
        fingerprint=Fingerprint(
            workload="net", device=device, vendor="nvidia", capability="8.0", world_size=None, features=["gpu"]
        ),
        steps=[steps],
        metrics={
            "step_ms": Series(unit="ms", runs=[[step_ms] * steps]),
            "launch_count": Series(unit="", runs=[[launches] * steps]),
        },
        rules={},
        parts={},
        history=[Change(reason="first baseline", runs=1)],
        work=Work(batch=batch),
    )


def filled(folder: str, step_ms: Sequence[float], branch: str = "main", prefix: str = "c") -> Store:
    """Return a store with a run an hour, each of a commit of its own."""
    store = Store(folder)
    for index, value in enumerate(step_ms):
        add(store, run_of(value), f"{prefix}{index}", branch, FIRST_MS + index * HOUR_MS)
    return store


def of_version(base: Baseline, version: str) -> Baseline:
    """Return a run as another advisor took it."""
    return msgspec.structs.replace(base, advisor=version)
