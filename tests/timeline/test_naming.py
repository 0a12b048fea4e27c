"""The device of a recording that does not name it, as the user says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import advisor
from advisor.cli import main
from advisor.errors import UsageError
from advisor.testing.builder import TraceBuilder

FP32 = "Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x1_SN"


def recorded(path: Path, *, named: bool) -> str:
    builder = TraceBuilder("AMD Instinct MI300X")
    for _ in range(3):
        with builder.step():
            with builder.op("aten::mm", shapes=[[4096, 4096], [4096, 4096]], dtypes=["float", "float"]):
                builder.kernel(FP32, ms=2)
            builder.sync()
    root = json.loads(builder.to_json())
    if not named:
        del root["deviceProperties"]
    path.write_text(json.dumps(root))
    return str(path)


def test_a_named_device_has_its_rates_and_its_rules(tmp_path: Path) -> None:
    path = recorded(tmp_path / "trace.json", named=False)
    without = advisor.read(path)
    assert without.kernels["efficiency"].isna().all()
    trace = advisor.read(path, device="MI300X")
    (row,) = trace.query("SELECT name, vendor, sms FROM devices").itertuples(index=False)
    assert tuple(row) == ("AMD Instinct MI300X", "amd", 304)
    # 137 GFLOP at 130.7 TFLOP/s are 1.05 of 2 ms.
    assert trace.kernels["efficiency"].tolist() == pytest.approx([0.526] * 3, abs=0.002)
    assert "precision/fp32-matrix-cores" in {finding.rule for finding in advisor.analyze(trace).findings}


def test_the_trace_s_own_word_stands(tmp_path: Path) -> None:
    trace = advisor.read(recorded(tmp_path / "trace.json", named=True), device="H100")
    assert trace.query("SELECT name FROM devices")["name"].tolist() == ["AMD Instinct MI300X"]
    assert any(note.code == "device" and "stands" in note.message for note in trace.quality)


def test_an_unknown_device_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = recorded(tmp_path / "trace.json", named=False)
    with pytest.raises(UsageError, match="nearest: MI300X"):
        advisor.read(path, device="MI300Y")
    result = CliRunner().invoke(main, ["analyze", path, "--device", "MI300Y"])
    assert result.exit_code == 2


def test_the_report_says_what_was_assumed(tmp_path: Path) -> None:
    path = recorded(tmp_path / "trace.json", named=False)
    result = CliRunner().invoke(main, ["analyze", path, "--device", "MI300X", "-v", "--no-cache"])
    assert "it is taken for AMD Instinct MI300X, as --device says" in " ".join(result.output.split())
