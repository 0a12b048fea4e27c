"""Damaged rules, of those that ship and of a user's own: loaded, explained, run over a trace that proves them, and reported."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import advisor
from advisor import rulebook
from advisor.errors import RuleError
from advisor.rulebook import Rule
from fuzz import checks, documents
from fuzz.inputs import edited, encode
from fuzz.values import SECRET
from fuzz.world import Files, World

TRACE = "trace.json"
_COMMANDED = 0.04
_OTHERS = re.compile(r"^(?:yields_to|gone_with|formerly|replaces) *= *(?:\[[^\]]*\]|\S+).*\n", re.MULTILINE)
_ID = re.compile(r'^id *= *"[^"]*"', re.MULTILINE)
CONDITIONS: list[Any] = [
    *[
        "true",
        "false",
        "NULL",
        "1",
        "1 = 1; DROP TABLE kernels",
        "read_text('/etc/passwd') <> ''",
        "(" * 3000,
        "NOT " * 2000 + "true",
    ],
    *[
        "dur_ns / 0 > 1",
        "1/0",
        "sum(dur_ns)",
        "sum(sum(dur_ns)) > 1",
        "(SELECT 1)",
        "EXISTS (SELECT * FROM duckdb_secrets())",
    ],
    *[
        "dur_ns > $nothing",
        "dur_ns > $min_ns::VARCHAR",
        "CAST(name AS BIGINT) > 1",
        "repeat('a', 1000000000) = ''",
        "dur_ns * 9e300 > 1",
    ],
    *[
        "regexp_matches(name, '(a+)+$')",
        "regexp_matches(name, '[')",
        "dur_ns * 9223372036854775807 > 1",
        "name || name || name = ''",
    ],
    *[
        "name LIKE '%" + "_%" * 500 + "'",
        "getenv('HOME') <> ''",
        "pi() > 3",
        "random() > 0.5",
        "now() IS NULL",
        "window_ns",
        "'x'",
    ],
    *[
        "dur_ns IN (" + ", ".join(map(str, range(3000))) + ")",
        "CASE " + "WHEN true THEN false " * 500 + "END",
        "-- x",
        "/*",
        "\0",
    ],
    *[
        "dur_ns BETWEEN 1 AND",
        "count(*) OVER ()",
        "list_sum(range(100000000)) > 1",
        "name SIMILAR TO '(x*)*y'",
        "dur_ns ** dur_ns > 1",
    ],
    *[
        "name = 'x' COLLATE de",
        "{'a': 1}.a = 1",
        "[1][1] = 1",
        "COLUMNS(*) > 1",
        "* ",
        "kernels.dur_ns > 1",
        "dur_ns > ALL (SELECT 1)",
    ],
    *[
        "max(dur_ns) FILTER (WHERE true) > 1",
        "format('{:>999999999}', 1) = ''",
        "printf('%999999999d', 1) = ''",
        "lpad('x', 999999999, 'y') = ''",
    ],
]
RUNNABLE = [
    *[
        "true",
        "dur_ns >= 0",
        "dur_ns * 1e300 * 1e300 > 1",
        "dur_ns * 9223372036854775807 > 1",
        "dur_ns / 0 > 1",
        "count(*) >= 1",
    ],
    *[
        "sum(dur_ns) * 1e308 > 1",
        "name = name",
        "length(name) > 0",
        "count(*) > -1",
        "dur_ns - 9223372036854775807 < 0",
        "1e400 > 1",
    ],
    *[
        "sum(dur_ns) / 0 AS x",
        "sum(dur_ns) * 1e308 * 10 AS x",
        "name",
        "max(name)",
        "min(dur_ns) % 0 AS x",
        "0 / 0.0 AS x",
        "-1e308 * 10 AS x",
    ],
    *[
        "CAST(max(dur_ns) AS TINYINT) AS x",
        "count(*) AS n",
        "count(*) AS n, 1",
        "ln(sum(dur_ns) * 0) AS x",
        "sqrt(-1 - count(*)) AS x",
    ],
]
_VALUES: list[Any] = [
    *CONDITIONS,
    *CONDITIONS,
    *[
        "kernels",
        "ops",
        "calls",
        "copies",
        "steps",
        "collectives",
        "trace",
        "arrivals",
        "remove",
        "hide",
        "scale",
        "merge",
        "capture",
    ],
    *[
        "certain",
        "likely",
        "{idle_share:.0%}",
        "{x!r:>100000}",
        "{",
        "$x",
        "note",
        "high",
        "gpu",
        ["gpu", "host"],
        ["nothing"],
    ],
    *[
        0.0,
        1.0,
        0.5,
        {"value": 1, "unit": "ns", "basis": "x"},
        {"value": 1e308, "unit": "", "basis": ""},
        [{}],
        "1e5",
        "x=(" * 50,
    ],
]


FREE = [
    *[
        ("title",),
        ("why",),
        ("more",),
        ("fix", "title"),
        ("fix", "effort"),
        ("fix", "caveat"),
        ("fix", "verify"),
        ("references", "", "title"),
    ],
    *[
        ("references", "", "url"),
        ("limits", "*", "value"),
        ("limits", "*", "value"),
        ("limits", "*", "unit"),
        ("limits", "*", "basis"),
    ],
    *[
        ("levels", "*"),
        ("replay", "low"),
        ("replay", "high"),
        ("replay", "basis"),
        ("settings", "", "because"),
        ("since",),
    ],
]


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A rule that stands for itself, damaged as text or in what it says, and a trace that proves it."""
    stem, text = rng.choice(world.rules)
    name = stem.replace("_", "-")
    text = _ID.sub(f'id = "team/{name}"', _OTHERS.sub("", text), count=1)
    draw, damage = rng.random(), "text"
    content = text.encode()
    if draw < 0.75:
        damage = "words" if draw < 0.45 else "structure"
        document = tomllib.loads(text)
        document = documents.reworded(rng, document, FREE) if draw < 0.45 else documents.damaged(rng, document, _VALUES)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            _condition(rng, document)
        content = documents.toml(document)
    elif draw < 0.85:
        damage, content = "lines", documents.lines_moved(rng, text).encode()
    if damage == "text" or rng.random() < 0.05:
        content = edited(rng, content, documents.TOML_TOKENS)
    content = content.replace(SECRET.encode(), b"FUZZ-WORD")  # a rule shows the words of its author as they are
    roots = world.seeds_of.get(stem) or [root for _, root in world.recorded[:1]]
    return f"{damage}: {stem}", {f"rules/team/{name}.toml": content, TRACE: encode(rng.choice(roots), Random(0))}


def _condition(rng: Random, document: Any) -> None:
    """Put a condition that is another, or an attack, where rules have one."""
    condition = rng.choice(rng.choice([CONDITIONS, RUNNABLE]))
    match = document.get("match")
    if rng.random() < 0.2 or not isinstance(match, dict):
        document["given"] = condition
    elif rng.random() < 0.25:
        match["evidence"] = [rng.choice(rng.choice([CONDITIONS, RUNNABLE])) for _ in range(3)]
    else:
        match[rng.choice(["where", "where", "when", "having"])] = condition


def tried(folder: Path, rng: Random, world: World) -> str:
    """Check the rule; one that loads is explained, run over its trace, and reported."""
    path = next((folder / "rules" / "team").iterdir())
    if rng.random() < _COMMANDED:
        checks.commanded(folder, "rules", "check", "rules")
        checks.commanded(folder, "analyze", TRACE, "--rules", "rules", "--only", f"team/{path.stem}")
        return "analyzed"
    try:
        book = rulebook.load([folder / "rules"])
    except RuleError as error:
        checks.complaint(error, path)
        return "refused"
    explained(book.rules)
    analysis = advisor.analyze(advisor.read(str(folder / TRACE)), book, views=True, samples=True)
    for failure in analysis.verdicts.error:  # a condition may overflow, or take too long; that is said, and is no more
        checks.need(len(failure.message) < 900, f"a failure of {len(failure.message)} characters")
    checks.figures(analysis)
    checks.reports(analysis)
    return "analyzed"


def explained(rules: tuple[Rule, ...]) -> None:
    """Check the words of `advisor rules list` and `show` on each."""
    from advisor.cli.rules import explain, summary

    for rule in rules:
        checks.texts({"text": explain(rule, 80).encode()})
        checks.need(
            all(checks.math.isfinite(number) for _, number in checks.numbers(summary(rule))), "a limit without end"
        )
