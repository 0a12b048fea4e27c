"""Proof of kernels/attention-backend: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>"
)
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"
OP = "aten::_flash_attention_forward"


def training(
    name: str = FLASH,
    us: float = 200,
    *,
    device: str = "NVIDIA H100 80GB HBM3",
    capability: tuple[int, int] = (9, 0),
    queries: int = 2048,
    lengths: int = 1,
) -> TraceBuilder:
    """Steps of attention of four sequences with 16 heads of 64, in *lengths* lengths, and of a product of 400 us."""
    b = TraceBuilder(device, capability=capability)
    for _ in range(4):
        with b.step():
            for length in range(lengths):
                q, k = [4, queries, 16, 64], [4, 2048 + 8 * length, 16, 64]
                with b.op(OP, shapes=[q, k, k], dtypes=["c10::BFloat16"] * 3):
                    b.kernel(name, us=us / lengths)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=400)
            b.sync()
    return b


@fires(cost_ms=0.2, occurrences=4, op=OP)
def flash_attention_2_on_an_h100() -> TraceBuilder:
    return training()


@quiet
def cudnn_on_an_h100() -> TraceBuilder:
    return training(CUDNN)


@quiet("not_applicable")
def flash_attention_2_on_an_a100() -> TraceBuilder:
    return training(device="NVIDIA A100-SXM4-80GB", capability=(8, 0))


@quiet("not_applicable")
def flash_attention_2_on_a_geforce_card() -> TraceBuilder:
    return training(device="NVIDIA GeForce RTX 5090", capability=(12, 0))


# Keys and values of 2,048 tokens set the pace of one query: both backends read them.
@quiet
def one_query_against_a_cache() -> TraceBuilder:
    return training(queries=1)


@edge
def eight_shapes(over: bool) -> TraceBuilder:
    return training(us=400, lengths=8 if over else 9)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", capability=(9, 0))
    for _ in range(4):
        with b.step(), b.op(OP, shapes=[[4, 2048, 16, 64]] * 3, dtypes=["c10::BFloat16"] * 3):
            for _ in range(20):
                b.kernel(FLASH, us=20 if over else 19.9)
    return b


@edge
def hopper_is_the_first(over: bool) -> TraceBuilder:
    return training(device="NVIDIA H100 80GB HBM3" if over else "NVIDIA L40S", capability=(9, 0) if over else (8, 9))


@edge
def blackwell_for_data_centres_is_the_last(over: bool) -> TraceBuilder:
    return training(device="NVIDIA B200" if over else "NVIDIA Thor", capability=(10, 3) if over else (11, 0))


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::_flash_attention_forward", device="NVIDIA H100 80GB HBM3")
