"""Proof of kernels/narrow-normalization: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>"
OP = "aten::native_layer_norm"


def training(
    us: float = 2000,
    width: int = 64,
    *,
    name: str = NAME,
    device: str = H100,
    capability: tuple[int, int] = (9, 0),
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of a layer norm of 2^27 numbers in rows of *width*, 161 us at what an H100's memory reaches, and a product of 2 ms."""
    b = TraceBuilder(device, capability=capability, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            sizes, types = (
                [[(1 << 27) // width, width], [], [width], [width], []],
                ["c10::BFloat16", "", *["c10::BFloat16"] * 2, ""],
            )
            with b.op(OP, shapes=sizes, dtypes=types, values=["", f"[{width}]", "", "", "1e-05"]):
                b.kernel(name, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=2000)
            b.sync()
    return b


@fires(cost_ms=2.0, occurrences=4, op=OP)
def rows_of_64() -> TraceBuilder:
    return training()


@quiet
def rows_of_1_024() -> TraceBuilder:
    return training(width=1024)


@quiet
def a_compiled_one() -> TraceBuilder:
    return training(us=185, name="triton_per_fused_native_layer_norm_0")


# Half a billion bytes less three quarters of the cache: 0.4 of the rate is 404 us.
@edge
def two_fifths_of_the_memory_s_rate(over: bool) -> TraceBuilder:
    return training(us=430 if over else 380)


@edge
def volta_is_the_first(over: bool) -> TraceBuilder:
    return training(
        us=9000,
        device="Tesla V100-SXM2-16GB" if over else "Tesla P100-PCIE-16GB",
        capability=(7, 0) if over else (6, 0),
    )


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    sizes, types = [[8192, 64], [], [64], [64], []], ["c10::BFloat16", "", *["c10::BFloat16"] * 2, ""]
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op(OP, shapes=sizes, dtypes=types):
                    b.kernel(NAME, us=20 if over else 19.9)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return training(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=[[4096, 64]], device=H100)
