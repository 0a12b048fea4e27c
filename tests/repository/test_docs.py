"""Documents that show exactly what the program prints, and schemas that fit it. ``python docs/renew.py`` renews them."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner
from support.paths import ROOT

from advisor.cli import COMMANDS, main

README = ROOT / "README.md"


def test_every_command_stands_in_the_readme_and_exists() -> None:
    words = set(re.findall(r"(?:^|[`/])advisor ([a-z]+)\b(?!\.)", README.read_text(), re.MULTILINE))
    assert words == set(COMMANDS)
    for word in words:
        assert CliRunner().invoke(main, [word, "--help"]).exit_code == 0


def test_the_generated_pages_are_current() -> None:
    """Generated pages, and what commands print on the README and other pages; ``python docs/renew.py`` renews them."""
    import runpy

    wanted = dict(runpy.run_path(str(ROOT / "docs" / "renew.py"))["pages"]())
    stale = [
        str(path.relative_to(ROOT)) for path, text in wanted.items() if not path.is_file() or path.read_text() != text
    ]
    assert README in wanted
    assert "1 HIGH   DataLoader runs in the main process" in wanted[README]
    assert stale == []
    assert set((ROOT / "docs" / "rules").rglob("*.md")) <= set(wanted), "pages of rules that are gone"


def test_every_file_that_the_documents_name_exists() -> None:
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "sample_traces").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_rules_of_the_catalogue_fit_the_schema_for_editors() -> None:
    import json
    import tomllib

    import jsonschema

    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "rule.schema.json").read_text()))
    files = sorted((ROOT / "rules").rglob("*.toml"))
    assert len(files) > 30
    for file in files:
        rule = tomllib.loads(file.read_text())
        assert [error.message for error in schema.iter_errors(rule)] == []
        for broken in (
            rule | {"confidence": "sure"},
            rule | {"colour": 1},
            {k: v for k, v in rule.items() if k != "why"},
        ):
            assert not schema.is_valid(broken)


def test_the_settings_of_the_gates_page_fit_the_schema_for_editors() -> None:
    import json
    import tomllib

    import jsonschema

    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "config.schema.json").read_text()))
    page = (ROOT / "docs" / "gate.md").read_text()
    block = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    table = json.loads(json.dumps(tomllib.loads(block[1])["tool"]["advisor"], default=str))
    table |= {"rules": ["mine"], "fail_on": "high", "cache_gb": 10, "limits": {"a/b": {"c": 1, "d": "text"}}}
    assert [error.message for error in schema.iter_errors(table)] == []
    for broken in ({"fail_on": "hgh"}, {"colour": 1}, {"cache_gb": -1}, {"gate": {"tolerance": {"step": 0.1}}}):
        assert not schema.is_valid(table | broken)


def test_the_examples_on_the_settings_page_are_accepted(tmp_path: Path) -> None:
    from advisor import config, rulebook

    rules = {rule.id: rule for rule in rulebook.load([ROOT / "rules"]).rules}
    (tmp_path / "my_rules").mkdir()
    examples = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "settings.md").read_text(), re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        (tmp_path / "pyproject.toml").write_text(example)
        settings = config.load(tmp_path / "pyproject.toml")
        settings.require_fit(rules, gate=True)
        for rule, limits in settings.limits.items():
            assert set(limits) <= set(rules[rule].limits)
    assert settings.hardware.rates()["bf16"] == 989  # the second example's, in TFLOP/s


def test_every_setting_stands_on_the_settings_page() -> None:
    from advisor.config import ConfigFile

    page = (ROOT / "docs" / "settings.md").read_text()
    assert [name for name in ConfigFile.__struct_fields__ if f"| `{name}` |" not in page] == []


def test_every_exit_code_stands_on_the_settings_page() -> None:
    from advisor.errors import AdvisorError, TraceError
    from advisor.interrupts import EXIT_INTERRUPTED

    page = (ROOT / "docs" / "settings.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert codes == {0, 1, AdvisorError.exit_code, TraceError.exit_code, 4, EXIT_INTERRUPTED}
