"""The roofline of a device, its picture, and the distance from the limit by module and by line of the source."""

from __future__ import annotations

import re

import pytest
from support.reading import trace_of

import advisor
from advisor.report.distances import distances
from advisor.report.html.roofline import caption, chart
from advisor.results.analysis import Analysis
from advisor.results.distance import ModuleDistance, Times
from advisor.testing import TraceBuilder

_BF16 = "c10::BFloat16"


def program(device: str = "NVIDIA H100 80GB HBM3") -> Analysis:
    """Three steps: two layers' products of 137.4 GFLOP in 200 us each, one pointwise kernel of 100.7 MB in 50 us, one copy."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            with b.module("Net_0"):
                for layer in range(2):
                    with (
                        b.module(f"Block_{layer}"),
                        b.module(f"Linear_{layer}"),
                        b.python("net.py(7): forward"),
                        b.op("aten::mm", us=5, shapes=[[4096, 4096], [4096, 4096]], dtypes=[_BF16] * 2),
                    ):
                        b.kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", us=200)
                with b.module("GELU_0"), b.python("net.py(9): forward"):
                    with b.op("aten::gelu", us=5, shapes=[[4096, 6144], []], dtypes=[_BF16, ""]):
                        b.kernel("vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", us=50)
                    with b.op("aten::clone", us=5, shapes=[[4096, 4096], []], dtypes=[_BF16, ""]):
                        b.kernel("vectorized_elementwise_kernel<4, direct_copy_kernel_cuda>", us=40)
            b.sync()
    return advisor.analyze(trace_of(b.to_json()))


def test_points_are_what_operators_compute_a_byte_and_a_second() -> None:
    views = program().views
    assert views is not None
    found = views.roofline
    assert found is not None
    assert found.device == "H100 SXM"
    assert [(roof.format, roof.tflops) for roof in found.roofs] == [("bf16", 989.4)]
    product, gelu = found.points
    assert (product.op, product.format, gelu.op, gelu.format) == ("aten::mm", "bf16", "aten::gelu", None)
    assert product.ms == pytest.approx(0.4, rel=0.01)
    # 2 · 4096³ FLOP in 200 us; three matrices of 4096² numbers of two bytes move.
    assert product.tflops == pytest.approx(2 * 4096**3 / 200e-6 / 1e12, rel=1e-6)
    assert product.intensity == pytest.approx(4096 / 3, rel=1e-6)
    # One operation an element of two bytes read and two written.
    assert gelu.intensity == pytest.approx(0.25)
    assert gelu.tflops == pytest.approx(4096 * 6144 / 50e-6 / 1e12, rel=1e-6)
    assert found.moving_ms == pytest.approx(0.04, rel=0.01)


def test_no_device_in_the_table_is_no_picture() -> None:
    views = program("Nameless accelerator").views
    assert views is not None
    assert views.roofline is None


def test_the_picture_has_a_circle_an_operator_and_its_figures() -> None:
    views = program().views
    assert views is not None
    assert views.roofline is not None
    text = str(chart(views.roofline))
    assert text.count("<circle") == 2
    assert "mm bf16: 400 µs, 687 TFLOP/s at 1,365 FLOP a byte" in text
    # The areas are as the times: 0.4 to 0.05 ms.
    wide, narrow = (float(radius) for radius in re.findall(r'<circle [^>]* r="([\d.]+)"', text))
    assert (wide / narrow) ** 2 == pytest.approx(0.4 / 0.05, rel=0.03)
    # A kernel within a fifth of what is reachable is hollow.
    assert 'fill-opacity="0" stroke' in text
    assert "40.0 µs that move bytes and compute nothing" in caption(views.roofline, "a step")


def test_the_page_and_a_notebook_draw_it() -> None:
    made = program()
    assert "<circle" in made._repr_html_()
    from advisor.report import Options, render

    page = render("html", made, Options()).decode()
    assert "Roofline of H100 SXM" in page
    assert "returns at most" in page


def test_the_distance_by_module_and_line_adds_up_to_that_by_operator() -> None:
    summary = program().summary
    sums = [
        sum(part.ms for part in parts) for parts in (summary.distance, summary.distance_modules, summary.distance_lines)
    ]
    assert sums == pytest.approx([0.49] * 3, rel=0.01)
    assert {(part.module, part.count) for part in summary.distance_modules} == {
        ("Net/Block/Linear", 2), ("Net/GELU", 1),
    }  # fmt: skip
    assert {part.line.split(" ")[0] for part in summary.distance_lines} == {"net.py:7", "net.py:9"}


def test_nothing_returns_more_than_all_kernels_at_their_limits_do() -> None:
    summary = program().summary
    assert summary.limit_ms is not None
    together = summary.priced_ms - summary.limit_ms
    every: list[Times] = [*summary.distance, *summary.distance_modules, *summary.distance_lines]
    for part in every:
        assert part.most_ms == pytest.approx(min(part.ms - part.limit_ms, together))


def test_modules_are_named_by_as_much_of_their_path_as_tells_them_apart() -> None:
    summary = program().summary
    times = {"ms": 2.0, "limit_ms": 1.0, "reachable_ms": 1.0, "most_ms": 1.0}
    paths = ["Net/Encoder/Layer/Linear", "Net/Decoder/Layer/Linear", "Net/Head/Linear", "Linear"]
    modules = [ModuleDistance(module=path, count=at + 1, **times) for at, path in enumerate(paths)]
    from msgspec.structs import replace

    groups = {group.name: group for group in distances(replace(summary, distance_modules=modules))}
    assert [text for _, text, _ in groups["module"].parts] == [
        "Encoder/Layer/Linear", "Decoder/Layer/Linear ×2", "Head/Linear ×3", "Linear ×4",
    ]  # fmt: skip
