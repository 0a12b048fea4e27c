"""A file read by several processes: the same columns, codes and notes as by one, whatever is in it and whatever befalls them."""

from __future__ import annotations

import gzip
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.reading import LAYOUTS, dump, event, mixture
from support.real import NAMES
from support.traces import real_trace

from advisor.errors import TraceError
from advisor.execution import pool
from advisor.reading import columns, machine, parts, stream, workers
from advisor.reading.columns import CODED, Columns

PART = 16_000
# Of other exporters each; all are read in a study.
SOME = ["h100_owlv2_large.json.gz", "v100_resnet50_autograd_workers0.json.gz", "mi300_sglang_decode.json.gz"]
SOME += ["ns_resolution_rank0.json.gz", "legacy_list_root_cpu.json.gz", "a100_dlrm_rank3of8.json.gz"]
Taken = list[bool]


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine.PART_BYTES, str(PART))
    monkeypatch.setattr(machine, "cores", lambda: 2)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """For each file that several processes read, whether what the others read was taken."""
    found: Taken = []
    take = parts.Others.take

    def spy(self: parts.Others, columns: Columns, at: int) -> parts.Answer | None:
        found.append(False)
        answer = take(self, columns, at)
        found[-1] = answer is not None
        return answer

    monkeypatch.setattr(parts.Others, "take", spy)
    return found


def everything(path: Path | str, *, together: bool) -> Any:
    """All that reading a file comes to, byte by byte; the text of the error, where it is none."""
    try:
        recorded = stream.Reader(path, together=together).read()
    except TraceError as error:
        return str(error)
    tables = {
        group: {key: (column.dtype.str, column.tobytes()) for key, column in table.items()}
        for group, table in recorded.tables.items()
    }
    rest = {key: value for key, value in msgspec.structs.asdict(recorded).items() if key != "tables"}
    return tables, repr(rest)


def same(path: Path | str) -> bool:
    return bool(everything(path, together=True) == everything(path, together=False))


def ordinary(count: int) -> list[dict[str, Any]]:
    """A mixture whose work all has a correlation, and nothing in which looks like what stands between events."""
    events = mixture(count + 1)
    for item in events:
        item.get("args", {}).pop("decoys", None)
        item["name"] = item["name"].replace('"}},{"ph"', "")
    return events[:1] + events[8:]


def write(folder: Path, text: str | bytes, name: str = "t.json") -> Path:
    data = text if isinstance(text, bytes) else text.encode()
    path = folder / name
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_processes_read_what_one_reads(layout: str, name: str, taken: Taken, tmp_path: Path) -> None:
    path = write(tmp_path, dump(ordinary(60), layout), name)
    assert same(path)
    assert taken == [True]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.parametrize("cores", [3, 4, 9])
def test_more_processes(cores: int, name: str, taken: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: cores)
    started: list[Any] = []
    start = workers.start
    monkeypatch.setattr(workers, "start", lambda order: started.append(order) or start(order))
    path = write(tmp_path, dump(ordinary(150)), name)
    assert same(path)
    assert taken == [True]
    assert len(started) == min(cores, 4) - 1


def of_kinds(index: int) -> dict[str, Any]:
    return event(f"strange{index}", cat=f"kind {index % 7}", ts=index)


def far(index: int) -> dict[str, Any]:
    """Microseconds since 1970 with ns: no float64 holds them."""
    return event(f"op{index}", ts=1_700_000_000_000_000.123 + index)


def without_correlation(index: int) -> dict[str, Any]:
    return event(f"kernel{index % 5}", cat="kernel", ts=100 * index, args={"External id": index, "stream": 7})


def collective(index: int) -> dict[str, Any]:
    args = {"Collective name": "allreduce", "dtype": "Float", "Process Group Name": str(index % 3), "Group size": 8}
    return event("record_param_comms", ts=20 * index, args=args | {"Process Group Ranks": "[0, 1, 2]"})


def ranged(index: int) -> dict[str, Any]:
    return event(f"range{index}", cat="cuda_profiler_range", ts=index)


def of_another(index: int) -> dict[str, Any]:
    return event("ProfilerStep#3", cat="user_annotation", ts=30 * index, pid=index % 2, tid=f"thread {index % 3}")


MADE: dict[str, Callable[[int], dict[str, Any]]] = {
    f.__name__: f for f in (of_kinds, far, without_correlation, collective, ranged, of_another)
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("where", ["all", "first", "second"])
def test_what_is_special_about_some_events(where: str, kind: str, taken: Taken, tmp_path: Path) -> None:
    """Facts of the whole file that one part alone shows are those that one process finds."""
    plain = ordinary(60)
    special = [MADE[kind](index) for index in range(200)]
    events = {"all": special * 2, "first": special + plain, "second": plain + special}[where]
    assert same(write(tmp_path, dump(events)))
    assert len(taken) == 1


DAMAGE: dict[str, Callable[[str], str]] = {
    "cut off": lambda text: text[: len(text) - 1000],
    "an event broken near the end": lambda text: text[: len(text) * 9 // 10] + '"' + text[len(text) * 9 // 10 :],
    "an event broken near the start": lambda text: text[: len(text) // 10] + '"' + text[len(text) // 10 :],
    "the list ends early": lambda text: text[: text.index('{"ph"', len(text) * 3 // 4)] + "]}",
    "two traces": lambda text: text + text,
    "a number that is none": lambda text: (
        text[: len(text) * 2 // 3] + text[len(text) * 2 // 3 :].replace('"ts": 1', '"ts": "x1', 1)
    ),
}


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_reported_as_one_process_does(kind: str, name: str, tmp_path: Path) -> None:
    assert same(write(tmp_path, DAMAGE[kind](dump(ordinary(80))), name))


def test_a_gzip_stream_that_is_cut_off(tmp_path: Path) -> None:
    whole = gzip.compress(dump(ordinary(80)).encode(), mtime=0)
    path = tmp_path / "t.json.gz"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert same(path)


def test_a_gzip_stream_with_a_wrong_checksum(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(dump(ordinary(80)).encode(), mtime=0)[:-8] + bytes(8))
    assert same(path)


def test_boundaries_inside_of_strings(tmp_path: Path) -> None:
    """Texts that hold what stands between events, where the file is cut as well."""
    name = '}, {"ph": "X", "cat": "kernel", "name": "decoy", "ts": 1, "dur": 1}, {"ph": "X"}]}' * 40
    assert same(write(tmp_path, dump([event(name + str(at), ts=at) for at in range(40)])))


@pytest.mark.parametrize("count", [15, pytest.param(150, marks=pytest.mark.study)])
def test_any_damage_at_all(count: int, tmp_path: Path) -> None:
    text = dump(ordinary(60)).encode()
    draw = random.Random(5)
    for number in range(int(os.environ.get("ADVISOR_DAMAGED", count))):
        name = draw.choice(["t.json", "t.json.gz"])
        damaged = bytearray(text)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(damaged))
            until = at + draw.choice([0, 0, 1, 1, 3, 40, 2000])
            damaged[at:until] = draw.choice(
                [b"", b'"', b"\\", b"{", b"}", b"]", b"},{", b"\0", b"\xff", b"9" * 30, text[:300]]
            )
        assert same(write(tmp_path, bytes(damaged), name)), number


@pytest.mark.real
@pytest.mark.parametrize("name", [*SOME, *(pytest.param(name, marks=pytest.mark.study) for name in NAMES)])
def test_real_traces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two parts, as it lies or unpacked, at random."""
    packed = Path(real_trace(name)).read_bytes()
    text = gzip.decompress(packed)
    monkeypatch.setenv(machine.PART_BYTES, str(max(len(text) // 3, 1024)))
    assert same(write(tmp_path, *random.Random(name).choice([(text, "t.json"), (text, "t.json.gz")])))


# ---- pieces of a chunk, in one process


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], bool]:
    """Tell whether a file read chunk by whole chunk comes to what it comes to in pieces."""

    def alike(path: Path) -> bool:
        pieces = everything(path, together=False)
        with monkeypatch.context() as whole:
            whole.setattr(Columns, "add_pieces", lambda self, pieces: False)
            return bool(pieces == everything(path, together=False))

    return alike


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pieces_number_values_as_their_chunk_does(
    layout: str, in_pieces: Callable[[Path], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: Taken = []
    add = Columns.add_pieces
    monkeypatch.setattr(Columns, "add_pieces", lambda self, pieces: taken.append(add(self, pieces)) or taken[-1])
    assert in_pieces(write(tmp_path, dump(ordinary(60), layout)))
    assert taken
    assert all(taken)


@pytest.mark.parametrize("kind", MADE)
def test_pieces_of_events_that_are_special(kind: str, in_pieces: Callable[[Path], bool], tmp_path: Path) -> None:
    special = [MADE[kind](index) for index in range(200)]
    for events in (special * 2, special + ordinary(60), ordinary(60) + special):
        assert in_pieces(write(tmp_path, dump(events)))


@pytest.mark.parametrize("kind", DAMAGE)
def test_pieces_of_a_damaged_text(kind: str, in_pieces: Callable[[Path], bool], tmp_path: Path) -> None:
    assert in_pieces(write(tmp_path, DAMAGE[kind](dump(ordinary(80)))))


def test_pieces_without_a_row(in_pieces: Callable[[Path], bool], tmp_path: Path) -> None:
    assert in_pieces(write(tmp_path, dump([event(f"mark {at}", ph="M", cat=None, ts=at) for at in range(300)])))


# ---- processes


def killed_at_once(order: dict[str, Any]) -> Any:
    process = _start(order)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process


_start = workers.start


def test_a_process_that_is_killed(taken: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "start", killed_at_once)
    assert same(write(tmp_path, dump(ordinary(60))))
    assert taken == [False]


def test_a_process_that_is_killed_while_it_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that arrived in part are of no use: the file is read again."""
    fill, tries = parts._fill, []

    def breaks(pipe: Any, view: Any) -> None:
        tries.append(len(view))
        if len(tries) == 4:
            raise parts.Lost
        fill(pipe, view)

    monkeypatch.setattr(parts, "_fill", breaks)
    path = write(tmp_path, dump(ordinary(60)))
    recorded = stream.read(path)
    assert len(tries) == 4
    assert recorded.events == stream.Reader(path, together=False).read().events == len(ordinary(60))


def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[Any] = []
    monkeypatch.setattr(workers, "start", lambda order: processes.append(_start(order)) or processes[-1])
    path = write(tmp_path, dump(ordinary(60)))
    stream.read(path)
    path.write_text(dump(ordinary(60))[:-9000])
    stream.read(path)
    assert [process.returncode is not None for process in processes] == [True, True]


def test_a_module_of_the_users_folder_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: Taken
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert same(write(tmp_path, dump(ordinary(60))).name)
    assert taken == [True]


@pytest.mark.parametrize(("name", "damage"), [("t.json", ""), ("t.json.gz", ""), ("t.json", '"'), ("t.json.gz", '"')])
def test_each_byte_is_shown_once_and_progress_comes_to_the_end(name: str, damage: str, tmp_path: Path) -> None:
    text = dump(ordinary(60))
    path = write(tmp_path, text[:-5000] + damage + text[-5000:], name)
    shown: list[bytes] = []
    far: list[tuple[int, int | None]] = []
    stream.read(path, lambda *at: far.append(at), shown.append)
    size = path.stat().st_size
    assert b"".join(shown) == path.read_bytes()
    assert far[-1] == (size, size)
    assert max(position for position, _ in far) == size


# ---- when


def started(monkeypatch: pytest.MonkeyPatch, path: Path | str) -> int:
    orders: list[Any] = []
    monkeypatch.setattr(workers, "start", lambda order: orders.append(order) or _start(order))
    stream.read(str(path))
    return len(orders)


def test_a_small_file_is_read_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, dump(ordinary(60)))
    monkeypatch.delenv(machine.PART_BYTES)
    assert started(monkeypatch, path) == 0


@pytest.mark.parametrize("why", ["one core", "no memory", "a pool", "no interpreter"])
def test_one_reads_where_there_is_no_room_for_two(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, dump(ordinary(60)))
    monkeypatch.setenv(machine.ALONE, "")  # so that it is put back
    monkeypatch.delenv(machine.ALONE)
    if why == "one core":
        monkeypatch.setattr(machine, "cores", lambda: 1)
    elif why == "no memory":
        monkeypatch.setattr(machine, "available_bytes", lambda: 100 << 20)
    elif why == "a pool":
        pool._begin(b"")
        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        monkeypatch.setattr("sys.executable", "")
    assert started(monkeypatch, path) == 0


def test_a_file_that_is_another_one_by_now(tmp_path: Path, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process opens it again: it has to be the same file."""
    path = write(tmp_path, dump(ordinary(60)))

    def replaced(order: dict[str, Any]) -> Any:
        other = tmp_path / "other.json"
        other.write_text(dump(ordinary(60)))
        other.replace(path)
        return _start(order)

    monkeypatch.setattr(workers, "start", replaced)
    assert stream.read(path).events == len(ordinary(60))
    assert taken == [False]


@pytest.mark.parametrize(
    ("packed", "told", "text"), [(1000, 20_000, 20_000), (3 << 30, 1 << 30, (12 << 30) + (1 << 30))]
)
def test_the_text_of_a_gzip_stream(packed: int, told: int, text: int, tmp_path: Path) -> None:
    """The end of the stream says its length modulo 4 GB, and text is at least four times as long as its gzip."""
    path = tmp_path / "t.gz"
    with path.open("wb") as file:
        file.truncate(packed - 4)
        file.seek(packed - 4)
        file.write(told.to_bytes(4, "little"))
    assert workers.text_bytes(str(path), packed, plain=False) == text


@pytest.mark.real
@pytest.mark.parametrize("name", SOME)
def test_every_column_of_codes_is_known_as_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes are numbers of 32 bits, and nothing else is until all is read: another process numbers them anew."""
    for shrink in ("fitted", "compact"):
        monkeypatch.setattr(columns, shrink, lambda values: values)
    for table in stream.read(real_trace(name)).tables.values():
        codes = {key for key, column in table.items() if column.dtype == np.int32}
        assert codes == table.keys() & CODED.keys()
