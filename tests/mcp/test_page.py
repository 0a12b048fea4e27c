"""``docs/agents.md`` and the skill: what they tell a client to start is a server, and what they name is there."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml
from support import agents

from advisor.cli import COMMANDS
from advisor.mcp import tools

PAGE = (agents.ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
SKILL = (agents.ROOT / "skills" / "advisor" / "SKILL.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """The commands that the page's settings and lines start."""
    (codex,) = (
        tomllib.loads(text)["mcp_servers"]["advisor"] for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    )
    (cursor,) = (
        json.loads(text)["mcpServers"]["advisor"] for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    )
    lines = re.findall(r"^(?:claude|codex) mcp add advisor -- (.+)$", PAGE, re.MULTILINE)
    assert len(lines) == 2
    return [[entry["command"], *entry["args"]] for entry in (codex, cursor)] + [line.split() for line in lines]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_what_clients_start_is_a_server(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from advisor.cli import main
    from advisor.cli import mcp as module

    agents.installed()
    from advisor.mcp import server

    started: list[Any] = []
    monkeypatch.setattr(server, "serve", started.append)
    assert command[0] == "advisor"
    result = CliRunner().invoke(main, command[1:])
    assert result.exit_code == 0, result.output
    assert module.command.name == "mcp"
    assert [workspace.allow_write for workspace in started] == [False]


def test_the_page_names_every_tool_prompt_and_resource() -> None:
    from advisor.mcp import prompts, resources

    for name in (
        *tools.NAMES,
        *(prompt.name for prompt in prompts.PROMPTS),
        *(entry.uri for entry in resources.RESOURCES),
    ):
        assert f"`{name}`" in PAGE, name


def test_the_skill_has_the_form_that_agents_load() -> None:
    _, head, body = SKILL.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == "advisor"  # as its folder
    assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"])
    assert 0 < len(fields["description"]) <= 1024
    assert len(body.splitlines()) < 500
    for command in re.findall(r"`advisor (\w+)", body):
        assert command in COMMANDS
    for tool in tools.NAMES:
        assert f"`{tool}`" in body


def test_the_published_score_is_of_these_questions_and_keys() -> None:
    folder = agents.ROOT / "benchmarks" / "questions"
    keys = json.loads((folder / "keys.json").read_text(encoding="utf-8"))
    results = {result["id"]: result for result in json.loads((folder / "results.json").read_text(encoding="utf-8"))}
    sets = [
        tomllib.loads((folder / name).read_text(encoding="utf-8"))["question"]
        for name in ("own.toml", "public.toml", "blind/questions.toml")
    ]
    first = json.loads((folder / "blind" / "first_try.json").read_text(encoding="utf-8"))
    questions = {question["id"]: question for part in sets for question in part}
    assert set(keys) == set(results) == set(questions)
    assert len(questions) >= 60
    assert len({question["trace"] for question in questions.values()}) >= 25
    assert sum(key is None for key in keys.values()) >= 12
    assert all(results[name]["key"] == key for name, key in keys.items())
    assert all("source" in question for question in sets[1])
    assert {result["id"] for result in first} == {question["id"] for question in sets[2]}
    assert sum(result["right"] for result in first) == 16  # as it was, whatever is mended since
    assert sum(result["right"] for result in results.values()) >= 0.95 * len(results)
    assert all(result["right"] for result in results.values() if result["key"] is None)
