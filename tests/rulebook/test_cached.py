"""Rules that were checked once, kept in the cache's folder: found where nothing changed, and never where something did."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from advisor.rulebook import Rule, Rulebook, builtin_rules_dir, cached, load

RULE = builtin_rules_dir() / "cpu" / "padded-batches.toml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one rule, and a cache of its own; each load starts without what this process knows."""
    monkeypatch.setenv("ADVISOR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rules" / "cpu").mkdir(parents=True)
    text = "\n".join(
        line for line in RULE.read_text().splitlines() if not line.startswith(("yields_to", "gone_with", "rewrites"))
    )
    (tmp_path / "rules" / "cpu" / "padded-batches.toml").write_text(text)
    return tmp_path / "rules"


def loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, dict[str, float]] | None = None
) -> Rulebook:
    """Load as a new process does, and keep."""
    monkeypatch.setattr("advisor.rulebook._LOADED", {})
    return load([folder], limits, keep=True)


def entries(folder: Path) -> list[Path]:
    """The entries of the cache."""
    return sorted((folder.parent / "cache" / "rules").glob("*"))


def test_rules_are_found_as_they_were_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = loaded(folder, monkeypatch)
    (entry,) = entries(folder)
    monkeypatch.setattr("advisor.rulebook._compile", None)  # nothing is parsed again
    assert loaded(folder, monkeypatch).rules == first.rules
    assert first.rules[0].compiled.where is not None
    assert entries(folder) == [entry]


def test_a_changed_file_a_limit_and_other_code_are_read_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = loaded(folder, monkeypatch)
    name = next(iter(first.rules[0].limits))
    value = first.rules[0].limits[name].value
    assert isinstance(value, float | int)
    other = loaded(folder, monkeypatch, {"cpu/padded-batches": {name: value * 2}})
    assert other.rules[0].limits[name].value == value * 2
    rule = folder / "cpu" / "padded-batches.toml"
    title = first.rules[0].title
    rule.write_text(rule.read_text().replace(title, "Other: " + title))
    assert loaded(folder, monkeypatch).rules[0].title == "Other: " + first.rules[0].title
    assert len(entries(folder)) == 3
    monkeypatch.setattr(cached, "_code", lambda: b"other")
    loaded(folder, monkeypatch)
    assert len(entries(folder)) == 4


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, None])
def test_a_damaged_entry_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None) -> None:
    first = loaded(folder, monkeypatch)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1] if damage is None else damage)
    assert loaded(folder, monkeypatch).rules == first.rules
    assert entry.read_bytes() == whole


def test_an_entry_that_holds_something_else_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = loaded(folder, monkeypatch)
    store = cached._store()
    assert store is not None
    store.save_rules(entries(folder)[0].name, msgspec.msgpack.encode([{"id": "cpu/padded-batches"}]))
    assert loaded(folder, monkeypatch).rules == first.rules


def test_nothing_is_kept_unasked_or_where_the_cache_is_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.rulebook._LOADED", {})
    load([folder])
    assert entries(folder) == []
    monkeypatch.setenv("ADVISOR_CACHE", "off")
    loaded(folder, monkeypatch)
    assert entries(folder) == []


def test_a_thorough_check_reads_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(folder, monkeypatch)
    monkeypatch.setattr("advisor.rulebook._LOADED", {})
    monkeypatch.setattr(cached, "read", None)
    assert load([folder], thorough=True).rules[0].id == "cpu/padded-batches"


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = loaded(folder, monkeypatch)
    (folder.parent / "cache").chmod(0o777)
    monkeypatch.setattr(cached.msgspec.msgpack, "decode", None)
    assert loaded(folder, monkeypatch).rules == first.rules
    (folder.parent / "cache").chmod(0o700)


def test_the_newest_eight_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = folder / "cpu" / "padded-batches.toml"
    text, title = rule.read_text(), loaded(folder, monkeypatch).rules[0].title
    for number in range(10):
        rule.write_text(text.replace(title, f"{number} {title}"))
        loaded(folder, monkeypatch)
    assert len(entries(folder)) == 8
    shutil.rmtree(folder.parent / "cache")
    assert loaded(folder, monkeypatch).rules[0].title.startswith("9 ")


def test_what_was_kept_is_what_was_read_number_by_number() -> None:
    rules = load([builtin_rules_dir()]).rules
    back = msgspec.msgpack.decode(msgspec.msgpack.encode(rules), type=tuple[Rule, ...])
    # 1000000 is shown as that, never as 1000000.0
    one, other = (msgspec.json.encode(each, order="deterministic") for each in (rules, back))
    assert one == other


def test_a_limit_beyond_64_bits_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = folder / "cpu" / "padded-batches.toml"
    (name,) = loaded(folder, monkeypatch).rules[0].limits
    assert len(entries(folder)) == 1
    text = rule.read_text()
    value = next(line for line in text.splitlines() if line.startswith(name)).split("value = ")[1].split(",")[0]
    rule.write_text(text.replace(f"value = {value}", f"value = {10**20}", 1))
    assert loaded(folder, monkeypatch).rules[0].limits[name].value == 10**20
    assert len(entries(folder)) == 1


def test_what_frames_show_by_default_is_part_of_the_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(folder, monkeypatch)
    monkeypatch.setattr("advisor.rulebook._shown", lambda: [("trace", ("kind",), True)])
    loaded(folder, monkeypatch)
    assert len(entries(folder)) == 2


def test_a_folder_is_looked_up_where_the_process_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(builtin_rules_dir().parent)
    load([Path("rules")])
    monkeypatch.chdir(tmp_path)  # a folder of the same name
    titles = [rule.title for rule in load([Path("rules")]).rules]
    assert len(titles) == 1
