"""Rates that the user gives: an option, or settings, for a device that the table does not have or has otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli import main
from advisor.config import given_rates
from advisor.testing import TraceBuilder
from advisor.trace import read


def trace(folder: Path, device: str = "Unheard of GPU 9000") -> Path:
    """Five steps of a product of 2048 in fp16, 17.18 GFLOP, in 1 ms each."""
    b = TraceBuilder(device, sms=108, memory_bytes=80 << 30, host_us=1, latency_us=0, with_stack=False)
    for _ in range(5):
        with b.step():
            with b.op("aten::mm", shapes=[[2048, 2048], [2048, 2048]], dtypes=["c10::Half", "c10::Half"]):
                b.kernel("gemm", us=1000)
            b.sync()
    return b.write(folder / "t.json")


def summary(*arguments: str) -> dict[str, float | None]:
    done = CliRunner().invoke(main, ["analyze", *arguments, "-f", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, float | None] = json.loads(done.stdout)["summary"]
    return found


def test_an_option_makes_an_unknown_device_known(tmp_path: Path) -> None:
    """At 100 TFLOP/s the product takes 0.1718 ms of 1; without the option nothing is said of limits."""
    path = str(trace(tmp_path))
    assert summary(path)["mfu"] is None
    found = summary(path, "--peak", "fp16=100", "--peak", "memory=1TB/s")
    assert found["mfu"] == pytest.approx(0.1718, rel=0.03)
    assert found["modelled_share"] == 1.0


def test_settings_do_the_same_and_the_option_comes_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(trace(tmp_path))
    (tmp_path / "advisor.toml").write_text('[hardware]\ndevice = "unheard*"\nfp16 = 200\nmemory = "1 TB/s"\n')
    monkeypatch.chdir(tmp_path)
    assert summary(path)["mfu"] == pytest.approx(0.0859, rel=0.03)
    assert summary(path, "--peak", "fp16=100")["mfu"] == pytest.approx(0.1718, rel=0.03)
    (tmp_path / "advisor.toml").write_text("[hardware]\nfp16 = 100\nreachable = { fp16 = 120 }\n")
    done = CliRunner().invoke(main, ["analyze", path])
    assert done.exit_code == 2
    assert "hardware.reachable.fp16: is above the peak" in done.output


def test_a_rate_of_no_name_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["analyze", str(trace(tmp_path)), "--peak", "bf61=100"])
    assert done.exit_code == 2
    assert "bf16" in done.output


def test_given_rates_come_before_the_tables(tmp_path: Path) -> None:
    path = str(trace(tmp_path, "NVIDIA A100-SXM4-80GB"))
    known = read(path).kernels["limit_ns"][0]
    halved = read(path, rates=[given_rates(["fp16=156"])]).kernels["limit_ns"][0]
    assert known == pytest.approx(2 * 2048**3 / 312e3)
    assert halved == pytest.approx(2 * known)
