"""Proof of kernels/short-row-gather: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-PCIE-40GB"
NAME = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
OP = "aten::index_select"
ROWS = 2_000_000


def training(
    us: float = 1200,
    width: int = 4,
    *,
    rows: int = ROWS,
    threads: int = 32,
    name: str = NAME,
    device: str = H100,
    capability: tuple[int, int] = (9, 0),
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of a gather of *rows* rows of *width* floats, and a product of 1 ms."""
    b = TraceBuilder(device, capability=capability, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            sizes, types = [[100_000, width], [], [rows]], ["float", "Scalar", "long int"]
            with b.op(OP, shapes=sizes, dtypes=types, values=["", "0", ""]):
                b.kernel(name, us=us, grid=(rows, 1, 1), block=(threads, 1, 1))
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=1000)
            b.sync()
    return b


@fires(cost_ms=1.2, occurrences=4, op=OP)
def rows_of_16_bytes() -> TraceBuilder:
    return training()


@fires(cost_ms=1.2, occurrences=4, op=OP)
def rows_of_64_bytes_on_an_a100() -> TraceBuilder:
    return training(width=16, device=A100, capability=(8, 0))


@quiet
def blocks_of_two_warps() -> TraceBuilder:
    return training(width=256, threads=64)


@quiet
def the_kernel_of_single_numbers() -> TraceBuilder:
    return training(name="void at::native::_scatter_gather_elementwise_kernel<128, 8>")


# 2^24 rows of 512 bytes are 8.7 GB written: 2.84 ms at what the memory reaches, of which 8.5 are three times.
@edge
def three_times_what_the_bytes_need(over: bool) -> TraceBuilder:
    return training(us=9_000 if over else 8_000, width=128, rows=1 << 24)


@edge
def fifty_thousand_blocks(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    rows = 50_000 if over else 49_999
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op(OP, shapes=[[100_000, 4], [], [rows]], dtypes=["float", "Scalar", "long int"]):
                    b.kernel(NAME, us=30, grid=(rows, 1, 1), block=(32, 1, 1))
    return b


@edge
def one_warp_a_block(over: bool) -> TraceBuilder:
    return training(threads=32 if over else 64)


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return training(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[4096, 4]], device=H100)
