"""Products of experts whose weights are no operands: sizes by name and grid, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.roofline.experts import expert_products
from advisor.roofline.limits import FORMATS, MEMORY, limits
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

FIRST = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x256u2_s3_et128x8_m128x8x32_rM_TN_transOut_swiGlu_dynBatch_sm100f"
SECOND = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x8x256u2_s3_et128x8_m128x8x32_rM_TN_transOut_dynBatch_sm100f"


def layer(folder: Path, *, tall: int = 5, us: float = 100, second: str = SECOND) -> Trace:
    """Read a layer of 4 experts: 8 tokens of 256 numbers go to two each, through 128 inside of an expert.

    Of the grid's five tiles of 8 rows four are one for each expert, and one more for the 12 rows that are left.
    """
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    with b.op("vllm::moe_forward", shapes=[[8, 256], [8, 4], []], dtypes=["c10::BFloat16", "c10::BFloat16", ""]):
        b.kernel("void moe::dev::routing::routingIndicesHistogramKernel<int>()", us=5)
        b.kernel(FIRST, us=us, grid=(2, tall, 1))
        b.kernel(second, us=us, grid=(2, tall, 1))
    return read(str(b.write(folder / "trace.json")))


def test_the_weights_of_the_experts_that_tokens_touch_are_read_in_four_bits(tmp_path: Path) -> None:
    context = layer(tmp_path).context
    found = expert_products(context)
    assert found.rows.tolist() == [1, 2]
    # 16 rows meet 256 × 256 numbers of the gate and what it gates, then 256 × 128.
    assert found.flops.tolist() == [2 * 16 * 256 * 256, 2 * 16 * 256 * 128]
    # Of 4 experts 4 · (1 − ½⁸) = 3.984375 are touched, of 65,536 / 2 + 65,536 / 32 bytes each; then half as many. Rows in fp8 have
    # a byte a number and one for 32: 8 · 256 · 33 / 32 in and 16 · 128 · 33 / 32 out; then these in, and 16 · 256 of two bytes out.
    assert found.bytes.tolist() == [3.984375 * 34_816 + 2_112 + 2_112, 3.984375 * 17_408 + 2_112 + 8_192]
    # If all tokens went to the same two.
    assert found.least_bytes.tolist() == [2 * 34_816 + 4_224, 2 * 17_408 + 10_304]


def test_their_limit_is_what_memory_takes_for_these_bytes(tmp_path: Path) -> None:
    trace = layer(tmp_path)
    found = trace.context.once(limits)
    assert np.isnan(found.limit_ns[0])
    assert found.bytes[1:].tolist() == [142_944, 79_664]
    assert found.bound[1:].tolist() == [MEMORY, MEMORY]
    assert [FORMATS[code] for code in found.format[1:].tolist()] == ["fp8", "fp8"]
    # 3,350 GB/s; so few bytes may lie in the cache, which is four times as fast.
    assert found.limit_ns[1] == pytest.approx(142_944 / 4 / 3_350, rel=0.01)


def test_a_kernel_that_is_faster_than_all_experts_weights_has_touched_few(tmp_path: Path) -> None:
    found = layer(tmp_path, us=0.003).context.once(limits)
    # 2 · 34,816 + 4,224, and 2 · 17,408 + 10,304.
    assert found.bytes[1:].tolist() == [73_856, 45_120]


@pytest.mark.parametrize(("tall", "second"), [(3, SECOND), (5, "bmm_of_another_library")])
def test_what_name_and_grid_do_not_tell_stays_unknown(tall: int, second: str, tmp_path: Path) -> None:
    found = expert_products(layer(tmp_path, tall=tall, second=second).context)
    # Three tiles are fewer than any number of experts for each token needs.
    assert found.rows.tolist() == ([] if tall == 3 else [1])
