"""A page in the system's Chromium: opened, watched, and judged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def missing(what: str) -> None:
    """Skip the test for want of something; on CI, fail it."""
    why = f"no {what} here: pip install '.[dev]' and a system's Chromium run the tests of the browser"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def chromium() -> str:
    """Find the system's browser."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        missing("Chromium")
    return str(found)


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
        made = running.chromium.launch(executable_path=path, args=["--no-sandbox"] if as_root else [])
        yield made
        made.close()


class Visit:
    """One page, and everything it did that it should not: said in the console, asked for, or popped up."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.faults: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        # The policy must hold by itself: nothing is aborted here that it would let pass unseen.
        self.context.route("**/*", lambda route: self._asked(route, path.as_uri()))
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self.faults.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("popup", lambda other: self.faults.append(f"popup: {other.url}"))
        self.page.goto(path.as_uri())

    def _asked(self, route: Any, own: str) -> None:
        if route.request.url == own:
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
