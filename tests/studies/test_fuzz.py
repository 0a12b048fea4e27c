"""Damaged and hostile traces: twelve hundred in a study; and, in every run, that what looks for their failures finds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.paths import ROOT

from advisor import rulebook
from advisor.engine import evaluation
from advisor.frames import FRAMES
from advisor.pipeline import analyze
from advisor.results.analysis import Analysis
from advisor.rulebook import conditions
from advisor.testing import TraceBuilder
from advisor.trace import read


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    for name in ("QUERY_SECONDS", "TOTAL_SECONDS"):  # a worker sets these; here they come back
        monkeypatch.setattr(evaluation, name, getattr(evaluation, name))
    monkeypatch.setattr(conditions, "CHECK_SECONDS", conditions.CHECK_SECONDS)


@pytest.mark.study  # a few inputs alone would save little: to make the seeds, of all proofs, takes four times as long as to try 60
def test_thousands_of_inputs_come_to_a_report_or_to_an_error() -> None:
    inputs = 1200
    options = f"--kinds trace --inputs {inputs} --seed 7 --whole 0.08 --jobs 2"
    done = subprocess.run(
        [sys.executable, str(ROOT / "fuzz" / "run.py"), *options.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["inputs"] == sum(found["outcomes"].values()) == inputs
    # Most damage is survived, some is refused, and what is asked to go through all rules and reports does.
    assert set(found["outcomes"]) == {"read", "analyzed", "refused"}
    assert found["outcomes"]["analyzed"] > inputs / 25
    assert found["outcomes"]["refused"] > inputs / 20
    assert set(found["damage"]) == {"bytes", "bytes, gzip", "structure", "structure, gzip"}
    assert done.returncode == 0


def test_an_input_is_its_number() -> None:
    from fuzz.inputs import make

    seeds = [("a", {"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "name": "a"}] * 9}), ("b", {"traceEvents": []})]
    made = [make(Random(f"5 {number}"), seeds) for number in range(40)]
    assert made == [make(Random(f"5 {number}"), seeds) for number in range(40)]
    assert len({content for _, content in made}) > 30
    assert made != [make(Random(f"6 {number}"), seeds) for number in range(40)]
    assert seeds[0][1]["traceEvents"] == [{"ph": "X", "ts": 1, "dur": 2, "name": "a"}] * 9


KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "correlation", "device", "stream", "bytes", "Input Dims"]
NUMBERS = st.one_of(st.integers(), st.integers(0, 200), st.floats(0, 200), st.floats())
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["X", "kernel", "cpu_op", "cuda_runtime", "ProfilerStep#1"]))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=5,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.one_of(st.just("X"), JSON), "ts": st.one_of(st.integers(0, 99), JSON)},
        optional={
            "cat": st.one_of(st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "user_annotation"]), JSON),
            "name": st.one_of(st.sampled_from(["ProfilerStep#1", "aten::mm", "cudaLaunchKernel"]), JSON),
            "dur": st.one_of(st.integers(0, 99), JSON),
            "tid": JSON,
            "args": st.one_of(st.dictionaries(st.sampled_from(KEYS), st.one_of(st.integers(0, 3), JSON)), JSON),
        },
    ),
    max_size=12,
)


@pytest.mark.parametrize("examples", [20, pytest.param(60, marks=pytest.mark.study)])
def test_any_json_for_events(examples: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Events whose every field may be any JSON: what hypothesis finds it makes small."""
    from fuzz import checks

    path = tmp_path_factory.mktemp("any") / "t.json"
    book = rulebook.load([rulebook.builtin_rules_dir()])
    outcomes = set()

    @settings(derandomize=True, deadline=None, max_examples=examples, database=None)
    @given(EVENTS, st.booleans(), JSON)
    def holds(events: list[Any], is_list: bool, devices: Any) -> None:
        path.write_text(json.dumps(events if is_list else {"deviceProperties": devices, "traceEvents": events}))
        trace = checks.read(path)
        outcomes.add(type(trace))
        if not isinstance(trace, str):
            checks.reports(checks.analyzed(trace, book))

    holds()
    assert len(outcomes) == 2


@pytest.fixture
def tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from fuzz import worker
    from fuzz.worker import Tries
    from fuzz.world import World

    # A child's bound, of the most that its process ever took: here all tests before have had their part in it.
    monkeypatch.setattr(worker, "MOST_MEMORY", sys.maxsize)
    return Tries(tmp_path, World([]), 1.0)


def sound() -> bytes:
    b = TraceBuilder()
    for _ in range(3):
        with b.step(), b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=900)
    return b.to_json().encode()


def test_a_sound_trace_is_analyzed(tries: Any) -> None:
    assert tries.run(1, 1, {"input.json": sound()})["outcome"] == "analyzed"


def test_a_traceback_is_a_failure(tries: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.frames.trace.FRAME", replace(FRAMES["trace"], build=lambda _: 1 / 0))
    result = tries.run(1, 2, {"input.json": sound()})
    assert result["outcome"] == "failure"
    assert "ZeroDivisionError" in result["said"]


def spoiled() -> Iterator[tuple[str, dict[str, Any]]]:
    """What a broken analysis could hold, and what the checks say of it."""
    yield "causes add up", {"causes": {"compute": 0.5, "host": 0.4}}
    yield "a share beyond the whole", {"causes": {"compute": 1.5, "host": -0.5}}
    yield "is nan", {"window_ms": float("nan")}
    yield "a share beyond the whole", {"gpu_busy_share": 1.2}


@pytest.mark.parametrize(("said", "changed"), list(spoiled()))
def test_a_figure_that_cannot_be_is_a_failure(
    said: str, changed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fuzz import checks

    (tmp_path / "t.json").write_bytes(sound())
    trace = read(str(tmp_path / "t.json"))
    book = rulebook.load([rulebook.builtin_rules_dir()])
    made = checks.analyzed(trace, book)
    summary = msgspec.structs.replace(made.summary, **changed)
    monkeypatch.setattr("advisor.analyze", lambda *_, **__: msgspec.structs.replace(made, summary=summary))
    with pytest.raises(checks.Broken, match=said):
        checks.analyzed(trace, book)


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        ("text", "a name\x1b[2J", "steers the terminal"),
        ("json", "a \u202e name", "steers the terminal"),
        ("html", "<td><fuzz></td>", "holds markup of a trace"),
        ("markdown", "a <fuzz> b `<fuzz>`", "holds markup of a trace"),
        ("text", "  ::error file=x::y", "commands CI"),
        ("text", "op ##[group]x", "commands CI"),
        ("json", "/home/FUZZ-SECRET/x.py", "tells a secret"),
    ],
)
def test_a_report_that_lets_a_name_out_is_a_failure(form: str, text: str, said: str) -> None:
    from fuzz import checks

    with pytest.raises(checks.Broken, match=said):
        checks.texts({form: text.encode()})
    checks.texts({form: b"a name, `<fuzz>` in Markdown" if form == "markdown" else b"a name at::native::add"})


def test_a_child_that_hangs_or_dies_fails_its_input_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fuzz import run

    script = (
        "import json, os, signal, sys\n"
        "for number in range(int(sys.argv[4]), int(sys.argv[5])):\n"
        "    print(number, flush=True)\n"
        "    if number == 2: os.kill(os.getpid(), signal.SIGPROF)\n"
        "    if number == 4: os._exit(9)\n"
        "    print(json.dumps({'outcome': 'read', 'seconds': 0.0, 'input': 'bytes: x'}), flush=True)\n"
    )
    launcher = tmp_path / "child.py"
    launcher.write_text(script)
    monkeypatch.setattr(run, "CHILD", str(launcher))
    summary = run.Summary(1, 1.0)
    run.drive(tmp_path, 1, 1.0, range(6), summary)
    told = summary.as_dict()
    assert told["outcomes"] == {"read": 4, "hang": 1, "crash": 1}
    assert [(failure["number"], failure["outcome"]) for failure in told["failures"]] == [(2, "hang"), (4, "crash")]


def test_steps_without_length_save_no_more_than_there_is(tmp_path: Path) -> None:
    """The fuzzer's first find: a median step of 0 ms was taken for no step at all, and fixes saved 268 of 0.25 ms."""
    b = TraceBuilder()
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=900)
    root = json.loads(b.to_json())
    step = next(event for event in root["traceEvents"] if event.get("name", "").startswith("ProfilerStep#"))
    end = step["ts"] + step["dur"]
    root["traceEvents"] += [{**step, "name": f"ProfilerStep#{number}", "ts": end, "dur": 0} for number in (1, 2, 3)]
    (tmp_path / "t.json").write_text(json.dumps(root))
    trace = read(str(tmp_path / "t.json"))
    made: Analysis = analyze(trace)
    assert made.summary.step_ms is not None
    assert trace.whole_ms == pytest.approx(made.summary.step_ms.whole)
    saved = [finding.saving.high_ms for finding in made.findings if finding.saving]
    assert sum(saved) <= made.summary.step_ms.whole
