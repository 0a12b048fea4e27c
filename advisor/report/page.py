"""Basis of every HTML page: text is data, and only the page's own style and script may run.

Jinja2 escapes every expression, and before that ``finalize`` spells out what is invisible or reorders text. A page's policy
names its style and script by their hashes; so none carries a style attribute or an event handler.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from advisor.regex import regex
from advisor.report.plain import clean, shorten

LONGEST = 6000
"""Characters of one text on the page; the middle of what is longer is left out."""


def environment(package: str, folder: str) -> Environment:
    """Make the environment that renders the templates in *folder* of *package*."""
    made = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"cut": cut, "breakable": breakable, "prose": prose}
    return made


_LITERAL = regex(r'("[^"\n]*"|`[^`]*`|/(?![ /])[^/\n]+/[a-z]*|//.*)')
"""A string, a template, a regular expression or a comment of a script in the project's format: a division has blanks around it."""
_BETWEEN = regex(r" ?([=!]==?|=>|[<>]=|&&|\|\||[=?:,{}*]) ?")


def asset(package: str, name: str) -> str:
    """Return a style or a script that lies in *package*, without what only its reader needs: every page carries it.

    Indentation and lines of comment go, and blanks around most of a script's operators.
    """
    lines = map(str.strip, files(package).joinpath(name).read_text("utf-8").splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"
    if not name.endswith(".js"):
        return text
    parts = _LITERAL.split(text)
    return "".join(part if at % 2 else _BETWEEN.sub(r"\1", part) for at, part in enumerate(parts))


def digest(text: str) -> str:
    """Hash an inline block as a Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


_QUOTED = regex(r"`([^`]+)`")


def prose(text: str) -> Markup:
    """Return prose, what stands between backticks in it as code."""
    parts = _QUOTED.split(str(_finalize(text)))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


_JOINT = regex(r"(?:::|_)(?=[^\W_])|(?<=[a-z])(?=[A-Z][a-z])")


def breakable(text: str) -> Markup:
    """Return a name that a narrow column breaks between its parts, behind ``::`` and ``_`` and where a word begins."""
    return Markup(_JOINT.sub(r"\g<0><wbr>", str(escape(_finalize(text)))))


def _finalize(value: Any) -> Any:
    """Clean and cut an expression of a template before it is escaped. Raises ``ValueError`` for None."""
    if value is None:
        raise ValueError("a template prints a figure that is not there")
    return clean(cut(value, LONGEST)) if type(value) is str else value


def cut(text: str, most: int = 400) -> str:
    """Return *text* with its middle left out where it is longer than *most* characters."""
    return text if len(text) <= most else shorten(text[:most] + text[-most:], most)
