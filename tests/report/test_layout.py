"""The pages as Chromium lays them out at the width of a desk, a tablet and a phone: nothing overlaps, leaves its frame or is cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.browser import Visit, browser
from support.paths import ROOT
from support.traces import sample as sampled

from advisor.report import Options, render
from advisor.results.distance import Distance
from advisor.results.roofline import Roof, RoofPoint

pytestmark = pytest.mark.browser

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"
REPLACE = msgspec.structs.replace
WIDTHS = (1440, 1024, 390)

# Texts of a picture that lie on one another, or outside of it.
CLASHES = """(picture) => {
  const frame = picture.getBoundingClientRect();
  const texts = [...picture.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect()]);
  const found = texts.filter(([, a]) => a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1
    || a.bottom > frame.bottom + 1).map(([name]) => "outside: " + name);
  texts.forEach(([name, a], at) => texts.slice(at + 1).forEach(([other, b]) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
      found.push(name + " on " + other);
  }));
  return found;
}"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    """The report of a sample whose heaviest operators lie at one place of its roofline."""
    made = sampled(SAMPLE, views=True)
    assert made.views is not None
    assert made.views.roofline is not None
    points = [
        RoofPoint(op=op, format="fp32", ms=20.0 - at, tflops=11.5 + at, intensity=92.0, reachable_share=0.6)
        for at, op in enumerate(["aten::cudnn_convolution_backward_weight", "aten::cudnn_convolution_backward_input",
                                 "aten::cudnn_convolution"])
    ]  # fmt: skip
    points += [point for point in made.views.roofline.points if "convolution" not in point.op]
    roofs = [Roof(format=name, tflops=tflops, reachable_tflops=0.9 * tflops) for name, tflops in (("fp16", 125.0), ("fp32", 15.7))]  # fmt: skip
    dense = REPLACE(made.views.roofline, points=points, roofs=roofs)
    rows = [
        Distance(op=point.op, ms=20.0 - at, limit_ms=11.0, reachable_ms=12.0, most_ms=0.0)
        for at, point in enumerate(points[:8])
    ]
    summary = REPLACE(made.summary, modelled_share=0.9, distance=rows)
    path = folder / "report.html"
    made = REPLACE(made, summary=summary, views=REPLACE(made.views, roofline=dense))
    path.write_bytes(render("html", made, Options()))
    return path


@pytest.mark.parametrize("width", [*WIDTHS, 320])
def test_no_label_of_the_roofline_lies_on_another(chrome: Any, page: Path, width: int) -> None:
    with Visit(chrome, page, viewport={"width": width, "height": 800}) as visit:
        picture = visit.page.locator("svg.roofline, svg[aria-label^=Roofline]")
        assert picture.count() == 1
        assert picture.evaluate(CLASHES) == []
