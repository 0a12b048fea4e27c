"""Proof of kernels/sdpa-math-fallback: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

MATH, FLASH = "aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_flash_attention"


def attention(core: str = MATH, softmax_us: float = 200, *, backward: bool = False) -> TraceBuilder:
    """Steps of 1 ms on the GPU: a product of 900 us less the softmax, and the attention's own two kernels."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::scaled_dot_product_attention", seq=7), b.op(core, seq=7):
                with b.op("aten::matmul", seq=8), b.op("aten::bmm", seq=8):
                    b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=100)
                with b.op("aten::_safe_softmax", seq=9), b.op("aten::_softmax", seq=9):
                    b.kernel("void softmax_warp_forward<c10::Half, float>", us=softmax_us)
            with b.op("aten::mm"):
                b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=900 - softmax_us)
            if backward:
                with b.thread(4001), b.backward("SafeSoftmaxBackward0", seq=9), b.op("aten::_softmax_backward_data"):
                    b.kernel("void softmax_warp_backward<c10::Half, float>", us=50)
                with b.thread(4001), b.backward("MmBackward0", seq=10), b.op("aten::mm"):
                    b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nt", us=150)
    return b


# 100 us of a product and 200 us of softmax in each of four steps.
@fires(cost_ms=0.3, occurrences=8, severity="high")
def the_fallback_of_plain_operators() -> TraceBuilder:
    return attention()


# 50 us of the softmax's backward belong to it as well; the product's backward (sequence 10) does not.
@fires(cost_ms=0.35, occurrences=12)
def the_fallback_and_its_backward() -> TraceBuilder:
    return attention(backward=True)


@quiet
def the_same_attention_fused() -> TraceBuilder:
    return attention(FLASH)


# The host takes 12 us to the first kernel, 2 us pass until it starts, and the GPU then works 1,000 us without a pause,
# so that the limit of 3 % lies at 130 us + a little for the fallback of a step of about 1,014 us: 31 us against 20.
@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::scaled_dot_product_attention"), b.op(MATH), b.op("aten::_softmax"):
                b.kernel("void softmax_warp_forward<c10::Half, float>", us=31 if over else 29)
            with b.op("aten::mm"):
                b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=969 if over else 971)
            b.sync()
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(MATH, device="NVIDIA A100-PCIE-40GB")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("void softmax_warp_forward<c10::Half, float>", device="NVIDIA A100-PCIE-40GB")
