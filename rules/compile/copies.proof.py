"""Proof of compile/copies: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

REGION = "Torch-Compiled Region: 0/0"
PRODUCT = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
SHAPES, HALF, FLOAT = [[64, 4096], [64, 4096], []], "c10::Half", "float"


def steps(
    kernel: str | None = None,
    *,
    op: str = "aten::copy_",
    types: tuple[str, str] = (HALF, HALF),
    region: str = REGION,
    memcpy: bool = False,
    us: float = 100,
    graph: bool = False,
) -> TraceBuilder:
    """Four steps of 900 us of products and a copy of 100 us, which *kernel* makes, or an operator."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op(region):
                with b.op("aten::mm"):
                    b.kernel(PRODUCT, us=900)
                if graph:
                    b.graph([("direct_copy_kernel_cuda", us)])
                elif kernel:
                    with b.op(kernel):
                        b.kernel(kernel, us=us)
                else:
                    with b.op(op, shapes=SHAPES, dtypes=[*types, "Scalar"]):
                        if memcpy:
                            b.copy("DtoD", 64 * 4096 * 2, us=us)
                        else:
                            b.kernel("direct_copy_kernel_cuda", us=us)
            b.sync(us=0)
    return b


# A copy of 100 us in each of four steps of 1,000 us and what the launches take.
@fires(
    cost_ms=0.1,
    occurrences=4,
    severity="medium",
    fix="Find what copies: layouts, writes into arguments, inputs of graphs",
)
def a_kernel_that_only_clones() -> TraceBuilder:
    return steps("triton_poi_fused_clone_transpose_3")


@fires(cost_ms=0.1, occurrences=4)
def a_result_written_into_an_argument() -> TraceBuilder:
    return steps("triton_poi_fused_copy__0")


@fires(cost_ms=0.1, occurrences=4)
def copies_of_one_type_in_a_region() -> TraceBuilder:
    return steps()


@fires(cost_ms=0.1, occurrences=4)
def copies_on_the_device_in_a_region() -> TraceBuilder:
    return steps(memcpy=True)


@fires(cost_ms=0.1, occurrences=4)
def copies_of_a_region_of_inductor() -> TraceBuilder:
    return steps(op="aten::clone", region="## Call CompiledFxGraph fabc ##")


@quiet
def a_kernel_that_computes_as_well() -> TraceBuilder:
    return steps("triton_poi_fused_add_clone_permute_3")


@quiet
def casts() -> TraceBuilder:
    return steps(types=(HALF, FLOAT))


@quiet
def a_kernel_that_casts() -> TraceBuilder:
    return steps("triton_poi_fused__to_copy_view_1")


@quiet
def what_a_graph_replays() -> TraceBuilder:
    return steps(graph=True)


@quiet("not_applicable")
def eager_code() -> TraceBuilder:
    return steps(region="mine::layer")


# Of the copies 65 % return.
@edge
def one_percent_of_the_step(over: bool) -> TraceBuilder:
    return steps(us=16 if over else 12)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(REGION)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("triton_poi_fused_clone_transpose_3")
