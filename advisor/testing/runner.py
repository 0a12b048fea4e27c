"""Runs the proofs of rules: each case is built, read and analyzed as any trace would be, with that one rule."""

from __future__ import annotations

import signal
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.testing.builder import TraceBuilder
from advisor.testing.proof import KINDS, SUFFIX, Case, Expected, Source, cases

if TYPE_CHECKING:
    from advisor.results.analysis import Analysis, Finding
    from advisor.results.ranks import Across
    from advisor.rulebook import Rule, Rulebook

CASE_SECONDS = 60.0
"""A case that takes longer is stopped, and fails."""
TOLERANCE = 0.01
"""A planted symptom is priced at its size to this share."""


@dataclass(frozen=True)
class Result:
    """The outcome of a case: ``problem`` is empty where it holds."""

    kind: str
    name: str
    problem: str = ""


def proof_of(rule: Rule) -> Path:
    """Return the path of a rule's proof: beside it, under the same name."""
    return Path(rule.path).with_suffix(SUFFIX)


def prove(rule: Rule, rulebook: Rulebook) -> list[Result]:
    """Run all cases of a rule's proof, and say what is missing from it."""
    path = proof_of(rule)
    if not path.is_file():
        return [Result("proof", path.name, "is missing; `advisor rules new` writes a template of one")]
    try:
        with _limit(CASE_SECONDS):
            proof_cases = cases(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (a proof is anyone's Python)
        return [Result("proof", path.name, f"cannot be run: {_error_text(error, path)}")]
    results = [result for case in proof_cases for result in _run(case, rule, rulebook)]
    return [*results, *(Result("proof", path.name, problem) for problem in missing(rule, proof_cases))]


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Stop what takes longer, where that can be done: on the main thread, of a system that has timers."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_timeout(*_: object) -> None:
        raise TimeoutError(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, on_timeout)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def missing(rule: Rule, proof_cases: Sequence[Case]) -> list[str]:
    """List the kinds of cases that a complete proof of this rule needs and this one lacks."""
    kinds = {case.kind for case in proof_cases}
    wanted = {"fires", "quiet"}
    if rule.levels or rule.limits:
        wanted.add("edge")
    if rule.needs:
        wanted.add("lacks")
    problems = [f"has no case of @{kind}" for kind in KINDS if kind in wanted - kinds]
    priced = [case for case in proof_cases if case.expected.cost_ms is not None or case.expected.cost_share is not None]
    if rule.levels and "fires" in kinds and not priced:
        problems.append("no case plants a symptom of known size: @fires(cost_ms=…)")
    return problems


def _run(case: Case, rule: Rule, rulebook: Rulebook) -> list[Result]:
    sides = ((True, case.expected), (False, None)) if case.kind == "edge" else ((None, case.expected),)
    results = []
    for over, expected in sides:
        name = case.name if over is None else f"{case.name}, {'over' if over else 'under'}"
        try:
            with _limit(CASE_SECONDS):
                output = case.build() if over is None else case.build(over)
                sources = output if isinstance(output, list) else [output]
                problem = _no_trace(sources) or _problem(_analysis(sources, rule, rulebook), rule, expected)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            problem = f"cannot be run: {_error_text(error, proof_of(rule))}"
        results.append(Result(case.kind, name, problem))
    return results


def _analysis(sources: list[Source], rule: Rule, rulebook: Rulebook) -> Analysis | Across:
    """Analyze a trace; several ranks together where the rule is on these, else the first of them."""
    from advisor.pipeline import analyze, analyze_many
    from advisor.trace import read

    with tempfile.TemporaryDirectory() as folder:
        paths = [_file(source, Path(folder) / f"{number}.json") for number, source in enumerate(sources)]
        if len(paths) == 1:
            return analyze(read(str(paths[0])), rulebook, only=[rule.id], views=False)
        analyses, across = analyze_many((read(str(path)) for path in paths), rulebook, only=[rule.id], views=False)
        return across if across is not None and rule.of_ranks else analyses[0]


def _no_trace(sources: Sequence[object]) -> str:
    """Describe the value that a case returned where it is no trace; else empty."""
    if not sources:
        return "returns an empty list, not traces"
    for source in sources:
        if not isinstance(source, TraceBuilder | bytes | str | Path):
            kind = "nothing (None)" if source is None else f"{type(source).__name__}"
            return f"returns {kind}, not a TraceBuilder, the bytes or the path of a trace, or a list of these"
    return ""


def _file(source: Source, path: Path) -> Path:
    if isinstance(source, str | Path):
        return Path(source)
    path.write_bytes(source if isinstance(source, bytes) else source.to_bytes())
    return path


def _problem(analysis: Analysis | Across, rule: Rule, expected: Expected | None) -> str:
    """List the differences from *expected*; empty where there are none. Without *expected* the rule must not fire."""
    verdict, reason = verdict_of(analysis, rule)
    if expected is None:
        return "fires, and should not" if verdict == "fires" else reason if verdict == "error" else ""
    if verdict != expected.verdict:
        return f"is {verdict}{f' ({reason})' if reason else ''}, not {expected.verdict}"
    if verdict == "not_run" and expected.need:
        needs = next(unmet.needs for unmet in analysis.verdicts.not_run if unmet.rule == rule.id)
        if expected.need not in needs:
            return f"is not run: {', '.join(needs)} is missing, not {expected.need}"
    if expected.note is not None:
        code = rule.id.partition("/")[2]
        message = next((note.message for note in analysis.quality if note.code == code), "")
        if expected.note not in message:
            return f"says {message!r}, which does not hold {expected.note!r}"
    finding = next((finding for finding in analysis.findings if finding.rule == rule.id), None)
    return "; ".join(_differences(finding, expected)) if finding is not None else ""


def _differences(finding: Finding, expected: Expected) -> Iterator[str]:
    """Compare the finding's figures, its first place and its settings with those that are expected."""
    for name, expectation in (("cost_ms", expected.cost_ms), ("cost_share", expected.cost_share)):
        value = getattr(finding, name)
        if expectation is not None and abs(value - expectation) > TOLERANCE * abs(expectation):
            yield f"{name} is {value:.6g}, not {expectation:.6g}"
    for name in ("occurrences", "severity"):
        expectation, value = getattr(expected, name), getattr(finding, name)
        if expectation is not None and value != expectation:
            yield f"{name} is {value}, not {expectation}"
    file, line, op = None, None, None
    if finding.where:
        first = finding.where[0]
        file, line, op = first.file, first.line, first.op
    if expected.line is not None and not f"{file}:{line}".endswith(expected.line):
        yield f"the first place is {file}:{line}, not {expected.line}"
    if expected.op is not None and op != expected.op:
        yield f"its operator is {op}, not {expected.op}"
    if expected.fix is not None and finding.fix.title != expected.fix:
        yield f"its fix is {finding.fix.title!r}, not {expected.fix!r}"
    settings = [str(setting) for setting in finding.settings]
    if expected.setting is not None and expected.setting not in settings:
        yield f"its settings are {', '.join(settings) or 'none'}, not {expected.setting}"


def verdict_of(analysis: Analysis | Across, rule: Rule) -> tuple[str, str]:
    """Return the rule's verdict on a trace, and the reason where the analysis gives one."""
    verdicts = analysis.verdicts
    for failure in verdicts.error:
        if failure.rule == rule.id:
            return "error", failure.message
    for excluded in verdicts.not_applicable:
        if excluded.rule == rule.id:
            return "not_applicable", excluded.because
    for unmet in verdicts.not_run:
        if unmet.rule == rule.id:
            return "not_run", f"lacks {', '.join(unmet.needs)}"
    return ("passes", "") if rule.id in verdicts.passes else ("fires", "")


def _error_text(error: BaseException, proof: Path) -> str:
    """Describe an error in a proof, with the innermost line of the proof that led to it."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [number for frame, number in frames if frame.f_code.co_filename == str(proof)]
    place = f" (line {lines[-1]} of {proof.name})" if lines else ""
    return f"{type(error).__name__}: {error}".rstrip(": ") + place
