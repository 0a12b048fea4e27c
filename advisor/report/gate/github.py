"""``-f github``: annotations of a GitHub job, at the lines that grew. Trace text is escaped: it cannot end a command."""

from __future__ import annotations

from advisor.report import Options
from advisor.report.documents.judgement import VERDICT, lines_of
from advisor.report.plain import clean
from advisor.results.judgement import Check, Judgement

_MOST = 10
"""GitHub shows ten annotations a step of each kind, and drops the rest."""


def render(judgement: Judgement, _options: Options) -> str:
    """Write errors first, then warnings; a notice says the verdict."""
    errors = [c for c in judgement.checks if c.counts and c.outcome == "regression"]
    warnings = [c for c in judgement.checks if c.outcome == "regression" and not c.counts]
    unsaid = [c for c in judgement.checks if c.counts and c.outcome == "inconclusive"]
    lines = [_command("error", check, judgement) for check in errors[:_MOST]]
    lines += [_command("warning", check, judgement) for check in [*unsaid, *warnings][:_MOST]]
    lines.append(
        f"::notice title={_property('advisor gate')}::{_data(f'{VERDICT[judgement.verdict]}: {judgement.headline}')}"
    )
    return "\n".join(lines) + "\n"


def _command(kind: str, check: Check, judgement: Judgement) -> str:
    properties = [f"title={_property(check.name)}"]
    place = next((place for place in check.where if place.file), None)
    if place is not None and place.file is not None:
        line = [f"line={place.line}"] if place.line and place.line > 0 else []
        properties = [f"file={_property(place.file)}", *line, *properties]
    return f"::{kind} {','.join(properties)}::{'%0A'.join(map(_data, lines_of(check, judgement)))}"


def _data(text: str) -> str:
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
