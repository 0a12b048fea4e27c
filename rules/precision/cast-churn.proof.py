"""Proof of precision/cast-churn: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"


def layers(
    cast_us: float = 30, layers: int = 8, *, around: str = "aten::linear", to: str = "c10::Half", shapes: bool = True
) -> TraceBuilder:
    """Steps in which each layer converts a weight and then multiplies for 100 us."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB", record_shapes=shapes)
    size = [512, 512]
    for _ in range(4):
        with b.step():
            for _ in range(layers):
                convert = b.op("aten::copy_", shapes=[size, size, []], dtypes=[to, "float", "Scalar"])
                with b.op(around), b.op("aten::to"), b.op("aten::_to_copy"), convert:
                    b.kernel(CAST, us=cast_us)
                with b.op("aten::linear"), b.op("aten::addmm", shapes=[size, size]):
                    b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=100)
            b.sync()
    return b


# Eight layers of 30 us in each step.
@fires(cost_ms=0.24, occurrences=32, severity="high", op="aten::copy_")
def weights_converted_in_every_layer() -> TraceBuilder:
    return layers()


@quiet
def conversions_that_the_program_asks_for() -> TraceBuilder:
    return layers(around="aten::to")


@quiet
def copies_that_convert_nothing() -> TraceBuilder:
    return layers(to="float")


# Eight times 100 us of products: 3 % is 24.9 us of about 830 with what the host takes, 3.1 us a layer.
@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    return layers(3.5 if over else 2.8)


@edge
def four_conversions_in_a_step(over: bool) -> TraceBuilder:
    return layers(layers=4 if over else 3)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return layers(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::copy_", shapes=[[8], [8]])
