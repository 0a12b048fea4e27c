"""Proof of kernels/scatter-embedding-backward: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SORT = "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, long>>"
ADD = "void at::native::(anonymous namespace)::sum_and_scatter<float, long>"


def training(
    sort_us: float = 100, node: str = "EmbeddingBackward0", op: str = "aten::embedding_dense_backward"
) -> TraceBuilder:
    """Steps with a lookup, a product of 700 us, and the lookup's backward: a sort, and 100 us of adding."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::embedding", seq=1), b.op("aten::index_select"):
                b.kernel("void at::native::indexSelectLargeIndex<float>", us=20)
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_tn", us=700)
            with b.thread(4001), b.backward(node, seq=1), b.op(op):
                b.kernel(SORT, us=sort_us)
                b.kernel(ADD, us=100)
            b.sync()
    return b


# A sort of 100 us and 100 us of adding in each step.
@fires(cost_ms=0.2, occurrences=8, severity="medium", op="aten::embedding_dense_backward")
def the_backward_of_an_embedding() -> TraceBuilder:
    return training()


@fires(cost_ms=0.2, op="aten::_index_put_impl_")
def the_backward_of_indexing() -> TraceBuilder:
    return training(node="IndexBackward0", op="aten::_index_put_impl_")


# 65,536 rows of 768 in bf16: 101 MB read, and a table of 77 MB written, take an A100 over 100 us: more than a tenth of its rate.
@quiet
def an_addition_near_the_memorys_rate() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    sizes, types = [[65536, 768], [65536], [], [], []], ["c10::BFloat16", "long int", "Scalar", "Scalar", "Scalar"]
    for _ in range(4):
        with b.step():
            with b.op("aten::embedding", seq=1), b.op("aten::index_select"):
                b.kernel("void at::native::indexSelectLargeIndex<float>", us=20)
            with (
                b.thread(4001),
                b.backward("EmbeddingBackward0", seq=1),
                b.op(
                    "aten::embedding_dense_backward",
                    shapes=sizes,
                    dtypes=types,
                    values=["", "", "50304", "-1", "False"],
                ),
            ):
                b.kernel(ADD, us=400)
            b.sync()
    return b


@quiet
def the_backward_of_index_select() -> TraceBuilder:
    return training(node="IndexSelectBackward0", op="aten::index_add_")


@quiet("not_applicable")
def inference_that_writes_by_index() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step(), b.op("aten::index_put_"), b.op("aten::_index_put_impl_"):
        b.kernel(SORT, us=100)
    return b


# Of a step of 900 us, what the host takes and the lookup itself, about 970, 5 % is 48.
@edge
def five_percent_of_the_step(over: bool) -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", seq=1):
                b.kernel("ampere_sgemm_128x64_tn", us=900)
            with b.thread(4001), b.backward("EmbeddingBackward0", seq=1), b.op("aten::embedding_dense_backward"):
                b.kernel(SORT, us=52 if over else 45)
            b.sync()
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::embedding_dense_backward", backward="EmbeddingBackward0")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(SORT)
