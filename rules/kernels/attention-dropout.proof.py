"""Proof of kernels/attention-dropout: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"
OP = "aten::_scaled_dot_product_cudnn_attention"


def training(
    us: float = 390, dropped: str = "0.10000000000000001", *, backward: bool = True, shapes: bool = True
) -> TraceBuilder:
    """Steps of attention of four sequences of 2,048 with 16 heads of 64, of a product of 400 us, and of a backward pass."""
    b = TraceBuilder(H100, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            q = [4, 16, 2048, 64]
            sizes, types = [q, q, q, [], [], [], [], []], [*["c10::BFloat16"] * 3, "", *["Scalar"] * 4]
            with b.op(
                OP, shapes=sizes, dtypes=types, values=["", "", "", "", "True", dropped, "False", "False"], seq=1
            ):
                b.kernel(NAME, us=us)
            if backward:
                with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                    b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=400)
            b.sync()
    return b


@fires(cost_ms=0.39, occurrences=4, op=OP)
def a_tenth_of_the_pairs_dropped() -> TraceBuilder:
    return training()


@quiet
def nothing_dropped() -> TraceBuilder:
    return training(dropped="0.")


@fires(cost_ms=0.39)
def inference_in_which_nobody_switched_it_off() -> TraceBuilder:
    return training(backward=False)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            sizes, types = [[4, 4, 128, 64]] * 3 + [[], [], [], [], []], [*["c10::BFloat16"] * 3, "", *["Scalar"] * 4]
            for _ in range(20):
                with b.op(
                    OP, shapes=sizes, dtypes=types, values=["", "", "", "", "True", "0.1", "False", "False"], seq=1
                ):
                    b.kernel(NAME, us=20 if over else 19.9)
            with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=40)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[4, 4, 128, 64]] * 3, device=H100)
