"""Frames that a second thread makes while the rules run: the same analysis, the same errors, and nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pytest
from support.traces import real_trace

from advisor import analyze, read
from advisor.engine import ahead
from advisor.frames import FRAMES
from advisor.reading import machine
from advisor.trace import Trace

NAME = "v100_resnet50_autograd_workers0.json.gz"


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.ALONE, raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(machine, "LEAST_ROWS", 1)


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """By frame the names of the threads that made it."""
    made: dict[str, list[str]] = {}

    def noted(name: str, build: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
        def make(*arguments: object) -> pd.DataFrame:
            made.setdefault(name, []).append(threading.current_thread().name)
            return build(*arguments)

        return make

    frames = {name: replace(FRAMES[name], build=noted(name, FRAMES[name].build)) for name in ahead.FRAMES}
    monkeypatch.setattr("advisor.trace.FRAMES", dict(FRAMES) | frames)
    return made


def test_the_second_thread_changes_no_byte_of_the_analysis(
    two_threads: None, makers: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(real_trace(NAME))
    found = msgspec.json.encode(analyze(read(path)))
    assert makers["patterns"] == ["advisor-ahead"]  # once, and there
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert msgspec.json.encode(analyze(read(path))) == found
    assert makers["patterns"] == ["advisor-ahead", "MainThread"]


def test_the_forest_of_two_threads_is_that_of_one(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(real_trace(NAME))
    two = read(path).context.recording.host
    monkeypatch.setattr(machine, "cores", lambda: 1)
    one = read(path).context.recording.host
    for name in ("start", "end", "depth", "parent", "group", "row"):
        assert np.array_equal(getattr(two, name), getattr(one, name)), name
    for name in ("user", "library", "module", "op", "phase"):
        assert np.array_equal(getattr(two.attributes, name), getattr(one.attributes, name)), name
    assert two.places == one.places
    assert two.module_paths == one.module_paths


def test_a_frame_that_fails_is_the_verdict_of_its_rules(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_context: object) -> pd.DataFrame:
        raise ValueError("no such frame today")

    monkeypatch.setattr("advisor.trace.FRAMES", dict(FRAMES) | {"gaps": replace(FRAMES["gaps"], build=fail)})
    errors = analyze(read(str(real_trace(NAME)))).verdicts.error
    assert errors
    assert {error.message for error in errors} == {"match.where: ValueError: no such frame today"}


def test_no_thread_is_left_when_the_block_ends(two_threads: None) -> None:
    trace = read(str(real_trace(NAME)))
    with ahead.Ahead(trace):
        assert trace.ahead == ahead.FRAMES
    assert trace.ahead == ()
    assert "advisor-ahead" not in {thread.name for thread in threading.enumerate()}


def test_a_small_trace_gets_no_second_thread(makers: dict[str, list[str]]) -> None:
    trace: Trace = read(str(real_trace(NAME)))
    assert trace.events < machine.LEAST_ROWS
    analyze(trace)
    assert makers["patterns"] == ["MainThread"]
