"""What is no trace, or cannot be read: refused with what it is and what to do."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.damage import GOOD, LOST
from support.reading import dump, event

import advisor.trace
from advisor.errors import TraceError


def tar() -> bytes:
    """An archive with one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.json"))
    return made.getvalue()


NOTHING = [
    ("empty", b"", "is empty"),
    ("blank", b" \n\t " * 1000, "is empty"),
    ("only a mark", b"\xef\xbb\xbf", "is empty"),
    ("no events", b'{"traceEvents": []}', "a trace without events"),
    ("no events, list", b"[]", "a trace without events"),
    ("only metadata", dump([{"ph": "M", "name": "process_name"}]).encode(), "a trace without events"),
    ("events are null", b'{"traceEvents": null}', "traceEvents is not a list"),
    ("events are an object", b'{"traceEvents": {"a": 1}}', "traceEvents is not a list"),
    ("events break off", b'{"traceEvents": [', "a trace without events"),
    ("text", b"hello world", "is not JSON"),
    ("a number", b"5", "is JSON, but no trace: a single value"),
    ("nothing in JSON", b" null\n", "is JSON, but no trace: a single value"),
    ("a text in JSON", b'"a trace"', "is JSON, but no trace: a single value"),
    ("a text that breaks off", b'"a tra', "is not JSON"),
    ("broken before the events", b'{"schemaVersion": 1, "devi', "is neither whole JSON nor a trace"),
    ("list of numbers", b"[1, 2, 3]", "no other is left"),
    ("all damaged", b"[" + b",".join([LOST["colons"]] * 3) + b"]", "3 damaged events are beyond repair, and no other is left"),
    ("sidecar", b'[{"file": "a.json", "batch_size": 32, "mode": "train"}]', "is JSON, but no trace: what it lists has no ph"),
    ("config", b'{"model": "x", "lr": 0.1}', "is JSON, but no trace: it has no traceEvents .its keys: 'lr, model'"),
    ("speedscope", b'{"$schema": "https://www.speedscope.app/x.json", "profiles": [], "shared": {}}', "speedscope"),
    ("execution trace", b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "name": "x"}]}', "an execution trace"),
    ("CPU profile", b'{"nodes": [{"id": 1}], "startTime": 0, "endTime": 1, "samples": []}', "a V8 CPU profile"),
    ("another tool's trace", json.dumps([event(cat="v8"), event(cat="blink")]).encode(), "something else.*'v8', 'blink'"),
    ("SQLite", b"SQLite format 3\0" + b"\0" * 100, "Nsight"),
    ("zip", b"PK\x03\x04" + b"\0" * 100, "Unpack it"),
    ("zstd", b"\x28\xb5\x2f\xfd" + b"\0" * 100, "zstd -d"),
    ("bzip2", b"BZh91AY&SY" + b"\0" * 100, "bunzip2"),
    ("xz", b"\xfd7zXZ\0" + b"\0" * 100, "unxz"),
    ("tar", tar(), "a tar archive. Unpack it .tar xf. and pass the .json or .json.gz inside"),
    ("tar of gzip", gzip.compress(tar()), "a tar archive"),
    ("pickle", b"\x80\x04\x95" + b"\0" * 100, "pickle"),
    ("program", b"\x7fELF" + b"\0" * 100, "a program"),
    ("HTML", b"<!DOCTYPE html><html>", "HTML"),
    ("UTF-16", '{"traceEvents": []}'.encode("utf-16"), "UTF-16"),
    ("gzip of nothing", gzip.compress(b""), "the gzip stream holds nothing"),
    ("gzip of SQLite", gzip.compress(b"SQLite format 3\0"), "Nsight"),
    ("gzip of gzip", gzip.compress(gzip.compress(b"x")), "is not JSON"),
    ("broken gzip", b"\x1f\x8b\x08\x00" + b"\xff" * 50, "the gzip stream is damaged from the start"),
    ("gzip's first bytes", b"\x1f\x8b", "the gzip stream holds nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_what_is_no_trace_is_refused_with_a_reason(text: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text)
    with pytest.raises(TraceError) as error:
        advisor.trace.read(str(path))
    assert error.value.exit_code == 3
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert re.search(told, message), message
    assert message.endswith((".", "?", ")"))
    assert len(message) < len(str(path)) + 400


def test_an_archive_is_known_by_its_name_too(tmp_path: Path) -> None:
    """The oldest tar says nowhere that it is one; a trace is one under any name."""
    for name in ("run.tgz", "run.tar.gz", "RUN.TAR"):
        path = tmp_path / name
        path.write_bytes(b"trace.json\0" + b"\0" * 600)
        with pytest.raises(TraceError, match="is a tar archive"):
            advisor.trace.read(str(path))
        path.write_text(dump([event()]))
        assert advisor.trace.read(str(path)).events == 1


def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match="no such file"):
        advisor.trace.read(str(tmp_path / "absent.json"))
    with pytest.raises(TraceError, match=r"is a directory. Pass the trace files in it: .*\*\.json\.gz"):
        advisor.trace.read(str(tmp_path))
    with pytest.raises(TraceError, match="cannot be opened"):
        advisor.trace.read("nul\0byte.json")
    with pytest.raises(TraceError, match="cannot be opened: File name too long"):
        advisor.trace.read("x" * 5000)
    (tmp_path / "file").write_text("x")
    with pytest.raises(TraceError, match="cannot be opened"):
        advisor.trace.read(str(tmp_path / "file" / "below.json"))
    with pytest.raises(TraceError, match="is empty"):
        advisor.trace.read(os.devnull)

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(TraceError, match="cannot be opened: Permission denied"):
        advisor.trace.read(str(tmp_path / "file"))


def test_a_disk_that_fails_in_the_middle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Failing:
        """Gives a few blocks, then an error."""

        left = 2

        def read(self, size: int) -> bytes:
            self.left -= 1
            if not self.left:
                raise OSError(5, "Input/output error")
            return dump(GOOD).encode()[:size]

        def close(self) -> None:
            pass

    (tmp_path / "t.json").touch()
    monkeypatch.setattr(Path, "open", lambda *_: Failing())
    with pytest.raises(TraceError, match="cannot be read: Input/output error"):
        advisor.trace.read(str(tmp_path / "t.json"))
