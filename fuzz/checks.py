"""Properties that hold for any input: a report that is right in itself and shows nothing raw, or an error that users can act on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import advisor
from advisor.errors import AdvisorError, RuleError, TraceError
from advisor.frames import SCHEMAS
from advisor.report import FORMATS, Options, render
from advisor.results.analysis import Analysis
from advisor.results.judgement import Judgement
from advisor.results.several import Several
from advisor.rulebook import Rulebook
from advisor.trace import Trace
from fuzz.values import MARK, SECRET

# What steers a terminal or reorders a line, and lone surrogates. Line breaks part the lines of a report.
_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMAND = re.compile(r"^\s*::(?:error|set-output|add-mask|stop-commands)\b|##\[|##vso\[", re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")  # a span of code in Markdown, where nothing is markup
_LONGEST_ERROR = 600
EXITS = (0, 1, 2, 3, 4)
"""Exit codes that mean something; 70 is a bug."""
_NEAR = 1e-9


class Broken(AssertionError):
    """Something that must hold does not."""


def need(condition: bool, message: str) -> None:
    """Raise Broken with *message* where *condition* does not hold."""
    if not condition:
        raise Broken(message)


def read(path: Path) -> Trace | str:
    """The trace, accounted for to the ns; or why it was refused. Raises whatever is wrong.

    One in which nothing has a duration can be read and queried, and is refused where it would be judged.
    """
    try:
        trace = advisor.read(str(path))
        accounts(trace)
        if trace.is_timeless:
            advisor.analyze(trace)
            raise Broken("nothing has a duration, and yet it was judged")
    except TraceError as error:
        refusal(str(error), path)
        return str(error).removeprefix(f"{path}: ")
    return trace


def refusal(message: str, path: Path) -> None:
    """An error names the file, says what is wrong in a few words, and shows nothing raw."""
    need(message.startswith(f"{path}: "), f"an error that does not name the file: {message[:200]!r}")
    need(len(message) < len(str(path)) + _LONGEST_ERROR, f"an error of {len(message)} characters")
    need(not _STEERING.search(message), f"an error that steers the terminal: {message[:300]!r}")
    need(MARK not in message or "'" in message, f"an error that shows what it read, unquoted: {message[:300]!r}")
    need(SECRET not in message, f"an error that tells a secret: {message[:300]!r}")


def complaint(error: AdvisorError, *paths: Path) -> None:
    """Each line of an error names one of the files, or the setting at fault, and shows nothing raw."""
    lines = str(error).split("\n")
    if isinstance(error, RuleError):
        need(len(lines) == len(error.problems) + 1, f"a problem of several lines: {error.problems}"[:600])
        lines = [line.strip() for line in lines[1:]]
    for line in lines:
        path = next((path for path in paths if line.startswith(f"{path}: ")), None)
        need(path is not None, f"an error that does not name the file: {line[:300]!r}")
        need(len(line) < len(str(path)) + _LONGEST_ERROR, f"an error of {len(line)} characters: {line[:300]!r}")
        need(not _STEERING.search(line), f"an error that steers the terminal: {line[:300]!r}")
        quoted = "'" in line or '"' in line
        need(MARK not in line or quoted, f"an error that shows what it read, unquoted: {line[:300]!r}")


def commanded(folder: Path, *words: str) -> int:
    """The exit code of a command, which is none of a bug; what it prints is as clean as a report, and an error is one."""
    from contextlib import chdir

    from click.testing import CliRunner

    from advisor.cli import main

    with chdir(folder):
        done = CliRunner().invoke(main, words)
    need(done.exit_code in EXITS, f"advisor {words[0]} exits with {done.exit_code}: {done.stderr[-1500:]}")
    texts({"text": done.stdout_bytes})
    texts({"text": done.stderr_bytes})
    failed = done.exit_code in (2, 3)
    need(not failed or "advisor: error: " in done.stderr, f"exit {done.exit_code} of {words[0]} without an error")
    need("Traceback" not in done.stderr, f"a traceback: {done.stderr[-1500:]}")
    return done.exit_code


def accounts(trace: Trace) -> None:
    """Every ns of the window has one owner, and no step is longer than it."""
    ledger = trace.ledger
    owned = ledger.by_cause()
    need(all(ns >= 0 for ns in owned.values()), f"a cause of less than nothing: {owned}")
    need(sum(owned.values()) == ledger.counted_ns, "the causes do not add up")
    low, high = trace.context.recording.extent
    need(int(ledger.dur_ns.sum()) == high - low >= trace.window_ns, "the ledger is not the window, nor what holds it")
    need(trace.window_ns >= 0 and trace.span_ns >= 0, "a window of less than nothing")
    repr((trace.quality, trace.features, trace.gpu_expected, trace.whole_ms))


def analyzed(trace: Trace, rulebook: Rulebook) -> Analysis:
    """The analysis with all that reports ask for; every number in it is a number, and every share one of the whole."""
    analysis = advisor.analyze(trace, rulebook, views=True, samples=True)
    need(
        not analysis.verdicts.error, f"rules failed: {[(item.rule, item.message) for item in analysis.verdicts.error]}"
    )
    figures(analysis)
    return analysis


def figures(analysis: Analysis) -> None:
    """Every number in an analysis is a number, and every share one of the whole."""
    for field, number in numbers(analysis):
        need(math.isfinite(number), f"{field} is {number}")
    causes = analysis.summary.causes
    need(not causes or abs(sum(causes.values()) - 1) <= _NEAR, f"causes add up to {sum(causes.values())!r}")
    shares = [*causes.values(), *(finding.cost_share for finding in analysis.findings)]
    shares += [place.share for finding in analysis.findings for place in finding.where]
    shares += [
        share for share in (analysis.summary.gpu_busy_share, analysis.summary.tensor_core_share) if share is not None
    ]
    shares += analysis.summary.gpu_utilization.values()
    need(all(0 <= share <= 1 + _NEAR for share in shares), f"a share beyond the whole: {max(shares, default=0)!r}")
    savings(analysis)


def savings(analysis: Analysis) -> None:
    """The fixes return no more than there is, and the plan goes down."""
    whole_ms = analysis.summary.whole_ms
    saved = [finding.saving for finding in analysis.findings if finding.saving is not None]
    need(all(0 <= saving.low_ms <= saving.high_ms * (1 + _NEAR) for saving in saved), f"a saving upside down: {saved}")
    total = sum(saving.high_ms for saving in saved)
    need(total <= whole_ms * (1 + _NEAR) + _NEAR, f"fixes save {total!r} of {whole_ms!r} ms")
    for step in analysis.plan:
        low, high = step.step_ms_after["low"], step.step_ms_after["high"]
        need(0 <= low <= high * (1 + _NEAR) + _NEAR, f"a rung upside down: {step}")
        need(low <= step.step_ms_before * (1 + _NEAR) + _NEAR, f"a rung that goes up: {step}")
        need(high <= whole_ms * (1 + _NEAR) + _NEAR, f"a rung above the step of {whole_ms!r} ms: {step}")
    befores = [step.step_ms_before for step in analysis.plan if step.bound_by != "unpriced"]
    need(
        all(b <= a * (1 + _NEAR) + _NEAR for a, b in pairwise([whole_ms, *befores])), f"a plan that goes up: {befores}"
    )


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every float in *value*, and where it stands."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from numbers(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}[{str(key)[:40]}]")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item, f"{path}[]")


def frames(trace: Trace) -> None:
    """Every frame, as `advisor query` would ask for it."""
    for name, schema in SCHEMAS.items():
        frame = trace.frame(name)
        need(list(frame.columns) == [column.name for column in schema.columns], f"{name} lacks columns")


def reports(analysis: Analysis, schema: Any = None) -> None:
    """Every format: JSON comes back the same, and no name leaves its place in the others."""
    outputs = {name: render(name, analysis, Options()) for name in FORMATS}
    need(Analysis.from_json(outputs["json"]) == analysis, "the analysis does not come back from JSON")
    if schema is not None:
        schema.validate(msgspec.json.decode(outputs["json"]))
    texts(outputs)
    texts({"text": render("text", analysis, Options(verbosity=1))})


def texts(outputs: dict[str, bytes]) -> None:
    """Reports, by format, that show names as text and keep secrets."""
    for name, content in outputs.items():
        text = content.decode("utf-8")
        need(SECRET not in text, f"{name} tells a secret: {_around(text, SECRET)}")
        if name in ("html", "markdown", "junit"):
            bare = _CODE.sub("", text) if name == "markdown" else text
            need(MARK not in bare, f"{name} holds markup of a trace: {_around(bare, MARK)}")
        match = _STEERING.search(text)
        need(match is None, f"{name} steers the terminal: {match and _around(text, match[0])}")
        command = _COMMAND.search(text) if name in ("text", "markdown") else None
        need(command is None, f"{name} commands CI: {command and _around(text, command[0])}")


def together(document: Several) -> None:
    """Several traces in one report: each right in itself, in every format, and nothing raw in it, nor where it is redacted."""
    from advisor.report.redact import redact

    for analysis in document.traces:
        need(not analysis.verdicts.error, f"rules failed: {analysis.verdicts.error}"[:900])
        figures(analysis)
    for field, number in numbers(document.across):
        need(math.isfinite(number), f"across{field} is {number}")
    outputs = {name: render(name, document, Options()) for name in FORMATS}
    need(msgspec.json.decode(outputs["json"], type=Several) == document, "the traces do not come back from JSON")
    texts(outputs)
    texts({"text": render("text", redact(document), Options(verbosity=1))})


def judged(before: Analysis, after: Analysis) -> None:
    """Render the gate's answer and a comparison of two traces, in every format."""
    from advisor.gating import baseline
    from advisor.gating import judge as gating
    from advisor.gating.compare import compare
    from advisor.report.comparison import FORMATS as COMPARISONS

    base = baseline.make([before])
    judgement(gating.judge([after], base))
    compared = compare(before, after)
    texts({name: render(name, compared, Options(), COMPARISONS) for name in COMPARISONS})


def judgement(judgement: Judgement, schema: Any = None) -> None:
    """The gate's answer: its figures are numbers, and every format shows nothing raw."""
    from advisor.report.gate import FORMATS as JUDGEMENTS

    for field, number in numbers(judgement):
        need(math.isfinite(number), f"{field} is {number}")
    outputs = {name: render(name, judgement, Options(), JUDGEMENTS) for name in JUDGEMENTS if name != "github"}
    texts({("markdown" if name == "markdown" else name): content for name, content in outputs.items()})
    lines = render("github", judgement, Options(), JUDGEMENTS).decode("utf-8").splitlines()
    need(all(re.match(r"::(notice|warning|error) ", line) for line in lines), f"annotations with other lines: {lines}")
    need(
        msgspec.json.decode(outputs["json"], type=Judgement) == judgement, "the judgement does not come back from JSON"
    )
    if schema is not None:
        schema.validate(msgspec.json.decode(outputs["json"]))


def _around(text: str, piece: str) -> str:
    position = text.find(piece)
    return ascii(text[max(0, position - 80) : position + 80])
