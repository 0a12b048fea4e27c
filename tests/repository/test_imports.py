"""No module of the package imports itself by way of others."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.paths import ROOT

PACKAGE = ROOT / "advisor"


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def at_run_time(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports below *node*, those inside functions too, but not those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from at_run_time(other)
        else:
            yield from at_run_time(child)


def imports(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports, from the text of all; a package's own ``__init__`` is no import of its modules."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, text in modules.items():
        for node in at_run_time(ast.parse(text)):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                # ``from package import module`` is the module's; any other name is the package's.
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [one if one in modules else str(node.module) for one in inner]
            graph[name] |= {target for target in targets if target in modules and target != name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other, by Tarjan's algorithm; one that imports no other is in none."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            group, stack[at:] = sorted(stack[at:]), []
            if len(group) > 1:
                found.append(group)

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return sorted(found)


def declared() -> list[tuple[str, str]]:
    """Imports up the layers that the contract of import-linter names, each with its reason."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract for contract in contracts if contract["type"] == "layers")
    return [tuple(line.split(" -> ")) for line in layers["ignore_imports"]]


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = {name_of(path): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(modules) > 150
    graph = {name: set(found) for name, found in imports(modules).items()}
    for importer, imported in declared():
        graph[importer].discard(imported)
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("b", "found"),
    [
        ("import advisor.a", [["advisor.a", "advisor.b"]]),
        ("def late():\n    from advisor import a", [["advisor.a", "advisor.b"]]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from advisor import a", []),
        ("import json", []),
    ],
)
def test_a_circle_is_found(b: str, found: list[list[str]]) -> None:
    assert circles(imports({"advisor": "", "advisor.a": "from advisor.b import name", "advisor.b": b})) == found
