"""The real traces are those on the list, and none is read or analyzed with an error."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.real import AUDITED, LISTED, NAMES
from support.traces import analysis, real_trace

from advisor.results.analysis import Analysis

pytestmark = pytest.mark.real


def test_the_list_names_them_all() -> None:
    assert len(NAMES) >= 41
    assert len(AUDITED) >= 19


@pytest.mark.parametrize("name", [*NAMES, *AUDITED])
def test_the_file_is_the_one_on_the_list(name: str) -> None:
    folder, _, rest = name.partition("/")
    wanted = LISTED["audited"][rest] if folder == "audited" else LISTED["traces"][name]
    assert hashlib.sha256(Path(real_trace(name)).read_bytes()).hexdigest() == wanted


EVERY_RUN = (
    "a100_particle_batch4",
    "a100_param_bench",
    "event_sync_first_call",
    "mi300_vit_batch1",
    "rtx2080ti_resnet_annotated",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.endswith(tuple(f"{n}.json.gz" for n in EVERY_RUN)) else pytest.mark.study)
        for name in AUDITED
    ],
)
def test_an_audited_trace_is_analyzed(name: str) -> None:
    made = analysis(name, views=True, samples=True)
    assert made.verdicts.error == []
    assert made.trace.events > 0
    assert made.views is not None
    assert sum(made.summary.causes.values()) == pytest.approx(1.0)
    whole = made.summary.step_ms.whole if made.summary.step_ms else made.summary.window_ms
    assert sum(f.saving.high_ms for f in made.findings if f.saving) <= whole * (1 + 1e-9)
    assert Analysis.from_json(made.to_json()) == made
