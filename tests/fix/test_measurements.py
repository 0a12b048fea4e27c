"""Measured pairs: added to a file of this machine, or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.fix import measurements
from advisor.reading.program_settings import Recorded
from advisor.results.fixes import FixResult, Price, Timing


def result(timed: bool) -> FixResult:
    """Make the result of one edit, a step of 100 ms before and 60 after."""
    timing = Timing(runs=4, before_ms=100, after_ms=60, low_ms=-45, high_ms=-35, before_cpu_ms=90, after_cpu_ms=50)
    return FixResult(
        edit="threads",
        title="Use fewer",
        rules=["cpu/thread-oversubscription"],
        file="secret/train.py",
        what="",
        diff="-a\n+b\n",
        price=Price(low=0.1, high=0.5),
        changes_training=False,
        verdict="kept" if timed else "not tried",
        timing=timing if timed else None,
    )


def test_what_was_timed_is_added_and_nothing_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a" / "pairs.jsonl"
    monkeypatch.setenv(measurements.VARIABLE, str(target))
    recorded = Recorded(cores=2, torch="2.13.0")
    measurements.keep([result(True), result(False)], recorded)
    measurements.keep([result(True)], recorded)
    pairs = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(pairs) == 2
    assert pairs[0] == pairs[1]
    assert (pairs[0]["measured"], pairs[0]["predicted_low"], pairs[0]["cores"]) == (0.4, 0.1, 2)
    assert "secret" not in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600


def test_it_can_be_off_and_a_file_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(measurements.VARIABLE, "off")
    measurements.keep([result(True)], None)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(measurements.VARIABLE, str(tmp_path / "file" / "pairs.jsonl"))
    measurements.keep([result(True)], None)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
