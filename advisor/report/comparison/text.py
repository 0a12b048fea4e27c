"""``-f text``: the step first, then its causes, the findings, the fixes' claims, and what ran. Trace text is cleaned."""

from __future__ import annotations

import textwrap

from advisor.report import Options
from advisor.report.comparison.words import KINDS, TURNS, cost, difference, figure, moved, place, side
from advisor.report.plain import clean, pad, shorten
from advisor.results.comparison import Comparison


def render(comparison: Comparison, options: Options) -> str:
    """The comparison as a person reads it."""
    lines = [clean(comparison.headline)]
    if options.verbosity < 0:
        return lines[0] + "\n"
    for word, given in (("before", comparison.before), ("after", comparison.after)):
        lines.append(f"  {word:6}  {clean(given.path)}: {clean(side(given))}")
    lines += [f"  with care: {clean(reason)}" for reason in comparison.unlike]
    lines += ["", "Where a step goes, on average"]
    for shift in comparison.causes:
        row = [pad(figure(value, "ms"), 12, right=True) for value in (shift.before, shift.after)]
        lines.append(f"  {pad(clean(shift.name), 15)}{''.join(row)}  {difference(shift)}")
    lines += ["", "Figures a step"]
    for shift in comparison.metrics:
        row = [pad(figure(value, shift.unit), 14, right=True) for value in (shift.before, shift.after)]
        told = {"worse": "worse", "better": "better", "same": "", "inconclusive": shift.note}[shift.outcome]
        lines.append(f"  {pad(clean(shift.name), 25)}{''.join(row)}  {clean(told)}".rstrip())
    for turn, heading in TURNS.items():
        found = [turned for turned in comparison.findings if turned.turn == turn]
        lines += ["", f"{heading}"] if found else []
        for turned in found:
            parts = [turned.title, cost(turned), place(turned), turned.rule]
            lines += _wrapped("; ".join(clean(part) for part in parts if part), options.width)
    if comparison.claims:
        lines += ["", "What the fixes promise"]
        for claim in comparison.claims:
            said = f"{claim.answer.upper()}: {claim.fix} ({claim.rule}): “{claim.verify}”; {claim.because}"
            lines += _wrapped(clean(said), options.width)
    for kind, heading in KINDS.items():
        items = [item for item in comparison.items if item.kind == kind]
        lines += ["", f"{heading} that are not as they were"] if items else []
        for item in items:
            name = clean(item.name) + (f" {clean(item.shape)}" if item.shape else "")
            lines += [f"  - {shorten(name, options.width - 4)}", f"      {moved(item)}"]
        if comparison.hidden.get(kind):
            lines.append(f"  … and {comparison.hidden[kind]} more that changed less")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
