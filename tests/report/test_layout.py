"""The pages as Chromium lays them out on a desk, a tablet and a phone: nothing overlaps, leaves its frame or is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ladder.html import render as ladder_page
from ladder.table import Ladder
from support.browser import Visit, browser
from support.comparisons import whole
from support.paths import ROOT
from support.traces import sample as sampled

from advisor.gating.compare import compare
from advisor.report import Options, render
from advisor.report import comparison as comparisons
from advisor.results.distance import Distance, LineDistance
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
    tops = {"fp16": 125.0, "fp32": 15.7}
    roofs = [Roof(format=name, tflops=top, reachable_tflops=0.9 * top) for name, top in tops.items()]
    dense = REPLACE(made.views.roofline, points=points, roofs=roofs)
    rows = [
        Distance(op=point.op, ms=20.0 - at, limit_ms=11.0, reachable_ms=12.0, most_ms=0.0)
        for at, point in enumerate(points[:8])
    ]
    lines = [
        LineDistance(line=f"resnet50_profiler_api.py:{at} step", ms=9.0, limit_ms=4.0, reachable_ms=5.0, most_ms=0.0)
        for at in range(46, 50)
    ]
    summary = REPLACE(made.summary, modelled_share=0.9, distance=rows, distance_lines=lines)
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


# Elements with more to the side than they show, whose edge does not say so by a shadow that stays where it is.
UNTOLD = """() => [...document.querySelectorAll("main *")].filter((one) => {
  const style = getComputedStyle(one);
  if (one.scrollWidth <= one.clientWidth + 1 || !["auto", "scroll"].includes(style.overflowX)) return false;
  const layers = style.backgroundAttachment.split(", ");
  return !(layers.includes("local") && layers.includes("scroll"));
}).map((one) => one.outerHTML.slice(0, 80))"""
# Lines of each cell, as they are broken.
BROKEN = """(cells) => cells.map((cell) => {
  const text = [], range = document.createRange();
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  let top = null;
  while (walk.nextNode()) for (let at = 0; at < walk.currentNode.length; at++) {
    range.setStart(walk.currentNode, at);
    range.setEnd(walk.currentNode, at + 1);
    const box = range.getClientRects()[0];
    if (!box) continue;
    if (top === null || box.top > top + 4) text.push("");
    top = box.top;
    text[text.length - 1] += walk.currentNode.data[at];
  }
  return text;
})"""


def joint(before: str, after: str) -> bool:
    """Tell whether a name may break between two lines."""
    return before.endswith(("::", "_", " ")) or (before[-1].islower() and after[0].isupper())


@pytest.mark.parametrize("width", WIDTHS)
def test_what_scrolls_sideways_shows_it(chrome: Any, page: Path, width: int) -> None:
    with Visit(chrome, page, viewport={"width": width, "height": 800}) as visit:
        visit.page.evaluate("() => document.querySelectorAll('main details').forEach((one) => (one.open = true))")
        assert visit.page.evaluate(UNTOLD) == []
        if width == 390:  # there are such: the contents, the diff and the tables
            sideways = "(one) => one.scrollWidth > one.clientWidth + 1"
            for name in ("nav.contents", "pre.diff", "#kernels .scroll"):
                assert visit.page.locator(name).first.evaluate(sideways), name


def test_names_break_between_their_parts_on_a_phone(chrome: Any, page: Path) -> None:
    with Visit(chrome, page, viewport={"width": 390, "height": 800}) as visit:
        cells = visit.page.locator(
            "[aria-label='Distance by operator'] td:first-child, #operators td:first-child:visible"
        )
        assert cells.count() > 10
        broken = [lines for lines in cells.evaluate_all(BROKEN) if len(lines) > 1]
        assert ["aten::cudnn_", "convolution_", "backward_weight"] in broken
        assert [pair for lines in broken for pair in pairwise(lines) if not joint(*pair)] == []
        narrow = cells.evaluate_all("(cells) => cells.map((cell) => cell.clientWidth)")
        assert min(narrow) >= 130


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_of_the_limit_are_whole_and_stand_apart(chrome: Any, page: Path, width: int) -> None:
    with Visit(chrome, page, viewport={"width": width, "height": 800}) as visit:
        boxes = visit.page.locator("[aria-label^='Distance by']")
        assert boxes.count() > 1
        assert not any(boxes.evaluate_all("(all) => all.map((one) => one.scrollHeight > one.clientHeight + 1)"))
        places = [one.bounding_box() for one in boxes.all()]
        assert min(below["y"] - above["y"] - above["height"] for above, below in pairwise(places)) >= 8


# Names in the boxes of a flame graph, and in the bar of the causes, that the box cuts without a sign of it.
CUT = """(names) => names.filter((name) => {
  const range = document.createRange();
  range.selectNodeContents(name);
  const box = name.closest("svg").getBoundingClientRect(), text = range.getBoundingClientRect();
  return text.right > box.right + 0.5 && getComputedStyle(name).textOverflow !== "ellipsis";
}).map((name) => name.textContent)"""


@pytest.mark.parametrize("width", WIDTHS)
def test_no_name_in_a_box_is_cut_without_a_sign(chrome: Any, page: Path, width: int) -> None:
    with Visit(chrome, page, viewport={"width": width, "height": 800}) as visit:
        assert visit.page.locator(".flame p, .flame text").count() > 5
        assert visit.page.locator(".flame p, .flame text, .bar text").evaluate_all(CUT) == []


def test_a_tap_tells_what_a_part_of_a_picture_is(chrome: Any, page: Path) -> None:
    with Visit(chrome, page, viewport={"width": 390, "height": 800}, has_touch=True) as visit:
        opened = visit.page
        assert "or tap it" in opened.locator("#flames .note").first.inner_text()
        for picture in (".flame svg >> nth=0", ".roofline circle >> nth=3"):
            opened.locator(picture).tap()
            told = opened.locator(".told")
            assert told.inner_text() == opened.locator(f"{picture} >> title").first.text_content()
            box = told.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        opened.locator("h1").tap()
        assert not told.is_visible()


def test_why_faster_kernels_return_nothing_is_said_before_the_rows(chrome: Any, page: Path) -> None:
    with Visit(chrome, page) as visit:
        said = visit.page.locator("section:has(> [id$=distance]) > .returned")
        assert "kernels take" in said.inner_text()
        assert "the GPU then waits longer for what it waits for now" in said.inner_text()
        assert said.bounding_box()["y"] < visit.page.locator("[aria-label^='Distance by']").first.bounding_box()["y"]


@pytest.fixture(scope="module")
def others(folder: Path) -> list[Path]:
    gate = ROOT / "sample_traces" / "gate"
    first, second = (whole(gate / name) for name in ("workers.json.gz", "no_workers.json.gz"))
    compared, climbed = folder / "comparison.htm", folder / "ladder.htm"
    compared.write_bytes(render("html", compare(first, second), Options(), comparisons.FORMATS))
    climb = Ladder.from_json((ROOT / "sample_traces" / "cpu_ladder" / "ladder.json").read_bytes())
    climbed.write_text(ladder_page(climb))
    return [compared, climbed]


def test_the_other_pages_show_what_scrolls_and_keep_names_readable(chrome: Any, others: list[Path]) -> None:
    for path in others:
        with Visit(chrome, path, viewport={"width": 390, "height": 800}) as visit:
            assert visit.page.evaluate(UNTOLD) == [], path.name
            named = visit.page.locator("td:first-child:has(code)")
            assert named.evaluate_all(
                "(cells) => cells.every((cell) => cell.offsetParent === null || cell.clientWidth >= 200)"
            )
