"""Hooks of mkdocs.yml: rules in the navigation, links that leave ``docs/``, and a build that fails where a page asks another host.

In the repository a page may link to any file of it. The site holds ``docs/`` alone: there such a link is its text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s#]+)(?:#[^()\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
# What a browser loads unasked. A link in <a> loads nothing; <link> loads, but for these relations.
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "embed": "src",
    "object": "data",
    "use": "href",
}
_NAMED = {"canonical", "next", "prev", "author", "license", "alternate", "edit"}
# Hosts of libraries and fonts, in a script: the theme's would load drawings' and old browsers' libraries from one.
_SCRIPTED = re.compile(r"""(["'`])(https?://(?:unpkg|cdn|cdnjs|fonts|[\w.-]*jsdelivr)\.[^"'`]*)\1""")
_CSS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?\s*((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


def on_config(config: Any) -> Any:
    """Put a page a rule into the navigation, by category."""
    for entry in config["nav"]:
        if "Rules" in entry:
            entry["Rules"] += [
                {folder.name: [f"rules/{folder.name}/{page.name}" for page in sorted(folder.glob("*.md"))]}
                for folder in sorted((DOCS / "rules").iterdir())
                if folder.is_dir()
            ]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that leave ``docs/`` into their text."""
    return inside(markdown, page.file.src_uri)


def on_post_build(config: Any) -> None:
    """Refuse a site that loads anything of another host."""
    site = Path(config["site_dir"])
    cut(site)
    if found := list(foreign(site)):
        from mkdocs.exceptions import PluginError

        raise PluginError("the site asks other hosts:\n" + "\n".join(found))


def cut(site: Path) -> None:
    """Take the addresses of libraries out of the scripts below *site*; nothing on these pages needs one."""
    for path in site.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        if _SCRIPTED.search(text):
            path.write_text(_SCRIPTED.sub(r"\1data:,\1", text), encoding="utf-8")


def inside(markdown: str, name: str) -> str:
    """Return a page of ``docs/`` whose links stay there; *name* is its path below ``docs/``.

    Raises FileNotFoundError where a link goes to a file that the repository does not have.
    """

    def text(found: re.Match[str]) -> str:
        if urlsplit(found[2]).scheme:
            return found[0]
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(name), found[2]))
        if target.startswith("docs/"):
            return found[0]
        if not (ROOT / target).exists():
            raise FileNotFoundError(f"docs/{name}: {found[2]}: the repository has no {target}")
        return found[1]

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(text, part) for part in parts)


def foreign(site: Path) -> Iterator[str]:
    """Yield each address of another host that a page, a style sheet or a script below *site* loads, with the file."""
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            found = _Loaded.of(path.read_text(encoding="utf-8"))
        elif path.suffix == ".css":
            found = _CSS.findall(path.read_text(encoding="utf-8"))
        elif path.suffix == ".js":
            found = [address for _, address in _SCRIPTED.findall(path.read_text(encoding="utf-8"))]
        else:
            continue
        for address in found:
            yield f"{path.relative_to(site)}: {address}"


class _Loaded(HTMLParser):
    """Addresses of other hosts that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @classmethod
    def of(cls, html: str) -> list[str]:
        """Read a page."""
        parser = cls()
        parser.feed(html)
        return parser.found + _CSS.findall(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address of what a tag loads."""
        values = {name: value or "" for name, value in attrs}
        address = values.get(_LOADED.get(tag, ""), "")
        if tag == "link" and not _NAMED & set(values.get("rel", "").split()):
            address = values.get("href", "")
        addresses = [address, *(part.split()[0] for part in values.get("srcset", "").split(",") if part.strip())]
        self.found += [each for each in addresses if urlsplit(each.strip()).netloc]
