"""Work on padding: by the width, and by its square where each position is worked on for each other one."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

WIDTH, BATCH, HEADS, SIZE = 128, 24, 4, 32
LINEAR, SQUARED = 1 - 32 / WIDTH, 1 - (32 / WIDTH) ** 2


@pytest.mark.parametrize(
    ("name", "shapes", "share"),
    [
        ("aten::addmm", [[512], [BATCH * WIDTH, 64], [64, 512]], LINEAR),
        ("aten::bernoulli_", [[BATCH, HEADS, WIDTH, WIDTH]], SQUARED),
        ("aten::_softmax", [[BATCH * HEADS, WIDTH, WIDTH]], SQUARED),
        ("aten::bmm", [[BATCH * HEADS, WIDTH, SIZE], [BATCH * HEADS, SIZE, WIDTH]], SQUARED),
        ("aten::bmm", [[BATCH * HEADS, WIDTH, WIDTH], [BATCH * HEADS, WIDTH, SIZE]], SQUARED),
        ("aten::bmm", [[BATCH * HEADS, WIDTH, SIZE], [BATCH * HEADS, SIZE, 64]], LINEAR),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", [[BATCH, HEADS, WIDTH, SIZE]] * 3, SQUARED),
        # As many features as positions: 24 rows of 128 times 128.
        ("aten::gelu", [[BATCH, WIDTH, WIDTH]], LINEAR),
        ("aten::mkldnn_convolution", [[BATCH, 3, 64, 64]], None),
    ],
)
def test_the_part_of_an_operator_that_is_padding(
    name: str, shapes: list[list[int]], share: float | None, tmp_path: Path
) -> None:
    b = TraceBuilder(None, host_us=0).ran_with(batch_width=WIDTH, batch_longest=32)
    for _ in range(3):
        with b.step():
            with b.op("aten::embedding", shapes=[[1000, 64], [BATCH, WIDTH]], us=10):
                pass
            with b.op(name, shapes=shapes, us=100):
                pass
    frame = read(b.write(tmp_path / "t.json")).frame("ops")
    found = frame.loc[frame["name"] == name, "padding_share"]
    assert len(found) == 3
    assert found.tolist() == [pytest.approx(share)] * 3 if share is not None else found.isna().all()
