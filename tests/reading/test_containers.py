"""Containers of a trace: plain, gzip in any number of members, standard input, a path."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import contents, dump, event, mixture, read

import advisor.trace
from advisor.errors import TraceError
from advisor.reading import containers, stream

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)


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


@pytest.mark.parametrize("place", [-1, -5], ids=["length", "checksum"])
def test_a_wrong_checksum_loses_nothing(place: int) -> None:
    text = dump(mixture(40))
    packed = bytearray(gz(text))
    packed[place] ^= 0xFF
    recorded = read(bytes(packed))
    assert contents(recorded) == contents(read(text))
    assert not recorded.truncated
    assert [code for code, _ in recorded.notes] == ["gzip-checksum"]


def test_members_behind_a_wrong_checksum_are_read_too() -> None:
    text = dump(mixture(40))
    first, second = bytearray(gz(text[:9000])), gz(text[9000:])
    first[-8:] = bytes(8)
    recorded = read(bytes(first) + second)
    assert contents(recorded) == contents(read(text))
    assert [code for code, _ in recorded.notes] == ["gzip-checksum"]


@SETTINGS
@given(st.integers(0, 31), st.binary(max_size=40), st.integers(2, 60))
def test_a_header_of_gzip_in_every_form(flags: int, extra: bytes, block: int) -> None:
    """As other packers write it: a name, a comment, a field of their own, a checksum of the header."""
    flags &= 31 - 1  # FTEXT says nothing
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6)
    header += (len(extra).to_bytes(2, "little") + extra) if flags & 4 else b""
    header += b"name.json\0" if flags & 8 else b""
    header += b"a comment\0" if flags & 16 else b""
    header += b"\x01\x02" if flags & 2 else b""
    packed = header + gzip.compress(b"x" * 5000)[10:]
    with TemporaryDirectory() as folder, patch.object(containers, "BLOCK", block):
        path = Path(folder) / "x.gz"
        path.write_bytes(packed * 2)
        source = containers.Source(path)
        assert b"".join(source.blocks()) == b"x" * 10_000
        assert source.notes == []


def test_a_header_of_gzip_without_an_end() -> None:
    with pytest.raises(TraceError, match="damaged from the start"):
        read(b"\x1f\x8b\x08\x08" + bytes([0, 0, 0, 0, 0, 0]) + b"n" * (3 << 20))
