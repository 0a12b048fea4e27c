"""Gradients of parameters that pile up unread: what makes them, by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from advisor.testing import TraceBuilder
from tests.support.reading import trace_of

WEIGHT, IMAGES = [64, 32, 3, 3], [16, 32, 28, 28]


def attacked(*, anew: bool = False, clipped: bool = False) -> pd.DataFrame:
    """Three passes through a convolution for the gradient of an image: 300 us for filters, 400 for the image, 10 to store."""
    b = TraceBuilder()
    for number in range(3):
        with b.step():
            with b.op("aten::conv2d", shapes=[IMAGES, WEIGHT], seq=number):
                b.kernel("implicit_convolve_sgemm", us=500)
            with b.thread(77):
                node = b.backward("ConvolutionBackward0", number)
                outer = b.op("autograd::engine::evaluate_function: ConvolutionBackward0")
                inner = b.op("aten::convolution_backward", shapes=[[16, 64, 28, 28], IMAGES, WEIGHT])
                with outer, node, inner:
                    b.kernel("sm80_xmma_dgrad_implicit_gemm", us=400)
                    b.kernel("sm80_xmma_wgrad_implicit_gemm", us=300)
                for shape in (WEIGHT, IMAGES):
                    name = "torch::autograd::AccumulateGrad"
                    with b.op(f"autograd::engine::evaluate_function: {name}"), b.op(name, shapes=[shape]):
                        added = shape is WEIGHT and not anew
                        with b.op("aten::add_" if added else "aten::clone", shapes=[shape, shape, []]):
                            b.kernel("vectorized_elementwise_kernel", us=10)
            with b.op("aten::sign", shapes=[IMAGES]):
                b.kernel("vectorized_elementwise_kernel<sign>", us=5)
            if clipped:
                with b.op("aten::linalg_vector_norm", shapes=[WEIGHT]):
                    b.kernel("reduce_kernel<norm>", us=5)
            b.sync()
    rows = trace_of(b.to_json()).patterns
    return rows[rows["kind"] == "unread-gradients"]


def test_of_a_convolutions_backward_the_filters_gradient_goes() -> None:
    rows = attacked()
    assert rows["own_ns"].tolist() == [310_000] * 3
    assert rows["own_count"].tolist() == [2] * 3
    assert rows["repeats"].tolist() == [1] * 3
    assert rows["length"].tolist() == [2] * 3


@pytest.mark.parametrize("habit", ["anew", "clipped"])
def test_gradients_that_are_cleared_or_looked_at_may_be_read(habit: str) -> None:
    assert not len(attacked(**{habit: True}))
