"""Bursts of an optimizer's steps in a session: nothing of them ends the program, and nothing is said that is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch

from advisor.record.bursts import Iteration

pytestmark = needs_torch


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def session(tmp_path: Path, said: list[str]) -> Iterator[Any]:
    """A session behind the recording of five steps of the optimizer 1."""
    from advisor.record.session import Options, Session

    session = Session(Options(tmp_path / "t.json"), said.append)
    session._kept = session._passes
    session._passes.steps["timing"] = 5
    session.written = session.options.path
    assert session._steps is not None
    session._steps.unit, session._steps._marker = "optimizer", 1
    yield session
    session._close()
    session._passes.discard()


def iteration(steps: int | None, share: float = 0.2) -> Iteration:
    return Iteration(1, steps, 0.1, 1.0, share, others=False)


def test_an_error_as_iterations_begin_ends_the_recording_and_not_the_program(
    session: Any, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(session, "_anew", fail)
    before = session._steps
    assert session._record_iterations(iteration(12)) is before
    assert said == ["recording failed, the program goes on: OSError: no space left"]


def test_a_file_that_is_gone_is_not_amended_and_nothing_fails(session: Any, said: list[str]) -> None:
    session._steps._found = {1: iteration(12)}
    session._note_unrecorded()
    assert len(said) == 1
    assert said[0].startswith("20% of the time lies between bursts of 12 optimizer steps")


def test_little_between_bursts_leaves_the_file_as_it_is(session: Any, said: list[str]) -> None:
    session.options.path.write_bytes(b"as it is")
    session._steps._found = {1: iteration(12, 0.02)}
    session._note_unrecorded()
    assert session.options.path.read_bytes() == b"as it is"
    assert said == []


@pytest.mark.parametrize(("steps", "told"), [(5, True), (12, False)])
def test_bursts_of_differing_length_are_unrecorded_where_few_steps_were(
    session: Any, said: list[str], steps: int, told: bool
) -> None:
    session._passes.steps["timing"] = steps
    session._steps._found = {1: iteration(None)}
    session._note_unrecorded()
    assert bool(said) == told


def test_bursts_of_another_optimizer_are_not_those_of_the_recorded_steps(session: Any) -> None:
    session._steps._found = {2: iteration(4)}
    assert (session._burst(), session._between()) == (None, None)
    session._steps._found[1] = iteration(12)
    assert (session._burst(), session._between()) == (12, 0.2)


@pytest.mark.parametrize(("unit", "busy"), [(None, True), ("iterations", False)])
def test_steps_of_a_device_tell_no_bursts_unless_they_were_asked_for(
    tmp_path: Path, unit: str | None, busy: bool
) -> None:
    from advisor.record.session import Options, Session

    session = Session(Options(tmp_path / "t.json", unit=unit), print)
    assert not session._is_busy()
    session._hooks.on_device = True
    assert session._is_busy() == busy
    session._passes.discard()


@pytest.mark.parametrize(("unit", "busy"), [("optimizer", True), ("iterations", False)])
def test_a_timed_run_tells_no_bursts_of_a_device_either(unit: str, busy: bool) -> None:
    from advisor.record.measured import Followed
    from advisor.record.timing import Run

    run = Run(check=False, most=10, least=2, seconds=1.0, followed=Followed(unit))
    assert not run._steps._busy()
    run._hooks.on_device = True
    assert run._steps._busy() == busy
