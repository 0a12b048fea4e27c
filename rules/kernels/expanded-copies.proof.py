"""Proof of kernels/expanded-copies: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SHARED = ([64, 512, 512], [0, 512, 1])
OWN = ([64, 512, 512], [262144, 512, 1])
Tensor = tuple[Sequence[int], Sequence[int]]


def steps(
    *tensors: Tensor, name: str = "aten::softmax", us: float = 1000, shapes: bool = True, device: str | None = H100
) -> TraceBuilder:
    """Steps of 10 ms, of which an operator on *tensors* (shape and strides; else a shared one) takes *us*."""
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)
    tensors = tensors or (SHARED,)
    for _ in range(3):
        with b.step():
            with (
                b.python("model.py(7): attend"),
                b.op(name, shapes=[shape for shape, _ in tensors], strides=[strides for _, strides in tensors], us=1),
            ):
                if device:
                    b.kernel("vectorized_elementwise_kernel", us=us)
            with b.op("aten::mm", us=1):
                if device:
                    b.kernel("nvjet_tst_128x128", us=10_000 - us)
            if device:
                b.sync()
    return b


# 1 of 10 ms, of which 63/64 are copies.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=3, severity="medium", op="aten::softmax", line="model.py:7")
def one_softmax_for_each_sample() -> TraceBuilder:
    return steps()


@fires
def a_row_beside_an_expanded_batch() -> TraceBuilder:
    return steps(SHARED, ([512], [1]), name="aten::add")


@quiet
def a_matrix_of_its_own_for_each_sample() -> TraceBuilder:
    return steps(OWN)


@quiet
def what_it_is_added_to_differs() -> TraceBuilder:
    return steps(SHARED, OWN, name="aten::add")


# A GPU factorizes matrices side by side.
@quiet
def matrices_of_a_batch() -> TraceBuilder:
    return steps(name="aten::linalg_cholesky")


@quiet
def three_copies() -> TraceBuilder:
    return steps(([3, 512, 512], [0, 512, 1]))


@quiet("not_applicable")
def on_the_cpu() -> TraceBuilder:
    return steps(device=None)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 63/64 of *us* but 3 us 85 % are 2 % of 10 ms from 243 us on."""
    return steps(us=244 if over else 241)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::add")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)
