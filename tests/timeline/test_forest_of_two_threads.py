"""The host's forest, made by two threads: that of one."""

from __future__ import annotations

import numpy as np
import pytest
from support.traces import real_trace

from advisor import read
from advisor.reading import machine

NAME = "v100_resnet50_autograd_workers0.json.gz"


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.ALONE, raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    monkeypatch.setattr(machine, "LEAST_ROWS", 1)


def test_the_forest_of_two_threads_is_that_of_one(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(real_trace(NAME))
    two = read(path).context.recording.host
    monkeypatch.setattr(machine, "cores", lambda: 1)
    one = read(path).context.recording.host
    for name in ("start", "end", "parent", "group", "row"):
        assert np.array_equal(getattr(two, name), getattr(one, name)), name
    assert len(two.levels) == len(one.levels)
    assert all(map(np.array_equal, two.levels, one.levels))
    for name in ("user", "library", "module", "op", "phase"):
        assert np.array_equal(getattr(two.attributes, name), getattr(one.attributes, name)), name
    assert two.places == one.places
    assert two.module_paths == one.module_paths
