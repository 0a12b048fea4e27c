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


@contextmanager
def browser() -> Iterator[Any]:
    """The browser, for all tests of a run."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright")
    path = chromium()
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"] if as_root else [])
        yield browser
        browser.close()


class Visit:
    """One page, and everything it did that it should not: said in the console, asked for, or popped up."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.faults: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        # The policy must hold by itself: nothing is aborted here that it would let pass unseen.
        self.context.route("**/*", lambda route: self._route_request(route, path.as_uri()))
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.faults.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("popup", lambda page: self.faults.append(f"popup: {page.url}"))
        self.page.goto(path.as_uri())

    def _route_request(self, route: Any, origin: str) -> None:
        if route.request.url == origin:
            route.continue_()
        else:
            self.faults.append(f"request: {route.request.url}")
            route.abort()

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
        assert self.faults == []

    def data(self, name: str) -> str:
        """Read the attributes of the first timeline."""
        return str(self.page.locator(".timeline").first.get_attribute(f"data-{name}") or "")
