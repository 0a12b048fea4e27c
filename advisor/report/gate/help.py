"""Help of what the gate checks, for readers that show a result without the advisor at hand: what it is, why, and the fix."""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor import rulebook
from advisor.report.plain import clean, clean_lines
from advisor.results.judgement import Check
from advisor.rulebook import Rule
from advisor.views.metrics import METRICS, Metric


@dataclass(frozen=True)
class Help:
    """Help of one check: in a line, in a paragraph, in full, and the page on it.

    ``page`` is a path below the root of the advisor's repository; empty for a rule of the user's own, which has none.
    """

    short: str
    full: str
    sections: tuple[tuple[str, str], ...]
    page: str = ""

    @property
    def text(self) -> str:
        """The help without markup."""
        return "\n\n".join(f"{heading}\n{_plain(body)}" if heading else body for heading, body in self.sections)

    @property
    def markdown(self) -> str:
        """The help in Markdown."""
        return "\n\n".join(f"**{heading}**\n\n{body}" if heading else body for heading, body in self.sections)


def of(check: Check) -> Help:
    """Return the help of a check."""
    if check.kind == "metric" and check.name in METRICS:
        return _metric(METRICS[check.name])
    if check.kind == "rule":
        rule = next((rule for rule in _shipped() if rule.id == check.name), None)
        return _rule(rule) if rule is not None else _own(check)
    return _assertion(check)


def _shipped() -> tuple[Rule, ...]:
    return rulebook.load([rulebook.builtin_rules_dir()]).rules


def _rule(rule: Rule) -> Help:
    fix = rule.variants[-1].filled({})
    sections = [("", _prose(rule.why)), ("Fix", clean(fix.title) + ".")]
    sections += [(word, _code(code)) for word, code in (("Before", fix.before), ("After", fix.after)) if code.strip()]
    sections += [
        (word, _prose(text)) for word, text in (("Caveat", fix.caveat), ("How to verify", fix.verify)) if text.strip()
    ]
    sections.append(("More", f"advisor rules show {rule.id}"))
    title = re.sub(r"\{\w+(?::[^}]*)?\}", "…", rule.title)
    why = _prose(rule.why)
    return Help(clean(title), why.partition("\n\n")[0], tuple(sections), f"docs/rules/{rule.id}.md")


def _own(check: Check) -> Help:
    short = clean(check.title or check.name)
    return Help(
        short, f"{short}: a rule of your own.", (("", short), ("More", f"advisor rules show {clean(check.name)}"))
    )


def _metric(metric: Metric) -> Help:
    unit = metric.unit or "count"
    meaning = f"share {metric.meaning}" if unit == "share" else metric.meaning
    full = (
        f"{metric.name} is a figure of each step: {meaning}"
        + ("." if unit == "share" else f" ({unit}).")
        + f" It may grow by {100 * metric.margin.tolerance:g} % of the baseline: {metric.margin.basis}."
    )
    if unit == "share":
        full = full.replace("may grow", "may change")
    ways = (
        "Find what grew: advisor compare BASELINE CANDIDATE. If the change is meant, write the baseline anew with "
        "advisor baseline, with its reason."
    )
    return Help(f"Regression of {metric.name}: {meaning}", full, (("", full), ("What to do", ways)), "docs/gate.md")


def _assertion(check: Check) -> Help:
    full = "An assertion of the project's settings (assert in [tool.advisor.gate]): it needs no baseline."
    short = f"Assertion: {clean(check.title or check.name)}"
    return Help(short, full, (("", f"{short}. {full}"),), "docs/gate.md")


def _prose(text: str) -> str:
    """Return paragraphs, each on one line."""
    return "\n\n".join(" ".join(clean(part).split()) for part in re.split(r"\n\s*\n", text.strip()))


def _code(text: str) -> str:
    return "\n".join(["```python", *clean_lines(text.strip("\n")), "```"])


def _plain(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("```"))
