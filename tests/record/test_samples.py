"""Samples of a loader, and what they take: hand-made passes with stacks, whose values are worked out by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch, record_script

from advisor.reading import stream
from advisor.reading.program_settings import Samples
from advisor.record.lines import DRAWS, MARK
from advisor.record.samples import samples

WAIT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
FETCH = "/env/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py(49): fetch"
SAMPLE = "/home/me/data.py(10): __getitem__"
DECODE = "/env/lib/python3.11/site-packages/PIL/ImageFile.py(296): load"
PANDAS = "/env/lib/python3.11/site-packages/pandas/core/indexing.py(1327): __getitem__"
MEMMAP = "/env/lib/python3.11/site-packages/numpy/_core/memmap.py(350): __getitem__"
TENSOR = "<built-in method tensor of type object at 0x7f>"
RANDOM = "/usr/lib/python3.11/random.py(358): randint"
LINES = ["data.py(11): __getitem__", "data.py(12): __getitem__", "train.py(5): main"]

Part = tuple[str | int, float]
"""Calls by name, or by the number of their line, and the us that each takes."""


def looked(
    folder: Path, parts: list[Part], *, draws: Collection[int] = (), lead: float = 0, name: str = WAIT
) -> Samples | None:
    """Two waits with two samples each, all of them *parts* one after the other, and *lead* us around the samples."""
    events: list[dict[str, Any]] = []
    now = 0.0

    def span(kind: str, called: str, start: float) -> None:
        common = {"ph": "X", "pid": 1, "tid": 1, "args": {}}
        events.append(common | {"cat": kind, "name": called, "ts": start, "dur": now - start})

    for _ in range(2):
        begun = now
        now += lead
        for _ in range(2):
            sample = now
            for what, us in parts:
                start, now = now, now + us
                if isinstance(what, int):
                    span("cpu_op", f"{MARK}{what}", start)
                elif what:
                    span("python_function", what, start)
            span("python_function", SAMPLE, sample)
        span("python_function", FETCH, begun)
        span("user_annotation", name, begun)
        now += 100
    path = folder / "stacks.json"
    path.write_text(json.dumps({"traceEvents": events}))
    # The pass for the timings took as long: nothing is taken off for calls.
    recorded = stream.read(path)
    return samples(recorded, recorded, LINES, draws)


def test_files_that_are_decoded(tmp_path: Path) -> None:
    found = looked(tmp_path, [(DECODE, 60), (0, 30), ("", 10)], lead=50)
    # Two samples of 100 us in waits of 250.
    assert found == Samples(2, 0.8, "files", "PIL: load", 0.24, "__getitem__", "data.py", 11)


def test_what_follows_something_random_has_to_be_done_each_time(tmp_path: Path) -> None:
    found = looked(tmp_path, [(DECODE, 50), (RANDOM, 10), ("", 40)])
    assert found is not None
    assert (found.kind, found.fixed_share) == ("files", 0.5)


def test_files_behind_something_random_are_the_same(tmp_path: Path) -> None:
    found = looked(tmp_path, [(RANDOM, 10), ("", 40), (DECODE, 50)])
    assert found is not None
    assert (found.kind, found.fixed_share) == ("files", 0.5)


def test_a_line_that_draws_counts_where_its_calls_are_in_no_profile(tmp_path: Path) -> None:
    found = looked(tmp_path, [(DECODE, 60), (1, 40)], draws={1})
    assert found is not None
    assert found.fixed_share == 0.6


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([(PANDAS, 30), ("", 70)], "table"),
        ([(PANDAS, 20), ("", 80)], ""),
        ([(TENSOR, 30), ("", 70)], "rows"),
        ([(MEMMAP, 10), (TENSOR, 30), ("", 60)], ""),
        ([("", 100)], ""),
    ],
)
def test_what_a_sample_does(tmp_path: Path, parts: list[Part], kind: str) -> None:
    found = looked(tmp_path, parts)
    assert found is not None
    assert (found.kind, found.fixed_share, found.count) == (kind, 1.0, 2)


def test_a_line_of_a_few_percent_is_none(tmp_path: Path) -> None:
    found = looked(tmp_path, [(0, 10), ("", 90)])
    assert found is not None
    assert (found.file, found.line_share) == ("", 0.0)


def test_loaders_with_workers_fetch_nothing_here(tmp_path: Path) -> None:
    assert (
        looked(tmp_path, [(DECODE, 60)], name="enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__") is None
    )


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("if torch.rand(1) < 0.5:", True),
        ("x += rng.normal(size=x.shape)", True),
        ("top = np.random.randint(0, 32)", True),
        ("order = random.sample(items, 3)", True),
        ("brand = self.brands[i]", False),
        ("x = (x - mean) / std", False),
    ],
)
def test_lines_that_draw(text: str, drawn: bool) -> None:
    assert (DRAWS.search(text) is not None) == drawn


SCRIPT = """
import json, torch
from torch.utils.data import DataLoader, Dataset

class Records(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        with open("record.json") as file:
            record = json.load(file)
        x = torch.tensor(record)
        return x + torch.rand(1)

json.dump([0.5] * 20_000, open("record.json", "w"))
model = torch.nn.Linear(20_000, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for _ in range(4):
    for batch in DataLoader(Records(), batch_size=8):
        model(batch).sum().backward()
        optimizer.step()
"""


@needs_torch
def test_a_program_that_parses_files(tmp_path: Path) -> None:
    process = record_script(SCRIPT, tmp_path, "--steps", "4", "--skip", "3")
    assert "Traceback" not in process.stderr
    settings = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    found = settings["samples"]
    assert (found["count"], found["kind"], found["file"]) == (8, "files", "job.py")
    assert found["line"] in (11, 12)
    assert found["fixed_share"] > 0.5
    assert settings["batch_bytes"] == 8 * 20_000 * 4
    assert settings["loaders"][0]["samples"] == 64
