"""Every HTML that we write, under the strictest policy: only its own style and script run, and it loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from support.analyses import analysis, finding, hostile_analysis, together
from support.comparisons import hostile, whole
from support.hostile import write_hostile
from support.pages import Page, policy
from support.paths import ROOT

import advisor
from advisor import report
from advisor.gating.compare import compare
from advisor.report import comparison, gate
from advisor.results.comparison import Shift
from advisor.results.several import Several

GATE = ROOT / "sample_traces" / "gate"


def pages() -> Iterator[tuple[str, Any, Any]]:
    """Each page's name, what it shows, and the renderers it is among."""
    pair = compare(whole(GATE / "workers.json.gz", "before.json"), whole(GATE / "no_workers.json.gz", "after.json"))
    seen = advisor.analyze(advisor.read(str(GATE / "workers.json.gz")), views=True)
    yield "a report", seen, report.FORMATS
    yield "a report of hostile text", hostile_analysis(), report.FORMATS
    yield "a report of several ranks", Several(traces=[seen, seen], across=together(seen)), report.FORMATS
    yield "a comparison", pair, comparison.FORMATS
    yield "a comparison of hostile text", hostile(pair), comparison.FORMATS


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    return {name: report.render("html", given, report.Options(), formats).decode() for name, given, formats in pages()}


def inline(page: Page) -> list[str]:
    """Where the page wants what a policy of hashes forbids: styles and handlers on elements."""
    return [
        f"<{name} {key}>" for name, attrs, _ in page.elements for key in attrs if key == "style" or key.startswith("on")
    ]


def digests(blocks: list[str]) -> str:
    """The source list of a policy that allows these blocks and no others."""
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(b.encode()).digest()).decode()}'" for b in blocks)


def test_a_page_allows_its_own_style_and_script_by_their_hashes_and_nothing_else(shown: dict[str, str]) -> None:
    for name, text in shown.items():
        page = Page(text)
        assert page.faults == [], name
        assert inline(page) == [], name
        allowed = policy(page)
        assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'", name
        assert "unsafe" not in " ".join(allowed.values()), name
        assert allowed["style-src"] == digests([block for _, block in page.all("style")]), name
        # A script of a type is data, which no policy runs.
        scripts = [block for attrs, block in page.all("script") if attrs.get("type") is None]
        assert allowed.get("script-src", "") == digests(scripts), name


def test_a_page_carries_its_script_without_what_is_for_its_authors(shown: dict[str, str]) -> None:
    (script,) = [text for attrs, text in Page(shown["a report"]).all("script") if "type" not in attrs]
    lines = script.splitlines()
    assert "const root=document.documentElement;" in lines
    assert "// On paper everything is open." not in lines
    assert 'closed=all("details:not([open])");' in lines  # the line below that comment's, without its indentation
    # Blanks go between operators alone: texts, templates and regular expressions are as they were written.
    assert '"(prefers-color-scheme: dark)"' in script
    assert "`launches ${many(calls.length)} of the GPU's spans`" in script
    assert "replace(/: [^:]*$/" in script


def test_a_notebooks_pieces_need_no_style_and_no_script(tmp_path: Any) -> None:
    trace = advisor.analyze(advisor.read(str(write_hostile(tmp_path / "hostile.json"))))
    for made in (analysis(finding()), hostile_analysis(), trace):
        for piece in (made, *made.findings):
            page = Page(piece._repr_html_())
            assert (page.faults, inline(page)) == ([], [])
            assert not {"script", "style", "link", "img"} & {name for name, _, _ in page.elements}


def test_no_other_renderer_writes_html() -> None:
    registries = {"report": report.FORMATS, "comparison": comparison.FORMATS, "gate": gate.FORMATS}
    assert {name for name, formats in registries.items() if "html" in formats} == {"report", "comparison"}


def test_no_template_styles_an_element_in_place() -> None:
    templates = [path for suffix in ("*.html", "*.j2") for path in (ROOT / "advisor").rglob(suffix)]
    assert len(templates) > 5
    for path in templates:
        assert not re.search(r"<[^>]*\s(?:style|on[a-z]+)\s*=|unsafe-", path.read_text("utf-8")), path.name


def test_the_bars_of_a_comparison_are_as_long_as_its_causes() -> None:
    (pair,) = [given for name, given, _ in pages() if name == "a comparison"]
    loader, copy = (
        Shift(name=name, meaning="", unit="ms", before=was, after=now, outcome="same")
        for name, was, now in (("loader", 5.0, 20.0), ("copy", None, 1.0))
    )
    text = report.render(
        "html", msgspec.structs.replace(pair, causes=[loader, copy]), report.Options(), comparison.FORMATS
    ).decode()
    # Of the longest, 20 ms: 5 are a quarter, 1 a twentieth; what is not known has no bar.
    assert re.findall(r'<rect width="([\d.]+)%" height="8"/>', text) == ["25", "100", "5"]
