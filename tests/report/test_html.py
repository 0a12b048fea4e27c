"""The HTML report without a browser: one file, nothing from anywhere else, every text data, every figure the JSON's."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from support.analyses import analysis, finding, hostile_analysis, together
from support.hostile import EVIL, write_hostile
from support.pages import Page, policy
from support.paths import ROOT
from support.ranks import ranks
from support.ranks import together as of_ranks
from support.real import TRACES
from support.traces import analysis as real_analysis
from support.traces import real_trace, sample

from advisor import views as viewing
from advisor.cli import main as advisor_command
from advisor.pipeline import analyze
from advisor.report import Options, format_of, render, step_time
from advisor.report.html.diff import lines as diff
from advisor.report.html.embed import data
from advisor.report.html.source import MOST_BYTES, Lines
from advisor.report.plain import KIB, link, percent, size
from advisor.results.analysis import Analysis, Place, PlanStep, QualityNote, Reference
from advisor.results.several import Several
from advisor.results.views import Grid, Heading, Timeline, Track, Views
from advisor.testing import TraceBuilder
from advisor.trace import read

SAMPLES = sorted((ROOT / "sample_traces").rglob("*.json.gz"))[::4]
"""A quarter of what this project recorded, some of each folder: they differ in what is on a page less than in names."""
REAL = [
    "h100_owlv2_large.json.gz",  # one step, stacks, memory
    "v100_resnet50_workers0.json.gz",  # many steps
    "a100_dlrm_rank3of8.json.gz",  # the largest page
    "a100_host_only.json.gz",  # no GPU
    "gpu_events_without_host.json.gz",
    "cpu_only.json.gz",
    "mi300_vllm_graph_replay.json.gz",
    "legacy_list_root_cpu.json.gz",
]
REPLACE = msgspec.structs.replace


def html(document: Analysis | Several, **options: Any) -> str:
    return render("html", document, Options(**options)).decode()


def check(text: str) -> Page:
    """What holds of every page."""
    page = Page(text)
    assert page.faults == []
    assert page.open == []
    tags = {name for name, _, _ in page.elements}
    assert tags.isdisjoint({"img", "iframe", "object", "embed", "link", "base", "form", "foreignobject", "noscript"})
    for name, attrs, _ in page.elements:
        assert "style" not in attrs, name
        assert not [key for key in attrs if key.startswith("on")], (name, attrs)
        assert not {"src", "srcset", "action", "xlink:href", "background"} & set(attrs)
    for attrs, _ in page.all("a"):
        url = attrs["href"] or ""
        if not url.startswith("#"):
            assert url.startswith(("https://", "http://"))
            assert set((attrs["rel"] or "").split()) >= {"noreferrer", "noopener"}
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for attrs, _ in page.all("a"):
        if (attrs["href"] or "").startswith("#"):
            assert (attrs["href"] or "")[1:] in ids
    for _, attrs, _ in page.elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set((attrs.get(key) or "").split()) <= set(ids)
    levels = [int(name[1]) for name, _, _ in page.elements if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    return page


def under(root: Any, key: str) -> Any:
    """Return what stands under a key of the JSON; the last name may hold dots."""
    if not key or (isinstance(root, dict) and key in root):
        return root[key] if key else root
    first, _, rest = key.partition(".")
    return under(root[int(first)] if isinstance(root, list) else root[first], rest)


def figures(page: Page, made: Any) -> int:
    """Every figure on the page that says where the JSON has it; how many there are."""
    count = 0
    contract = json.loads(made.to_json())
    for _, attrs, text in page.elements:
        key = attrs.get("data-key")
        if key is None:
            continue
        count += 1
        value = under(contract, key)
        assert float(attrs["data-value"] or "") == value, key
        shown = "".join(text)
        found = re.search(r"-?[\d,]+(?:\.\d+)?(?:e[-+]\d+)?", shown)
        assert found, (key, shown)
        said = float(found[0].replace(",", ""))
        if shown[: found.start()].endswith("<"):
            assert 0 < value < said
            continue
        (unit,) = re.match(r"(?: (?:to|→|–) [\d.,]+)* *(\S*)", shown[found.end() :]).groups()  # type: ignore[union-attr]
        factor = {"%": 100.0, "µs": 1000.0, "s": 0.001, "KiB": 1 / KIB, "MiB": 1 / KIB**2, "GiB": 1 / KIB**3}.get(
            unit, 1.0
        )
        slack = 0.11 if unit == "%" else 0.051 if unit.endswith("iB") else 0.0
        assert said == pytest.approx(value * factor, rel=0.0051, abs=slack), (key, shown)
    return count


# ---- one file, and nothing else


def test_the_policy_lets_run_what_the_page_brings_and_nothing_else() -> None:
    page = check(html(analysis(finding())))
    allowed = policy(page)
    assert allowed["default-src"] == "'none'"
    assert allowed["base-uri"] == "'none'"
    assert allowed["form-action"] == "'none'"
    assert allowed["img-src"] == "data:"
    scripts = [text for attrs, text in page.all("script") if attrs.get("type") is None]
    for source, blocks in (("script-src", scripts), ("style-src", [text for _, text in page.all("style")])):
        assert len(blocks) == 1
        digest = base64.b64encode(hashlib.sha256(blocks[0].encode()).digest()).decode()
        assert allowed[source] == f"'sha256-{digest}'"
    assert len(scripts[0].encode()) < 20_000
    assert not re.search(
        r"\b(?:eval|Function|innerHTML|outerHTML|insertAdjacentHTML|fetch|XMLHttpRequest)\b", scripts[0]
    )


def test_the_suffix_says_html() -> None:
    assert format_of("x.html").name == "html"
    assert format_of("x.html").views
    assert format_of("x.md").name == "markdown"


def test_the_package_holds_the_page() -> None:
    folder = ROOT / "advisor" / "report" / "html"
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"script.js", "style.css", "page.html.j2", "parts.html.j2", "views.html.j2"} <= names
    settings = (ROOT / "pyproject.toml").read_text()
    assert 'packages = ["advisor"]' in settings  # the whole folder, whatever a file is called


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_render_within_the_budget_and_say_what_the_json_says(path: Path) -> None:
    rendered(sample(path, views=True))


@pytest.mark.parametrize("name", REAL)
def test_real_traces_render_within_the_budget_and_say_what_the_json_says(name: str) -> None:
    rendered(real_analysis(name, views=True))


def rendered(made: Analysis) -> None:
    text = html(made)
    page = check(text)
    blocks = [block for attrs, block in page.all("script") if attrs.get("type") == "application/json"]
    assert len(text.encode()) - sum(len(block.encode()) for block in blocks) <= 400_000
    for block in blocks:
        json.loads(block)
    assert figures(page, made) >= 3 + len(made.findings)
    # The causes that a page shows are those of steady work: start-up and both ends are said below them.
    causes = made.summary.steady_causes
    shares = [
        attrs for _, attrs, _ in page.elements if (attrs.get("data-key") or "").startswith("summary.steady_causes.")
    ]
    assert sum(float(attrs["data-value"] or "") for attrs in shares) == pytest.approx(sum(causes.values()))
    # Without views it is a report, too.
    check(html(REPLACE(made, views=None)))


def test_percentages_of_causes_add_up_to_a_hundred() -> None:
    page = Page(html(analysis()))
    cells = [text for attrs, text in page.all("td") if "cause" in (attrs.get("class") or "").split()]
    assert sorted(cells) == ["33.3 %", "33.3 %", "33.4 %"]


def test_what_is_not_recorded_is_said_and_never_0() -> None:
    made = analysis()
    blank = REPLACE(made.summary, tensor_core_share=None, peak_memory_bytes=None, gpu_busy_share=None, step_ms=None)
    page = check(html(REPLACE(made, summary=blank)))
    absent = [attrs for attrs, _ in page.all("div") if "absent" in (attrs.get("class") or "")]
    assert len(absent) == 4
    assert "window" in [text for _, text in page.all("dt")]


def test_several_traces_are_sections_with_a_contents_list() -> None:
    made = analysis(finding())
    document = Several(traces=[made, analysis()], across=together(made))
    page = check(html(document))
    links = {attrs["href"] for attrs, _ in page.all("a")}
    assert {"#across", "#trace-1-top", "#trace-2-top"} <= links
    assert figures(page, document) > 10
    check(html(REPLACE(document, across=None)))


def test_a_plan_is_a_ladder() -> None:
    step = PlanStep(
        rules=["a"], title="Pin", step_ms_before=121.0, step_ms_after={"low": 93.0, "high": 100.0}, speedup=1.3
    )
    made = analysis(finding(), plan=[step, REPLACE(step, step_ms_before=93.0)])
    page = check(html(made))
    rungs = [text for attrs, text in page.all("span") if attrs.get("class") == "then"]
    assert rungs == ["121 → 93.0 – 100 ms", "93.0 → 93.0 – 100 ms"]
    assert figures(page, made) > 5


def test_a_step_of_the_plan_links_to_the_finding_that_it_fixes() -> None:
    """The rule that leads decides; what has no place of its own on the page, as nothing is left of it, is no link."""
    folded = finding(rule="sync/scalar-readback", after=["transfer/pageable-copy"], saving=None)
    shown = finding(rule="transfer/pageable-copy")
    step = PlanStep(
        rules=["transfer/pageable-copy"], title="Pin", step_ms_before=9.0, step_ms_after={"low": 8.0}, speedup=1.1
    )
    spent = REPLACE(step, rules=["sync/scalar-readback"], title="Read later")
    both = REPLACE(step, rules=["sync/scalar-readback", "transfer/pageable-copy"], title="Both")
    made = analysis(finding(rule="data-loading/no-workers"), shown, folded, plan=[step, spent, both])
    for document, prefix in ((made, ""), (Several(traces=[made, made], across=None), "trace-2-")):
        page = check(html(document))
        rows = [(attrs["href"], text) for attrs, text in page.all("a") if attrs.get("class") == "what"]
        assert rows[-2:] == [(f"#{prefix}finding-2", "Pin"), (f"#{prefix}finding-2", "Both")]
        assert len(rows) == 2 * (1 + bool(prefix))


# ---- text is data


@pytest.mark.parametrize("many", [False, True])
def test_hostile_text_is_shown_and_nothing_more(many: bool) -> None:
    made = hostile_analysis()
    made = json.loads(made.to_json().decode())
    swapped = json.dumps(made).replace("[bold]markup[/bold]", json.dumps(EVIL)[1:-1])
    hostile = Analysis.from_json(swapped)
    document = Several(traces=[hostile, hostile], across=together(hostile, EVIL)) if many else hostile
    text = html(document)
    page = check(text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "<img" not in text
    assert "<svg onload" not in text
    assert len([1 for attrs, _ in page.all("script") if attrs.get("type") is None]) == 1
    assert "<script>window.owned" not in text
    assert "window.owned=1" in "".join(text for _, text in page.all("p"))  # shown as it is


def test_a_hostile_trace_is_text_in_every_table(tmp_path: Path) -> None:
    made = analyze(read(str(write_hostile(tmp_path / "trace.json"))), views=True)
    assert len(made.findings) >= 2
    for document in (made, Several(traces=[made, made], across=None)):
        text = html(document)
        page = check(text)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
        assert len([1 for attrs, _ in page.all("script") if attrs.get("type") is None]) == 1
        assert len(text) < 1_000_000  # names of 100,000 characters are cut
        for attrs, block in page.all("script"):
            if attrs.get("type") == "application/json":
                assert not set("<>&\u2028") & set(block)
                assert any("volta_sgemm" in name for name in json.loads(block)["names"])
        assert max(len(text) for _, text in page.all("td")) < 1000
    assert figures(Page(html(made)), made) > 10


def test_embedded_data_cannot_end_its_block() -> None:
    value = ["</script><!--<script>", "\u2028&\u2029"]
    made = data(value)
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == value


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://docs.pytorch.org/docs/stable/data.html#x", True),
        ("http://example.org/?a=b&c=d", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("data:text/html,<script>", False),
        ("//evil.example", False),
        (" https://example.org", False),
        ("https://example.org/\n", False),
        ("https://a b", False),
        ('https://example.org/"onclick', False),
    ],
)
def test_links_are_http_or_no_links(url: str, kept: bool) -> None:
    assert (link(url) is not None) is kept
    text = html(analysis(finding(references=[Reference(title="there", url=url)])))
    assert ("noopener" in text.split("<main>")[1]) is kept


def test_none_is_never_printed() -> None:
    made = sample(SAMPLES[0], views=True)
    words = re.sub(r"<script.*?</script>|<style.*?</style>", "", html(made), flags=re.DOTALL)
    assert not re.search(r">\s*(?:None|nan|True|False|Undefined)\s*<|=\"None\"", words)


def test_views_from_elsewhere_cannot_break_the_page() -> None:
    """What a JSON of another make could hold: rows of other lengths would be an error of that make, these are not."""
    empty = Grid(columns=[Heading(name="a"), Heading(name="b", unit="ms")], rows=[[None, None], ["x", 1.5]], total=2)
    loop = REPLACE(empty, parents=[1, 0])
    line = Timeline(
        title="t", step=0, start_ms=0.0, dur_ns=0, events=0, merged=0, tracks=[Track(label="l", kind="cause", depth=1)],
        names=[], categories=["zzz"], rules=[], track=[], row=[], start=[], dur=[], name=[], category=[], count=[], finding=[],
    )  # fmt: skip
    views = Views(
        steps=[], timeline=line, memory=[], queue=None, classes=REPLACE(empty, rows=[]), operators=loop, kernels=empty,
        modules=loop, copies=empty, syncs=empty,
    )  # fmt: skip
    check(html(analysis(finding(), views=views)))


# ---- the source


def test_lines_of_the_source_come_from_below_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "deep").mkdir(parents=True)
    code = "\n".join(["import x", "", "def train():", *[f"    line({at})" for at in range(4, 60)]])
    (root / "train.py").write_text(code)
    (tmp_path / "secret.py").write_text("password = 1\n" * 80)
    (root / "link.py").symlink_to(tmp_path / "secret.py")
    (root / "big.py").write_bytes(b"x\n" * MOST_BYTES)
    (root / "odd.py").write_bytes(b"\xff\xfe </pre>\x1b[2J\n" * 80)
    lines = Lines(str(root))

    def at(file: str | None, line: int | None = 54, function: str | None = "train") -> list[Any]:
        return lines(Place(file=file, line=line, function=function, library=None, module=None, op=None, share=1.0))

    assert [(one.number, one.here) for one in at("train.py")] == [(n, n == 54) for n in range(51, 58)]
    assert at("train.py")[3].text == "    line(54)"
    assert at("work/project/train.py") == at("train.py")  # traces name more folders than the root holds
    assert [one.number for one in at("train.py", 59)] == [56, 57, 58, 59]
    assert at("train.py", 60) == []
    assert at("train.py", 54, "other") == []  # not that file, or another version of it
    assert at("train.py", 54, "<module>") == at("train.py")
    for name in (
        "../secret.py",
        "deep/../../secret.py",
        "link.py",
        str(tmp_path / "secret.py"),
        "big.py",
        "deep",
        "",
        "\0",
    ):
        assert at(name, 5, "<module>") == [], name
    assert at("train.py", None) == at("train.py", -1) == at(None) == []
    odd = at("odd.py", 5, None)
    assert "\x1b" not in odd[0].text
    assert "\ufffd" in odd[0].text
    place = Place(file="odd.py", line=5, function=None, library=None, module=None, op=None, share=1.0)
    page = check(html(analysis(finding(where=[place])), source_root=str(root)))
    assert any(attrs.get("class") == "source" for attrs, _ in page.all("pre"))
    assert not any(attrs.get("class") == "source" for attrs, _ in Page(html(analysis(finding()))).all("pre"))


def test_the_command_shows_source_lines_and_redaction_takes_them_out(tmp_path: Path) -> None:
    trace = str(ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz")
    (tmp_path / "train.py").write_text("\n".join(["def train():", *["    pass  # mine"] * 100]))
    out = tmp_path / "r.html"
    run = CliRunner().invoke
    done = run(advisor_command, ["analyze", trace, "-o", str(out), "--source-root", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "# mine" in out.read_text()
    check(out.read_text())
    both = run(
        advisor_command, ["analyze", trace, "-o", str(out), "--force", "--source-root", str(tmp_path), "--redact"]
    )
    assert both.exit_code == 2
    none = run(advisor_command, ["analyze", trace, "-o", str(out), "--force", "--source-root", str(tmp_path / "no")])
    assert none.exit_code == 2


def test_redacted_pages_name_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    trace = real_trace("h100_owlv2_large.json.gz")
    done = CliRunner().invoke(advisor_command, ["analyze", trace, "-o", str(out), "--redact"])
    assert done.exit_code == 0, done.output
    text = out.read_text()
    assert str(TRACES) not in text
    assert "adapters/pipeline/model.py" not in text
    assert "model.py:40" in text


# ---- fixes


def test_a_fix_is_a_diff() -> None:
    made = diff("a = 1\nb = 2\n", "a = 1\nb = 3\n")
    assert [(one.kind, one.text) for one in made] == [("same", "a = 1"), ("old", "b = 2"), ("new", "b = 3")]
    assert [one.kind for one in diff("", "x = 1")] == ["new"]
    assert diff("", " \n") == []


def test_the_reason_is_in_sight_and_its_background_is_folded() -> None:
    page = re.sub(r">\s+<", "><", render("html", analysis(finding(), finding(more=""))).decode())
    assert page.count("<dt>why</dt><dd><p>The GPU waits.</p></dd>") == 2
    (folded,) = re.findall(r'<details class="why">(.*?)</details>', page, re.DOTALL)
    assert "</summary><p>Measured on one GPU.</p><p>Harmless where" in folded


# ---- notebooks


def test_a_notebook_shows_an_analysis_and_a_finding() -> None:
    made = analysis(finding())
    text = made._repr_html_()
    assert "121 ms" in text
    assert "Batches are loaded" in text
    assert "num_workers=8" in made.findings[0]._repr_html_()
    hostile = Analysis.from_json(
        hostile_analysis().to_json().decode().replace("[bold]markup[/bold]", json.dumps(EVIL)[1:-1])
    )
    for text in (hostile._repr_html_(), hostile.findings[0]._repr_html_()):
        assert not re.search("<(?:script|img|svg|style)", text)
        assert "\u202e" not in text
        assert len(text) < 20_000
        assert Page(text).faults == []


def test_a_notebook_shows_a_trace(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(2):
        with b.step():
            with b.op("aten::mm", us=10):
                b.kernel("ampere_sgemm_128x64_nn", us=20_000)
            b.sync()
    text = read(str(b.write(tmp_path / "run.json")))._repr_html_()
    assert type(text) is str
    assert "<b>run.json</b>" in text
    assert "2 steps · step 20.0 ms" in text
    assert "<code>kernels</code>" in text
    assert Page(text).faults == []
    hostile = read(str(write_hostile(tmp_path / "evil.json")))._repr_html_()
    assert not re.search("<(?:script|img|svg|style)", hostile)
    assert Page(hostile).faults == []


def test_an_analysis_writes_its_report(tmp_path: Path) -> None:
    made = sample(SAMPLES[0], views=True)
    made.to_html(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_bytes() == render("html", made)


def test_views_are_made_of_what_the_page_shows() -> None:
    """Each table of the contract has a place on the page."""
    made = sample(SAMPLES[0], views=True)
    page = Page(html(made))
    labels = {attrs.get("aria-label") for attrs, _ in page.all("table")}
    assert {"Operators", "Kernels", "Modules", "Copies", "Waits of the host for the device"} <= labels
    assert viewing.__all__ == ["build"]
    summary = made.summary
    tiles = "".join(text for attrs, text in page.all("dl") if attrs.get("class") == "tiles")
    assert percent(summary.gpu_busy_share) in tiles
    assert size(summary.peak_memory_bytes) in tiles


def test_of_ranks_what_they_show_together_comes_before_each_by_itself(tmp_path: Path) -> None:
    many, across = of_ranks(tmp_path, ranks({2: 10_000}))
    text = html(Several(traces=many, across=across))
    order = [
        "rank 2 comes late, and the others wait",
        "Across 4 ranks</h2>",
        'id="across-finding-1"',
        "Who waits for whom",
        "Each rank by itself",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_causes_of_less_than_a_millisecond_are_in_microseconds() -> None:
    # The sample sets 329 µs of memory and waits 188 µs for blocking copies, a step.
    page = html(sample(ROOT / "sample_traces/article/rung0_baseline.json.gz"))
    assert '<td class="n">329 µs</td>' in page
    assert '<td class="n">188 µs</td>' in page


def test_commands_in_prose_are_code() -> None:
    note = QualityNote(
        code="no-steps", message="`ProfilerStep` is missing", advice="`advisor record train.py` does all of this."
    )
    made = REPLACE(analysis(finding(why="Use `a < b`; one ` is left.")), quality=[note])
    page = check(html(made))
    assert {"advisor record train.py", "ProfilerStep", "a < b"} <= {text for _, text in page.all("code")}
    said = "".join(text for _, text in page.all("main"))
    assert "one ` is left" in said
    assert "`" not in said.replace("one ` is left", "")
    markdown = render("markdown", made).decode()
    assert "`advisor record train.py` does all of this" in markdown
    assert "one \\` is left" in markdown


def test_the_footer_says_where_units_stand() -> None:
    footer = "".join(text for _, text in Page(html(analysis())).all("footer"))
    assert "times in ms" not in footer
    assert "a time has its unit beside it" in footer


def test_the_page_says_what_no_finding_holds_and_what_the_gpu_waits_for() -> None:
    made = real_analysis("a100_dlrm_rank3of8")
    page = unescape(render("html", made).decode())
    for sentence in (step_time.kernel_time, step_time.host_time, step_time.lead_lost):
        assert sentence(made.summary)
        assert sentence(made.summary) in page
    assert step_time.elsewhere(made.elsewhere) in page
