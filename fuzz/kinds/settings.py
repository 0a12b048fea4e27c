"""Damaged settings, as advisor.toml and in pyproject.toml: loaded, and used in an analysis and a judgement."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

from advisor import config
from advisor.errors import AdvisorError
from advisor.gating import baseline, run
from advisor.results.decision import judged, reaching
from fuzz import checks, documents
from fuzz.inputs import edited
from fuzz.world import Files, World

TRACE, BASELINE, RULE = "trace.json", "baseline.json", "mine/team/example.toml"
_ANALYZED, _COMMANDED = 0.2, 0.04
FULL = """
rules    = ["mine"]
only     = ["precision/*", "kernels/*", "team/example"]
skip     = ["kernels/*"]
fail_on  = "medium"
library  = ["ourlib", "vendored"]
cache_gb = 0.5

[limits."transfer/pageable-copy"]
min_bytes = 4096

[gate]
workload = "resnet50"
assert   = ["summary.gpu_busy_share >= 0.1", "metrics.step_ms < 50", "findings.high == 0", "rules.transfer/pageable-copy <= 5"]

[gate.levels]
"kernels/*" = "warn"
"step_ms"   = "error"

[gate.tolerance]
step_ms      = 0.05
gpu_idle_ms  = 0.1

[[gate.waivers]]
rule   = "transfer/*"
until  = 2027-01-31
reason = "the loader is being rewritten"
"""
SHORT = """
skip = ["profile/*"]
[gate]
assert = ["summary.step_ms <= 4.5"]
[gate.levels]
"*" = "warn"
"""
_VALUES: list[Any] = [
    *[
        "*",
        "[",
        "precision/*",
        "transfer/pageable-copy",
        "transfer/*",
        "step_ms",
        "no/such",
        "mine",
        ".",
        "..",
        "/",
        "error",
        "off",
    ],
    *[
        "summary.gpu_busy_share >= 0.1",
        "metrics.step_ms < 1e-9",
        "findings.high == 0",
        "rules.no/such < 1",
        "x >= 1",
        "summary. > 1",
    ],
    *[
        "summary.step_ms <= " + "9" * 400,
        "metrics.step_ms >= -0",
        "low",
        "high",
        0.0,
        1e-300,
        1e300,
        {"min_bytes": 1},
        {"min_bytes": "x"},
    ],
    *[
        {"min_bytes": 1e308},
        {"rule": "*", "until": "x", "reason": "r"},
        [{"rule": "*"}],
        "2027-01-31",
        "\0",
        "mine/team/example.toml",
    ],
]


FREE = [
    *[
        ("gate", "workload"),
        ("gate", "waivers", "", "reason"),
        ("gate", "tolerance", "*"),
        ("cache_gb",),
        ("limits", "*", "*"),
    ],
    *[("gate", "workload"), ("gate", "tolerance", "*")],
]


def make(rng: Random, world: World) -> tuple[str, Files]:
    """Settings, damaged as text or in what they say."""
    draw, damage = rng.random(), "text"
    text = FULL if rng.random() < 0.5 else SHORT
    project = rng.random() < 0.4
    if draw < 0.65:
        damage = "structure"
        document = tomllib.loads(text)
        document = documents.reworded(rng, document, FREE) if draw < 0.3 else documents.damaged(rng, document, _VALUES)
        content = documents.toml({"tool": {"advisor": document, "other": {"x": 1}}} if project else document)
    else:
        if draw < 0.8:
            damage, text = "lines", documents.lines_moved(rng, text)
        if project:
            text = "[project]\nname = 'x'\n[tool.advisor]\n" + text.replace("[gate", "[tool.advisor.gate").replace(
                "[limits", "[tool.advisor.limits"
            ).replace("[[tool.advisor.gate", "[[tool.advisor.gate")
        content = text.encode()
    if damage == "text" or rng.random() < 0.05:
        content = edited(rng, content, documents.TOML_TOKENS)
    name = "pyproject.toml" if project else "advisor.toml"
    rule = dict(world.rules)["example"].encode()
    return f"{damage}: {name}", {name: content, RULE: rule, TRACE: world.trace, BASELINE: world.baseline}


def tried(folder: Path, rng: Random, world: World) -> str:
    """Load them; what loads chooses rules, analyzes, and judges."""
    path = next(file for name in ("advisor.toml", "pyproject.toml") if (file := folder / name).exists())
    if rng.random() < _COMMANDED:
        command = rng.choice([("analyze", TRACE), ("gate", TRACE, "-b", BASELINE), ("rules", "list"), ("gate", TRACE)])
        checks.commanded(folder, *command, "--config", path.name)
        return "analyzed"
    notes: list[str] = []
    try:
        settings = config.load(path)
        if not settings.limits and not settings.rules:
            book = world.book
        else:
            book = run.rules(settings)
        traces: Any = str(folder / TRACE) if rng.random() < _ANALYZED else world.analysis
        base = baseline.load(folder / BASELINE)
        answer = run.judge_traces(traces, settings, book, base, BASELINE, note=notes.append)
    except AdvisorError as error:
        checks.complaint(error, path, folder / RULE)
        return "refused"
    checks.judgement(answer, world.schemas.get("judgement") if rng.random() < _ANALYZED else None)
    checks.need(all("\n" not in text for text in notes), f"a note of several lines: {notes}"[:600])
    if settings.fail_on is not None:
        reaching(judged(world.analysis), settings.fail_on)
    return "analyzed"
