"""What every HTML page of ours is made with: text is data, and only the page's own style and script may run.

Any blocks become a fragment, or a page of their own without a script; the analysis has templates. Either way every text is
cleaned, so that nothing invisible reorders it, and escaped. A page's policy names its style and script by their hashes; so
none carries a style attribute or an event handler.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from advisor.report.blocks import (
    Bar,
    Block,
    Code,
    Detail,
    Facts,
    Fold,
    Heading,
    Items,
    Paragraph,
    Piece,
    Table,
    Text,
    pieces,
)
from advisor.report.documents import build
from advisor.report.plain import clean, clean_lines, link, shorten

if TYPE_CHECKING:
    from jinja2 import Environment

    from advisor.report import Options

LONGEST = 6000
"""Characters of one text on the page; the middle of what is longer is left out."""

_SHELL = Markup(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{policy}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head><body>
{body}
</body></html>
"""
)


def render(document: object, _options: Options) -> str:
    """A page of a document that has no templates of its own."""
    blocks = build(document, Detail(folds=True, bars=True, wide=True))
    return page(f"advisor {type(document).__name__.lower()}", blocks)


def page(title: str, blocks: Sequence[Block]) -> str:
    """A page of any blocks, which loads nothing and runs nothing."""
    style = asset("advisor.report.comparison", "style.css")
    return str(_SHELL.format(policy=digest(style), title=_safe(title), style=Markup(style), body=fragment(blocks)))


def fragment(blocks: Iterable[Block]) -> Markup:
    """Any blocks as HTML."""
    return Markup("\n").join(_block(block) for block in blocks)


def _block(block: Block) -> Markup:
    match block:
        case Heading():
            made = Markup("<h{0}>{1}</h{0}>").format(block.level, inline(block.text))
            return made + (Markup("<p>{}</p>").format(inline(block.aside)) if block.aside else "")
        case Paragraph():
            return Markup("<p>{}</p>").format(inline(block.text))
        case Facts():
            rows = [
                (Markup("<dt>{}</dt>").format(_safe(label)) if label else Markup(""))
                + Markup("<dd>{}</dd>").format(inline(text))
                for label, text in block.rows
            ]
            return Markup('<dl class="pairs">{}</dl>').format(Markup("").join(rows))
        case Items():
            below = [*block.below, *[""] * (len(block.items) - len(block.below))]
            items = [
                Markup("<li>{}{}</li>").format(inline(text), Markup("<br>{}").format(inline(more)) if more else "")
                for text, more in zip(block.items, below, strict=True)
            ]
            return Markup("<ul>{}</ul>").format(Markup("").join(items))
        case Table():
            caption = Markup('<p class="note">{}</p>').format(inline(block.caption)) if block.caption else ""
            return table(block) + caption
        case Code():
            label = Markup("<p>{}:</p>").format(_safe(block.label)) if block.label else ""
            return label + Markup("<pre>{}</pre>").format("\n".join(clean_lines(block.text)))
        case Fold():
            return Markup("<details><summary>{}</summary>{}</details>").format(
                inline(block.title), fragment(block.blocks)
            )


def table(table: Table, attributes: str = "") -> Markup:
    """A table, with the notes on its rows in a column of their own; *attributes* are ours and stand as they are."""
    more = [table.notes] if any(table.notes) else []
    classes = [Markup(' class="n"') if sign == ">" else Markup("") for sign in table.align] + [Markup("")] * len(more)
    heads = [*table.head, *[""] * len(more)]
    lines = [
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td{}>{}</td>").format(name, inline(cell)) for name, cell in zip(classes, cells, strict=True)
            )
        )
        for cells in ([*row, *(note[at] for note in more)] for at, row in enumerate(table.rows))
    ]
    named = zip(classes, heads, strict=True)
    head = Markup("").join(Markup('<th scope="col"{}>{}</th>').format(name, _safe(text)) for name, text in named)
    return Markup("<table{}><thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table>").format(
        Markup(attributes), head, Markup("\n").join(lines)
    )


def inline(text: Text) -> Markup:
    """A text with its spans and bars."""
    return Markup("").join(_piece(piece) for piece in pieces(text))


def _piece(piece: Piece) -> Markup:
    if isinstance(piece, str):
        return _safe(piece)
    if isinstance(piece, Bar):
        return (
            Markup('<span class="{}">{}</span>').format(piece.style, share_bar(piece.share))
            if piece.share
            else Markup("")
        )
    if piece.style in ("code", "name", "path"):
        return Markup("<code>{}</code>").format(_safe(cut(piece.text)))
    if piece.style == "strong":
        return Markup("<b>{}</b>").format(_safe(piece.text))
    if piece.style == "link" and link(piece.url):
        made = Markup('<a href="{}" rel="noreferrer noopener" target="_blank">{}</a>')
        return made.format(piece.url, _safe(cut(piece.text)))
    return Markup('<span class="{}">{}</span>').format(piece.style, _safe(piece.text))


def _safe(text: str) -> Markup:
    return escape(clean(cut(text, LONGEST)))


def at(share: float) -> str:
    """A share of the width."""
    return f"{round(100 * min(1.0, max(0.0, share)), 3):g}%"


def share_bar(share: float) -> Markup:
    """The bar beside a share in a table; the figure says the same, so that it is silent."""
    shape = '<svg class="share" width="60" height="8" aria-hidden="true"><rect width="{}" height="8"/></svg>'
    return Markup(shape).format(at(share))


def environment(package: str, folder: str) -> Environment:
    """What renders the templates in *folder* of *package*."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(package: str, name: str) -> str:
    """The text of a style or a script that lies in *package*."""
    return files(package).joinpath(name).read_text("utf-8")


def digest(text: str) -> str:
    """What a Content-Security-Policy calls an inline block."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _finalize(value: Any) -> Any:
    """What every expression of a template passes before it is escaped."""
    if value is None:
        raise ValueError("a template prints a figure that is not there")
    return clean(cut(value, LONGEST)) if type(value) is str else value


def cut(text: str, most: int = 400) -> str:
    """*text* with its middle left out where it is longer than *most* characters."""
    return text if len(text) <= most else shorten(text[:most] + text[-most:], most)
