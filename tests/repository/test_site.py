"""The site of docs/: its hooks, and what can be said of it without building it. .ci/run builds it."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support.paths import ROOT


@pytest.fixture(scope="module")
def hooks() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "site.py"))


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    """Settings of mkdocs.yml; the slugs of headings are a function, which is of no matter here."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return yaml.load(text, Loader)


def leaves(entry: Any) -> list[str]:
    """Pages of a part of the navigation, in its order."""
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in leaves(part)]


def test_every_page_stands_in_the_navigation_once(hooks: dict[str, Any], settings: dict[str, Any]) -> None:
    pages = leaves(hooks["on_config"](settings)["nav"])
    docs = ROOT / "docs"
    there = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md") if not page.name.endswith(".intro.md")}
    assert sorted(pages) == sorted(there)


def test_the_overview_leads_to_every_page_but_those_of_rules() -> None:
    docs = ROOT / "docs"
    text = (docs / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in docs.glob("*.md")} - {"index.md", "replay.intro.md"} | {"rules/README.md"}
    schemas = {schema.name for schema in docs.glob("*.schema.json")}
    assert [name for name in sorted(pages | schemas) if f"]({name})" not in text] == []


def test_no_font_and_no_plugin_asks_another_host(settings: dict[str, Any]) -> None:
    assert settings["theme"]["font"] is False
    assert settings["plugins"] == ["search"]
    assert "repo_url" not in settings


def test_links_that_leave_the_docs_become_their_text(hooks: dict[str, Any]) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="rules/cpu/float64.md"))
    given = "See [frames](../../frames.md#ops), [the rule](../../../rules/cpu/float64.toml), [`setup`](../../../README.md#x), [a](https://x.org/y).\n"
    said = "See [frames](../../frames.md#ops), the rule, `setup`, [a](https://x.org/y).\n"
    assert hooks["on_page_markdown"](given, page=page, config=None, files=None) == said


def test_code_stays_as_it_is(hooks: dict[str, Any]) -> None:
    given = "```text\n[a](../README.md)\n```\n[b](../README.md)\n"
    assert hooks["inside"](given, "index.md") == "```text\n[a](../README.md)\n```\nb\n"


def test_a_link_to_a_file_that_is_not_there_fails(hooks: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/gate\.md: \.\./nothing\.md: the repository has no nothing\.md"):
        hooks["inside"]("[x](../nothing.md)", "gate.md")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://x.org/a.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//x.org/a.css">'),
        ("a.html", '<link rel="preconnect" href="https://fonts.gstatic.com">'),
        ("a.html", '<img alt="" src="http://x.org/a.png">'),
        ("a.html", '<img alt="" src="a.png" srcset="b.png 1x, https://x.org/a.png 2x">'),
        ("a.html", "<style>@import 'https://x.org/a.css'</style>"),
        ("a.js", 'load("https://unpkg.com/mermaid@11/dist/mermaid.min.js")'),
        ("a.css", "@font-face { src: url(https://x.org/a.woff2) }"),
        ("a.css", 'b { background: url( "//x.org/a.png" ) }'),
    ],
)
def test_what_a_page_would_load_of_another_host_is_found(
    name: str, text: str, hooks: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    found = list(hooks["foreign"](tmp_path))
    assert len(found) == 1, found
    assert found[0].startswith(f"{name}: ")


def test_libraries_that_the_themes_script_would_load_are_cut_out(hooks: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('a("https://unpkg.com/b@1/b.js"),c="https://clipboardjs.com/";')
    hooks["cut"](tmp_path)
    assert (tmp_path / "a.js").read_text() == 'a("data:,"),c="https://clipboardjs.com/";'


def test_links_to_other_hosts_are_no_loads(hooks: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://x.org">x</a><link rel="canonical" href="https://x.org/a"><img src="a.png" alt="https://x.org">'
        '<script src="assets/a.js"></script><img alt="" src="data:image/png;base64,aaaa">'
    )
    (tmp_path / "a.css").write_text("b { background: url(a.png) } /* https://x.org */")
    assert list(hooks["foreign"](tmp_path)) == []
