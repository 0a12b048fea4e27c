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


def fixed_in_a_loss(*, mask: str = "[True, True, True]", clipped: int = 0) -> pd.DataFrame:
    """Three steps on the CPU: backward of a fixed convolution (400 us), and then of a bias that an optimizer updates."""
    b = TraceBuilder(None, host_us=0)
    bias = [1, 32, 28, 28]
    for number in range(3):
        with b.step():
            with b.op("aten::conv2d", shapes=[IMAGES, WEIGHT], seq=number, us=500):
                pass
            with b.backward("ConvolutionBackward0", number):
                values = [""] * 10 + [mask]
                shapes = [[16, 64, 28, 28], IMAGES, WEIGHT, *([] for _ in range(8))]
                with b.op("aten::convolution_backward", shapes=shapes, values=values, us=400):
                    pass
            for shape, added in ((WEIGHT, True), (bias, False)):
                name = "torch::autograd::AccumulateGrad"
                outer, inner = b.op(f"autograd::engine::evaluate_function: {name}"), b.op(name, shapes=[shape])
                with outer, inner, b.op("aten::add_" if added else "aten::detach", shapes=[shape, shape, []], us=20):
                    pass
            if clipped:
                with b.op(
                    "aten::_foreach_norm", shapes=[[WEIGHT, bias], [], []] if clipped < 31 else [[], [], []], us=5
                ):
                    pass
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", shapes=[bias, bias, []], us=5):
                pass
    rows = trace_of(b.to_json()).patterns
    return rows[rows["kind"] == "unread-gradients"]


@pytest.mark.parametrize(
    ("mask", "kept"), [("[True, True, True]", 160), ("[False, True, True]", 0)], ids=["both", "weights alone"]
)
def test_of_a_convolutions_backward_on_the_cpu_six_tenths_go(mask: str, kept: int) -> None:
    rows = fixed_in_a_loss(mask=mask)
    # 400 us of the convolution and 20 that add its gradient to the one before.
    assert rows["cost_ns"].tolist() == [420_000] * 3
    assert rows["repeats"].tolist() == [1] * 3
    assert rows["part"].tolist() == pytest.approx([1 - kept / 420] * 3, abs=1e-5)


@pytest.mark.parametrize("tensors", [2, 40])
def test_gradients_that_are_clipped_in_a_list_may_be_read(tensors: int) -> None:
    assert not len(fixed_in_a_loss(clipped=tensors))
