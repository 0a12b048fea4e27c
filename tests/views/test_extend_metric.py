"""A metric of one's own is one record in one file: applied as a patch, the gate judges it like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.extending import commands, patched, touched

from advisor.testing import TraceBuilder


def trace(path: Path, fills: int) -> str:
    """Eight steps of 8 ms, each with so many fills of 10 us by ``aten::zero_``."""
    b = TraceBuilder(profile_memory=False)
    for _ in range(8):
        with b.step(), b.python("train.py(15): train"):
            for _ in range(fills):
                with b.op("aten::zero_"):
                    b.memset(1 << 20, us=10)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=8000)
    return str(b.write(path))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package with the metric ``memset_count``."""
    return patched(tmp_path, "metric")


def test_a_metric_is_one_record_in_one_file() -> None:
    assert touched("metric") == {"advisor/views/metrics.py": (4, 0)}


def test_the_gate_judges_the_new_metric_and_names_its_parts(copy: Path) -> None:
    before, after = trace(copy / "before.json", 2), trace(copy / "after.json", 5)
    gate = ["gate", "-b", "advisor-baseline.json", "-f", "json"]
    made, same, judged = commands(copy, ["baseline", before, "-q"], [*gate, before], [*gate, after])
    assert made.returncode == 0, made.stderr
    series = json.loads((copy / "advisor-baseline.json").read_text())["metrics"]["memset_count"]
    assert series == {"runs": [[2.0] * 7], "unit": ""}
    assert same.returncode == 0, same.stderr
    assert judged.returncode == 1, judged.stderr
    check = next(check for check in json.loads(judged.stdout)["checks"] if check["name"] == "memset_count")
    assert (check["outcome"], check["base"], check["now"]) == ("regression", 2.0, 5.0)
    assert check["message"] == (
        "memset_count (fills of device memory): 2 → 5 a step (+150.0 %), most in aten::zero_ at train.py:15 train +3"
    )


def test_settings_may_name_it(copy: Path) -> None:
    after = trace(copy / "after.json", 5)
    settings, wrong = copy / "advisor.toml", copy / "wrong.toml"
    settings.write_text('[gate]\nassert = ["metrics.memset_count <= 2"]\ntolerance = { memset_count = 0.5 }\n')
    wrong.write_text("[gate]\ntolerance = { memset_counts = 0.5 }\n")
    judged, refused = commands(copy, ["gate", after], ["gate", after, "--config", str(wrong)])
    assert judged.returncode == 1, judged.stderr
    assert "metrics.memset_count <= 2 does not hold: it is 5" in judged.stdout
    assert (refused.returncode, "no such key; nearest: memset_count" in refused.stderr) == (2, True), refused.stderr
