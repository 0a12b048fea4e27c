"""``-f markdown``: a comment for a pull request, or the summary of a job. Trace text is escaped: it is data."""

from __future__ import annotations

import re

from advisor.report import Options
from advisor.report.gate.sections import VERDICT, counts, meant, sections, told
from advisor.report.plain import clean
from advisor.results.judgement import Check, Judgement

_SIGN = {"passed": "✅", "failed": "❌", "inconclusive": "❔"}
_SPECIAL = re.compile(r"([\\`*_\[\]|~$#])")
# Marks the comment, so that a job can find it and renew it instead of adding another.
MARK = "<!-- advisor-gate -->"


def render(judgement: Judgement, options: Options) -> str:
    """The judgement with what counts open and the rest folded away."""
    parts = [MARK, f"### {_SIGN[judgement.verdict]} advisor gate: {VERDICT[judgement.verdict].lower()}"]
    parts.append(f"**{escaped(judgement.headline)}**")
    label = f" · workload {escaped(judgement.workload)}" if judgement.workload else ""
    parts.append(f"{escaped(counts(judgement))}{label}")
    parts += [f"- not alike: {escaped(reason)}" for reason in judgement.incomparable]
    for section in sections(judgement):
        if section.folded and options.verbosity < 1 and section.heading == "The same":
            continue
        body = "\n".join(_line(check) for check in section.checks)
        if section.heading in ("Regressions", "Inconclusive"):
            parts.append(f"#### {section.heading}\n\n{body}")
        else:
            heading = f"{section.heading} ({len(section.checks)})"
            parts.append(f"<details><summary>{heading}</summary>\n\n{body}\n\n</details>")
    if judgement.update:
        parts.append(f"{meant(judgement)}:\n\n{_code(judgement.update)}")
    return "\n\n".join(parts) + "\n"


def _line(check: Check) -> str:
    return f"- {escaped(told(check))}"


def escaped(text: str) -> str:
    """*text* as Markdown shows it literally: no markup, no HTML, no link, and nobody is notified."""
    text = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\1", text)
    return text.replace("@", "@<!-- -->").replace("://", ":<!-- -->//").replace("www.", "www<!-- -->.")


def _code(text: str) -> str:
    """A block of code that nothing in *text* can close."""
    text = clean(text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"
