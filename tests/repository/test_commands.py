"""Commands and programs on the pages: each that can be run here is run, of each other its command and options exist."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.paths import ROOT

from advisor.cli import main

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "sample_traces/README.md", "benchmarks/README.md")),
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in ("proofs.md", "frames.md")),
]  # fmt: skip
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
# Blocks that are run elsewhere: by .ci/run and tests/gating/test_gate_ci.py, and by docs/renew.py.
ELSEWHERE = re.compile(r"<!-- (?:ci:[\w-]+|output) -->\n$")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Words of a command that wants torch, an extra, another machine, or a file that the reader has.
NOT_HERE = ("record", "fix", "ladder", "mcp", "://", "…")
FILES = (
    "trace.json.gz", "trace.json", "new.json.gz", "before.json.gz", "after.json.gz", "train.trace.json.gz",
    "train.trace.rank0.json.gz", "traces/rank0.json.gz", "traces/rank1.json.gz",
)  # fmt: skip
SAMPLE = ROOT / "sample_traces" / "gate" / "workers.json.gz"


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """Fenced blocks that nothing else runs."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found[1] in languages and not ELSEWHERE.search(text[: found.start()]):
            yield found[2]


def lines(page: Path) -> Iterator[str]:
    """Lines of shell: of fenced blocks, of indented code, and of the README's table."""
    for block in blocks(page, "sh", ""):
        yield from block.splitlines()
    for line in FENCE.sub("", page.read_text(encoding="utf-8")).splitlines():
        if line.startswith("    advisor "):
            yield line.strip()
        if page == ROOT / "README.md" and line.startswith("| "):
            yield from re.findall(r"`(advisor [^`]+)`", line)


def words_of(line: str) -> list[str]:
    """Words of the advisor's command in a line, without those of a pipe before it; none where it runs something else."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # prose, with an apostrophe
        return []
    words = words[words.index("|") + 1 :] if "|" in words else words
    return words[1:] if words[:1] == ["advisor"] else []


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Find the command that the words call, and the words after its name."""
    command: click.Command = main
    while isinstance(command, click.Group):
        context = click.Context(command)
        found = command.get_command(context, words[0]) if words else None
        if found is None:
            return command, words
        command, words = found, words[1:]
    return command, words


def runs(words: list[str]) -> bool:
    """Tell whether a command can be run here."""
    return bool(words) and not any(mark in word for word in words for mark in NOT_HERE)


def parse(line: str) -> None:
    """Fail where a line calls a command that there is not, or one with an option that it has not, or without its value."""
    words = words_of(" ".join(line.split()))
    if not words or words[0] == "COMMAND":
        return
    command, rest = command_of(words)
    if command is main:
        assert "." in rest[0] or rest[0].startswith("--"), f"{line}: no such command"
        if rest[0].startswith("--"):
            return
        command = main.get_command(click.Context(main), "analyze") or main
    assert not isinstance(command, click.Group) or not rest, f"{line}: no such command"
    if rest:
        command.make_parser(click.Context(command, **command.context_settings)).parse_args(list(rest))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages speak of; all are one small trace."""
    (tmp_path / "sample_traces").symlink_to(ROOT / "sample_traces")
    (tmp_path / "traces").mkdir()
    for name in FILES:
        shutil.copy(SAMPLE, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_each_command_of_a_page_runs(name: str, folder: Path) -> None:
    runner, problems = CliRunner(), []
    for line in lines(ROOT / name):
        words = words_of(line)
        if not runs(words):
            continue
        if words[0] == "watch" and "--once" not in words:  # it would go on until Ctrl-C
            words = [*words, "--once"]
        given = (folder / "trace.json.gz").read_bytes() if "-" in words else None
        result = runner.invoke(main, words, input=given, env={"ADVISOR_CACHE": "off"})
        if result.exit_code not in ((0, 1) if "--fail-on" in words else (0,)):
            problems.append(f"{line}: exit code {result.exit_code}: {result.output[-400:]} {result.exception!r}")
    assert problems == []


@pytest.mark.parametrize("name", NAMES)
def test_each_command_that_a_page_names_has_its_options(name: str) -> None:
    code = re.findall(r"`(advisor [^`]*)`", FENCE.sub("", (ROOT / name).read_text(encoding="utf-8")))
    for line in [*lines(ROOT / name), *code]:
        parse(line)


@pytest.mark.parametrize(
    "line",
    [
        "advisor anaylze trace.json.gz",
        "advisor analyze trace.json.gz --fail-onn high",
        "advisor gate trace.json.gz --baseline",
        "cat trace.json | advisor query - --limit 5",
        "advisor rules chekc my_rules",
        "advisor record --step 5 train.py",
    ],
)
def test_a_command_that_there_is_not_is_found(line: str) -> None:
    with pytest.raises((AssertionError, click.UsageError)):
        parse(line)


def test_pages_hold_commands_that_run() -> None:
    """Thirty and more: a change of their form must not leave these tests without any."""
    found = [line for name in NAMES for line in lines(ROOT / name) if runs(words_of(line))]
    assert len(found) > 30
    assert {words_of(line)[0] for line in found} >= {
        "analyze",
        "gate",
        "baseline",
        "compare",
        "export",
        "query",
        "rules",
    }


@pytest.mark.parametrize("name", NAMES)
def test_what_else_a_page_runs_is_there(name: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    recipes = re.findall(r"^(\w+)[^:\n]*:", (ROOT / "justfile").read_text(encoding="utf-8"), re.MULTILINE)
    text = (ROOT / name).read_text(encoding="utf-8")
    code = "\n".join([*(found[2] for found in FENCE.finditer(text)), *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))])
    for extra in re.findall(r"pip install[^\n]*'\.\[(\w+)\]'", code):
        assert extra in extras, extra
    for recipe in re.findall(r"(?:^|[(;&] ?)just (\w+)", code, re.MULTILINE):
        assert recipe in recipes, recipe
    for script in re.findall(r"python (?:-m )?((?:benchmarks|docs|sample_traces|fuzz)/\S+\.py)", code):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("name", NAMES)
def test_each_program_of_a_page_compiles(name: str) -> None:
    for program in blocks(ROOT / name, "python"):
        compile(program, name, "exec")


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_each_program_of_these_pages_runs(name: str, folder: Path) -> None:
    names: dict[str, object] = {}
    for program in blocks(ROOT / name, "python"):
        exec(compile(program, name, "exec"), names)  # noqa: S102  (the project's own page)
    assert (folder / "report.html").is_file() == (name == "docs/python.md")
