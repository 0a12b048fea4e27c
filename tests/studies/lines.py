"""Lines of code below folders: no blank lines, no comments, no docstrings. ``python tests/studies/lines.py advisor``."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> set[int]:
    """Numbers of the lines on which a token of code stands; the text of a docstring is none."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for first, last in _docstrings(ast.parse(source)):
        lines.difference_update(range(first, last + 1))
    return lines


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    # A text that stands alone documents what holds it, or the field before it.
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno


def count(folder: Path) -> int:
    """Lines of code in every Python file below *folder*."""
    return sum(len(code_lines(path.read_text(encoding="utf-8"))) for path in sorted(folder.rglob("*.py")))


if __name__ == "__main__":
    counts = {name: count(Path(name)) for name in sys.argv[1:] or ["advisor"]}
    for name, lines in counts.items():
        print(f"{lines:7,} {name}")
    if len(counts) > 1:
        print(f"{sum(counts.values()):7,} together")
