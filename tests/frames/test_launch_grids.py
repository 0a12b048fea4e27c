"""Grids as ROCm records them: in threads where hipExtModuleLaunchKernel launched, else in blocks; blocks over compute units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import advisor
from advisor.testing.builder import TraceBuilder

TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN"


@pytest.mark.parametrize(("call", "blocks"), [("hipExtModuleLaunchKernel", 1368), ("hipLaunchKernel", 350208)])
def test_a_grid_of_threads_is_divided_by_the_block(tmp_path: Path, call: str, blocks: int) -> None:
    builder = TraceBuilder("AMD Instinct MI300X")
    with builder.step():
        with builder.op("aten::mm"):
            builder.kernel(TENSILE, us=500, grid=(350208, 1, 1), block=(256, 1, 1))
        builder.sync()
    root = json.loads(builder.to_json())
    for event in root["traceEvents"]:
        if event.get("name", "").startswith("hip") and "Launch" in event["name"]:
            event["name"] = call
        if event.get("cat") == "kernel":
            event["args"].pop("blocks per SM", None)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(root))
    kernels = advisor.read(str(path)).kernels
    assert kernels["grid_blocks"].tolist() == [blocks]
    assert np.allclose(kernels["blocks_per_sm"], blocks / 304)
