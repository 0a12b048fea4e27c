"""Proof of kernels/attention-head-size: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>"
)
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>"
OP = "aten::_flash_attention_forward"


def inference(head: int = 100, us: float = 440, *, shapes: bool = True, times: int = 1) -> TraceBuilder:
    """Steps of attention with heads of so many numbers, which torch pads to the next multiple of 8, and of a product of 600 us."""
    b = TraceBuilder(H100, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            for _ in range(times):
                wide = -(-head // 8) * 8
                outer, q = [[4, 16, 2048, head]] * 3 + [[], [], [], []], [4, 2048, 16, wide]
                types = [*["c10::BFloat16"] * 3, "", "Scalar", "Scalar", ""]
                with b.op("aten::scaled_dot_product_attention", shapes=outer, dtypes=types):
                    if wide != head:
                        padded, source = [4, 16, 2048, wide], [4, 16, 2048, head]
                        with b.op(
                            "aten::copy_", shapes=[padded, source, []], dtypes=["c10::BFloat16"] * 2 + ["Scalar"]
                        ):
                            b.kernel(COPY, us=us / 4)
                    with b.op(OP, shapes=[q, q, q], dtypes=["c10::BFloat16"] * 3):
                        b.kernel(NAME, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=600)
            b.sync()
    return b


@fires(cost_ms=0.55, occurrences=8, op=OP)
def heads_of_100_and_the_copy_that_pads_them() -> TraceBuilder:
    return inference()


@quiet
def heads_of_104() -> TraceBuilder:
    return inference(104)


@edge
def kernels_of_10_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    outer, q = [[1, 4, 128, 20]] * 3 + [[], [], [], []], [1, 128, 4, 24]
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with (
                    b.op(
                        "aten::scaled_dot_product_attention",
                        shapes=outer,
                        dtypes=[*["c10::BFloat16"] * 3, "", "", "", ""],
                    ),
                    b.op(OP, shapes=[q, q, q], dtypes=["c10::BFloat16"] * 3),
                ):
                    b.kernel(NAME, us=10 if over else 9.9)
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return inference(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[1, 128, 4, 24]] * 3, device=H100)
