"""Part of separate projections that goes, where the GPU waits for the host between them. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.testing import TraceBuilder

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)"
INPUT, WEIGHT, HEADS = [1, 128, 1024], [1024, 1024], [1, 16, 128, 64]
LAYER = ("aten::linear", GEMM, [INPUT, WEIGHT, [1024]])


def test_of_the_hosts_time_three_quarters_go_though_gaps_begin_before_the_layers(tmp_path: Path) -> None:
    """Kernels of 2 us, 10 us behind calls of 50 us with 20 us of Python between: each gap begins before a layer's operator.

    That of the last layer ends behind it, too.
    """
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=50, latency_us=10)
    for _ in range(3):
        with b.step():
            for layer in range(4):
                with b.module(f"SelfAttention_{layer}"):
                    for name, kernel, shapes in [LAYER] * 3 + [
                        ("aten::scaled_dot_product_attention", FLASH, [HEADS] * 3),
                        LAYER,
                    ]:
                        b.idle(us=20)
                        with b.op(name, shapes=shapes, dtypes=["c10::BFloat16"] * len(shapes)):
                            b.kernel(kernel, us=2)
            b.sync()
    frame = advisor.read(str(b.write(tmp_path / "t.json"))).frame("patterns")
    rows = frame[frame["kind"] == "separate-projections"]
    assert rows["part"].to_numpy() == pytest.approx([0.75] * 12, abs=0.02)


def test_what_it_saves_alone_is_no_more_than_the_calls_that_go_take() -> None:
    """By the raw file the eight calls that go take 386 us of host time, 444 with the first that is cold."""
    (found,) = (one for one in real("mi300_bert_small").findings if one.rule == "inference/separate-projections")
    assert found.saving is not None
    assert found.saving.alone_ms is not None
    assert found.saving.alone_ms["high"] < 0.444
