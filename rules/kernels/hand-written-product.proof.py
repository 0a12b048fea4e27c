"""Proof of kernels/hand-written-product: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

NAIVE = "matmul_naive(float const*, float const*, float*, int, int, int)"


def program(us: float = 6000, name: str = NAIVE, *, shared: int = 0, device: str = "Tesla T4") -> TraceBuilder:
    """Four steps of a kernel that an extension launches, without an operator, and of 4 ms of other work."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.python("train.py(31): forward"):
                b.kernel(name, us=us, grid=(128, 128, 1), block=(16, 16, 1), shared=shared)
            with b.op("aten::relu", shapes=[[4096, 4096]], dtypes=["float"]):
                b.kernel("vectorized_elementwise_kernel", us=4000)
            b.sync()
    return b


@fires(cost_ms=6.0, occurrences=4, severity="high", line="train.py:31")
def a_first_kernel_of_an_extension() -> TraceBuilder:
    return program()


@fires(cost_ms=6.0)
def a_template_on_an_h100() -> TraceBuilder:
    return program(name="void sgemm_coalesced<32>(int, int, int, float, float const*)", device="NVIDIA H100 80GB HBM3")


@quiet
def tiles_in_shared_memory() -> TraceBuilder:
    return program(shared=8192)


@quiet
def another_kernel() -> TraceBuilder:
    return program(name="stencil(float const*, float*, int, int)")


@quiet
def a_librarys_kernel() -> TraceBuilder:
    return program(name="void gemmSN_NN_kernel<float, 128, 2, 4, 8, 5, 4>(cublasGemmSmallNParams<float>)")


@quiet
def a_kernel_of_torchs_own_operator() -> TraceBuilder:
    b = TraceBuilder("Tesla T4")
    for _ in range(4):
        with b.step(), b.op("aten::mm", shapes=[[64, 64]], dtypes=["float"]):
            b.kernel("gemm(float const*, float const*, float*, int)", us=6000)
    return b


# Its sizes are known: kernels/own-product says how far it is from what the device reaches.
@quiet
def a_product_of_known_sizes() -> TraceBuilder:
    b = TraceBuilder("Tesla T4")
    for _ in range(4):
        with b.step(), b.op("mylib::matmul", shapes=[[2048, 2048], [2048, 2048]], dtypes=["float", "float"]):
            b.kernel(NAIVE, us=30_000)
    return b


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder("Tesla T4")
    for _ in range(4):
        with b.step():
            for _ in range(20):
                b.kernel(NAIVE, us=20 if over else 19.9)
    return b


# What hipLaunchKernel records of shared memory leaves out what the kernel itself declares.
@quiet("not_applicable")
def another_makers_gpu() -> TraceBuilder:
    return program(device="AMD Instinct MI300X")


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("mylib::matmul", device="Tesla T4")
