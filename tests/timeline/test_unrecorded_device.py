"""Waits for a device of which nothing is recorded, as Apple's GPUs are."""

from __future__ import annotations

from pathlib import Path

from advisor import trace
from advisor.pipeline import analyze
from advisor.testing import TraceBuilder
from advisor.trace import Trace


def read(b: TraceBuilder, path: Path) -> Trace:
    return trace.read(str(b.write(path / "t.json")))


def on_mps(item_us: int, *, first: bool = False, marker: str = "aten::linear") -> TraceBuilder:
    """Steps of 1 ms in operators, and a scalar read back in *item_us*, before them or behind."""
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            for part in ("item", "work") if first else ("work", "item"):
                if part == "item":
                    with b.op("aten::item"), b.op("aten::_local_scalar_dense", us=item_us):
                        pass
                else:
                    with b.op(marker, us=900):
                        pass
                    with b.op("aten::relu", us=100):
                        pass
    return b


def test_a_scalar_that_takes_long_is_a_wait_for_the_device(tmp_path: Path) -> None:
    # linear as one operator is Apple's; of 10 ms a step 9 are the wait.
    found = read(on_mps(9000), tmp_path)
    assert found.ledger.by_cause()["sync"] == 3 * 9_000_000
    assert found.ledger.by_cause()["host"] == 3 * 1_000_000
    assert found.syncs[["name", "kind"]].drop_duplicates().values.tolist() == [["aten::_local_scalar_dense", "scalar"]]


def test_a_scalar_read_before_the_work_on_another_device_without_events(tmp_path: Path) -> None:
    found = read(on_mps(4000, first=True, marker="aten::_mps_convolution"), tmp_path)
    assert found.ledger.by_cause()["sync"] == 3 * 4_000_000


def test_a_scalar_that_is_there_is_no_wait(tmp_path: Path) -> None:
    assert read(on_mps(99), tmp_path).ledger.by_cause()["sync"] == 0


def test_on_the_cpu_it_is_an_operator(tmp_path: Path) -> None:
    found = read(on_mps(9000, marker="aten::mkldnn_convolution"), tmp_path)
    assert found.ledger.by_cause()["sync"] == 0
    assert found.ledger.by_cause()["compute"] == 3 * 10_000_000


def test_beside_recorded_work_it_is_told_by_its_calls(tmp_path: Path) -> None:
    b = TraceBuilder("Tesla T4")
    with b.step():
        with b.op("aten::mm"):
            b.kernel("turing_sgemm_128x64_nn", us=500)
        with b.op("aten::item"), b.op("aten::_local_scalar_dense", us=400):
            pass
    assert len(read(b, tmp_path).syncs) == 0


def copying(elements: int, *, shapes: bool = True, marker: str = "aten::cudnn_convolution") -> TraceBuilder:
    """Steps of 1 ms in an operator and a copy of so many elements that takes 5 ms."""
    b = TraceBuilder(None, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            with b.op(marker, us=1000):
                pass
            with b.op("aten::to"), b.op("aten::copy_", shapes=[[elements], [elements], []], us=5000):
                pass
    return b


def test_a_copy_that_takes_far_longer_than_its_elements_explain_waits_for_the_device(tmp_path: Path) -> None:
    # 123 numbers take a microsecond; a copy of 50,001 that takes over 100 ns for each is none either.
    found = read(copying(123), tmp_path)
    assert found.ledger.by_cause()["blocking_copy"] == 3 * 5_000_000
    assert found.ledger.by_cause()["host"] == 3 * 1_000_000
    assert found.syncs["kind"].tolist() == ["copy"] * 3
    assert read(copying(49_999), tmp_path).ledger.by_cause()["blocking_copy"] == 3 * 5_000_000
    assert read(copying(50_001), tmp_path).ledger.by_cause()["blocking_copy"] == 0


def test_on_the_cpu_a_slow_copy_is_an_operator(tmp_path: Path) -> None:
    found = read(copying(123, marker="aten::mkldnn_convolution"), tmp_path)
    assert found.ledger.by_cause()["blocking_copy"] == 0
    assert found.ledger.by_cause()["compute"] == 3 * 6_000_000


def test_a_long_copy_of_unknown_size_is_work_or_a_wait(tmp_path: Path) -> None:
    found = read(copying(123, shapes=False), tmp_path)
    assert found.ledger.by_cause()["host"] == 3 * 6_000_000
    assert found.context.doubtful_ns == 3 * 5_000_000
    assert read(copying(123), tmp_path).context.doubtful_ns == 0
    assert "the host works or waits" in analyze(found).headline.text  # type: ignore[union-attr]
