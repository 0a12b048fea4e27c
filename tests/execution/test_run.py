"""Many traces: which files are meant, where the work runs, and what of it is lost when something dies: nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec
import pytest
from isal import isal_zlib
from support.command import command
from support.ranks import ONLY, ranks

from advisor import rulebook
from advisor.cache import codec
from advisor.errors import AdvisorError, TraceError, UsageError
from advisor.execution import inputs, messages, task
from advisor.execution import pool as local
from advisor.execution import run as many
from advisor.privacy import without_secrets
from advisor.ranks.digest import Digest
from advisor.reading import machine
from advisor.reading.remote import public, shown
from advisor.results.analysis import Analysis
from advisor.trace import read


def advisor(*arguments: str, cwd: Path) -> CompletedProcess[str]:
    return command("analyze", "--only", "distributed/*", *arguments, cwd=cwd)


def settings(**more: Any) -> messages.Settings:
    return messages.Settings(rules=rulebook.load([rulebook.builtin_rules_dir()]).rules, only=ONLY, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four ranks, of which one is late."""
    made = tmp_path / "run"
    made.mkdir()
    for number, builder in enumerate(ranks({2: 10_000})):
        builder.write(made / f"rank{number}.json.gz")
    return made


# ---- which files


def test_a_folder_stands_for_its_traces_and_names_what_is_left_out(folder: Path) -> None:
    (folder / "README.md").write_text("x")
    (folder / "rank10.json").write_text("{}")
    found = inputs.find([str(folder)])
    names = [Path(address).name for address in found.addresses]
    assert names == [*(f"rank{number}.json.gz" for number in range(4)), "rank10.json"]  # by number, not by letter
    assert found.notes == [f"{folder}: left out, as they are not called .json or .json.gz: README.md"]
    assert inputs.several([str(folder)])
    assert not inputs.several([str(folder / "README.md"), "-", "s3://bucket/one.json"])


def test_a_folder_of_folders(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / f"rank{number}").mkdir()
        (tmp_path / f"rank{number}" / "trace.json").write_text("{}")
    found = inputs.find([str(tmp_path)]).addresses
    assert [Path(address).parent.name for address in found] == ["rank0", "rank1"]


def test_a_pattern_and_a_name_that_looks_like_one(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c[1].json"):
        (tmp_path / name).write_text("{}")
    assert len(inputs.find([str(tmp_path / "[ab].json")]).addresses) == 2
    assert inputs.find([str(tmp_path / "c[1].json")]).addresses == [str(tmp_path / "c[1].json")]
    assert (
        inputs.find([str(tmp_path / "a.json"), str(tmp_path / "*.json")]).addresses.count(str(tmp_path / "a.json")) == 1
    )
    with pytest.raises(TraceError, match="no file fits"):
        inputs.find([str(tmp_path / "*.gz")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="holds no traces"):
        inputs.find([str(tmp_path / "empty")])


def test_of_several_recordings_of_a_process_the_newest_is_read(tmp_path: Path) -> None:
    for name in ("host_1.1700000000000000000", "host_1.1700000000000000009", "host_2.1600000000000000000"):
        (tmp_path / f"{name}.pt.trace.json").write_text("{}")
    found = inputs.find([str(tmp_path)])
    assert [Path(address).name.split(".")[:2] for address in found.addresses] == [
        ["host_1", "1700000000000000009"],
        ["host_2", "1600000000000000000"],
    ]
    assert "1 older recording of the same 2 processes left out" in found.notes[0]


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("logs/node-17.example_4242.1700000000000000000.pt.trace.json.gz", "logs/HOST_4242.1700000000000000000.pt.trace.json.gz"),
        ("gpu-node-17-rank3_4242.1700000000000000000.pt.trace.json", "HOST-rank3_4242.1700000000000000000.pt.trace.json"),
        ("rank_3.1700000000000000000.pt.trace.json", "rank_3.1700000000000000000.pt.trace.json"),
        ("logs/rank3.json", "logs/rank3.json"),
        ("https://me:secret@example.org/a/rank0.json?X-Signature=abc#x", "https://example.org/a/rank0.json"),
        ("s3://bucket/a/host_9.1700000000000000000.pt.trace.json", "s3://bucket/a/HOST_9.1700000000000000000.pt.trace.json"),
    ],
)  # fmt: skip
def test_a_report_names_no_host_and_no_secret(address: str, named: str) -> None:
    assert public(address) == named
    assert "secret" not in shown(address)


def test_secrets_in_a_library_s_message_are_cut() -> None:
    said = without_secrets("GET 'https://u:p@example.org/x?token=1' failed, see http://example.org/help")
    assert said == "GET 'https://example.org/x' failed, see http://example.org/help"


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank_3.json", 3), ("trace.3.json.gz", 3), ("run.7.pt.trace.json", 7), ("trace.1700000000.json", None)],
)
def test_a_rank_by_the_name_of_its_file(tmp_path: Path, name: str, rank: int | None) -> None:
    from advisor.ranks.digest import digest

    (builder,) = ranks({}, count=1, rank_known=False)
    made = digest(read(str(builder.write(tmp_path / name))))
    assert made.rank == rank


# ---- the command


def test_the_command_reads_a_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text('{"lr": 0.1}')
    done = advisor(str(folder), "-f", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["rank"] for row in report["across"]["ranks"]] == [0, 1, 2, 3]
    assert report["across"]["findings"][0]["rule"] == "distributed/straggler"
    assert "note: left out: " in done.stderr  # sound JSON, but no trace, and nobody asked for it by name
    assert "config.json: is JSON, but no trace" in done.stderr
    named = advisor(str(folder / "config.json"), str(folder / "rank0.json.gz"), cwd=tmp_path)
    assert (named.returncode, "error: " in named.stderr) == (3, True)  # asked for by name


def test_a_folder_of_other_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    done = advisor(str(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("advisor: error: none of the files is a trace\n")


def test_a_folder_of_one_trace_is_still_a_folder(tmp_path: Path) -> None:
    ranks({}, count=1)[0].write(tmp_path / "rank0.json")
    report = json.loads(advisor(str(tmp_path), "-f", "json", cwd=tmp_path).stdout)
    assert (len(report["traces"]), report["across"]) == (1, None)
    for form in ("text", "html", "markdown"):
        assert advisor(str(tmp_path), "-f", form, cwd=tmp_path).returncode == 0


def test_the_host_s_name_reaches_no_report(tmp_path: Path) -> None:
    for number, builder in enumerate(ranks({2: 10_000})):
        builder.write(tmp_path / f"secrethost_{number}.1700000000000000000.pt.trace.json")
    for form in ("text", "json", "html", "markdown"):
        done = advisor(str(tmp_path), "-f", form, "-o", "-", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "secrethost" not in done.stdout.replace(str(tmp_path), "")


def test_a_damaged_file_in_a_folder_is_an_error_and_the_rest_is_read(folder: Path, tmp_path: Path) -> None:
    (folder / "rank1.json.gz").write_bytes(b"\x1f\x8b" + bytes(60))
    done = advisor(str(folder), "-f", "json", "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 3
    assert [row["rank"] for row in json.loads(done.stdout)["across"]["ranks"]] == [0, 2, 3]
    assert "rank1.json.gz" in done.stderr


# ---- where it runs


def test_a_pool_finds_what_one_process_finds(folder: Path) -> None:
    files = inputs.find([str(folder)])
    one, other = (many.run(files, settings(), jobs=jobs) for jobs in (1, 3))
    assert one == other
    assert len(one.analyses) == 4
    assert one.failed == []


def test_a_pool_is_used_where_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr(machine, "available_bytes", lambda: 64 << 30)
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    small.write_bytes(b"x")
    with large.open("wb") as sparse:
        sparse.truncate(1 << 30)
    assert local.choose([str(small)] * 2, None) == 1  # done before a pool is up
    assert local.choose([str(large)] * 8, None) == 4
    assert local.choose([str(large)] * 3, None) == 3
    assert local.choose([str(large)], None) == 1
    assert local.choose([str(large)] * 8, 2) == 2
    assert local.choose([str(large), "-"], 2) == 1  # only this process has its standard input
    monkeypatch.setattr(machine, "available_bytes", lambda: 3 << 30)
    assert local.choose([str(large)] * 8, None) == 1  # two of them would not fit
    with pytest.raises(UsageError, match="--jobs 0"):
        local.choose([str(large)], 0)


def comparable(result: messages.Result) -> tuple[object, ...]:
    """A result in a form that can be compared: tables cannot, their bytes can."""
    rest = msgspec.structs.replace(result, analysis=b"", digest=b"")
    told = messages.unpack(result.digest, Digest)
    plain = msgspec.structs.replace(told, features=frozenset())
    return rest, messages.unpack(result.analysis, Analysis), told.features, codec.encode(plain)


def test_a_child_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    """Ranks side by side; once one is done, a process of the pool is killed with another in its hands."""
    count = 10
    for number, builder in enumerate(ranks({2: 10_000}, count=count, steps=range(200))):
        builder.write(tmp_path / f"rank{number}.json.gz")
    addresses = inputs.find([str(tmp_path)]).addresses
    wanted = dict(local.serial(addresses, settings()))
    found: dict[int, messages.Result] = {}
    killed = 0
    for index, result in local.pool(addresses, settings(), 2):
        assert index not in found  # none is done twice
        found[index] = result
        if not killed and (children := pool_processes()):
            killed = children[0]
            os.kill(killed, signal.SIGKILL)
            while not gone(killed):
                time.sleep(0.01)
    assert killed
    assert {index: comparable(result) for index, result in found.items()} == {
        index: comparable(result) for index, result in wanted.items()
    }


def pool_processes() -> list[int]:
    """Processes of this one's pool: children of its fork server."""
    import multiprocessing.forkserver as server

    parent = server._forkserver._forkserver_pid  # type: ignore[attr-defined]
    made = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(entry.read_text().rpartition(")")[2].split()[1]) == parent:
                made.append(int(entry.parent.name))
        except (OSError, ValueError):
            continue
    return sorted(made)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_trace_that_kills_every_reader_costs_its_own_result_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_work", _deadly)
    addresses = inputs.find([str(folder)]).addresses
    found = dict(local.pool(addresses, settings(), 2))
    assert sorted(found) == [0, 1, 2, 3]
    assert [bool(found[index].analysis) for index in range(4)] == [True, True, False, True]
    assert "the process that read it was killed" in found[2].error


def _deadly(address: str) -> bytes:
    if "rank2" in address:
        os.kill(os.getpid(), signal.SIGKILL)
    return task.work(address, local._settings)


def test_what_a_worker_returns_is_checked(folder: Path) -> None:
    with pytest.raises(AdvisorError, match="hold no result"):
        messages.decode(msgspec.msgpack.encode({"version": 1, "analysis": b""}))
    with pytest.raises(AdvisorError, match="are no Analysis"):
        messages.unpack(b"neither deflated nor anything", Analysis)
    with pytest.raises(AdvisorError, match="hold no Analysis"):
        messages.unpack(isal_zlib.compress(msgspec.msgpack.encode({"path": "x"})), Analysis)


def test_the_server_of_the_pool_ends_with_the_work(folder: Path) -> None:
    """It holds some 80 MB, which the comparison of many ranks takes then."""
    import multiprocessing.forkserver as server

    assert len(dict(local.pool(inputs.find([str(folder)]).addresses, settings(), 2))) == 4
    assert server._forkserver._forkserver_pid is None  # type: ignore[attr-defined]


def test_giving_out_work_needs_none_of_what_works() -> None:
    """Modules that read and analyze are 30 MB more, which the processes that work have already."""
    code = """
import sys
from advisor.execution import cluster, messages, pool, run
print([name for name in ("pandas", "advisor.pipeline", "advisor.trace", "advisor.ranks.digest") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n", done.stderr


def test_views_of_many_traces_are_those_of_the_telling_ones(tmp_path: Path) -> None:
    for number, builder in enumerate(ranks({7: 10_000}, count=10)):
        builder.write(tmp_path / f"rank{number}.json.gz")
    made = many.run(inputs.find([str(tmp_path)]), settings(views=True), jobs=1)
    with_views = [index for index, analysis in enumerate(made.analyses) if analysis.views is not None]
    assert len(with_views) == 8
    assert 7 in with_views
    plain = many.run(inputs.find([str(tmp_path)]), settings(), jobs=1)
    assert made.across == plain.across
