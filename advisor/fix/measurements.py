"""Measured pairs (predicted range, measured saving) in a file of this machine: never sent, and off where asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from advisor import files
from advisor.reading.program_settings import Recorded
from advisor.results.fixes import FixResult
from advisor.results.version import __version__

MOST_BYTES = 16 << 20
VARIABLE = "ADVISOR_MEASUREMENTS"
"""A file to use instead, or ``off``."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One edit as it was priced and measured: shares of the step, the device, and versions. Nothing of the program is in it."""

    edit: str
    rules: list[str]
    verdict: str
    predicted_low: float | None = None
    predicted_high: float | None = None
    measured: float | None = None
    runs: int | None = None
    device: str = "cpu"
    cores: int | None = None
    torch: str | None = None
    advisor: str = __version__


def path() -> Path | None:
    """Return the file; None where it is off."""
    given = os.environ.get(VARIABLE)
    if given == "off":
        return None
    if given:
        return Path(given)
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "advisor" / "measurements.jsonl"


def keep(fixes: Sequence[FixResult], recorded: Recorded | None, device: str | None = None) -> None:
    """Add what was timed to the file. A file that cannot be written is left: the fixes do not depend on it."""
    target = path()
    pairs = [_pair(one, recorded, device) for one in fixes if one.timing is not None]
    if target is None or not pairs:
        return
    lines = b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with files.alone(target):
            old = files.read(target, MOST_BYTES) if target.exists() else b""
            files.write(target, old, lines, mode=0o600)
    except Exception:  # noqa: BLE001  (a full disk, a home that is read-only)
        return


def _pair(one: FixResult, recorded: Recorded | None, device: str | None) -> Pair:
    timing = one.timing
    return Pair(
        edit=one.edit,
        rules=one.rules,
        verdict=one.verdict,
        predicted_low=one.price.low if one.price is not None else None,
        predicted_high=one.price.high if one.price is not None else None,
        measured=round(timing.saved, 4) if timing is not None else None,
        runs=timing.runs if timing is not None else None,
        device=device or "cpu",
        cores=recorded.cores if recorded is not None else None,
        torch=recorded.torch if recorded is not None else None,
    )
