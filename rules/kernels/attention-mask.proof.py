"""Proof of kernels/attention-mask: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"
OP = "aten::_scaled_dot_product_cudnn_attention"


def training(
    us: float = 270, *, masked: bool = True, queries: int = 2048, shapes: bool = True, times: int = 1
) -> TraceBuilder:
    """Steps of attention of four sequences of 2,048 with 16 heads of 64, and of a product of 400 us."""
    b = TraceBuilder(H100, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            q, k = [4, 16, queries, 64], [4, 16, 2048, 64]
            sizes = [q, k, k, [queries, 2048] if masked else [], [], [], [], []]
            types = [*["c10::BFloat16"] * 3, "c10::BFloat16" if masked else "", *["Scalar"] * 4]
            for _ in range(times):
                with b.op(OP, shapes=sizes, dtypes=types, values=["", "", "", "", "True", "0.", "False", "False"]):
                    b.kernel(NAME, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=400)
            b.sync()
    return b


@fires(cost_ms=0.27, occurrences=4, op=OP)
def a_mask_of_all_pairs() -> TraceBuilder:
    return training()


@quiet
def no_mask() -> TraceBuilder:
    return training(masked=False)


@quiet
def one_query_against_a_cache() -> TraceBuilder:
    return training(queries=1)


def expanded(heads: int) -> TraceBuilder:
    """Attention whose mask all sequences share, and all heads too where *heads* is 0, as its strides tell."""
    b = TraceBuilder(H100)
    wide = [2048 * 2048 if heads else 0, 2048, 1]
    for _ in range(4):
        with b.step():
            sizes = [*[[4, 16, 2048, 64]] * 3, [4, 16, 2048, 2048], [], [], [], []]
            strides = [*[[2097152, 131072, 64, 1]] * 3, [0, *wide], [], [], [], []]
            with b.op(OP, shapes=sizes, dtypes=[*["c10::BFloat16"] * 4, *["Scalar"] * 4], strides=strides):
                b.kernel(NAME, us=270)
            b.sync()
    return b


@fires(cost_ms=0.27, occurrences=4)
def a_mask_that_all_heads_share() -> TraceBuilder:
    return expanded(0)


@quiet
def a_bias_of_each_head() -> TraceBuilder:
    return expanded(16)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                sizes = [[4, 4, 128, 64]] * 3 + [[128, 128], [], [], [], []]
                types = [*["c10::BFloat16"] * 4, *["Scalar"] * 4]
                with b.op(OP, shapes=sizes, dtypes=types):
                    b.kernel(NAME, us=20 if over else 19.9)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[4, 4, 128, 64]] * 3, device=H100)
