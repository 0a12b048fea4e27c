"""Files of rules: parsed and checked once a process for the same content, and read within bounds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from advisor.errors import RuleError
from advisor.rulebook import load

TEXT = """
id = "{id}"
since = "0.1"
title = "{title}"
why = "They wait."
confidence = "likely"
severity = "low"
[match]
frame = "copies"
where = "bytes > $least"
[limits.least]
value = 5
unit = "bytes"
basis = "less is noise"
[fix]
title = "Copy less"
effort = "one line"
before = "x.cpu()"
after = "x"
verify = "there are fewer copies"
"""


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    path = tmp_path / "rules" / "transfer" / "slow.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT.format(id="transfer/slow", title="Copies are slow"))
    return path


def test_what_was_loaded_is_kept_by_content(rule: Path) -> None:
    folder = rule.parents[1]
    first = load([folder])
    assert load([folder]) is first
    rule.touch()
    assert load([folder]) is first
    text = rule.read_text()
    rule.write_text(text.replace('slow"\nwhy', 'late"\nwhy'))
    assert load([folder]).rules[0].title == "Copies are late"
    rule.write_text(text)
    assert load([folder]).rules[0].title == "Copies are slow"
    assert load([folder], {"transfer/slow": {"least": 7}}).rules[0].limits["least"].value == 7
    assert load([folder]).rules[0].limits["least"].value == 5
    (rule.parent / "more.toml").write_text(TEXT.format(id="transfer/more", title="More copies"))
    assert [found.id for found in load([folder]).rules] == ["transfer/more", "transfer/slow"]
    (folder / "nothing").symlink_to(folder / "gone")
    with pytest.raises(RuleError, match="nothing: links to nothing"):  # though all files are as they were
        load([folder])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_a_device_a_pipe_and_a_huge_file_are_refused_unread(rule: Path) -> None:
    os.mkfifo(rule.parents[2] / "pipe")
    (rule.parent / "zero.toml").symlink_to("/dev/zero")
    (rule.parent / "pipe.toml").symlink_to(rule.parents[2] / "pipe")
    with (rule.parent / "huge.toml").open("wb") as sparse:
        sparse.truncate(1 << 34)
    with pytest.raises(RuleError) as caught:
        load([rule.parents[1]])
    said = "\n".join(caught.value.problems)
    assert "huge.toml: is larger than 1 MB" in said
    assert "pipe.toml: is no file" in said
    assert "zero.toml: is no file" in said
