"""Calls that write files: what ends in a write, with the library's call that saves around it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from advisor.testing import TraceBuilder
from advisor.timeline.source import parse_frame
from advisor.timeline.writes import find, label
from advisor.trace import read

TORCH = "/venv/lib/python3.12/site-packages/torch/serialization.py"
RECORD = "<built-in method write_record of pybind11_builtins object at 0x7f31>"
TEXT = "<built-in method write of _io.TextIOWrapper object at 0x7f32>"
BUFFER = "<built-in method flush of _io.BytesIO object at 0x7f33>"
OPEN = "<built-in function open>"
JSON = "/usr/lib/python3.12/json/__init__.py"
TRAINER = "/venv/lib/python3.12/site-packages/trainer/loop.py"


def written(tmp_path: Path, *calls: list[str]) -> list[tuple[str, int]]:
    """Label and us of the calls found; each of *calls* is a stack, outermost first, whose innermost takes 100 us."""
    b = TraceBuilder(None, host_us=0)
    with b.step(), b.python("train.py(5): main"):
        for stack in calls:
            with ExitStack() as open_:
                for name in stack:
                    open_.enter_context(b.python(name))
                b.idle(us=100)
    context = read(str(b.write(tmp_path / "trace.json")))._context
    host, names = context.recording.host, context.names
    own = [(place := parse_frame(name, host.libraries)) is not None and place.user for name in names]
    found = find(host, names, np.array(own, np.bool_)).node
    return [(label(names[host.name[node]]), int(host.end[node] - host.start[node]) // 1000) for node in found.tolist()]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([[f"{TORCH}(944): save", f"{TORCH}(1183): _save", RECORD]], [("torch.save", 100)]),
        # A buffer in memory: the archive writer's name does not tell, the buffer's flush does.
        ([[f"{TORCH}(944): save", RECORD, BUFFER]], []),
        ([[f"{JSON}(120): dump", TEXT]], [("json.dump", 100)]),
        ([[f"{JSON}(183): dumps", f"{JSON}(200): encode"]], []),
        ([["<built-in function fsync>"]], [("fsync", 100)]),
        # A trainer's loop that saves is no call that saves.
        ([[f"{TRAINER}(9): fit", f"{TRAINER}(70): save_checkpoint", RECORD]], [("trainer.save_checkpoint", 100)]),
        # What the user's own function of that name does beside is not counted.
        ([["train.py(30): save", TEXT]], [("write", 100)]),
        # To empty a file that is written next belongs to it; to open one that is read does not.
        ([["train.py(30): keep", OPEN]], []),
        ([[OPEN], ["<built-in function dump>"]], [("open", 100), ("dump", 100)]),
        ([[OPEN], [OPEN], [TEXT]], [("open", 100), ("write", 100)]),
        ([[f"{TORCH}(944): save"]], []),
    ],
)  # fmt: skip
def test_what_writes_is_found(tmp_path: Path, calls: list[list[str]], expected: list[tuple[str, int]]) -> None:
    assert written(tmp_path, *calls) == expected


def test_labels() -> None:
    assert label("/usr/lib/python3.12/pickle.py(9): _dump") == "pickle.dump"
    assert label("site-packages/numpy/lib/_npyio_impl.py(504): save") == "numpy.save"
    assert label("<built-in method tofile of numpy.ndarray object at 0x1>") == "tofile"
