"""Operators that share the cores with a loader's workers: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder

KNOWN: dict[str, Any] = {
    "cores": 4,
    "own_cores": 1.5,
    "workers_cores": 0.5,
    "others_cores": 1.0,
    "waited_share": 0.25,
    "loaders": [Loader(2, file="train.py", line=7), Loader(1, file="eval.py", line=9)],
    "worker_lines": [
        {"share": 0.3, "function": "resize", "file": "data.py", "line": 50},
        {"share": 0.6, "function": "decode", "file": "data.py", "line": 42},
    ],
}


def rows(folder: Path, device: str | None = None, **changed: Any) -> list[dict[str, Any]]:
    b = TraceBuilder(device, host_us=0).ran_with(**(KNOWN | changed))
    with b.step():
        with b.loader(us=200, workers=2):
            pass
        with b.op("aten::linear", us=800), b.op("aten::addmm", us=600):
            if device:
                b.kernel("sgemm", us=10)
    return list(advisor.read(b.write(folder / "trace.json")).frame("shared_cores").to_dict("records"))


def test_shares_of_the_program_and_of_the_machine(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert [(row["name"], row["cost_ns"]) for row in found] == [("aten::linear", 200_000), ("aten::addmm", 600_000)]
    for row in found:
        assert (row["file"], row["line"], row["function"], row["line_share"]) == ("data.py", 42, "decode", 0.6)
        assert (row["workers"], row["own_cores"], row["workers_cores"], row["waited_share"]) == (3, 1.5, 0.5, 0.25)
        assert row["workers_share"] == pytest.approx(0.25)  # 0.5 of 2
        assert row["taken_share"] == pytest.approx(0.75)  # 3 of 4
        assert row["lost_share"] == pytest.approx(0.375)  # 1.5 times the workers' share


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"threads": 1, "own_cores": 0.8, "workers_cores": 1.2}, 0.2),  # of one thread's time it had a core for 0.8
        ({"threads": 4, "own_cores": 0.8, "workers_cores": 1.2}, 0.55),  # 1.5 * 0.6 is over the most
        ({"threads": 1, "own_cores": 1.1, "workers_cores": 0.9}, 0.0),
    ],
)
def test_what_operators_lose(tmp_path: Path, changed: dict[str, Any], lost: float) -> None:
    assert rows(tmp_path, **changed)[0]["lost_share"] == pytest.approx(lost)


def test_without_lines_it_is_the_loader_with_the_most_workers(tmp_path: Path) -> None:
    row = rows(tmp_path, worker_lines=None)[0]
    assert (row["file"], row["line"]) == ("train.py", 7)
    assert np.isnan(row["line_share"])


@pytest.mark.parametrize(
    "changed",
    [
        {"workers_cores": None},
        {"workers_cores": 0.0},
        {"own_cores": None},
        {"cores": None},
        {"loaders": [Loader(0)]},
        {"loaders": []},
    ],
)
def test_no_rows_where_it_is_not_known(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert rows(tmp_path, **changed) == []


def test_no_rows_beside_a_gpu(tmp_path: Path) -> None:
    assert rows(tmp_path, device="NVIDIA A100-SXM4-80GB") == []
