"""Settings: where they are found, what they may hold, and how a mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.config import Config, load
from advisor.errors import UsageError
from advisor.privacy import excerpt


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_is_no_settings(tmp_path: Path) -> None:
    assert load(start=tmp_path) == Config()


def test_the_nearest_file_with_the_section_counts(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.advisor]\nfail_on = "high"\n')
    write(tmp_path / "a/pyproject.toml", "[tool.ruff]\n")
    assert load(start=tmp_path / "a").fail_on == "high"
    write(tmp_path / "a/advisor.toml", 'fail_on = "low"\n')
    write(tmp_path / "a/pyproject.toml", '[tool.advisor]\nfail_on = "medium"\n')
    assert load(start=tmp_path / "a").fail_on == "low"
    assert load(start=tmp_path).fail_on == "high"


def test_everything_it_may_hold(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    path = write(
        tmp_path / "pyproject.toml",
        """
        [tool.advisor]
        rules = ["mine"]
        only = ["precision/*"]
        skip = ["kernels/*"]
        fail_on = "medium"
        library = ["ourlib"]
        [tool.advisor.limits."transfer/pageable-copy"]
        min_bytes = 4096
        """,
    )
    assert load(path).folders == (tmp_path / "mine",)
    assert load(path) == Config(
        path=path,
        rules=("mine",),
        only=("precision/*",),
        skip=("kernels/*",),
        fail_on="medium",
        library=("ourlib",),
        limits={"transfer/pageable-copy": {"min_bytes": 4096}},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('fail-on = "low"', r"advisor\.toml: fail-on: no such key; nearest: fail_on"),
        ("colour = 1", r"colour: no such key\. Known keys: rules, only"),
        ('fail_on = "hgh"', "fail_on: 'hgh' is none of low, medium, high; nearest: high"),
        ('only = "precision/*"', "only: must be a list of texts, not 'precision"),
        ("only = [1]", "only: must be text, not 1"),
        ('rules = ["nowhere"]', "rules: no folder .*nowhere"),
        ("limits = 3", "limits: must be a table, not 3"),
        ('limits."a/b" = 3', r'limits\."a/b": must be a table, not 3'),
        ('limits."a/b".c = true', r'limits\."a/b"\.c: must be a number or text .*, not True'),
        ("limits.a.b.c = 1", r'limits\.a\.b: .*the id of a rule goes in quotes: limits\."a/b"'),
        ("limits.a/b.c = 1", r'not valid TOML: .* in quotes: limits\."a/b"'),
        ('limits."a/b".c = nan', r'limits\."a/b"\.c: must be a number'),
        ("fail_on = ", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "advisor.toml", text)
    with pytest.raises(UsageError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / "advisor.toml",
        'colour = 1\nfail-on = "low"\nonly = [1]\ncache_gb = -1\n[gate]\nasert = []\ntolerance = { step = 0.1 }\n'
        'assert = ["summary.gpu_busy_shar >= 0.8", "x"]\nwaivers = [{ rule = "a" }, { until = "soon" }]\n',
    )
    with pytest.raises(UsageError) as caught:
        load(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    keys = [line.removeprefix(f"{path}: ").partition(":")[0] for line in lines]
    assert keys == [
        *("colour", "fail-on", "only", "cache_gb", "gate.asert", "gate.assert", "gate.tolerance.step"),
        *(
            "gate.waivers.until",
            "gate.waivers.reason",
            "gate.waivers.rule",
            "gate.waivers.until",
            "gate.waivers.reason",
        ),
        "gate.assert",
    ]


def test_a_named_file_must_exist_and_hold_the_section(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(UsageError, match=r"no \[tool\.advisor\] section"):
        load(write(tmp_path / "pyproject.toml", "[project]\nname = 'x'\n"))
    with pytest.raises(UsageError, match=r"tool\.advisor must be a table"):
        load(write(tmp_path / "pyproject.toml", "[tool]\nadvisor = 1\n"))


def test_a_device_is_no_configuration() -> None:
    with pytest.raises(UsageError, match="no file"):
        load(Path("/dev/zero"))


def test_a_folder_of_rules_that_no_file_system_can_have_is_named(tmp_path: Path) -> None:
    """Found by the fuzzer: the system's error, a name too long, came out as it was."""
    path = write(tmp_path / "advisor.toml", f'rules = ["{"void " * 1000}"]\n')
    with pytest.raises(UsageError, match=r"advisor\.toml: rules: no folder"):
        load(path)


def test_what_a_message_quotes_is_short_and_on_one_line(tmp_path: Path) -> None:
    """Found by the fuzzer: a key with line breaks or escapes in it came out raw, and a value as long as it was."""
    path = write(
        tmp_path / "advisor.toml", f'"a\\u001b[2J\\nb\\u202e" = 1\nskip = ["{"x" * 9000}"]\nfail_on = "{"y" * 9000}"\n'
    )
    with pytest.raises(UsageError) as caught:
        load(path)
    lines = str(caught.value).split("\n")
    assert len(lines) == 2
    assert lines[0].startswith(f'{path}: "a\\x1b[2J\\nb\\u202e": no such key')
    assert lines[1].startswith(f"{path}: fail_on: 'yyy")
    assert lines[1].endswith("is none of low, medium, high")
    assert len(lines[1]) < len(str(path)) + 600


def test_an_assertion_whose_bound_no_number_holds_is_refused(tmp_path: Path) -> None:
    """Found by the fuzzer: the bound became infinite, and the judgement's JSON held no number there."""
    path = write(tmp_path / "advisor.toml", f'[gate]\nassert = ["summary.step_ms <= {"9" * 400}"]\n')
    with pytest.raises(
        UsageError, match=r"advisor\.toml: gate\.assert: the bound of 'summary.step_ms <= 999.*' is beyond"
    ):
        load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('skip = ["/home/alice/rules/slow"]', 'skip: "rules/slow" fits no rule'),
        ('only = ["sync/*", "/nfs/homes/alice/x"]', 'only: "x" fits no rule'),
        ('fail_on = "https://alice:hunter2@host/x"', "fail_on: 'https://host/x' is none of low, medium, high"),
        ('rules = ["/home/alice/team/rules"]', "rules: no folder team/rules"),
        ("token = 'hf_abcdefgh1234567890abcdef", "not valid TOML"),
    ],
)
def test_a_mistake_is_quoted_without_persons_and_secrets(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as found:
        load(write(tmp_path / "advisor.toml", text + "\n")).require_fit(["sync/item"])
    assert said in str(found.value)
    assert not any(hidden in str(found.value) for hidden in ("alice", "hunter2", "hf_abcdefgh"))


def test_what_is_cut_out_of_the_middle_uncovers_nothing() -> None:
    # Cut to 30 characters first, the end would be `alice/rules`, and no longer look like a home directory.
    assert excerpt("x" * 60 + " /home/alice/rules", 30) == "x" * 20 + "…xxxx rules"


def test_the_settings_own_path_names_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "project" / "pyproject.toml", '[tool.advisor]\nskip = ["nothing"]\n')
    with pytest.raises(UsageError, match=r"^~/project/pyproject.toml: skip: \"nothing\" fits no rule"):
        load(start=tmp_path / "project").require_fit(["sync/item"])
