"""The newest torch that a recording can be of, by the day that its clock tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

_DAY_US = 86_400 * 10**6


def _recorded(path: Path, days: int, *, base: bool = False) -> Path:
    """A trace of so many days after 1970 began; *base*: by the root's time, as torch 2.4 and later write it."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=100)
    made = json.loads(b.write(path).read_text())
    made["baseTimeNanoseconds"] = days * _DAY_US * 1000 if base else 0
    for event in made["traceEvents"]:
        if "ts" in event and not base:
            event["ts"] += days * _DAY_US
    path.write_text(json.dumps(made))
    return path


@pytest.mark.parametrize(
    ("days", "base", "newest"),
    [
        (19_226, False, 113),  # 22 August 2022: 1.12 is out, and 1.13 is built each night
        (19_326, False, 200),  # 30 November 2022
        (19_950, True, 205),  # 15 August 2024
        (19_326, True, None),  # a base of before any torch wrote one
        (20_783, False, None),  # 26 November 2026
        (2, False, None),  # a clock that counts from when the machine was switched on
    ],
)
def test_no_torch_is_newer_than_the_recording(tmp_path: Path, days: int, base: bool, newest: int | None) -> None:
    trace = read(str(_recorded(tmp_path / "trace.json", days, base=base)))
    (told,) = trace.frame("trace")["torch_at_most"].astype(object).where(lambda known: known.notna(), None).tolist()
    assert told == newest
