"""The report for a pull request: complete where it fits, and of a stranger's text nothing but the text."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from markdown_it import MarkdownIt
from support.analyses import analysis, finding, hostile_analysis, together
from support.hostile import EVIL
from support.pages import Page
from support.paths import ROOT

from advisor.pipeline import analyze
from advisor.report import render
from advisor.report.markdown import MOST_BYTES, code, html, plain
from advisor.results.analysis import Analysis, PlanStep, Reference
from advisor.results.several import Several
from advisor.trace import read

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"
REPLACE = msgspec.structs.replace


def markdown(document: Analysis | Several) -> str:
    return render("markdown", document).decode()


def tables(text: str) -> list[list[str]]:
    """The lines of each table."""
    return [block.split("\n") for block in text.split("\n\n") if block.startswith("| ")]


def cells(line: str) -> int:
    """How many cells GitHub would see in a line of a table."""
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_it_says_first_things_first() -> None:
    step = PlanStep(
        rules=["a"], title="Pin", step_ms_before=121.0, step_ms_after={"low": 93.0, "high": 93.0}, speedup=1.3
    )
    text = markdown(analysis(finding(), plan=[step]))
    assert text.startswith("## `trace.json.gz`\n")
    order = [
        "step time",
        "### Where a step's 121 ms go",
        "### 1 finding",
        "### Fix plan",
        "<details>",
        "### Quality",
        "Rules:",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "**saves 21.0 to 28.1 ms of 121 ms a step (17.4 to 23.2 %)**" in text
    assert (
        "| 1 | high | Batches are loaded in the training process | 21.0 to 28.1 ms (17.4 to 23.2 %) | `train.py:54 in train` |"
        in text
    )
    assert "    num_workers=8)" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_a_sample_fits_a_comment() -> None:
    made = analyze(read(str(SAMPLE)))
    text = markdown(made)
    assert len(text.encode()) < 30_000
    assert "left out" not in text
    for table in tables(text):
        assert len({cells(line) for line in table}) == 1


def test_what_does_not_fit_is_left_out_and_said() -> None:
    many = [finding(f"a/rule-{index}", why="Because. " * 800) for index in range(40)]
    text = markdown(Several(traces=[analysis(*many), analysis(*many)]))
    assert len(text.encode()) <= MOST_BYTES
    assert "The rest is left out" in text
    assert text.count("| 40 | high |") == 2  # the tables stay, details go
    assert text.count("<details>") == text.count("</details>") > 2
    assert "Rules: " in text


def test_several_traces_come_with_an_overview_and_what_ranks_show() -> None:
    made = analysis(finding())
    text = markdown(Several(traces=[made, analysis()], across=together(made)))
    assert text.startswith("## runs: 2 traces")
    assert "## Across 2 of 8 ranks" in text
    assert "### No findings" in text
    for table in tables(text):
        assert len({cells(line) for line in table}) == 1


@pytest.mark.parametrize("many", [False, True])
def test_hostile_text_is_text(many: bool) -> None:
    hostile = Analysis.from_json(
        hostile_analysis().to_json().decode().replace("[bold]markup[/bold]", json.dumps(EVIL)[1:-1])
    )
    text = markdown(Several(traces=[hostile, hostile], across=together(hostile, EVIL)) if many else hostile)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    page = Page(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))
    assert page.faults == []
    tags = {name for name, _, _ in page.elements}
    assert tags <= {
        "h1",
        "h2",
        "h3",
        "p",
        "strong",
        "em",
        "code",
        "pre",
        "ul",
        "li",
        "br",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
    }
    assert all(set(attrs) <= {"class", "style"} for _, attrs, _ in page.elements)  # of code and of cells
    # What GitHub would link beyond that: mentions, issues and bare addresses outside of code.
    inside = [text for name, _, text in page.elements if name in ("p", "summary", "td", "li")]
    code_of = {part for _, part in page.all("code")}
    bare = "".join("".join(part for part in parts if part not in code_of) for parts in inside)
    assert "everyone" in bare
    assert not re.search(r"@\w|https?://|#\d", bare)
    for table in tables(text):
        assert len({cells(line) for line in table}) == 1, table


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("num_workers=8 and __name__", r"num_workers=8 and \_\_name\_\_"),
        ("a*b [c](d) `e` | f~g $h$", r"a\*b \[c\](d) \`e\` \| f\~g \$h\$"),
        ("<b> & </b>", "&lt;b&gt; &amp; &lt;/b&gt;"),
        ("@team and #12", "@\u200bteam and #\u200b12"),
        ("https://x.org www.x.org", "https:\u200b//x.org www\u200b.x.org"),
        ("# no heading", r"\# no heading"),
        ("1. no list", "1\u200b. no list"),
        ("- no list\n\nno paragraph", r"\- no list no paragraph"),
    ],
)
def test_prose_is_escaped(text: str, escaped: str) -> None:
    assert plain(text) == escaped


def test_a_summary_is_html_and_no_markdown() -> None:
    assert html("a_b <i> @x [y]") == "a_b &lt;i&gt; @\u200bx [y]"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("aten::add_", "`aten::add_`"),
        ("a`b", "``a`b``"),
        ("`a``", "``` `a`` ```"),
        ("", "–"),
        ("x\ny", "`x y`"),
    ],
)
def test_names_are_code(text: str, span: str) -> None:
    assert code(text) == span


def test_names_in_cells_part_no_cells() -> None:
    assert code("a|b", cell=True) == r"`a\|b`"
    assert code("a\\|b", cell=True) == r"`a\|b`"
    assert len(code("x" * 100_000)) < 200


def test_links_are_http_or_text() -> None:
    bad = finding(references=[Reference(title="here", url="javascript:alert(1)")])
    assert "javascript:" not in markdown(analysis(bad))
    assert "[Tuning guide](<https://pytorch.org/tutorials/recipes/tuning.html>)" in markdown(analysis(finding()))
