"""Docstrings that begin with an indirect question, where a noun phrase or a verb should stand.

``python tests/studies/docstrings.py [PATH...]`` prints file, line and beginning of each, and exits with 1 where there are any.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("advisor", "examples", "tests/support", "rules", "benchmarks", "docs", "fuzz")
QUESTION = re.compile(r"(?:What|Who|Whom|Whose|How|Whether|Which|Where|Why)\b", re.IGNORECASE)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and first line of every docstring, those of attributes included."""
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", ()) if isinstance(node, DOCUMENTED) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value.strip().partition("\n")[0]


def questions(paths: list[Path]) -> Iterator[str]:
    """Yield ``file:line: docstring`` for each that begins with a question."""
    # Programs that were written blind stay as their authors left them, for this as for ruff.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    frozen = [ROOT / entry for entry in settings["tool"]["ruff"]["extend-exclude"] if "*" not in entry]
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if any(folder in file.resolve().parents for folder in frozen):
                continue
            for line, text in sorted(docstrings(file.read_text(encoding="utf-8"))):
                if QUESTION.match(text):
                    yield f"{os.path.relpath(file)}:{line}: {text}"


def main() -> int:
    """Print them and their number."""
    given = [Path(argument) for argument in sys.argv[1:]]
    found = list(questions(given or [ROOT / place for place in PLACES if (ROOT / place).exists()]))
    print(*found, f"{len(found)} docstrings begin with a question", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
