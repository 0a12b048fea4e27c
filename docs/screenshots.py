"""Makes docs/report-light.png and docs/report-dark.png, the pictures of the README: ``python docs/screenshots.py``.

Needs the development extra and the system's Chromium. The report is that of a sample trace.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = Path("sample_traces/article/rung0_baseline.json.gz")
WIDTH, HEIGHT = 1200, 1250


def main() -> int:
    """Render the sample's report, and photograph it in both themes."""
    from playwright.sync_api import sync_playwright

    import advisor

    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    executable = next((path for name in names if (path := shutil.which(name))), None)
    if executable is None:
        sys.exit("no Chromium here: install the system's")
    os.chdir(ROOT)  # the report names the trace as the README's command does
    analysis = advisor.analyze(advisor.read(str(SAMPLE)), views=True)
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        report = Path(folder) / "report.html"
        analysis.to_html(report, source_root=str(SAMPLE.parent))
        browser = running.chromium.launch(executable_path=executable, args=["--no-sandbox"] if as_root else [])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(report.as_uri())
            page.screenshot(path=ROOT / "docs" / f"report-{scheme}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
