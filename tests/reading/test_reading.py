"""Reading what is sound: every dialect, layout and number to the ns, whatever the size of the pieces it is read in."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import LAYOUTS, contents, dump, event, mixture, read, trace_of
from support.real import NAMES
from support.traces import real_trace, reference

import advisor.trace
from advisor.errors import TraceError
from advisor.frames import SCHEMAS
from advisor.reading import containers, stream
from advisor.reading.columns import MISSING, Columns, to_duration, to_ns

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)
DAY_NS = 86_400 * 10**9


# ---- time


def decimals(ns: int) -> str:
    """ns as us with three decimals, as Kineto writes them."""
    return f"{ns // 1000}.{ns % 1000:03d}"


ERAS = {
    # to torch 2.3: whole us since 1970
    "whole us": (st.integers(15 * 10**14, 21 * 10**14).map(lambda us: us * 1000), lambda ns: str(ns // 1000)),
    # spring of 2024: us with three decimals since 1970, 19 digits
    "epoch": (st.integers(15 * 10**17, 21 * 10**17), decimals),
    # since torch 2.4: us with three decimals since baseTimeNanoseconds, which is at most three months ago
    "relative": (st.integers(0, 93 * DAY_NS), decimals),
}


@pytest.mark.parametrize("era", ERAS)
def test_every_ns_is_kept(era: str) -> None:
    starts, write = ERAS[era]
    step = 1000 if era == "whole us" else 1
    durations = st.integers(0, 10**12).map(lambda ns: ns * step)

    @SETTINGS
    @given(st.lists(st.tuples(starts, durations), min_size=1, max_size=30), st.sampled_from([64, 300, 1 << 21]))
    def holds(times: list[tuple[int, int]], size: int) -> None:
        texts = [
            f'{{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":{write(ts)},"dur":{write(dur)}}}' for ts, dur in times
        ]
        table = read('{"traceEvents":[' + ",\n".join(texts) + "]}", chunk=size, block=size).tables["op"]
        assert table["ts"].tolist() == [ts for ts, _ in times]
        assert table["dur"].tolist() == [dur for _, dur in times]

    holds()


def test_a_19_digit_time_reaches_the_frame_whole() -> None:
    # 1712195495505582.988 us and 0.001 us later: as doubles, both are 1712195495505583.0.
    texts = [
        '{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":1712195495505582.988,"dur":5.001}',
        '{"ph":"X","cat":"cpu_op","name":"b","tid":1,"ts":1712195495505582.989,"dur":1.999}',
    ]
    ops = trace_of("[" + ",".join(texts) + "]").ops
    assert ops["start_ns"].tolist() == [0, 1]
    assert ops["dur_ns"].tolist() == [5001, 1999]


def test_times_turn_exact_in_the_middle_of_a_file() -> None:
    # Counts and positions of what is odd are not taken twice when a chunk is read again for its exact times.
    strange = '{"ph":"X","cat":"martian","name":"m","ts":1,"dur":1}'
    bad = '{"ph":"X","cat":"cuda_runtime","name":"c","ts":2,"dur":1,"args":{"correlation":"x"}}'
    first = '{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":5,"dur":1}'
    late = '{"ph":"X","cat":"cpu_op","name":"b","tid":1,"ts":1712195495505582.989,"dur":1}'
    recorded = read("[" + ",".join([first, strange, bad, late]) + "]")
    assert recorded.tables["op"]["ts"].tolist() == [5000, 1712195495505582989]
    notes = dict(recorded.notes)
    assert notes["unknown-categories"].endswith("'martian' (1)")
    assert notes["bad-values"] == "1 value that is no number was left out, in event 3"


def test_one_event_without_a_time_does_not_blur_its_neighbours() -> None:
    lost = '{"ph":"X","cat":"cpu_op","name":"a","tid":1,"ts":null,"dur":1}'
    kept = '{"ph":"X","cat":"cpu_op","name":"b","tid":1,"ts":1712195495505582.989,"dur":1}'
    odd = '{"ph":"X","cat":"cpu_op","name":"c","tid":1,"ts":"soon","dur":1}'
    for texts in ([lost, kept], [kept, lost], [odd, kept], [kept, odd, lost]):
        table = read("[" + ",".join(texts) + "]").tables["op"]
        assert table["ts"].tolist() == [1712195495505582989]


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (0, 0),
        (3, 3_000),
        (-3, -3_000),
        (1.5, 1_500),
        (0.0004, 0),
        (0.001, 1),
        ("12.345", 12_345),
        ("1712195495505582.988", 1712195495505582988),
        ("1e3", 1_000_000),
        (None, MISSING),
        ("", MISSING),
        ("soon", MISSING),
        ("NaN", MISSING),
        ("sNaN", MISSING),
        ("-Infinity", MISSING),
        ("1e999999999", MISSING),
        ("1e-999999999", 0),
        ("9" * 100_000, MISSING),
        (10**400, MISSING),
        (float("inf"), MISSING),
        (float("nan"), MISSING),
        (True, 1_000),
        ([], MISSING),
    ],
)
def test_one_time(value: Any, ns: int) -> None:
    assert to_ns(value) == ns


def test_a_duration_beyond_bounds_is_as_long_as_can_be() -> None:
    assert to_duration(7.4e15) == to_duration(10**400) == -to_duration(-(10**400)) == 1 << 61
    assert to_duration(2.5) == 2_500
    assert to_duration("1e30") == to_duration(None) == to_duration(float("nan")) == MISSING


# ---- dialects


# The name of 2021 first, then the names since, and the group of columns that they all go to.
DIALECTS = [
    (["Operator", "cpu_op"], "op"),
    (["user_annotation"], "annotation"),
    (["Runtime", "cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "mtia_runtime"], "runtime"),
    # Kineto of 2026 has one word for the calls of all makers; a fork of it has a word of its own for each.
    (["driver", "privateuse1_driver", "gcu_runtime"], "runtime"),
    # Events of HPU and MTIA were read as operators: what a device did was missing. They are its work, unless their thread
    # is one of the host's.
    (["Kernel", "kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"], "kernel"),
    (["Memcpy", "gpu_memcpy", "mlu_memcpy"], "copy"),
    (["Memset", "gpu_memset", "gcu_memset"], "memset"),
    (["Trace"], "span"),
    (["python_function"], "python"),
    (["overhead"], "overhead"),
    (["gpu_user_annotation"], "gpu_annotation"),
    (["cuda_sync", "xpu_sync"], "device_sync"),
]


@pytest.mark.parametrize(("names", "group"), DIALECTS)
def test_categories_by_all_their_names(names: list[str], group: str) -> None:
    for cat in [spelling for name in names for spelling in (name, name.upper(), name.capitalize())]:
        recorded = read(dump([event("x", cat)]))
        assert list(recorded.tables) == [group], cat
        assert recorded.notes == []


def test_the_dialect_of_2021() -> None:
    """Whole us since 1970, threads and streams as text, lower-case dims, call stacks as text, no category on memory."""
    us = 1_623_143_089_861_000
    stack = "/home/alice/train.py(12): step;torch/nn/functional.py(3): conv2d"
    operator = event(
        "aten::conv2d", "Operator", tid="25738", ts=us, dur=9, args={"Input dims": [[1, 3]], "Call stack": stack}
    )
    call = event(
        "cudaLaunchKernel", "Runtime", tid="25738", ts=us + 1, dur=2, args={"correlation": 5, "external id": "4"}
    )
    kernel = event("sgemm", "Kernel", pid=0, tid="stream 7", ts=us + 5, dur=0, args={"correlation": 5, "device": 0})
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 25738, "ts": us + 2}
    memory["args"] = {"Device Type": 1, "Device Id": 0, "Bytes": 1024}
    trace = trace_of(json.dumps([operator, call, kernel, memory]))
    assert trace.ops.loc[0, ["thread", "shapes", "file", "line", "library"]].tolist() == [
        25738, "[[1,3]]", "train.py", 12, pytest.approx(float("nan"), nan_ok=True),
    ]  # fmt: skip
    assert trace.kernels.loc[0, ["stream", "op", "linked", "dur_ns", "start_ns"]].tolist() == [
        7,
        "aten::conv2d",
        True,
        0,
        5000,
    ]
    assert trace.allocations["bytes"].tolist() == [1024]
    assert trace.allocations["allocated_bytes"].isna().all()


def test_events_without_a_category_are_operators_of_a_legacy_export() -> None:
    bare = {"name": "aten::mm", "ph": "X", "ts": 5, "dur": 2, "tid": 1, "pid": "CPU functions", "args": {}}
    recorded = read(json.dumps([bare, {"name": "Iteration Start", "ph": "i", "ts": 1}]))
    assert contents(recorded)["op"][0]["name"] == "aten::mm"
    assert recorded.events == 2


def test_flows_metadata_and_counters_are_passed_over() -> None:
    skipped = ["ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd", "forward_backward"]
    flows = [
        {"ph": ph, "id": 1, "cat": cat, "name": cat, "pid": 1, "tid": 1, "ts": 5} for cat in skipped for ph in "sf"
    ]
    counters = [
        {"ph": "C", "cat": cat, "name": "x", "pid": 1, "ts": 1, "args": {"v": 1}}
        for cat in ("mtia_counters", "hardware_counters", "gpu_pm_counter")
    ]
    others = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "x"}},
        {"ph": "i", "name": "Record Window End", "ts": 9},
    ]
    profiled = [event("smsp__x.sum", "cuda_profiler_range"), event("e", "cuda_event")]
    recorded = read(dump([event(), *flows, *counters, *others, *profiled]))
    assert recorded.events == 1 + len(flows) + len(counters) + len(others) + len(profiled)
    assert list(recorded.tables) == ["op"]
    assert recorded.notes == []


def test_unknown_categories_are_counted_and_named() -> None:
    unfinished = event("b", "cpu_op", ph="B")
    recorded = read(dump([event(), event(cat="martian"), event(cat="martian"), event(cat="\x1b[31m"), unfinished]))
    assert dict(recorded.notes)["unknown-categories"] == (
        "events of unknown categories were passed over: 'martian' (2), '\\x1b[31m' (1), 'cpu_op with ph B' (1)"
    )


def test_many_unknown_categories_do_not_fill_the_report() -> None:
    recorded = read(dump([event(), *(event(cat=f"c{at}" * 100) for at in range(500))]))
    assert len(dict(recorded.notes)["unknown-categories"]) < 600


# ---- layouts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("root", ["list", "events first", "events last", "events between"])
def test_layouts_and_key_orders_are_one(layout: str, root: str) -> None:
    events = mixture(3)
    properties = {"deviceProperties": [{"id": 0, "name": "A100"}, {"id": 1, "name": "A100"}], "traceName": "x"}
    keys: Any = {
        "list": events,
        "events first": {"traceEvents": events, **properties},
        "events last": {**properties, "traceEvents": events},
        "events between": {"schemaVersion": 1, "traceEvents": events, **properties},
    }[root]
    recorded = read(json.dumps(keys, **LAYOUTS[layout]), chunk=500, block=700)
    assert recorded.notes == []
    assert recorded.events == len(events)
    assert not recorded.truncated
    assert [device.name for device in recorded.metadata.devices] == ([] if root == "list" else ["A100", "A100"])
    whole = read(dump(events))
    assert_same_but_for_spaces(contents(recorded), contents(whole))


def assert_same_but_for_spaces(left: Any, right: Any) -> None:
    """Raw lists (dims, types, grid) keep the file's own spaces; all else is the same."""

    def tight(tables: Any) -> Any:
        def squeeze(value: Any) -> Any:
            return b"".join(value.split()) if isinstance(value, bytes) else value

        return {g: [{k: squeeze(v) for k, v in row.items()} for row in table] for g, table in tables.items()}

    assert tight(left) == tight(right)


@pytest.mark.parametrize("first", ["name", "cat", "pid", "tid", "ts", "dur", "args", "s", "id", "cname", "tts", "?"])
def test_events_may_begin_with_any_key(first: str) -> None:
    rest = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2, "ts": 5, "dur": 1, "args": {}}
    events = [{first: rest.get(first, at), **rest} for at in range(60)]
    recorded = read(json.dumps({"traceEvents": events}), chunk=200, block=100)
    assert recorded.events == len(recorded.tables["op"]["ts"]) == 60
    assert recorded.notes == []


def test_a_file_whose_events_begin_with_an_unusual_key_is_still_read_in_pieces() -> None:
    one = b'{"cname":"good","ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":5,"dur":1}'
    with patch.object(stream, "_UNUSUAL", 1000):
        text = b'{"traceEvents":[' + b",\n".join([one] * 200) + b"]}"
        taken: list[int] = []
        add = Columns.add

        def spy(self: Columns, events: Any, body: bytes) -> None:
            taken.append(len(events))
            add(self, events, body)

        with patch.object(Columns, "add", spy):
            assert read(text, chunk=2000, block=500).events == 200
    assert len(taken) > 5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_chunk_size_changes_what_is_read(layout: str) -> None:
    text = dump(mixture(6), layout)
    whole = read(text)
    assert whole.notes == []

    @SETTINGS
    @given(st.integers(64, 3000), st.integers(1, 2000))
    def holds(chunk: int, block: int) -> None:
        recorded = read(text, chunk=chunk, block=block)
        assert contents(recorded) == contents(whole)
        assert recorded.events == whole.events
        assert recorded.metadata == whole.metadata
        assert recorded.notes == []

    holds()


@pytest.mark.parametrize("chunk", range(64, 200, 3))
def test_every_boundary_at_every_place(chunk: int) -> None:
    text = dump(mixture(2), "compact")
    assert contents(read(text, chunk=chunk, block=1)) == contents(read(text))


def test_frames_do_not_depend_on_the_chunk() -> None:
    text = dump(mixture(8))
    with patch.object(stream, "CHUNK", 300), patch.object(containers, "BLOCK", 128):
        pieces = trace_of(text)
    whole = trace_of(text)
    for name in SCHEMAS:
        assert pieces.frame(name).astype(str).equals(whole.frame(name).astype(str)), name


def test_args_that_look_like_events_stay_args() -> None:
    decoys = [{"ph": "X", "cat": "kernel", "name": f"decoy{at}", "ts": at, "dur": 1} for at in range(50)]
    events = [event(f"op{at}", ts=20 * at, args={"inputs": decoys, "Sequence number": at}) for at in range(20)]
    for layout in ("one line", "compact"):
        recorded = read(dump(events, layout), chunk=700, block=300)
        assert list(recorded.tables) == ["op"]
        assert recorded.tables["op"]["sequence"].tolist() == list(range(20))
        assert (recorded.events, recorded.notes) == (20, [])


def test_strings_that_hold_event_boundaries_stay_strings() -> None:
    name = '}, {"ph": "X", "cat": "kernel", "name": "decoy", "ts": 1, "dur": 1}, {"ph": "X"}]}'
    events = [event(name + str(at), ts=at) for at in range(20)]
    recorded = read(dump(events), chunk=100, block=64)
    assert [row["name"] for row in contents(recorded)["op"]] == [e["name"] for e in events]
    assert recorded.notes == []


def test_an_event_longer_than_many_chunks() -> None:
    long = event("a" * 5000, args={"Input Dims": [[1]] * 3000})
    recorded = read(dump([event("first"), long, event("last")]), chunk=200, block=64)
    assert [row["name"] for row in contents(recorded)["op"]] == ["first", "a" * 5000, "last"]
    assert recorded.notes == []


def test_a_name_beyond_any_real_one_is_shortened() -> None:
    recorded = read(dump([event("a" * 100_000)]))
    assert contents(recorded)["op"][0]["name"] == "a" * (1 << 14)


# ---- numbers and names in all spellings


@pytest.mark.parametrize(
    ("written", "thread"),
    [
        (25738, 25738),
        ("25738", 25738),
        ("stream 7", 7),
        ("thread -5", -5),
        (-1, -1),
        (2**40, 2**40),
        (7.0, 7),
        ("0", 0),
    ],
)
def test_threads_in_every_spelling(written: Any, thread: int) -> None:
    assert read(dump([event(tid=written)])).tables["op"]["thread"].tolist() == [thread]


def test_threads_without_a_number_differ_from_each_other_and_from_real_ones() -> None:
    odd = ["main", "²", "--5", "worker ⑤", "PyTorch Profiler", 2**70, "9" * 40, None, ""]
    table = read(dump([event(tid=tid) for tid in odd + odd])).tables["op"]["thread"].tolist()
    assert table[: len(odd)] == table[len(odd) :]
    assert len(set(table)) == len(odd)
    assert max(table) < -(1 << 39)


def test_numbers_written_as_text() -> None:
    args = {"bytes": "4096", "stream": "3", "device": "2", "correlation": "17"}
    table = read(
        dump(
            [
                event("CopyHostToDevice", "gpu_memcpy", args=args),
                event("x", "gpu_memcpy", pid=4, tid="stream 9", args={}),
            ]
        )
    ).tables["copy"]
    assert {key: table[key].tolist() for key in ("bytes", "stream", "device", "correlation")} == {
        "bytes": [4096, -1],
        "stream": [3, 9],
        "device": [2, 4],
        "correlation": [17, -1],
    }


def test_addresses_are_unsigned() -> None:
    def memory(address: Any) -> dict[str, Any]:
        args = {"Addr": address, "Bytes": 1, "Device Id": 0, "Device Type": 1}
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": args}

    table = read(dump([memory(value) for value in (2**63 + 5, 5, 2**63 + 5, 2**64 + 5, "0x7f", None)])).tables[
        "instant"
    ]
    address = table["address"].tolist()
    assert address[0] == address[2] < 0
    assert address[1] == address[3] == 5
    assert address[4:] == [0, 0]


def test_names_keep_every_character() -> None:
    names = ["", "a\tb\nc", "nul\x00", "\u202eright to left", "\x1b[31mred", "日本語 🚀", "\x7f\x85\u2028", '"\\/']
    recorded = read(dump([event(name) for name in names]))
    assert [row["name"] for row in contents(recorded)["op"]] == names


# ---- metadata

SECRETS = ["alice-the-user", "node17.secret.example", "sk-token-12345", "/home/alice-the-user/models"]
LEAKY = {
    "host_name": SECRETS[1],
    "user": SECRETS[0],
    "USER": SECRETS[0],
    "metadata": {"environment": {"HOME": SECRETS[3], "API_TOKEN": SECRETS[2]}},
    "PWD": SECRETS[3],
    "trace_id": SECRETS[2],
    "traceName": SECRETS[3] + "/t.json",
    "INFO": [f"started by {SECRETS[0]}"],
    "distributedInfo": {
        "backend": "nccl",
        "rank": 3,
        "world_size": 8,
        "pg_config": [{"pg_desc": SECRETS[1]}],
        "host": SECRETS[1],
    },
    "record_shapes": 1,
    "with_stack": 1,
    "profile_memory": 0,
    "cuda_runtime_version": 12040,
    "baseTimeNanoseconds": 1_718_000_000_000_000_000,
}


@pytest.mark.parametrize("damage", ["", '"Z": N/A,', '"Z": "C:\\Users\\alice-the-user", "Y": "say "hi"",', '"Z": [1,,'])
def test_only_what_is_allowed_leaves_the_root(damage: str) -> None:
    process = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": SECRETS[1]}}
    labels = {"ph": "M", "name": "process_labels", "pid": 1, "args": {"labels": SECRETS[0]}}
    text = dump([process, labels, *mixture(3)], **LEAKY).replace('"schemaVersion"', damage + '"schemaVersion"', 1)
    trace = trace_of(text)
    told = repr(trace.metadata) + repr(trace.quality) + repr(trace.features)
    told += "".join(trace.frame(name).to_csv() for name in SCHEMAS)
    assert [secret for secret in SECRETS if secret in told] == []
    if "[1,," not in damage:
        meta = trace.metadata
        assert (meta.rank, meta.world_size, meta.backend) == (3, 8, "nccl")
        assert (meta.record_shapes, meta.with_stack, meta.profile_memory, meta.with_modules) == (
            True,
            True,
            False,
            None,
        )
        assert (meta.cuda_runtime, meta.base_ns) == (12040, 1_718_000_000_000_000_000)
        assert meta.devices[0].sms == 108


def test_damage_is_told_without_what_the_event_says() -> None:
    broken = '{"ph":"X","cat":"python_function","name":::"/home/alice-the-user/x.py(1): f","ts":1,"dur":1}'
    text = dump([event("a"), event("HERE"), event("b")]).replace(json.dumps(event("HERE")), broken)
    recorded = read(text)
    assert [code for code, _ in recorded.notes] == ["skipped"]
    assert "alice" not in repr(recorded.notes)


@pytest.mark.parametrize(
    ("root", "rank", "world"),
    [
        ({}, None, None),
        ({"distributedInfo": {"rank": 0, "world_size": 1}}, 0, 1),
        ({"distributedInfo": [{"rank": 2, "world_size": 4}]}, 2, 4),
        ({"distributedInfo": [{"rank": 0}, {"rank": 1}]}, None, None),
        ({"distributedInfo": "none"}, None, None),
        ({"distributedInfo": {"rank": "5", "world_size": "8"}}, 5, 8),
        ({"distributedInfo": {"rank": [1], "world_size": 10**400}}, None, None),
    ],
)
def test_ranks(root: dict[str, Any], rank: int | None, world: int | None) -> None:
    metadata = read(dump([event()], **root)).metadata
    assert (metadata.rank, metadata.world_size) == (rank, world)


@pytest.mark.parametrize(
    "devices", [None, 5, "x", [], {}, [1, "a", None], [{}], [{"id": "x", "name": 5, "computeMajor": 10**400}]]
)
def test_odd_device_properties(devices: Any) -> None:
    assert all(
        d.name is None and d.capability is None
        for d in read(dump([event()], deviceProperties=devices)).metadata.devices
    )


def test_amd_reports_a_compute_capability_that_is_none() -> None:
    devices = [{"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "numSms": 304}]
    kernel = event("k", "kernel", pid=0, args={"device": 0, "stream": 0, "correlation": 1})
    trace = trace_of(dump([event(), kernel], deviceProperties=devices))
    facts = trace.frame("devices").iloc[0]
    assert facts["vendor"] == "amd"
    assert str(facts["capability"]) == "<NA>"


# ---- containers


def gz(text: str) -> bytes:
    return gzip.compress(text.encode())


@pytest.mark.parametrize(
    ("name", "pack", "note"),
    [
        ("t.json", str.encode, None),
        ("t.json.gz", gz, None),
        ("t.pt.trace", gz, None),
        ("t.json", gz, None),
        ("t.json.gz", str.encode, "not-gzip"),
    ],
)
def test_a_container_is_known_by_its_bytes(name: str, pack: Callable[[str], bytes], note: str | None) -> None:
    text = dump(mixture(3))
    recorded = read(pack(text), name=name)
    assert contents(recorded) == contents(read(text))
    assert [code for code, _ in recorded.notes] == ([note] if note else [])


@pytest.mark.parametrize("pack", [str.encode, gz])
def test_standard_input(pack: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    text = dump(mixture(3))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO(pack(text))))
    trace = advisor.trace.read("-", source="pipe")
    assert trace.path == "pipe"
    assert trace.events == len(mixture(3))
    assert not sys.stdin.buffer.closed


def test_no_standard_input_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match="no standard input"):
        advisor.trace.read("-")


def test_a_path_object_will_do(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(dump([event()]))
    assert stream.read(tmp_path / "t.json").events == 1


@SETTINGS
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 50), st.integers(2, 60), st.booleans())
def test_gzip_members_are_one_stream(parts: list[bytes], fine: int, block: int, padded: bool) -> None:
    whole = b"".join(parts) + b"x" * 5000
    packed = b"".join(gzip.compress(part) for part in [*parts, b"x" * 5000]) + b"\0" * (padded * 100)
    with (
        TemporaryDirectory() as folder,
        patch.object(containers, "FINE", fine),
        patch.object(containers, "BLOCK", block),
    ):
        path = Path(folder) / "x.gz"
        path.write_bytes(packed)
        source = containers.Source(path)
        assert b"".join(source.blocks()) == whole
        assert source.notes == []


# ---- the real traces


@pytest.mark.real
def test_all_real_traces_are_here() -> None:
    assert len({real_trace(name) for name in NAMES}) == len(NAMES) >= 41
    assert sorted(reference()) == NAMES


@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_the_real_traces_are_read_whole(name: str) -> None:
    recorded = stream.read(real_trace(name))
    assert recorded.events == reference()[name]["events"]
    assert recorded.notes == []
    assert (recorded.repaired, recorded.skipped, recorded.truncated) == (0, 0, False)


@pytest.mark.real
@pytest.mark.parametrize(
    "name", ["h100_transformer_run1.json.gz", "triton_example.json.gz", "legacy_list_root_cpu.json.gz"]
)
@pytest.mark.parametrize("size", [64, 1000, 40_000])
def test_the_real_traces_in_small_pieces(name: str, size: int) -> None:
    with gzip.open(real_trace(name)) as file:
        text = file.read()
    assert contents(read(text, chunk=size, block=size)) == contents(read(text))
