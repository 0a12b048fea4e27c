"""Requests of reading to the machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from advisor.reading import machine


def test_only_large_traces_give_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=given.append))
    machine.give_back(1000)
    assert given == []
    machine.give_back(1 << 22)
    assert given == [0]


def test_a_c_library_that_cannot_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def library(name: object) -> SimpleNamespace:
        asked.append(name)
        return SimpleNamespace()

    monkeypatch.setattr(machine.ctypes, "CDLL", library)
    machine.give_back(1 << 22)
    assert asked == [None]
