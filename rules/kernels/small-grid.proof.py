"""Proof of kernels/small-grid: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SCAN = "void at::native::tensor_kernel_scan_outer_dim<float, std::plus<float>>"
PRODUCT = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"


def training(
    blocks: int = 4, us: float = 200, name: str = SCAN, *, device: str = "NVIDIA A100-PCIE-40GB", beside: bool = False
) -> TraceBuilder:
    """Steps of a product of 800 us, and a kernel of so many blocks; *beside* it on another stream where asked."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.op("aten::cumsum"):
                b.kernel(name, us=us, grid=(blocks, 1, 1), stream=8 if beside else 7)
            with b.op("aten::mm"):
                b.kernel(PRODUCT, us=800)
            b.sync()
    return b


# One kernel of 200 us in each step, on 4 of 108 SMs.
@fires(cost_ms=0.2, occurrences=4, severity="medium", op="aten::cumsum")
def a_scan_on_four_multiprocessors() -> TraceBuilder:
    return training()


@quiet
def the_same_scan_over_many_rows() -> TraceBuilder:
    return training(4096)


@quiet
def the_same_scan_beside_a_product() -> TraceBuilder:
    return training(beside=True)


@quiet
def communication_that_takes_few_multiprocessors_on_purpose() -> TraceBuilder:
    return training(24, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")


# 4 blocks on 304 compute units.
@fires(cost_ms=0.2, occurrences=4, op="aten::cumsum")
def a_scan_on_four_compute_units() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training(device="Intel(R) Data Center GPU Max 1550")


# 108 SMs: 53 blocks are 0.49 of them, 54 a half.
@edge
def half_a_block_per_multiprocessor(over: bool) -> TraceBuilder:
    return training(53 if over else 54)


@edge
def kernels_of_10_us(over: bool) -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step(), b.op("aten::cumsum"):
            for _ in range(20):
                b.kernel(SCAN, us=10 if over else 9.9, grid=(4, 1, 1))
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::cumsum", device="NVIDIA A100-PCIE-40GB")
