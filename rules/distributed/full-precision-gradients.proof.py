"""Proof of distributed/full-precision-gradients: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"


def training(
    exposed_us: int,
    *,
    dtype: str = "Float",
    gemm: str = "ampere_fp16_s16816gemm_fp16_128x64",
    nbytes: int = 100_000_000,
) -> TraceBuilder:
    """Four steps of 100 ms that compute in half precision and reduce their gradients after the backward pass."""
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel(gemm, us=40_000, at_us=start + 200)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel(gemm, us=30_000, at_us=start + 40_200)
                b.collective("all_reduce", nbytes, us=exposed_us, dtype=dtype, at_us=start + 70_200)
            b.seek((number + 1) * 100_000)
    return b


# One reduction in each of four steps.
@fires(occurrences=4, severity="note")
def fp32_gradients_of_a_model_in_half_precision() -> TraceBuilder:
    return training(12_000)


@quiet
def gradients_in_bf16() -> TraceBuilder:
    return training(12_000, dtype="BFloat16")


@quiet("not_applicable")
def a_model_in_fp32() -> TraceBuilder:
    return training(12_000, gemm="ampere_sgemm_128x64_tn")


@edge
def exposed_for_5_percent_of_the_window(over: bool) -> TraceBuilder:
    return training(5_010 if over else 4_990)


@edge
def messages_of_1_MB(over: bool) -> TraceBuilder:
    return training(12_000, nbytes=1_000_000 if over else 999_996)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)
