"""The HTML report in Chromium: it works, asks for nothing, runs nothing of a trace's, and can be used by everyone."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ladder.html import render as ladder_page
from ladder.table import Ladder
from support.browser import Visit, browser, missing
from support.comparisons import whole
from support.hostile import write_hostile
from support.paths import ROOT
from support.real import NAMES
from support.traces import analysis, real_trace
from support.traces import sample as sampled
from support.views import traced, training

from advisor.gating.compare import compare
from advisor.pipeline import analyze, analyze_many
from advisor.report import Options, render
from advisor.report import comparison as comparisons
from advisor.results.analysis import Analysis
from advisor.results.several import Several
from advisor.testing import TraceBuilder
from advisor.trace import read

pytestmark = pytest.mark.browser

# With and without steps, stacks, memory and GPU.
REAL = [
    pytest.param("h100_owlv2_large.json.gz", marks=pytest.mark.study),
    pytest.param("v100_resnet50_workers0.json.gz", marks=pytest.mark.study),
    "a100_host_only.json.gz",
    "gpu_events_without_host.json.gz",
    "cpu_only.json.gz",
]
SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"
TOP = "(name) => document.querySelector(name).getBoundingClientRect().top"
# Cells whose text lies outside of them, or over their own bar.
SPILLED = """(cells) => cells.filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell.lastChild);
  const [text, box] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
  const bar = cell.querySelector("svg")?.getBoundingClientRect();
  return text.left < (bar ? bar.right : box.left) - 0.5 || text.right > box.right + 0.5;
}).map((cell) => cell.textContent)"""
LINES = """(cells) => cells.map((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((line) => line.top)).size;
})"""
IN_VIEW = "() => { const box = document.querySelector('.timeline'); return box.getBoundingClientRect().top }"


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


def written(folder: Path, name: str, document: Analysis | Several, **options: Any) -> Path:
    path = folder / f"{name}.html"
    path.write_bytes(render("html", document, Options(**options)))
    return path


@pytest.fixture(scope="module")
def sample(folder: Path) -> Path:
    made = sampled(SAMPLE, views=True)
    return written(folder, "sample", made, source_root=str(SAMPLE.parent))


@pytest.fixture(scope="module")
def ranks(folder: Path) -> Path:
    first = real_trace("a100_megatron_tp8/rank0.json.gz")
    paths = [first, first.replace("rank0", "rank1")]
    made, across = analyze_many([read(path) for path in paths], views=True)
    return written(folder, "ranks", Several(traces=made, across=across))


@pytest.fixture(scope="module")
def built(folder: Path) -> Path:
    """Three small steps of which every time is known."""
    return written(folder, "built", analyze(traced(training(), folder), views=True))


def reports(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in folder.glob("*.html")}


@pytest.mark.parametrize("name", REAL)
def test_real_reports_open_quietly(chrome: Any, folder: Path, name: str) -> None:
    path = written(folder, name.partition(".")[0], analysis(name, views=True))
    with Visit(chrome, path) as visit:
        used(visit)
        axe(visit)


def used(visit: Visit) -> None:
    """What a reader does with a report, whatever it holds."""
    page = visit.page
    page.locator("#theme").click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    open_all(page)
    for table in page.locator("table.grid").all():
        if table.locator("tbody tr").count() < 2:
            continue
        last = table.locator("th").last
        last.locator("button").click()
        assert last.get_attribute("aria-sort") in ("ascending", "descending")
    assert no_sideways(page)
    if page.locator(".timeline").count() == 0:
        return
    first = page.locator(".timeline").first.get_attribute("data-of")
    for button in page.locator(f"button.show[data-of={first}]").all():
        button.click()
        assert int(visit.data("lit")) > 0
        assert -50 < page.evaluate(IN_VIEW) < 900
    page.locator(".timeline .fit").first.click()
    before = span(visit)
    page.locator(".timeline canvas").first.focus()
    page.keyboard.press("+")
    assert span(visit) < before


def open_all(page: Any) -> None:
    page.evaluate("() => document.querySelectorAll('main details').forEach((one) => (one.open = true))")


def span(visit: Visit) -> int:
    return int(visit.data("to")) - int(visit.data("from"))


def no_sideways(page: Any) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


def axe(visit: Visit) -> None:
    """No fault of accessibility, and no break with its practice, by axe-core."""
    found = find_spec("axe_playwright_python")
    if found is None or not found.origin:
        missing("axe-playwright-python")
        return
    script = (Path(found.origin).parent / "axe.min.js").read_text()
    visit.page.evaluate(script)  # by the debugger: the page's policy does not let it in
    result = visit.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    assert [
        (one["id"], one["help"], [node["target"] for node in one["nodes"][:3]], one["nodes"][0].get("failureSummary"))
        for one in result["violations"]
    ] == []


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        pytest.param(1200, "light", marks=pytest.mark.study),
    ],
)
def test_everyone_can_use_it(chrome: Any, sample: Path, scheme: str, width: int) -> None:
    with Visit(chrome, sample, color_scheme=scheme, viewport={"width": width, "height": 800}) as visit:
        axe(visit)
        open_all(visit.page)
        visit.page.locator("button.show").first.click()
        visit.page.keyboard.press("n")
        axe(visit)


def test_reports_of_many_ranks(chrome: Any, ranks: Path) -> None:
    with Visit(chrome, ranks) as visit:
        page = visit.page
        assert page.locator("section.trace").count() == 2
        assert page.locator(".timeline canvas").count() == 2
        page.locator("#trace-2-findings button.show").first.click()
        assert int(page.locator("#trace-2-timeline .timeline").get_attribute("data-lit")) > 0
        assert not page.locator("#trace-1-timeline .timeline").get_attribute("data-lit")
        axe(visit)
        open_all(page)
        axe(visit)


def test_a_rank_is_a_line_of_its_table_on_a_phone(chrome: Any, ranks: Path) -> None:
    with Visit(chrome, ranks, viewport={"width": 390, "height": 800}) as visit:
        rows = visit.page.locator("table.ranks tbody tr")
        assert rows.count() == 2
        assert all(row.bounding_box()["height"] < 40 for row in rows.all())
        assert no_sideways(visit.page)


# ---- findings, and the way to them


def shown(page: Any) -> list[bool]:
    return list(page.locator("article > details.whole").evaluate_all("(found) => found.map((one) => one.open)"))


def test_findings_fold_and_links_open_them(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        assert shown(page) == [True] + [False] * (len(shown(page)) - 1)
        assert not page.locator("#finding-2 .fix").is_visible()
        assert "saves" in page.locator("#finding-2 .worth").inner_text()  # folded, it still says what it is worth
        row = page.locator("#plan a.what", has_text="Pin the host memory")
        name = str(row.get_attribute("href"))
        assert "pageable memory" in page.locator(f"{name} h3").inner_text()
        row.click()
        page.locator(f"{name} .fix").wait_for(state="visible")
        assert 30 < page.evaluate(TOP, name) < 120  # below the contents, which stay
        page.locator(f"{name} summary").first.press("Enter")
        assert not page.locator(f"{name} .fix").is_visible()
        page.evaluate("() => scrollTo(0, 0)")
        row.click()  # a second time, when the address stays what it was
        page.locator(f"{name} .fix").wait_for(state="visible")
        page.goto(sample.as_uri() + "#finding-2")
        page.locator("#finding-2 .fix").wait_for(state="visible")
        page.reload()
        assert shown(page)[:3] == [True, True, False]


def test_a_link_opens_a_finding_without_scripts(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample, java_script_enabled=False) as visit:
        before = visit.page.locator("#finding-2").bounding_box()["height"]
        visit.page.locator(".short a[href='#finding-2']").click()
        assert visit.page.locator("#finding-2").bounding_box()["height"] > before + 100


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_the_contents_stay_in_view(chrome: Any, sample: Path, ranks: Path, width: int) -> None:
    for path, last in ((sample, "#quality"), (ranks, "#trace-2-quality")):
        with Visit(chrome, path, viewport={"width": width, "height": 800}) as visit:
            page = visit.page
            assert no_sideways(page)
            link = page.locator(f"nav.contents a[href='{last}']")
            link.scroll_into_view_if_needed()
            link.click()
            page.wait_for_timeout(100)
            assert page.evaluate("() => scrollY") > 1000
            nav = link.locator("..").bounding_box()
            assert -1 <= nav["y"] <= 1
            assert nav["height"] < 48  # one line, whatever the width
            assert no_sideways(page)


# ---- the timeline


def test_the_timeline_zooms_and_pans(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        canvas = page.locator(".timeline canvas")
        canvas.scroll_into_view_if_needed()
        whole = span(visit)
        box = canvas.bounding_box()
        middle = (box["x"] + box["width"] / 2, box["y"] + 60)
        page.mouse.move(*middle)
        page.mouse.wheel(0, -200)  # the page scrolls: the timeline is not in use yet
        page.wait_for_timeout(150)
        assert span(visit) == whole
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        middle = (box["x"] + box["width"] / 2, box["y"] + 60)
        page.mouse.click(*middle)
        page.mouse.wheel(0, -200)
        page.wait_for_timeout(150)
        zoomed = span(visit)
        assert zoomed < whole
        left = int(visit.data("from"))
        page.mouse.down()
        page.mouse.move(middle[0] + 100, middle[1], steps=4)
        page.mouse.up()
        assert int(visit.data("from")) < left
        assert abs(span(visit) - zoomed) <= 1
        for key in ("+", "+", "+"):
            page.keyboard.press(key)
        assert span(visit) < zoomed / 4
        at = int(visit.data("from"))
        page.keyboard.press("ArrowRight")
        assert int(visit.data("from")) > at
        page.keyboard.press("-")
        page.keyboard.press("0")
        assert span(visit) == whole
        page.locator(".timeline .in").click()
        assert span(visit) == pytest.approx(whole / 2, rel=0.01)


def test_a_finding_lights_up_its_evidence(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        whole = span(visit)
        article = page.locator("article", has_text="pageable memory").first
        article.locator("summary").first.click()
        article.locator("button.show").click()
        assert 0 < int(visit.data("lit")) < 20
        assert span(visit) < whole / 2
        assert "evidence of" in page.locator(".timeline .said").inner_text()
        page.keyboard.press("n")
        readout = page.locator(".timeline .readout")
        assert "evidence of" in readout.inner_text()
        name = article.get_attribute("id")
        assert readout.locator("a").get_attribute("href") == f"#{name}"
        page.keyboard.press("Escape")
        assert visit.data("lit") == ""


def test_hovering_and_searching_tell_what_a_span_is(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        canvas = page.locator(".timeline canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20 + 18 + 8)  # the first row: the causes
        page.wait_for_timeout(100)
        assert "loader" in page.locator(".tip:not(.told)").inner_text()
        page.mouse.move(0, 0)
        search = page.locator(".timeline input")
        search.fill("memcpy")
        count, _, total = page.locator(".timeline .said").inner_text().partition(" of ")
        assert 0 < int(count) < int(total.replace(",", "").split()[0])
        search.press("Enter")
        assert "Memcpy" in page.locator(".timeline .readout").inner_text()
        search.fill("nothing is called that")
        assert visit.data("lit") == "0"
        page.locator(".timeline .clear").click()
        assert visit.data("lit") == ""


def click(page: Any, row: int, share: float) -> str:
    """Click the timeline of a page in a row of spans, counted over tracks of one row each, at a share of its width."""
    canvas = page.locator(".timeline canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + share * box["width"], box["y"] + 20 + 40 * row + 18 + 8)
    return str(page.locator(".readout").inner_text())


def test_a_clicked_span_tells_where_it_comes_from(chrome: Any, built: Path) -> None:
    with Visit(chrome, built) as visit:
        page = visit.page
        # A step of 9.175 ms: the product runs from 3.67 to 6.67 ms, and was launched at 3.662 ms.
        lines = click(page, 1, 0.5).splitlines()
        assert lines[:3] == [
            "volta_sgemm_128x64_nn",
            "compute · 3 ms · from 3.67 ms · GPU 0, stream 7",
            "launched 8 µs before by aten::addmm · shapes [[512],[8,512]] · module Net_0 · at work/deep/train.py:54 train",
        ]
        search = page.locator(".timeline input")
        search.fill("aten::linear")
        search.press("Enter")
        lines = page.locator(".readout").inner_text().splitlines()
        assert lines[1:3] == [
            "operator · 6 µs · from 3.66 ms · host thread 4000",
            "launches 1 of the GPU's spans · shapes [[8,512],[512,512]] · module Net_0 · at work/deep/train.py:54 train",
        ]


def test_an_arrow_joins_a_launch_and_its_work_from_either_end(chrome: Any, built: Path) -> None:
    from playwright.sync_api import expect

    with Visit(chrome, built) as visit:
        page = visit.page
        arrow = page.locator(".pane line")
        click(page, 1, 0.9)  # the kernel from 7.17 to 9.17 ms, which autograd's thread launched at 3.674 ms
        arrow.wait_for(state="attached")
        wide = page.locator(".timeline canvas").bounding_box()["width"]
        ends = [float(arrow.get_attribute(name)) for name in ("x1", "x2", "y1", "y2")]
        # Tracks: causes, stream, the main thread of six rows, autograd's, where the call is in the fourth row.
        launch, work = 20 + 40 + 40 + (18 + 6 * 17 + 5) + 18 + 3 * 17, 20 + 40 + 18 + 15
        assert ends == pytest.approx([3.674 / 9.175 * wide, 7.17 / 9.175 * wide, launch, work], abs=0.5)
        page.locator(".timeline canvas").focus()
        page.keyboard.press("l")
        readout = page.locator(".readout")
        assert readout.inner_text().startswith("cudaLaunchKernel\nruntime · 6 µs · from 3.67 ms · autograd thread 77\n")
        expect(arrow).to_have_count(1)
        page.keyboard.press("l")
        assert readout.inner_text().startswith("volta_sgemm_128x64_nt\n")
        search = page.locator(".timeline input")
        for name, count in (("train (work/deep", 4), ("Net_0", 1), ("enumerate", 0)):
            search.fill(name)
            search.press("Enter")
            expect(arrow, name).to_have_count(count)
        search.press("Escape")
        expect(arrow).to_have_count(0)


def test_steps_are_chosen_by_links(chrome: Any, folder: Path) -> None:
    b = TraceBuilder()
    for ms in (50, 10, 30, 11, 12, 90):
        with b.step():
            b.kernel(f"kernel_of_{ms}", ms=ms)
            b.sync()
    path = written(folder, "steps", analyze(traced(b, folder), views=True))
    with Visit(chrome, path) as visit:
        page = visit.page
        links = page.locator(".steps-shown a")
        chosen = page.locator(".steps-shown [aria-current=true]")
        assert [text.replace("\xa0", " ") for text in links.all_inner_texts()] == [
            "ProfilerStep#0 50.0 ms, first",
            "ProfilerStep#4 12.0 ms, nearest to the median",
            "ProfilerStep#5 90.0 ms, slowest and last",
        ]
        assert chosen.inner_text().startswith("ProfilerStep#4 ")
        links.last.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('.timeline').dataset.to === '90008000'")
        assert chosen.inner_text().startswith("ProfilerStep#5 ")
        assert page.locator("canvas").get_attribute("aria-label").startswith("Timeline of ProfilerStep#5, ")
        search = page.locator(".timeline input")
        search.fill("kernel_of_90")
        search.press("Enter")
        assert page.locator(".readout").inner_text().startswith("kernel_of_90\ncompute · 90 ms · ")
        page.locator("#steps a", has_text="ProfilerStep#0").click()  # the bar of a step leads to it
        page.wait_for_function("() => document.querySelector('.timeline').dataset.to === '50008000'")
        axe(visit)
        page.go_back()
        page.wait_for_function("() => document.querySelector('.timeline').dataset.to === '90008000'")


def test_an_address_leads_to_a_step_and_evidence_back(chrome: Any, built: Path) -> None:
    with Visit(chrome, built) as visit:
        page = visit.page
        chosen = page.locator(".steps-shown [aria-current=true]")
        assert chosen.inner_text().startswith("ProfilerStep#1 ")
        page.goto(built.as_uri() + "#timeline-step-0")
        page.reload()
        assert chosen.inner_text().startswith("ProfilerStep#0 ")
        assert not visit.data("lit")
        page.locator("button.show").first.click()
        assert chosen.inner_text().startswith("ProfilerStep#1 ")
        assert int(visit.data("lit")) > 0


def test_the_heaviest_operators_and_kernels_stand_where_nothing_was_found(chrome: Any, folder: Path) -> None:
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            for at in range(7):
                with b.op(f"aten::op{at}"):
                    b.kernel(f"kernel_{at}", ms=10 + at)
            b.sync()
    made = analyze(traced(b, folder), views=True)
    assert not made.findings
    with Visit(chrome, written(folder, "nothing", made)) as visit:
        tables = visit.page.locator("#heaviest table")
        for table, kind, name in zip(tables.all(), ("Operators", "Kernels"), ("aten::op", "kernel_"), strict=True):
            assert table.locator("tr").first.inner_text().startswith(kind)
            # Four steps: 4 calls of 16, 15, 14, 13 and 12 ms, and no more than five rows.
            assert [row.split() for row in table.locator("tbody tr").all_inner_texts()] == [
                [f"{name}{at}", "4", f"{4 * (10 + at):.1f}", "ms"] for at in (6, 5, 4, 3, 2)
            ]
        visit.page.locator("#heaviest a", has_text="Kernels").click()
        visit.page.locator("#kernels table").wait_for(state="visible")


@pytest.mark.parametrize("scripts", [True, False])
def test_flame_graphs_need_no_script(chrome: Any, built: Path, scripts: bool) -> None:
    with Visit(chrome, built, java_script_enabled=scripts) as visit:
        page = visit.page
        graphs = page.locator("svg.flame")
        assert graphs.count() == 2
        named = graphs.last.locator("svg", has_text="Net_0")
        # 16.5 of 21.453 ms.
        wide = named.first.bounding_box()["width"] / graphs.last.bounding_box()["width"]
        assert wide == pytest.approx(16.5 / 21.453, abs=0.01)
        assert named.locator("title").first.text_content().replace("\xa0", " ") == "Net_0: 16.5 ms, 76.9 %, 9×"
        page.set_viewport_size({"width": 390, "height": 800})
        assert graphs.last.bounding_box()["width"] == 640  # it scrolls in its own frame
        assert no_sideways(page)


def test_merged_spans_say_how_many_and_how_long_together(chrome: Any, folder: Path) -> None:
    b = TraceBuilder()
    for at in range(20_000):
        b.kernel(f"k{at % 7}", us=1 if at % 2 else 0, at_us=2 * at, launched=False)
    made = analyze(traced(b, folder), views=True)
    assert made.views is not None
    assert made.views.timeline is not None
    line = made.views.timeline
    at = next(at for at, count in enumerate(line.count) if count > 1 and line.tracks[line.track[at]].kind == "stream")
    count, together = line.count[at], line.dur[at]
    assert together == count // 2 * 1000  # every other kernel ran for 1 us
    with Visit(chrome, written(folder, "merged", made)) as visit:
        search = visit.page.locator(".timeline input")
        search.fill(line.names[line.name[at]])
        search.press("Enter")
        said = visit.page.locator(".readout").inner_text().splitlines()
        assert said[0].startswith(f"{count} events, merged; the longest is k")
        assert said[1].startswith(f"compute · {count // 2} µs together · from ")
        assert said[2] == "its launch was not recorded"


# ---- tables, theme, paper


def test_tables_sort_and_filter_by_mouse_and_keyboard(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        page.locator("#kernels > summary").click()
        table = page.locator("#kernels table")
        head = table.locator("th").nth(3)
        assert head.inner_text() == "calls"

        def calls() -> list[int]:
            cells = table.locator("tbody tr:visible td:nth-child(4)").all_inner_texts()
            return [int(text.replace(",", "")) for text in cells]

        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert calls() == sorted(calls(), reverse=True)
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert calls() == sorted(calls())
        table.locator("th").first.locator("button").click()
        assert head.get_attribute("aria-sort") == "none"
        page.locator("#kernels input").fill("gemm")
        names = table.locator("tbody tr:visible td:first-child").all_inner_texts()
        assert names
        assert all("gemm" in name for name in names)


@pytest.mark.parametrize("width", [1280, 1680, 1920])
def test_cells_hold_what_they_show(chrome: Any, sample: Path, width: int) -> None:
    """No figure is printed over the next column, no bar lies behind its figure, and no operator breaks inside its name."""
    with Visit(chrome, sample, viewport={"width": width, "height": 900}) as visit:
        page = visit.page
        page.locator("#kernels > summary").click()
        heads = page.locator("#kernels th").all_inner_texts()
        assert {"share", "occupancy", "operator"} <= set(heads)
        cells = page.locator("#kernels td.n")
        assert cells.count() > 50
        assert cells.evaluate_all(SPILLED) == []
        operators = page.locator(f"#kernels td:nth-child({heads.index('operator') + 1})")
        assert operators.evaluate_all(LINES) == [1] * operators.count()
        assert no_sideways(page)


def test_modules_are_a_tree(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        page.locator("#modules > summary").click()
        rows = page.locator("#modules tbody tr:visible")
        every = rows.count()
        fold = page.locator("#modules .fold[aria-expanded]").first
        assert fold.get_attribute("aria-expanded") == "true"
        fold.click()
        assert fold.get_attribute("aria-expanded") == "false"
        assert rows.count() < every
        page.locator("#modules input").fill("Conv2d_0")  # what fits shows, with what it lies in
        assert rows.first.locator("td").first.inner_text().strip().endswith("ResNet_0")
        assert rows.count() >= 2
        page.locator("#modules input").fill("")
        fold.press("Enter")
        assert rows.count() == every
        heads = page.locator("#modules th button")
        heads.nth(1).click()
        assert rows.first.locator("td").first.inner_text().strip().endswith("ResNet_0")  # a tree stays one


def test_the_theme_switches_and_is_not_kept(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample, color_scheme="light") as visit:
        page = visit.page
        colour = "() => getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(colour)
        assert page.locator("#theme").inner_text() == "Dark theme"
        page.locator("#theme").click()
        assert page.evaluate(colour) != light
        assert page.locator("#theme").inner_text() == "Light theme"
        assert page.evaluate("() => document.cookie") == ""
        page.reload()
        assert page.evaluate(colour) == light


def test_a_fix_can_be_copied(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample, permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.page
        page.locator("button.copy").first.click()
        page.locator("button.copy", has_text="Copied").wait_for()
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert "num_workers=8" in copied
        compile(copied, "fix", "exec")


def test_paper_is_light_and_open(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample, color_scheme="dark", viewport={"width": 760, "height": 1000}) as visit:
        page = visit.page
        page.emulate_media(media="print")
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("details:not([open])").count() == 0
        assert page.locator(".still > svg").is_visible()
        assert not page.locator(".timeline").is_visible()
        edges = page.evaluate(
            "() => [...document.querySelectorAll('table')].map((one) => one.getBoundingClientRect().right)"
        )
        assert max(edges) <= 761


def test_no_width_scrolls_sideways(chrome: Any, folder: Path, sample: Path, ranks: Path) -> None:
    for path in reports(folder).values():
        with Visit(chrome, path, viewport={"width": 1920, "height": 800}) as visit:
            for opened in (False, True):
                if opened:
                    open_all(visit.page)
                for width in (1920, 768, 360):
                    visit.page.set_viewport_size({"width": width, "height": 800})
                    assert no_sideways(visit.page), (path.name, width, opened)


def test_scripts_off_everything_can_be_read(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample, java_script_enabled=False) as visit:
        page = visit.page
        assert page.locator("article").count() >= 5
        assert page.locator(".still > svg").is_visible()
        assert page.locator("button:visible").count() == 0
        assert page.locator("input:visible").count() == 0
        assert page.get_by_text("num_workers=8").first.is_visible()
        page.locator("#modules > summary").click()
        assert page.locator("#modules tbody tr:visible").count() == page.locator("#modules tbody tr").count()


def test_the_keyboard_reaches_the_findings_first(chrome: Any, sample: Path) -> None:
    with Visit(chrome, sample) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.wait_for_timeout(600)
        assert 0 <= page.evaluate("() => document.getElementById('findings').getBoundingClientRect().top") < 300


# ---- the other pages


@pytest.fixture(scope="module")
def others(folder: Path) -> dict[str, Path]:
    gate = ROOT / "sample_traces" / "gate"
    first, second = (whole(gate / name) for name in ("workers.json.gz", "no_workers.json.gz"))
    comparison = folder / "comparison.htm"
    comparison.write_bytes(render("html", compare(first, second), Options(), comparisons.FORMATS))
    climb = Ladder.from_json((ROOT / "sample_traces" / "cpu_ladder" / "ladder.json").read_bytes())
    ladder = folder / "ladder.htm"
    ladder.write_text(ladder_page(climb))
    return {"comparison": comparison, "ladder": ladder}


@pytest.mark.parametrize("name", ["comparison", "ladder"])
def test_comparison_and_ladder_are_pages_like_the_report(chrome: Any, others: dict[str, Path], name: str) -> None:
    for scheme in ("light", "dark"):
        with Visit(chrome, others[name], color_scheme=scheme) as visit:
            page = visit.page
            for width in (1440, 1024, 390):
                page.set_viewport_size({"width": width, "height": 800})
                assert no_sideways(page), (scheme, width)
                if scheme == "light" or width == 390:
                    axe(visit)  # contrast among it, which is the same at every width
            assert page.locator(".brand").bounding_box()["height"] < 30  # one line on a phone
            link = page.locator("nav.contents a").last
            link.click()
            title = page.locator(str(link.get_attribute("href")))
            assert title.evaluate("(one) => one.getBoundingClientRect().top") < 800
            assert title.inner_text()


def test_their_theme_switches_without_a_script(chrome: Any, others: dict[str, Path]) -> None:
    back = "() => getComputedStyle(document.body).backgroundColor"
    with Visit(chrome, others["comparison"], color_scheme="light", java_script_enabled=True) as visit:
        page = visit.page
        assert page.locator("script").count() == 0
        light = page.evaluate(back)
        page.get_by_label("Dark").check()
        dark = page.evaluate(back)
        assert dark != light
        axe(visit)
        page.get_by_label("System").check()
        assert page.evaluate(back) == light
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(back) == dark
        page.get_by_label("Light").focus()
        page.keyboard.press("Space")
        assert page.evaluate(back) == light


# ---- strangers


@pytest.mark.parametrize("scripts", [True, False])
def test_a_hostile_trace_executes_nothing(chrome: Any, tmp_path: Path, scripts: bool) -> None:
    trace = write_hostile(tmp_path / "trace.json")
    made = analyze(read(str(trace)), views=True)
    assert made.findings
    for name, document in (("one", made), ("two", Several(traces=[made, made], across=None))):
        path = written(tmp_path, name, document, source_root=str(tmp_path))
        with Visit(chrome, path, java_script_enabled=scripts) as visit:
            page = visit.page
            if scripts:
                used(visit)
                page.locator(".timeline input").first.fill("<script>")
                page.locator(".timeline .after").first.click()
                box = page.locator(".timeline canvas").first.bounding_box()
                for row in range(20, 300, 12):
                    page.mouse.move(box["x"] + 400, box["y"] + row)
                page.wait_for_timeout(200)
                assert page.evaluate("() => window.owned") is None
            assert page.locator("main img").count() == 0
            assert page.locator("svg [onload]").count() == 0
            assert page.locator("script").count() == 1 + page.locator("script[type]").count()
            assert "window.owned=1" in page.locator("main").inner_text()
            page.set_viewport_size({"width": 360, "height": 800})
            assert page.locator("main").bounding_box()["width"] <= 360


def test_the_policy_holds_when_markup_gets_in(chrome: Any, sample: Path, tmp_path: Path) -> None:
    """Were a text not escaped, the policy would still stop it: the second wall is tested without the first."""
    text = sample.read_text().replace(
        "<main>",
        "<main><script>window.owned=1</script><img src=x onerror='window.owned=2'>"
        "<style>body{display:none}</style><p style='color:red' id=styled>x</p><base href='https://evil.example/'>"
        "<form id=f action='https://evil.example/'></form>",
        1,
    )
    path = tmp_path / "broken.html"
    path.write_text(text)
    visit = Visit(chrome, path)
    page = visit.page
    page.evaluate("() => document.getElementById('f').submit()")
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.owned") is None
    assert page.evaluate("() => getComputedStyle(document.body).display") != "none"
    assert page.evaluate("() => getComputedStyle(document.getElementById('styled')).color") != "rgb(255, 0, 0)"
    assert page.url == path.as_uri()
    assert any("Content Security Policy" in fault for fault in visit.faults)
    assert not [fault for fault in visit.faults if fault.startswith(("request: http", "dialog", "popup"))]
    visit.leave(keep=False)


def test_the_folder_of_traces_is_known() -> None:
    """The names above are of this set; a renamed trace would else only skip its test."""
    assert {getattr(name, "values", (name,))[0] for name in REAL} <= set(NAMES)
