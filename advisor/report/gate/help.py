"""Help of what the gate checks, for readers that show a result without the advisor at hand: what it is, why, and the fix."""

from __future__ import annotations

import re

from msgspec import Struct

from advisor import rulebook
from advisor.report.markdown import plain
from advisor.report.plain import clean, clean_lines
from advisor.results.judgement import Check
from advisor.rulebook import Rule
from advisor.views.metrics import METRICS, Metric


class Help(Struct, frozen=True):
    """Help of one check: in a sentence, in a paragraph, and in full."""

    short: str
    full: str
    sections: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The help without markup."""
        return "\n\n".join(f"{heading}\n{_plain(body)}" if heading else body for heading, body in self.sections)

    @property
    def markdown(self) -> str:
        """The help in Markdown."""
        return "\n\n".join((f"**{heading}**\n\n" if heading else "") + _marked(body) for heading, body in self.sections)


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
    sections += [("Background", _prose(rule.more))] if rule.more.strip() else []
    sections.append(("More", f"advisor rules show {rule.id}"))
    title = re.sub(r"\{\w+(?::[^}]*)?\}", "…", rule.title)
    return Help(_sentence(title), _prose(rule.why).partition("\n\n")[0], tuple(sections))


def _sentence(text: str) -> str:
    return clean(text).rstrip(".") + "."


def _own(check: Check) -> Help:
    short = _sentence(check.title or check.name)
    full = f"{short} This is a rule of the project's own."
    return Help(short, full, (("", full), ("More", f"advisor rules show {clean(check.name)}")))


def _metric(metric: Metric) -> Help:
    share = metric.unit == "share"
    meaning = f"share {metric.meaning}" if share else metric.meaning
    kind = "share" if share else f"figure in {metric.unit}" if metric.unit else "count"
    full = (
        f"{metric.name} is a {kind} of each step: {meaning}. It may {'change' if share else 'grow'} by "
        f"{100 * metric.margin.tolerance:g} % of the baseline: {metric.margin.basis}."
    )
    ways = (
        "Find what grew: advisor compare BEFORE AFTER. If the change is meant, write the baseline anew with "
        "advisor baseline, and its reason."
    )
    return Help(f"{metric.name} ({meaning}) has regressed.", full, (("", full), ("What to do", ways)))


def _assertion(check: Check) -> Help:
    full = "The project's settings state it (assert in [tool.advisor.gate]); it needs no baseline."
    short = f"The assertion {clean(check.title or check.name)} does not hold."
    return Help(short, full, (("", f"{short} {full}"),))


def _prose(text: str) -> str:
    """Return paragraphs, each on one line."""
    return "\n\n".join(" ".join(clean(part).split()) for part in re.split(r"\n\s*\n", text.strip()))


def _code(text: str) -> str:
    return "\n".join(["```python", *clean_lines(text.strip("\n")), "```"])


def _plain(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("```"))


def _marked(text: str) -> str:
    """Return code as it is, and prose so that nothing of it is markup."""
    return text if text.startswith("```") else "\n\n".join(plain(part) for part in text.split("\n\n"))
