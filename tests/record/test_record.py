"""Three unmodified scripts, recorded: the analysis finds what is wrong with each, and names the line."""

from __future__ import annotations

import gzip
import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.recording import SCRIPTS, advisor, needs_torch

import advisor as house

pytestmark = needs_torch


def line_of(script: str, mark: str) -> int:
    """The number of the line in a script that ends with the comment *mark*."""
    lines = (SCRIPTS / script).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``recorded("plain_loop.py")`` is the path of that script's trace, and what the command said."""
    made: dict[str, tuple[Path, str]] = {}

    def record(script: str) -> tuple[Path, str]:
        if script not in made:
            folder = tmp_path_factory.mktemp(Path(script).stem)
            shutil.copy(SCRIPTS / script, folder)
            said = advisor("record", script, cwd=folder).stderr
            made[script] = folder / f"{Path(script).stem}.trace.json.gz", said
        return made[script]

    return record


def root_of(path: Path) -> dict[str, Any]:
    root: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return root


@pytest.mark.parametrize(
    ("script", "rule", "function"),
    [
        ("plain_loop.py", "cpu/loader-wait", "__getitem__"),
        ("accumulation.py", "cpu/unfused-optimizer", "train"),
        ("inference.py", "cpu/float64", "<listcomp>"),
    ],
)
def test_the_planted_fault_is_found_and_its_line_named(recorded: Any, script: str, rule: str, function: str) -> None:
    path, _ = recorded(script)
    analysis = house.analyze(house.read(str(path)))
    found = {finding.rule: finding for finding in analysis.findings}
    assert rule in found, f"fired: {list(found)}"
    place = found[rule].where[0]
    assert (place.file, place.line) == (script, line_of(script, "fault"))
    # Since 3.12 comprehensions are no functions of their own.
    assert place.function in (function, "predict") if function == "<listcomp>" else place.function == function


@pytest.mark.parametrize("script", ["plain_loop.py", "accumulation.py", "inference.py"])
def test_stacks_do_not_distort_the_timings(recorded: Any, script: str) -> None:
    path, _ = recorded(script)
    trace = house.read(str(path))
    facts = trace.frame("trace").iloc[0]
    assert bool(facts["has_stacks"])
    assert not bool(facts["stack_recorded"])
    notes = " ".join(note.code + note.message for note in house.analyze(trace).quality)
    assert "stack" not in notes
    # Only the timing pass is in the file: no call of Python, and the steps once.
    events = root_of(path)["traceEvents"]
    assert not [event for event in events if event.get("cat") == "python_function"]
    steps = [event["name"] for event in events if event["name"].startswith("ProfilerStep#")]
    assert steps == [f"ProfilerStep#{number}" for number in range(1, 6)]


def test_every_operator_of_a_loop_that_repeats_itself_has_a_place(recorded: Any) -> None:
    path, _ = recorded("accumulation.py")
    ops = house.read(str(path)).frame("ops")
    assert len(ops) > 1000
    assert set(ops["file"].dropna()) == {"accumulation.py"}
    assert not ops["file"].isna().any()


def test_the_settings_are_in_the_trace(recorded: Any) -> None:
    loop = root_of(recorded("plain_loop.py")[0])["advisor"]
    made = line_of("plain_loop.py", "made here")
    assert loop["loaders"] == [
        {"workers": 0, "batch_size": 8, "samples": 160, "passes": 1, "file": "plain_loop.py", "line": made}
    ]
    # Two layers, each a weight and a bias.
    assert loop["optimizers"] == [{"kind": "SGD", "tensors": 4, "file": "plain_loop.py", "line": made + 2}]
    assert (loop["steps_by"], loop["backwards_per_step"], loop["stacks"]) == ("optimizer", 1.0, "second pass")
    assert loop["threads"] == 1
    # Of five steps that are skipped the first has no beginning that was seen. Eight samples of 4 ms make 32 ms at least.
    assert len(loop["unprofiled_step_ms"]) == 4
    assert min(loop["unprofiled_step_ms"]) >= 32.0
    accumulation = root_of(recorded("accumulation.py")[0])["advisor"]
    assert accumulation["backwards_per_step"] == 4.0
    assert accumulation["optimizers"][0] | {"line": 0} == {
        "kind": "Adam", "foreach": False, "tensors": 48, "file": "accumulation.py", "line": 0,
    }  # fmt: skip
    inference = root_of(recorded("inference.py")[0])["advisor"]
    assert inference["steps_by"] == "batches"
    assert "optimizers" not in inference
    assert "backwards_per_step" not in inference or inference["backwards_per_step"] == 0


def test_a_wait_for_a_batch_lies_in_the_step_that_it_feeds(recorded: Any) -> None:
    events = root_of(recorded("plain_loop.py")[0])["traceEvents"]
    spans = sorted((e["ts"], e["name"]) for e in events if e.get("cat") == "user_annotation")
    kinds = [name.split("#")[0] for _, name in spans]
    one = ["ProfilerStep", "enumerate(DataLoader)", "Optimizer.zero_grad", "Optimizer.step"]
    assert kinds == one * 5


def test_what_was_done_is_said_on_stderr(recorded: Any) -> None:
    said = recorded("plain_loop.py")[1]
    assert "recorded 5 steps, a step being one optimizer step, from the request for its batch; skipped 5 before" in said
    assert "next: advisor analyze plain_loop.trace.json.gz" in said
    assert "a step being one batch" in recorded("inference.py")[1]


@pytest.mark.parametrize("script", ["plain_loop.py", "accumulation.py", "inference.py"])
def test_nothing_in_the_file_names_a_person_or_a_machine(recorded: Any, script: str) -> None:
    import getpass
    import socket

    path, _ = recorded(script)
    text = gzip.decompress(path.read_bytes()).decode()
    assert str(path.parent) not in text
    assert str(ROOT) not in text
    assert "traceName" not in text
    assert "host_name" not in text
    assert f'"{socket.gethostname()}"' not in text
    assert str(Path.home()) + "/" not in text
    assert f"/{getpass.getuser()}/" not in text


def test_a_loader_that_is_gone_at_the_end_was_iterated_as_often() -> None:
    """A loop holds the iterator alone, and of what has ended nothing."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from advisor.record.settings import Settings

    settings = Settings()
    loader = DataLoader(TensorDataset(torch.ones(4, 1)), batch_size=2)
    settings.remember(loader)
    for _ in range(2):
        iterator = iter(loader)
        settings.iterates(iterator, loader)
        settings.batch(iterator)
    gone = weakref.ref(loader)
    del loader, iterator
    assert gone() is None
    (told,) = settings.summary()["loaders"]
    assert (told.samples, told.passes) == (4, 2)
