"""``advisor rules``: list and show the rules; what writes and checks them is in ``authoring``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import completion, options
from advisor.cli.authoring import check, new, test
from advisor.cli.terminal import put, width
from advisor.counting import counted
from advisor.errors import UsageError, nearest

if TYPE_CHECKING:
    from advisor.rulebook import Rule


@click.group("rules")
def command() -> None:
    """List, explain, check, test and write rules."""


@command.command("list", short_help="List the rules by category.")
@options.catalogue
@click.option("-f", "--format", "form", type=click.Choice(["text", "json"]), default="text", help="[text]")
def list_(catalogue: options.Catalogue, form: str) -> None:
    """List the rules by category, each with its title; in JSON also with confidence, needs and limits."""
    rules = sorted(catalogue.rules(catalogue.settings()).rules, key=lambda rule: rule.id)
    if form == "json":
        import msgspec

        put(msgspec.json.format(msgspec.json.encode([summary(rule) for rule in rules]), indent=2) + b"\n")
        return
    put(
        "\n".join(
            [*_listed(rules, width()), "", f"{counted(len(rules), 'rule')}; advisor rules show RULE explains one", ""]
        ).encode()
    )


def _listed(rules: Sequence[Rule], wide: int) -> list[str]:
    """Return the rules with their titles beside them, within *wide* columns; below them where an id is long."""
    from advisor.report.plain import clean, wrap

    first = min(2 + max((len(rule.id) for rule in rules), default=0), max(24, 2 * wide // 5))
    lines = []
    for rule in rules:
        name, title = clean(rule.id), wrap(clean(_title(rule)), wide - first)
        if len(name) > first - 2:
            lines.append(name)
            name = ""
        lines += [f"{name if not at else '':<{first}}{part}" for at, part in enumerate(title)]
    return lines


def _title(rule: Rule) -> str:
    """Return the title, with an ellipsis where a figure of the trace goes."""
    return re.sub(r"\{\w+(?::[^}]*)?\}", "…", rule.title)


def summary(rule: Rule) -> dict[str, Any]:
    """Return a rule in a few fields, for ``rules list -f json``."""
    return {
        "id": rule.id,
        "title": rule.title,
        "category": rule.category,
        "confidence": rule.confidence,
        "needs": list(rule.needs),
        "frame": rule.match.frame,
        "limits": {
            name: {"value": limit.value, "unit": limit.unit, "basis": limit.basis}
            for name, limit in rule.limits.items()
        },
    }


@command.command("show", short_help="Explain one rule: why, when, limits, fix.")
@click.argument("rule_id", metavar="RULE", shell_complete=completion.rules)
@options.catalogue
def show(rule_id: str, catalogue: options.Catalogue) -> None:
    """Explain one rule: why it matters, when it fires, with which limits and on what basis, and the fix."""
    rules = {rule.id: rule for rule in catalogue.rules(catalogue.settings()).rules}
    if rule_id not in rules:
        raise UsageError(f'no rule "{rule_id}"{nearest(rule_id, rules)}. List them: advisor rules list.')
    put(explain(rules[rule_id], width()).encode())


def explain(rule: Rule, wide: int) -> str:
    """Return a rule's page; every page has the same headings in the same order."""
    from advisor.report.plain import clean_lines

    needs = ", ".join(rule.needs) or "nothing special"
    lines = [_one_line(_title(rule)), f"{_one_line(rule.id)} · {rule.confidence} · needs {needs}"]

    def section(heading: str, body: Sequence[str]) -> None:
        if any(line.strip() for line in body):
            lines.extend(["", heading, *("  " + line if line else "" for line in body)])

    section("Why it matters", _prose(rule.why, wide - 2))
    section("More", _prose(rule.more, wide - 2))
    section("When it fires", _condition(rule))
    section(
        "Limits",
        [
            _one_line(f"${name} = {_figure(limit.value)} {limit.unit}: {limit.basis}")
            for name, limit in rule.limits.items()
        ],
    )
    section("Levels", _levels(rule))
    variants = rule.variants
    for place, fix in enumerate((fix.filled({}) for fix in variants), 1):
        of = f" {place} of {len(variants)}" if len(variants) > 1 else ""
        effort = f" ({fix.effort})" if fix.effort else ""
        section(f"The fix{of}", _prose(fix.title + effort, wide - 2))
        section("Shown of programs where", [_one_line(fix.given)])
        section("Shown where most rows are", [_one_line(fix.rows)])
        section("Before", clean_lines(fix.before))
        section("After", clean_lines(fix.after))
        section("Caveat", _prose(fix.caveat, wide - 2))
        section("How to verify", _prose(fix.verify, wide - 2))
    section("Settings that it says", list(dict.fromkeys(shown.name for shown in rule.settings)))
    section("References", [_one_line(f"{reference.title}: {reference.url}") for reference in rule.references])
    section("File", [_one_line(str(rule.path))])
    return "\n".join(lines) + "\n"


def _condition(rule: Rule) -> list[str]:
    match = rule.match
    parts = [
        ("of traces where", rule.given),
        ("when", match.when),
        ("for rows of", match.frame),
        ("where", match.where),
        ("having", match.having),
    ]
    return [f"{label:<16}{_one_line(text)}" for label, text in parts if text]


def _levels(rule: Rule) -> list[str]:
    if rule.severity:
        return [f"always {rule.severity}: a risk, whatever it costs"]
    return [f"{name:<8}from {100 * share:g} % of the time" for name, share in rule.levels.items()]


def _figure(value: float | str) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _one_line(text: str) -> str:
    from advisor.report.plain import clean

    return " ".join(clean(text).split())


def _prose(text: str, wide: int) -> list[str]:
    from advisor.report.plain import wrap

    lines: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        lines += [""] * bool(lines)
        lines += wrap(_one_line(paragraph), max(20, wide))
    return lines


for _other in (check, test, new):
    command.add_command(_other)
