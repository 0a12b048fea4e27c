"""``-f text``: the answer on the first line, then what grew, then the rest. Trace text goes through ``plain.clean``."""

from __future__ import annotations

import textwrap

from advisor.report import Options
from advisor.report.gate.sections import VERDICT, counts, meant, sections, told
from advisor.report.plain import clean
from advisor.results.judgement import Judgement

_COLOR = {"passed": "32", "failed": "1;31", "inconclusive": "33"}


def render(judgement: Judgement, options: Options) -> str:
    """The judgement as a person reads it in a terminal or a log."""
    word = VERDICT[judgement.verdict]
    if options.color:
        word = f"\x1b[{_COLOR[judgement.verdict]}m{word}\x1b[0m"
    lines = [f"{word}: {clean(judgement.headline)}"]
    if options.verbosity < 0:
        return "\n".join([*lines, *_update(judgement)]) + "\n"
    against = f" against {judgement.baseline}" if judgement.baseline else ""
    label = f" ({judgement.workload})" if judgement.workload else ""
    lines += [clean(f"{', '.join(judgement.traces)}{against}{label}"), counts(judgement)]
    for section in sections(judgement):
        if section.folded and options.verbosity < 1:
            if section.heading != "The same":
                lines += ["", f"{section.heading}: " + ", ".join(clean(check.name) for check in section.checks)]
            continue
        lines += ["", section.heading]
        notes = {check.note for check in section.checks}
        if section.heading == "No answer, and does not count" and len(notes) == 1 and options.verbosity < 1:
            names = ", ".join(check.name for check in section.checks)
            lines += _wrapped(clean(f"{names}: {''.join(notes)}"), options.width)
            continue
        for check in section.checks:
            lines += _wrapped(clean(told(check)), options.width)
    for reason in judgement.incomparable:
        lines += ["", *_wrapped(f"not alike: {clean(reason)}", options.width)]
    update = _update(judgement)
    return "\n".join([*lines, *([""] if update else []), *update]) + "\n"


def _update(judgement: Judgement) -> list[str]:
    return [f"{meant(judgement)}: {clean(judgement.update)}"] if judgement.update else []


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
