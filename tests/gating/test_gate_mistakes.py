"""Mistakes around the gate are named with what to do: a folder or another file as the baseline, settings under another heading."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.config import load as load_settings
from advisor.errors import UsageError
from advisor.gating.baseline import load

MAKE = "advisor baseline TRACE -o "


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.json", b"", "is no baseline of advisor: it is empty. Make one: advisor baseline TRACE -o"),
        ("blank.json", b" \n", "is no baseline of advisor: it is empty. Make one: advisor baseline TRACE -o"),
        ("wrong.json", b'{"a": 1}', f"it has none of its keys; make one: {MAKE}advisor-baseline.json"),
        ("t.json", b'{"schemaVersion": 1, "traceEvents": []}', f"it is a trace; make one: {MAKE}advisor-baseline.json"),
        ("t.json.gz", b"\x1f\x8b\x08", f"it is a trace; make one: {MAKE}advisor-baseline.json"),
        ("cut.json", b'{"schema_version": 1, "work', f"truncated; make one: {MAKE}advisor-baseline.json"),
    ],
)
def test_what_is_no_baseline_is_said_with_how_to_make_one(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as told:
        load(path)
    assert said in str(told.value)


def test_a_folder_is_not_named_as_the_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        load(tmp_path)
    assert str(told.value) == f"{tmp_path}: is a folder. Make one: {MAKE}{tmp_path}/advisor-baseline.json"


def test_the_heading_of_pyproject_in_advisor_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "advisor.toml"
    path.write_text("[tool.advisor.gate]\nrun_tolerance = 0.1\n")
    with pytest.raises(UsageError, match=r"in advisor\.toml leave out 'tool\.advisor\.'"):
        load_settings(start=tmp_path)
