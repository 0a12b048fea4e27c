"""Regular expressions that are compiled when they are first used: each is one, and none is compiled before."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import advisor
from advisor.regex import _Uncompiled, regex

_APART = ("advisor.record", "advisor.mcp", "advisor.pytest_plugin", "advisor.__main__")
"""Packages that need an extra, or run where they are imported."""


def _held(value: object, depth: int = 0) -> Iterator[_Uncompiled]:
    """Stand-ins that a value of a module holds, in tuples and dicts too."""
    if isinstance(value, _Uncompiled):
        yield value
    elif isinstance(value, tuple | list | frozenset | set) and depth < 4:
        for part in value:
            yield from _held(part, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        yield from _held((*value.keys(), *value.values()), depth + 1)


def test_each_is_a_regular_expression() -> None:
    found = 0
    for info in pkgutil.walk_packages(advisor.__path__, "advisor."):
        if info.name.startswith(_APART):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            for one in _held(value):
                found += 1
                assert isinstance(one.pattern, str | bytes), name  # compiles it
    assert found > 500


def test_it_does_what_a_pattern_does() -> None:
    one = regex(r"(?P<word>[a-z]+)(\d*)", re.IGNORECASE)
    assert isinstance(one, _Uncompiled)
    found = one.search("-- Kernel42 --")
    assert found is not None
    assert found["word"] == "Kernel"
    assert one.sub("x", "a1 b2") == "x x"
    assert one.pattern == r"(?P<word>[a-z]+)(\d*)"
    assert one.flags & re.IGNORECASE
    assert regex(rb"\d+").findall(b"1 22") == [b"1", b"22"]
    assert "compile" not in repr(one)


def test_it_is_compiled_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr("advisor.regex.re.compile", lambda text, flags: compiled.append(text) or _Fake())
    one = regex("a")
    assert compiled == []
    assert one.search("a")
    assert one.search("b")
    assert compiled == ["a"]


class _Fake:
    """A pattern that matches whatever it is asked."""

    def search(self, _text: str) -> bool:
        return True


def test_what_is_none_says_so_where_it_is_used() -> None:
    one = regex("(")
    with pytest.raises(re.error):
        one.search("a")


def test_what_python_asks_of_any_object_compiles_nothing() -> None:
    one = regex("(")
    assert not hasattr(one, "__len__")
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        len(one)  # type: ignore[arg-type]


def test_to_import_what_names_kernels_and_operators_compiles_none_of_their_patterns() -> None:
    code = (
        "import re, re._compiler as c, sys; plain = c.compile; count = []\n"
        "c.compile = lambda *given: count.append(given) or plain(*given)\n"
        "import advisor.timeline.kernel_names, advisor.frames.families, advisor.privacy\n"
        "own = [p for p, *_ in count if 'gemm' in str(p) or 'attention' in str(p)]\n"
        "print(len(own))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]
