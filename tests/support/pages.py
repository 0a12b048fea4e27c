"""HTML pages, taken apart."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "input", "link", "img"}


class Page(HTMLParser):
    """Content of a page: elements with their attributes and text, and a check that all that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.elements[self.open[-1]][0] != tag:
            self.faults.append(f"</{tag}>, open: {[self.elements[index][0] for index in self.open][-3:]}")
        if self.open:
            self.open.pop()

    def handle_data(self, text: str) -> None:
        for index in self.open:
            self.elements[index][2].append(text)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(text)) for name, attrs, text in self.elements if name == tag]


def policy(page: Page) -> dict[str, str]:
    (content,) = [attrs["content"] for attrs, _ in page.all("meta") if "http-equiv" in attrs]
    return dict(part.strip().split(" ", 1) for part in (content or "").split(";"))
