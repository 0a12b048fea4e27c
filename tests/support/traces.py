"""The real traces for tests: their paths, the independent figures for them, and each of them analyzed once.

Those of the first folder have figures and verdicts on record; the audited ones are only read and analyzed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

import advisor
from advisor import rulebook
from advisor.results.analysis import Analysis
from advisor.trace import Trace
from support.paths import ROOT
from support.real import TRACES, path_of

ABSENT = "the real traces are not here; set ADVISOR_TRACES to their folder"
# Loaded traces are heavy; tests that read the same one run one after the other (tests/conftest.py).
TRACES_KEPT, ANALYSES_KEPT = 3, 12
SHARED = "ADVISOR_TEST_ANALYSES"
"""Names the folder of this run where analyses of real traces lie: each is made once, whichever process needs it."""


def required() -> bool:
    """Tell if a missing trace is a failure: on CI, except on GitHub's runners where the whole folder is absent."""
    return bool(os.environ.get("CI")) and (TRACES.is_dir() or not os.environ.get("GITHUB_ACTIONS"))


def missing(reason: str = ABSENT) -> NoReturn:
    """Skip the test; fail it where the real traces are required."""
    if required():
        pytest.fail(reason)
    pytest.skip(reason)


def real_trace(name: str) -> str:
    """Path of a real trace; see :func:`missing` where it is absent."""
    path = path_of(name)
    if not path.exists():
        missing(ABSENT if not TRACES.is_dir() else f"{path.name} of tests/real_traces.json is not in {path.parent}")
    return str(path)


@contextmanager
def folder_of(names: list[str]) -> Iterator[Path]:
    """Enter a folder that holds these real traces, as links, and nothing else."""
    with TemporaryDirectory() as folder:
        for name in names:
            link = Path(folder) / name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path(real_trace(name)).resolve())
        yield Path(folder)


@cache
def reference() -> dict[str, dict[str, Any]]:
    """Independent figures for the real traces, by path below their folder."""
    path = TRACES.parent / "facts" / "reference.json"
    if not path.exists():
        missing("facts/reference.json, the figures for the real traces, is not beside their folder")
    figures: dict[str, dict[str, Any]] = json.loads(path.read_text())["traces"]
    return figures


@cache
def rules() -> rulebook.Rulebook:
    """The rules that ship, loaded once."""
    return rulebook.load([ROOT / "rules"])


@lru_cache(maxsize=TRACES_KEPT)
def _read(path: str) -> Trace:
    return advisor.read(path)


@lru_cache(maxsize=ANALYSES_KEPT)
def _analyzed(path: str) -> Analysis:
    kept = _kept(path)
    if kept is not None and kept.exists():
        return Analysis.from_json(kept.read_bytes())
    result = advisor.analyze(_read(path), rules(), views=True, samples=True)
    text = result.to_json()
    assert Analysis.from_json(text) == result, "what other processes take from the JSON is what was analyzed"
    if kept is not None:
        beside = kept.with_suffix(f".{os.getpid()}")
        beside.write_bytes(text)
        os.replace(beside, kept)
    return result


def _kept(path: str) -> Path | None:
    """The file by which the processes of this run share the analysis of a trace; None outside a run."""
    folder = os.environ.get(SHARED)
    return Path(folder) / f"{hashlib.sha256(path.encode()).hexdigest()}.json" if folder else None


def trace(name: str) -> Trace:
    """Read a real trace. It is shared by all tests of the process: build frames, change nothing."""
    return _read(real_trace(name))


def analysis(name: str, *, views: bool = False, samples: bool = False) -> Analysis:
    """Analyze a real trace by the rules that ship. It is shared: change nothing."""
    return _chosen(_analyzed(real_trace(name)), views, samples)


def sample(path: Path, *, views: bool = False, samples: bool = False) -> Analysis:
    """Analyze a trace of ``sample_traces``, as :func:`analysis` does."""
    return _chosen(_analyzed(str(path)), views, samples)


def _chosen(result: Analysis, views: bool, samples: bool) -> Analysis:
    return replace(result, views=result.views if views else None, samples=result.samples if samples else None)
