"""``what_if``: the step with some fixes together."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta

from advisor.errors import UsageError, nearest
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Short, Tool, Trace
from advisor.mcp.workspace import Workspace


class WhatIf(Arguments, frozen=True, kw_only=True):
    """The fixes to price together."""

    trace: Trace
    rules: Annotated[
        list[Short],
        Meta(
            min_length=1,
            max_length=50,
            description="Rules or globs on them, such as 'precision/*', or numbers of findings.",
        ),
    ]


def run(workspace: Workspace, arguments: WhatIf) -> Answer:
    """Predict the step with the fixes of the chosen findings together."""
    from advisor.report import savings

    findings = workspace.analysis(arguments.trace).findings
    known = [finding.rule for finding in findings]
    chosen: dict[str, None] = {}
    for name in arguments.rules:
        fitting = [rule for number, rule in enumerate(known, 1) if name == str(number) or fnmatchcase(rule, name)]
        if not fitting:
            listed = ", ".join(known) or "none"
            raise UsageError(f'"{name}" fits no finding of this trace{nearest(name, known)}. Its findings: {listed}.')
        chosen.update(dict.fromkeys(fitting))
    analysis = workspace.asked(arguments.trace, list(chosen))
    if analysis.what_if is None:
        raise UsageError(f"{', '.join(chosen)}: none of these findings has a price; explain says why.")
    step = analysis.what_if
    lines = [f"with the fixes of {', '.join(step.rules)}: {savings.all_fixes(analysis.summary, [step])}"]
    lines += [f"{rule}: has no price, and is not counted" for rule in chosen if rule not in step.rules]
    if step.changes_training:
        lines.append("changes what is computed: batch size or precision")
    return Answer("\n".join(lines), "Predicted by replaying the trace; measure with a new recording, and compare.")


TOOL = Tool(
    name="what_if",
    title="The step with some fixes",
    description="Predict the step time with the fixes of some findings together, as a range from cautious to hopeful.",
    arguments=WhatIf,
    run=run,
)
