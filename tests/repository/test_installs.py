"""Texts that users read name no release, address or owner of this project: there is none yet, only a checkout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import ROOT

PACKAGE = r"[\"']?trace-advisor"
REFUSED = {
    "the package from an index": rf"(?:pip|pipx|uv|uvx|poetry|conda|mamba)\b[^\n]*\s{PACKAGE}|trace-advisor\s*(?:\[|[=<>~!]=)",
    "a package index": r"pypi\.org|test\.pypi|anaconda\.org|files\.pythonhosted\.org",
    "a repository by its address": r"(?:github|gitlab|bitbucket)\.(?:com|io)[/:][\w.-]+/(?:trace-)?advisor\b|git\+(?:https|ssh)",
    "an action by its owner": r"uses:\s*[\w.-]+/(?:trace-)?advisor@|\b[\w-]+/(?:trace-)?advisor@",
    "a site of the project": r"https?://[\w.-]*(?:trace-)?advisor\.[a-z]+|https?://[\w.-]+\.(?:github|gitlab|readthedocs)\.io/(?:trace-)?advisor",
}  # fmt: skip


def documents() -> Iterator[Path]:
    """Files whose whole text users read."""
    yield from (ROOT / name for name in ("action.yml", "mkdocs.yml", "justfile", "docs/gitlab-ci.yml"))
    for folder in (ROOT, ROOT / "docs", ROOT / "sample_traces", ROOT / "benchmarks", ROOT / "examples"):
        yield from folder.glob("*.md") if folder == ROOT else folder.rglob("*.md")
    yield from (ROOT / "rules").rglob("*.toml")
    yield from (ROOT / "advisor").rglob("*.toml")
    for kind in ("html", "js", "css"):
        yield from (ROOT / "advisor" / "report").rglob(f"*.{kind}")


def strings(program: Path) -> str:
    """All texts in a program, one a line; pieces that Python joins are joined."""
    tree = ast.parse(program.read_text(encoding="utf-8"))
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [piece.value if isinstance(piece, ast.Constant) else "0" for piece in node.values]
            texts.append("".join(map(str, pieces)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return "\n".join(texts)


def named(text: str) -> list[str]:
    """Pieces of a text that name a release, an address or an owner."""
    return [f"{what}: {found[0]}" for what, form in REFUSED.items() for found in re.finditer(form, text)]


def test_no_text_names_what_does_not_exist() -> None:
    programs = [*(ROOT / "advisor").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in documents()}
    texts |= {path: strings(path) for path in programs}
    assert len(texts) > 300  # the rules, their pages, the modules
    assert {str(path.relative_to(ROOT)): found for path, text in texts.items() if (found := named(text))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install trace-advisor",
        "pip install 'trace-advisor[record]'",
        "python -m pip install -q --upgrade 'trace-advisor==0.1'",
        "pipx run trace-advisor",
        "needs the extra: trace-advisor[cluster]",
        "https://pypi.org/project/advisor",
        "https://github.com/somebody/advisor",
        "git clone git@github.com:somebody/trace-advisor.git",
        "pip install git+https://example.org/a/b",
        "- uses: somebody/advisor@v1",
        "https://somebody.github.io/advisor/",
    ],
)
def test_what_does_not_exist_is_found(text: str) -> None:
    assert named(f"Before. {text} After.")


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[record]'",
        "pip install torch, or in a checkout of the advisor pip install '.[record]'",
        "- uses: ./",
        "- uses: github/codeql-action/upload-sarif@9e907b5e64f6b83e7804b09294d44122997950d6",
        "https://github.com/pytorch/pytorch/pull/161209",
        "~/.cache/trace-advisor",
    ],
)
def test_what_exists_may_be_named(text: str) -> None:
    assert named(text) == []


def test_texts_that_python_joins_are_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text('raise ValueError(f"install it: pip install {1}" " trace-advisor")\n')
    assert named(strings(tmp_path / "x.py"))
