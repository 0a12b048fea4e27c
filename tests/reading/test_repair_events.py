"""Damage to single events: what can be mended is, what was lost is counted and named, and no other event suffers."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest
from support.damage import GOOD, LARGE, LOST, MENDED, SMALL, among, raw, within
from support.reading import contents, mixture, read, rows, trace_of

from advisor.reading import salvage


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("kind", MENDED)
def test_a_damaged_event_is_mended(kind: str, size: int) -> None:
    damaged, meant = MENDED[kind]
    text, number, place = among(damaged, size)
    wanted = rows(read(among(json.dumps(meant).encode(), size)[0]))
    recorded = read(text, chunk=5000, block=3000)
    assert rows(recorded) == wanted
    assert recorded.events == 2 * size + 1
    assert (recorded.repaired, recorded.skipped, recorded.truncated) == (1, 0, False)
    assert dict(recorded.notes)["repaired"] == (
        f"1 damaged event was repaired, event {number:,} at byte {place:,} of the text"
    )
    assert recorded.metadata.devices[0].name == "A100"


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("kind", LOST)
def test_an_event_beyond_repair_is_left_out_and_nothing_else(kind: str, size: int) -> None:
    text, number, place = among(LOST[kind], size)
    good = [json.dumps(e).encode() for e in mixture(size // 7 + 1)[:size]]
    wanted = rows(read(b"[" + b",".join(good + good) + b"]"))
    recorded = read(text, chunk=5000, block=3000)
    assert rows(recorded) == wanted
    assert recorded.events == 2 * size
    assert (recorded.repaired, recorded.skipped, recorded.truncated) == (0, 1, False)
    assert dict(recorded.notes) == {
        "skipped": f"1 damaged event was beyond repair and left out, event {number:,} at byte {place:,} of the text"
    }
    assert recorded.metadata.devices[0].name == "A100"


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("kind", [*MENDED, *LOST])
@pytest.mark.parametrize("root", [True, False])
def test_the_first_and_the_last_event_may_be_the_damaged_one(kind: str, place: int, root: bool) -> None:
    good = [json.dumps(e).encode() for e in GOOD]
    damaged = MENDED[kind][0] if kind in MENDED else LOST[kind]
    listed = b"[" + b", ".join([*good[:place], damaged, *good[place:2]]) + b"]"
    text = b'{"traceEvents": ' + listed + b', "deviceProperties": [{"id": 0, "name": "A100"}]}' if root else listed
    recorded = read(text)
    wanted = {row["name"] for row in contents(read(b"[" + b",".join(good[:2]) + b"]"))["op"]}
    assert wanted <= {row["name"] for row in contents(recorded)["op"]}
    assert (recorded.repaired, recorded.skipped) == ((1, 0) if kind in MENDED else (0, 1))
    if root:
        assert recorded.metadata.devices[0].name == "A100"


def test_the_trace_tells_what_was_lost_and_what_to_do() -> None:
    lost, mended = LOST["colons"], MENDED["unescaped quote"][0]
    good = [json.dumps(e).encode() for e in GOOD]
    trace = trace_of(b"[" + b",".join([good[0], mended, good[1], lost, mended, good[2]]) + b"]")
    # The second event and the fifth were mended, the fourth was not. good[0] has 114 bytes, behind "[".
    at = 1 + len(good[0]) + 1
    assert [(note.code, note.message) for note in trace.quality] == [
        ("repaired", f"2 damaged events were repaired, the first of them event 2 at byte {at} of the text"),
        (
            "skipped",
            "1 damaged event was beyond repair and left out, "
            f"event 4 at byte {at + len(mended) + 1 + len(good[1]) + 1} of the text",
        ),
    ]
    assert all(note.advice for note in trace.quality)
    facts = trace.frame("trace").iloc[0]
    assert (facts["repaired_events"], facts["skipped_events"], facts["truncated"]) == (2, 1, False)


def test_a_mended_event_keeps_every_ns() -> None:
    late = b'"ts": 1712195495505582.988, "dur": 2.001'
    text = b"[" + b",".join([raw(b'"a"', late), raw(rb'"say "hi""', late), raw(b"7", late), raw(b'"b"', late)]) + b"]"
    table = read(text).tables["op"]
    assert table["ts"].tolist() == [1712195495505582988] * 4
    assert table["dur"].tolist() == [2001] * 4


@pytest.mark.parametrize(
    "kind", ["unescaped quote", "backslashes", "invalid UTF-8", "name is a number", "colons", "a bracket never closed"]
)
def test_damage_in_every_event_takes_linear_time(kind: str) -> None:
    damaged = MENDED[kind][0] if kind in MENDED else LOST[kind]
    with within(4):
        recorded = read(b"[" + b",".join([damaged] * 5_000 + [json.dumps(GOOD[0]).encode()]) + b"]")
    assert (recorded.repaired, recorded.skipped) == ((5_000, 0) if kind in MENDED else (0, 5_000))


def test_a_file_of_noise_is_given_up() -> None:
    with patch.object(salvage, "_MOST_PASSED_OVER", 50), within(5):
        recorded = read(
            b"[" + b",".join([json.dumps(GOOD[0]).encode()] + [LOST["colons"]] * 500) + b"]", chunk=3000, block=3000
        )
    assert recorded.events == 1
    assert recorded.skipped == 500
