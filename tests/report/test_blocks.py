"""The document model: any block in any format, whatever its text, and as wide as was asked."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from markdown_it import MarkdownIt
from support.hostile import EVIL
from test_html import Page, policy

from advisor.report import Options, markdown, text
from advisor.report.blocks import Bar, Block, Code, Facts, Fold, Heading, Items, Paragraph, Span, Table, Text, prose
from advisor.report.html import document
from advisor.report.plain import columns

STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLES = ("strong", "dim", "code", "name", "path", "high", "good")


def every(evil: str) -> list[Block]:
    """One block of each kind with *evil* wherever there is text, and in each style."""
    spans: Text = (evil, *(Span(evil, style) for style in STYLES), Span(evil, "link", evil))  # type: ignore[arg-type]
    return [
        Heading(spans, 1, evil),
        Heading(spans),
        Paragraph(spans),
        Paragraph(spans, wrap=False),
        Facts([(evil, spans), ("", evil), *prose("why", f"{evil}\n\n{evil}")]),
        Items([spans, evil], [spans, ""]),
        Table([evil, "", "n", "p"], [[spans, Bar(0.5), "1", evil]], "<|>~", notes=[evil], caption=spans),
        Code(evil, "before", "bad", "python"),
        Fold(spans, [Paragraph(spans), Items([spans])]),
    ]


def test_text_holds_nothing_that_steers_a_terminal() -> None:
    plain = text.draw(every(EVIL), Options())
    assert not STEERING.search(plain)
    coloured = text.draw(every(EVIL), Options(color=True))
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_markdown_shows_text_and_nothing_more() -> None:
    made = markdown.draw(every(EVIL))
    assert not STEERING.search(made)
    page = Page(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(made))
    assert page.faults == []
    tags = {name for name, _, _ in page.elements}
    assert tags.isdisjoint({"script", "img", "svg", "a", "style", "iframe", "b", "blockquote", "ol"}), tags


def test_html_shows_text_and_nothing_more() -> None:
    page = Page(document.page_of(EVIL, every(EVIL)))
    assert (page.faults, page.open) == ([], [])
    tags = {name for name, _, _ in page.elements}
    assert tags.isdisjoint({"script", "img", "iframe", "link"}), tags
    # The page's own links lead to its parts, and no text makes another.
    own = {f"#{attrs['id']}" for _, attrs, _ in page.elements if "id" in attrs}
    assert {attrs["href"] for attrs, _ in page.all("a")} <= own
    assert not Page(str(document.fragment(every(EVIL)))).all("a")
    assert not [key for _, attrs, _ in page.elements for key in attrs if key == "style" or key.startswith("on")]
    (style,) = [block for _, block in page.all("style")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy(page)["style-src"] == f"'sha256-{digest}'"
    assert policy(page)["default-src"] == "'none'"


def test_a_link_is_followed_only_where_it_is_one() -> None:
    good, bad = Span("there", "link", "https://example.org/a"), Span("here", "link", "javascript:alert(1)")
    blocks = [Paragraph((good, " ", bad))]
    assert markdown.draw(blocks) == "[there](<https://example.org/a>) here\n"
    assert [attrs["href"] for attrs, _ in Page(document.fragment(blocks)).all("a")] == ["https://example.org/a"]
    assert text.draw(blocks, Options()) == "there: https://example.org/a here: javascript:alert(1)\n"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_names_are_cut_prose_wraps_and_figures_stay_whole(width: int) -> None:
    words = "the GPU waits for the host " * 6
    rows = [["void cutlass::" + "x" * 90, Bar(1.0), "123,456 ms", words], ["汉字", "", "1 ms", ""]]
    lines = text.draw([Table(("name", "", "time", "why"), rows, "<|>~")], Options(width=width)).splitlines()
    assert all(columns(line) <= width for line in lines)
    assert " ".join(" ".join(line.split()) for line in lines).count("GPU") == 6
    assert "123,456 ms" in lines[1]
    assert "█" * min(30, width // 4) in lines[1]
    assert lines[0].index("time") + len("time") == lines[1].index("123,456 ms") + len("123,456 ms")


def test_labels_stand_beside_their_texts_in_every_format() -> None:
    blocks = [Facts([("where", "a.py:1"), ("", "b.py:2")])]
    assert text.draw(blocks, Options()) == "where    a.py:1\n         b.py:2\n"
    assert markdown.draw(blocks) == "- where: a.py:1  \n  b.py:2\n"
    assert "<dt>where</dt><dd>a.py:1</dd><dd>b.py:2</dd>" in document.fragment(blocks)


def test_a_table_says_its_notes_and_its_caption_in_every_format() -> None:
    blocks = [
        Table(("fix", "step"), [["Pin", "9 ms"], ["Cast", "8 ms"]], "<>", notes=["a", ""], caption="of all steps")
    ]
    assert text.draw(blocks, Options()).splitlines() == [
        "fix   step",
        "Pin   9 ms",
        "   a",
        "Cast  8 ms",
        "of all steps",
    ]
    assert markdown.draw(blocks).splitlines()[2:] == ["| Pin | 9 ms | a |", "| Cast | 8 ms |  |", "", "of all steps"]
    cells = [said for _, said in Page(document.fragment(blocks)).all("td")]
    assert cells == ["", "Pin", "9 ms", "a", "Cast", "8 ms", ""]  # the head of the notes has no name, and is no header
