"""Where a recording goes, what of torch's file is kept, and what is said without torch."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.recording import advisor

from advisor.errors import UsageError
from advisor.reading.program_settings import Recorded
from advisor.record.writing import check_output, name_for, write


@pytest.mark.parametrize(
    ("script", "output", "rank", "name"),
    [
        ("src/train.py", None, None, "train.trace.json.gz"),
        ("src/train.py", None, 3, "train.trace.rank3.json.gz"),
        ("train.py", "out/t.json.gz", None, "out/t.json.gz"),
        ("train.py", "out/t.json.gz", 0, "out/t.rank0.json.gz"),
        ("train.py", "t.json", 11, "t.rank11.json"),
    ],
)
def test_names(script: str, output: str | None, rank: int | None, name: str) -> None:
    assert name_for(script, output, rank) == Path(name)


def test_an_output_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").touch()
    for path, words in [
        (tmp_path, "is a folder"), (tmp_path / "t.json", "--force"), (tmp_path / "no" / "t.json", "no such folder"),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match=words):
            check_output(path, force=False)
    check_output(tmp_path / "t.json", force=True)


def written(folder: Path, root: dict[str, Any], *, whole_steps: int = 5, name: str = "out.json.gz") -> dict[str, Any]:
    (folder / "timing.json").write_text(json.dumps(root))
    write(folder / name, folder / "timing.json", None, (), Recorded(recorder="test"), whole_steps=whole_steps)
    data = (folder / name).read_bytes()
    out: dict[str, Any] = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    return out


def step(number: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": f"ProfilerStep#{number}",
        "ts": number * 9,
        "dur": 9,
        "pid": 1,
        "tid": 1,
    }


def test_only_what_is_known_of_the_root_is_kept(tmp_path: Path) -> None:
    root = {
        "schemaVersion": 1, "traceName": "/home/alice/t.json", "host_name": "box", "PATH": "/home/alice/bin",
        "distributedInfo": {"rank": 0}, "traceEvents": [step(1)],
    }  # fmt: skip
    out = written(tmp_path, root)
    assert sorted(out) == ["advisor", "distributedInfo", "schemaVersion", "traceEvents"]
    assert out["advisor"] == {"recorder": "test"}
    assert out["traceEvents"] == [step(1)]


def test_names_of_the_user_and_the_host_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    event = {"ph": "X", "cat": "cpu_op", "name": "k", "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    args = {"kernel_file": "/tmp/torchinductor_alice/k.py", "from": "/home/alice/job/train.py", "on": "box"}
    (out,) = written(tmp_path, {"schemaVersion": 1, "traceEvents": [event | {"args": args}]})["traceEvents"]
    assert out["args"] == {"kernel_file": "/tmp/torchinductor/k.py", "from": "job/train.py", "on": "host"}


def test_steps_that_were_cut_off_are_left_out_by_their_number(tmp_path: Path) -> None:
    events = [step(10), step(9), step(8)]
    out = written(tmp_path, {"schemaVersion": 1, "traceEvents": events}, whole_steps=2, name="out.json")
    assert [event["name"] for event in out["traceEvents"]] == ["ProfilerStep#9", "ProfilerStep#8"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "timing.json").write_text('{"traceEvents": [}')
    with pytest.raises(ValueError):
        write(tmp_path / "out.json.gz", tmp_path / "timing.json", None, (), Recorded(), whole_steps=1)
    assert [path.name for path in tmp_path.iterdir()] == ["timing.json"]


def test_help_needs_no_torch_and_imports_none() -> None:
    code = (
        "import sys\nfrom advisor.cli import main\n"
        "try:\n    main(['record', '--help'])\nexcept SystemExit as e:\n    assert e.code in (0, None), e.code\n"
        "assert not {'torch', 'pandas', 'duckdb', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Run SCRIPT, unmodified" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('ran')")
    done = advisor("record", "job.py", cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert "pip install '.[record]'" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_profile_without_torch_says_what_to_install() -> None:
    import advisor as house

    with pytest.raises(UsageError, match="pip install torch"):
        house.profile("trace.json.gz")


def test_a_mistyped_option_is_no_script(tmp_path: Path) -> None:
    done = advisor("record", "--stpes", "3", "job.py", cwd=tmp_path, code=2)
    assert "--stpes" in done.stderr
    assert "--steps" in done.stderr


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_cannot_be_written_to_is_found_before_anything_runs() -> None:
    """Root has all rights there, and no file can be made all the same."""
    with pytest.raises(UsageError, match="/proc: cannot be written to"):
        check_output(Path("/proc/x.json.gz"), force=False)
