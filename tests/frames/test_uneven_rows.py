"""Operators that work on the places of a batch of uneven rows: which, to which power of the width, and what of it is padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.reading.program_settings import Uneven
from advisor.reading.recorded_settings import read as read_settings
from advisor.testing import TraceBuilder
from advisor.trace import read

BATCH, HEADS, SIZE = 24, 4, 32
WIDTHS = (128, 96, 150)
PADDING, SQUARES = 0.4, 0.6


def uneven(**told: Any) -> Uneven:
    return Uneven(**({"rows": BATCH, "widths": (120, 140), "padding": PADDING, "squares": SQUARES} | told))


def steps(tmp_path: Path, name: str, shapes: Any, *, time: int = 1, **recorded: Any) -> Any:
    """The pattern's rows, of steps of a lookup (10 us) and another operator (90 us), whose shapes *shapes* makes of a width."""
    b = TraceBuilder(None, host_us=0).ran_with(**({"uneven": (uneven(time=time),)} | recorded))
    for width in WIDTHS:
        looked_up = [width, BATCH] if time == 0 else [BATCH, width]
        with b.step():
            with b.op("aten::embedding", shapes=[[1000, 64], looked_up], us=10):
                pass
            with b.op(name, shapes=shapes(width), us=90):
                pass
    frame = read(b.write(tmp_path / "t.json")).frame("patterns")
    return frame[frame["kind"] == "uneven-rows"]


@pytest.mark.parametrize(
    ("name", "shapes", "part", "cost"),
    [
        ("aten::addmm", lambda w: [[512], [BATCH * w, 64], [64, 512]], PADDING, 100),
        ("aten::nll_loss_forward", lambda w: [[BATCH * (w - 1), 1000], [BATCH * (w - 1)]], PADDING, 100),
        ("aten::native_layer_norm", lambda w: [[BATCH, w + 1, 64], [64], [64]], PADDING, 100),
        ("aten::lstm", lambda w: [[w, BATCH, 64]], PADDING, 100),
        ("aten::_softmax", lambda w: [[BATCH, HEADS, w, w]], 0.1 * PADDING + 0.9 * SQUARES, 100),
        ("aten::_softmax", lambda w: [[BATCH * HEADS, w, w]], 0.1 * PADDING + 0.9 * SQUARES, 100),
        (
            "aten::bmm",
            lambda w: [[BATCH * HEADS, w, SIZE], [BATCH * HEADS, SIZE, w]],
            0.1 * PADDING + 0.9 * SQUARES,
            100,
        ),
        (
            "aten::scaled_dot_product_attention",
            lambda w: [[BATCH, HEADS, w, SIZE]] * 3,
            0.1 * PADDING + 0.9 * SQUARES,
            100,
        ),
        # As many features as places.
        ("aten::gelu", lambda w: [[BATCH, w, w]], PADDING, 100),
        # Filled with zeros as far as the table goes.
        ("aten::embedding_dense_backward", lambda w: [[BATCH, w, 64], [BATCH, w], [], [], []], 0.1 * PADDING, 100),
        ("aten::mm", lambda w: [[BATCH, 64], [64, 10]], PADDING, 10),
        ("aten::convolution", lambda w: [[BATCH, 3, 64, 64], [8, 3, 3, 3]], PADDING, 10),
        # Packed: the rows of all steps one after the other.
        ("aten::lstm", lambda w: [[w * 17, 64], [w], [2, BATCH, 64]], PADDING, 10),
    ],
)
def test_what_works_on_the_places(name: str, shapes: Any, part: float, cost: float, tmp_path: Path) -> None:
    found = steps(tmp_path, name, shapes)
    assert found["length"].tolist() == list(WIDTHS)
    assert found["repeats"].tolist() == [BATCH] * 3
    assert found["padding"].tolist() == [PADDING] * 3
    assert found["cost_ns"].tolist() == [cost * 1000] * 3
    assert found["part"].tolist() == [pytest.approx(part * 100 / 100 if cost == 100 else part, abs=1e-5)] * 3


def test_words_whose_first_dimension_is_time(tmp_path: Path) -> None:
    found = steps(tmp_path, "aten::lstm", lambda w: [[w, BATCH, 64]], time=0)
    assert found["length"].tolist() == list(WIDTHS)
    assert found["cost_ns"].tolist() == [100_000] * 3


def test_the_turns_of_a_recurrent_layer(tmp_path: Path) -> None:
    """In each of three steps 10 us of lookup, ten turns of 5 us in the layer, and backward ten of 6 us.

    Between these the engine takes 2 us, and an addition of no turn's own 3 us, nine times; behind the last, the additions are
    none of the layer's.
    """
    b = TraceBuilder(None, host_us=0).ran_with(uneven=(uneven(),))
    for step, width in enumerate(WIDTHS):
        with b.step():
            with b.op("aten::embedding", shapes=[[1000, 64], [BATCH, width]], us=10):
                pass
            with b.op("aten::gru", shapes=[[BATCH, width, 64]]):
                for turn in range(10):
                    with b.op("aten::mm", shapes=[[BATCH, 64]], seq=100 * step + turn, us=5):
                        pass
            for turn in reversed(range(10)):
                with b.backward("MmBackward0", 100 * step + turn), b.op("aten::mm", shapes=[[BATCH, 64]], us=6):
                    pass
                with (
                    b.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"),
                    b.op("aten::add_", us=3),
                ):
                    pass
                b.idle(us=2)
    frame = read(b.write(tmp_path / "t.json")).frame("patterns")
    found = frame[frame["kind"] == "uneven-rows"]
    assert found["cost_ns"].tolist() == [(10 + 50 + 60 + 9 * 5) * 1000] * 3
    assert found["part"].tolist() == [pytest.approx(PADDING, abs=1e-5)] * 3


@pytest.mark.parametrize(
    "recorded",
    [
        {"uneven": ()},
        {"uneven": (uneven(padding=0.0),)},
        {"uneven": (uneven(rows=1),)},
        {"uneven": (uneven(widths=(30, 40)),)},
        {"uneven": (uneven(size=64),)},
        # Padded far beyond the longest row: another fault.
        {"uneven": (uneven(widths=(128, 128)),), "batch_width": 128, "batch_longest": 90},
    ],
    ids=["unseen", "unpadded", "one-row", "of-another-width", "frames", "fixed"],
)
def test_batches_that_are_left_out(recorded: dict[str, Any], tmp_path: Path) -> None:
    assert not len(steps(tmp_path, "aten::addmm", lambda w: [[512], [BATCH * w, 64], [64, 512]], **recorded))


def test_a_fixed_width_that_the_longest_rows_fill(tmp_path: Path) -> None:
    recorded = {"uneven": (uneven(widths=(128, 128)),), "batch_width": 128, "batch_longest": 120}
    found = steps(tmp_path, "aten::addmm", lambda w: [[512], [BATCH * w, 64], [64, 512]], **recorded)
    assert found["length"].tolist() == [128]


@pytest.mark.parametrize(
    ("width", "longest", "kept"),
    [
        # Beside the longest row half of a multiple: of 64 from a width of 512 on, of an eighth of the width below, 8 at least.
        (1024, 200, 200 + 32),
        (512, 107, 107 + 32),
        (128, 40, 40 + 8),
        (24, 8, 8 + 4),
        (24, 21, 24),
    ],
)
def test_a_fixed_width_far_beyond_the_longest_rows(width: int, longest: int, kept: int, tmp_path: Path) -> None:
    """Steps on a GPU of a lookup (10 us), a product on its places (30 us), attention (60 us) and the product's backward (40 us)."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    one = uneven(widths=(width, width))
    b.ran_with(uneven=(one,), batch_width=width, batch_longest=longest)
    for step in range(3):
        with b.step():
            with b.op("aten::embedding", shapes=[[1000, 64], [BATCH, width]]):
                b.kernel("gather", us=10)
            with b.op("aten::addmm", shapes=[[64], [BATCH * width, 64], [64, 64]], seq=step):
                b.kernel("gemm", us=30)
            with b.op("aten::_cudnn_attention_forward", shapes=[[BATCH, HEADS, width, 64]] * 3):
                b.kernel("cudnn_generated_fort_native_sdpa", us=60)
            with b.op("aten::mm", shapes=[[width, 64], [64, 64]]):  # as many features as a row has places
                b.kernel("gemm", us=100)
            with b.backward("AddmmBackward0", step), b.op("aten::mm", shapes=[[64, BATCH], [BATCH, 64]]):
                b.kernel("gemm", us=40)
    frame = read(b.write(tmp_path / "t.json")).frame("patterns")
    assert not len(frame[frame["kind"] == "uneven-rows"])
    found = frame[frame["kind"] == "padded-rows"]
    if longest >= 0.9 * width:
        assert not len(found)
        return
    part = 1 - kept / width
    assert found["padding"].tolist() == [pytest.approx(1 - longest / width, abs=1e-6)] * 3
    assert found["part"].tolist() == [pytest.approx((80 * part + 60 * (1 - (1 - part) ** 2)) / 140, abs=1e-6)] * 3
    assert found["cost_ns"].tolist() == [140_000] * 3
    assert found["own_count"].tolist() == [4] * 3


def test_a_fixed_width_on_the_cpu(tmp_path: Path) -> None:
    """The rule for the CPU has a column of its own."""
    recorded = {"uneven": (uneven(widths=(128, 128)),), "batch_width": 128, "batch_longest": 40}
    b = TraceBuilder(None).ran_with(**recorded)
    with b.step(), b.op("aten::embedding", shapes=[[1000, 64], [BATCH, 128]], us=10):
        pass
    frame = read(b.write(tmp_path / "t.json")).frame("patterns")
    assert not len(frame[frame["kind"].isin(["uneven-rows", "padded-rows"])])


@pytest.mark.parametrize(
    "entry",
    [
        {"rows": 8, "widths": [], "padding": 0.5, "squares": 0.5},
        {"rows": 8, "widths": [10], "padding": 1.5, "squares": 0.5},
        {"rows": 0, "widths": [10], "padding": 0.5, "squares": 0.5},
        {"rows": 8, "widths": 10, "padding": 0.5, "squares": 0.5},
        {"rows": 8, "widths": [10], "padding": 0.5, "squares": 0.5, "time": 3},
        "rows",
    ],
)
def test_what_is_no_such_entry(entry: Any) -> None:
    settings = read_settings({"uneven": [entry]})
    assert settings is not None
    assert settings.uneven == ()


def test_old_recordings_say_nothing() -> None:
    settings = read_settings({"batch_width": 128})
    assert settings is not None
    assert settings.uneven == ()
