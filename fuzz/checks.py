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
from advisor.errors import TraceError
from advisor.frames import SCHEMAS
from advisor.report import FORMATS, Options, render
from advisor.results.analysis import Analysis
from advisor.rulebook import Rulebook
from advisor.trace import Trace
from fuzz.values import MARK, SECRET

# What steers a terminal or reorders a line, and lone surrogates. Line breaks part the lines of a report.
_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMAND = re.compile(r"^\s*::(?:error|set-output|add-mask|stop-commands)\b|##\[|##vso\[", re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")  # a span of code in Markdown, where nothing is markup
_LONGEST_ERROR = 600
_NEAR = 1e-9


class Broken(AssertionError):
    """Something that must hold does not."""


def need(held: bool, what: str) -> None:
    """Raises Broken, and says *what* does not hold."""
    if not held:
        raise Broken(what)


def read(path: Path) -> Trace | str:
    """The trace, accounted for to the ns; or why it was refused. Raises whatever is wrong."""
    try:
        trace = advisor.read(str(path))
    except TraceError as error:
        refusal(str(error), path)
        return str(error).removeprefix(f"{path}: ")
    accounts(trace)
    return trace


def refusal(message: str, path: Path) -> None:
    """An error names the file, says what is wrong in a few words, and shows nothing raw."""
    need(message.startswith(f"{path}: "), f"an error that does not name the file: {message[:200]!r}")
    need(len(message) < len(str(path)) + _LONGEST_ERROR, f"an error of {len(message)} characters")
    need(not _STEERING.search(message), f"an error that steers the terminal: {message[:300]!r}")
    need(MARK not in message or "'" in message, f"an error that shows what it read, unquoted: {message[:300]!r}")
    need(SECRET not in message, f"an error that tells a secret: {message[:300]!r}")


def accounts(trace: Trace) -> None:
    """Every ns of the window has one owner, and no step is longer than it."""
    book = trace.ledger
    owned = book.by_cause()
    need(all(ns >= 0 for ns in owned.values()), f"a cause of less than nothing: {owned}")
    need(sum(owned.values()) == book.counted_ns, "the causes do not add up")
    need(int(book.dur_ns.sum()) == trace.window_ns or trace.steps_recorded > 0, "the ledger is not the window")
    need(trace.window_ns >= 0 and trace.span_ns >= 0, "a window of less than nothing")
    repr((trace.quality, trace.features, trace.gpu_expected, trace.whole_ms))


def analyzed(trace: Trace, book: Rulebook) -> Analysis:
    """The analysis with all that reports ask for; every number in it is a number, and every share one of the whole."""
    made = advisor.analyze(trace, book, views=True, samples=True)
    need(not made.verdicts.error, f"rules failed: {[(item.rule, item.message) for item in made.verdicts.error]}")
    for where, number in numbers(made):
        need(math.isfinite(number), f"{where} is {number}")
    causes = made.summary.causes
    need(not causes or abs(sum(causes.values()) - 1) <= _NEAR, f"causes add up to {sum(causes.values())!r}")
    shares = [*causes.values(), *(finding.cost_share for finding in made.findings)]
    shares += [place.share for finding in made.findings for place in finding.where]
    shares += [share for share in (made.summary.gpu_busy_share, made.summary.tensor_core_share) if share is not None]
    shares += made.summary.gpu_utilization.values()
    need(all(0 <= share <= 1 + _NEAR for share in shares), f"a share beyond the whole: {max(shares, default=0)!r}")
    savings(made)
    return made


def savings(made: Analysis) -> None:
    """The fixes return no more than there is, and the plan goes down."""
    times = made.summary.step_ms
    whole = times.whole if times else made.summary.window_ms
    saved = [finding.saving for finding in made.findings if finding.saving is not None]
    need(all(0 <= one.low_ms <= one.high_ms * (1 + _NEAR) for one in saved), f"a saving upside down: {saved}")
    total = sum(one.high_ms for one in saved)
    need(total <= whole * (1 + _NEAR) + _NEAR, f"fixes save {total!r} of {whole!r} ms")
    for step in made.plan:
        low, high = step.step_ms_after["low"], step.step_ms_after["high"]
        need(0 <= low <= high * (1 + _NEAR) + _NEAR, f"a rung upside down: {step}")
        need(low <= step.step_ms_before * (1 + _NEAR) + _NEAR, f"a rung that goes up: {step}")
        need(high <= whole * (1 + _NEAR) + _NEAR, f"a rung above the step of {whole!r} ms: {step}")
    befores = [step.step_ms_before for step in made.plan if step.bound_by != "unpriced"]
    need(all(b <= a * (1 + _NEAR) + _NEAR for a, b in pairwise([whole, *befores])), f"a plan that goes up: {befores}")


def numbers(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    """Every float in *value*, and where it stands."""
    if isinstance(value, float):
        yield where, value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from numbers(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{where}[{str(key)[:40]}]")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item, f"{where}[]")


def frames(trace: Trace) -> None:
    """Every frame, as `advisor query` would ask for it."""
    for name, schema in SCHEMAS.items():
        frame = trace.frame(name)
        need(list(frame.columns) == [column.name for column in schema.columns], f"{name} lacks columns")


def reports(made: Analysis, schema: Any = None) -> None:
    """Every format: JSON comes back the same, and no name leaves its place in the others."""
    shown = {name: render(name, made, Options()) for name in FORMATS}
    need(Analysis.from_json(shown["json"]) == made, "the analysis does not come back from JSON")
    if schema is not None:
        schema.validate(msgspec.json.decode(shown["json"]))
    texts(shown)


def texts(shown: dict[str, bytes]) -> None:
    """Reports, by format, that show names as text and keep secrets."""
    for name, content in shown.items():
        text = content.decode("utf-8")
        need(SECRET not in text, f"{name} tells a secret: {_around(text, SECRET)}")
        if name in ("html", "markdown", "junit"):
            bare = _CODE.sub("", text) if name == "markdown" else text
            need(MARK not in bare, f"{name} holds markup of a trace: {_around(bare, MARK)}")
        found = _STEERING.search(text)
        need(found is None, f"{name} steers the terminal: {found and _around(text, found[0])}")
        command = _COMMAND.search(text) if name in ("text", "markdown") else None
        need(command is None, f"{name} commands CI: {command and _around(text, command[0])}")


def judged(before: Analysis, after: Analysis) -> None:
    """Render the gate's answer and a comparison of two traces, in every format."""
    from advisor.gating import baseline
    from advisor.gating import judge as gating
    from advisor.gating.compare import compare
    from advisor.report.comparison import FORMATS as COMPARISONS
    from advisor.report.gate import FORMATS as JUDGEMENTS

    base = baseline.make([before])
    judgement = gating.judge([after], base)
    shown = {name: render(name, judgement, Options(), JUDGEMENTS) for name in JUDGEMENTS if name != "github"}
    texts({("markdown" if name == "markdown" else name): content for name, content in shown.items()})
    lines = render("github", judgement, Options(), JUDGEMENTS).decode("utf-8").splitlines()
    need(all(re.match(r"::(notice|warning|error) ", line) for line in lines), f"annotations with other lines: {lines}")
    compared = compare(before, after)
    texts({name: render(name, compared, Options(), COMPARISONS) for name in COMPARISONS})


def _around(text: str, piece: str) -> str:
    at = text.find(piece)
    return ascii(text[max(0, at - 80) : at + 80])
