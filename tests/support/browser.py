"""A page in the system's Chromium: opened, watched, and judged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def missing(requirement: str) -> None:
    """Skip the test for want of something; on CI, fail it."""
    reason = f"no {requirement} here: pip install '.[dev]' and a system's Chromium run the tests of the browser"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def chromium() -> str:
    """Find the system's browser."""
    # The first is without a user interface, and renders a page in half the time.
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    executable = next((path for name in names if (path := shutil.which(name))), None)
    if executable is None:
        missing("Chromium")
    return str(executable)


class Tabs:
    """The pages of one browser: a process is started for each kind of page, not for each visit, which takes as long again."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._idle: dict[str, Tab] = {}

    def take(self, options: dict[str, Any]) -> Tab:
        """A tab with these options of its context, at an empty page; nobody else has it until it is given back."""
        key = repr(sorted(options.items()))
        return self._idle.pop(key, None) or Tab(self._browser, key, options)

    def give_back(self, tab: Tab) -> None:
        self._idle[tab.key] = tab


class Tab:
    """A page that visits use one after the other, and whom it reports to what happens on it."""

    def __init__(self, browser: Any, key: str, options: dict[str, Any]) -> None:
        self.key = key
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.origin = ""
        # The policy must hold by itself: nothing is aborted here that it would let pass unseen.
        self.context.route("**/*", self._route_request)
        self.page.on("console", lambda message: self.faults.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("popup", lambda page: self.faults.append(f"popup: {page.url}"))

    def _route_request(self, route: Any) -> None:
        if route.request.url == self.origin:
            route.continue_()
        else:
            self.faults.append(f"request: {route.request.url}")
            route.abort()

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def browser() -> Iterator[Tabs]:
    """The browser, for all tests of a run."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright")
    path = chromium()
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"] if as_root else [])
        yield Tabs(browser)
        browser.close()


class Visit:
    """One page, and everything it did that it should not: written to the console, requested, or popped up."""

    def __init__(
        self,
        tabs: Tabs,
        path: Path,
        *,
        viewport: dict[str, int] | None = None,
        color_scheme: str = "light",
        **options: Any,
    ) -> None:
        self._tabs, self._tab = tabs, tabs.take(options)
        self.page = self._tab.page
        self.faults: list[str] = []
        self._tab.faults, self._tab.origin = self.faults, path.as_uri()
        self.page.set_viewport_size(viewport or {"width": 1200, "height": 900})
        self.page.emulate_media(media="null", color_scheme=color_scheme)
        self.page.goto(path.as_uri())

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.leave(keep=kind is None and not self.faults)
        assert self.faults == []

    def leave(self, *, keep: bool) -> None:
        """Leave the page, with no trace of the visit for the next; without *keep* the tab is closed."""
        if keep:
            self.page.mouse.move(0, 0)
            self.page.goto("about:blank")
            self._tabs.give_back(self._tab)
        else:
            self._tab.context.close()

    def data(self, name: str) -> str:
        """Read the attributes of the first timeline."""
        return str(self.page.locator(".timeline").first.get_attribute(f"data-{name}") or "")
