"""The ladder as one page that loads nothing and runs nothing: what it shows is data, and its policy names its only style."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ladder import text
from ladder.table import Ladder

_HERE = Path(__file__).parent


def render(ladder: Ladder) -> str:
    """Render the page."""
    style = (_HERE / "style.css").read_text("utf-8")
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        ladder=ladder,
        text=text,
        fastest=max((rung.samples_per_s or 0.0 for rung in ladder.rungs), default=0.0),
        style=Markup(style),
        style_hash="sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )


def _printable(value: Any) -> Any:
    return text.printable(value) if type(value) is str else value
