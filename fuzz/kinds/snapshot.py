"""Memory snapshots: damaged in what they say, as bytes, and pickles that try to make and call things. Alone and beside a trace."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random
from typing import Any

import advisor
from advisor.errors import TraceError
from fuzz import checks, documents
from fuzz.builders import snapshot
from fuzz.inputs import edited, packed
from fuzz.kinds import trace
from fuzz.world import Files, World

EXECUTED = "executed-by-a-pickle"
_VALUES: list[Any] = [
    *[
        0,
        -1,
        1 << 62,
        1 << 80,
        1.5,
        None,
        [],
        {},
        "alloc",
        "free_requested",
        "free_completed",
        "active_allocated",
        True,
    ],
    *documents.SECRETS,
]
_CALL = b"cos\nmkdir\n(X\x14\x00\x00\x00" + EXECUTED.encode() + b"tR"
TOKENS = [
    *[
        _CALL,
        b"\x8c\x02os\x8c\x05mkdir\x93\x8c\x14" + EXECUTED.encode() + b"\x85R",
        b"\x82\x01",
        b"Px\n",
        b"ios\nmkdir\n",
    ],
    *[
        b"r\xff\xff\xff\x7f",
        b"q\x00",
        b"h\x00",
        b"j\xff\xff\xff\xff",
        b"\x8d" + b"\xff" * 6 + b"\x00\x00",
        b"\x96" + b"\xff" * 4 + b"\x00" * 4,
    ],
    *[
        b"(",
        b"t",
        b"e",
        b"u",
        b".",
        b"0",
        b"2",
        b"}",
        b"]",
        b"\x94",
        b"\x95\xff\xff\xff\xff\x00\x00\x00\x00",
        b"b",
        b"R",
        b"\x81",
    ],
]


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A snapshot with damage; in half of them beside the sound recording."""
    value: Any = snapshot(rng.choice([1_700_000_000_000_000, 1_685_577_601_000_200, 0]))
    damage = "bytes"
    if rng.random() < 0.6:
        value, damage = documents.damaged(rng, value, _VALUES), "structure"
    data = pickle.dumps(value, rng.choice([2, 4, 4, 5]))
    if damage == "bytes" or rng.random() < 0.3:
        data = data[:2] + edited(rng, data[2:], TOKENS)
    data, damage = packed(rng, data, damage)
    files = {"beside.pickle": data, trace.NAME: world.trace} if rng.random() < 0.5 else {trace.NAME: data}
    return damage + (", beside a trace" if len(files) == 2 else ""), files


def tried(folder: Path, rng: Random, world: World) -> str:
    """Analyze it; nothing in it is executed."""
    beside = folder / "beside.pickle"
    try:
        if not beside.exists():
            return trace.tried(folder, rng, world)
        try:
            read = advisor.read(str(folder / trace.NAME), snapshot=str(beside))
        except TraceError as error:
            checks.refusal(str(error), beside)
            return "refused"
        checks.accounts(read)
        checks.reports(checks.analyzed(read, world.book))
        return "analyzed"
    finally:
        checks.need(not Path(EXECUTED).exists(), "a pickle was executed")
