"""The gate from traces to answer: what ``advisor gate``, the pytest plugin and ``advisor.gate`` share."""

from __future__ import annotations

import datetime
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from advisor.errors import TraceError, UsageError

if TYPE_CHECKING:
    from advisor.config import Config
    from advisor.gating.baseline import Baseline
    from advisor.results.analysis import Analysis
    from advisor.results.judgement import Judgement
    from advisor.rulebook import Rulebook
    from advisor.trace import Trace

    Traces = str | Path | Trace | Analysis | Sequence[str | Path | Trace | Analysis]


def gate(
    traces: Traces,
    *,
    baseline: str | Path | Baseline | None = None,
    config: str | Path | Config | None = None,
) -> Judgement:
    """Hold a trace (or several, repeated runs of one workload) against a baseline and the project's assertions.

    Traces are paths, or what ``advisor.read`` or ``advisor.analyze(…, samples=True)`` returned; *config* is a file, else the
    nearest one. The answer's ``verdict`` is passed, failed or inconclusive, its ``headline`` one line. Raises
    ``UsageError`` for a baseline, a setting or traces that cannot be used, ``TraceError`` for a trace that cannot be read.
    """
    from advisor.gating.baseline import Baseline, load

    settings = settings_of(config)
    if baseline is None and not settings.gate.assertions:
        raise UsageError("the gate has nothing to compare the trace with: give a baseline, or assert something")
    base = baseline if baseline is None or isinstance(baseline, Baseline) else load(Path(baseline))
    name = str(baseline) if isinstance(baseline, str | Path) else ""
    return judge_traces(traces, settings, rules(settings), base, name)


def judge_traces(
    traces: Traces,
    settings: Config,
    rulebook: Rulebook,
    baseline: Baseline | None,
    name: str,
    *,
    say: Callable[[str], None] = lambda _text: None,
    note: Callable[[str], None] = warnings.warn,
) -> Judgement:
    """Analyze the traces and judge them by the settings; *name* is what the judgement calls the baseline."""
    from advisor.gating.judge import judge

    settings, notes = settings.renamed(rulebook.former)
    for text in notes:
        note(text)
    settings.require_fit((rule.id for rule in rulebook.rules), gate=True)
    candidates = runs(traces, settings, rulebook, say=say, note=note)
    judgement = judge(candidates, baseline, settings.gate, baseline_name=name, today=today(), heirs=rulebook.former)
    return msgspec.structs.replace(judgement, settings=_relative(settings.path))


def _relative(path: Path | None) -> str:
    """Return the path from the working folder, where reports look for it; empty without one."""
    if path is None:
        return ""
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # another drive
        return path.name


def settings_of(config: str | Path | Config | None) -> Config:
    """Return the settings in a file, else in the nearest one."""
    from advisor.config import Config, load

    return config if isinstance(config, Config) else load(config)


def rules(settings: Config, folders: Iterable[str] = (), *, keep: bool = False) -> Rulebook:
    """Return the rules that ship with the advisor, those of the configuration, and those in *folders*; *keep* them read, to
    find them so next time."""
    from advisor import rulebook

    for folder in folders:
        if not Path(folder).is_dir():
            raise UsageError(f"--rules {folder}: no such folder")
    dirs = [rulebook.builtin_rules_dir(), *settings.folders, *map(Path, folders)]
    return rulebook.load(dirs, settings.limits, config=str(settings.path or ""), keep=keep)


def analyses(
    traces: Traces,
    settings: Config,
    rulebook: Rulebook,
    *,
    views: bool = False,
    say: Callable[[str], None] = lambda _text: None,
    reading: Mapping[str, Any] | None = None,
) -> list[Analysis]:
    """Analyze each trace with its samples, one after the other; what is analyzed already is taken as it is.

    *reading* holds further arguments of ``advisor.read``; what was read anew is kept where these ask for a cache.
    """
    from advisor.pipeline import analyze
    from advisor.reading.containers import waiting
    from advisor.results.analysis import Analysis
    from advisor.trace import Trace, read

    settings, _ = settings.renamed(rulebook.former)
    settings.require_fit(rule.id for rule in rulebook.rules)
    items = [traces] if isinstance(traces, str | Path | Trace | Analysis) else list(traces)
    results = []
    for number, item in enumerate(items, 1):
        if isinstance(item, Analysis):
            results.append(item)
            continue
        if isinstance(item, Trace):
            trace = item
        else:
            say(f"analyzing {item}{waiting(item)}" + (f" ({number} of {len(items)})" if len(items) > 1 else ""))
            try:
                trace = read(str(item), libraries=settings.library, rates=[settings.hardware], **(reading or {}))
            except OSError as error:
                raise TraceError(f"{item}: {error.strerror or error}") from error
        results.append(analyze(trace, rulebook, only=settings.only, skip=settings.skip, views=views, samples=True))
        trace.keep()
        del trace  # before the next is read
    return results


def runs(
    traces: Traces,
    settings: Config,
    rulebook: Rulebook,
    *,
    say: Callable[[str], None] = lambda _text: None,
    note: Callable[[str], None] = warnings.warn,
) -> list[Analysis]:
    """Analyze repeated runs of one workload. A recording that is given twice counts once, and *note* says so.

    No two runs have the same events and the same times to the ns, so that is one recording, however it is named or packed:
    taken for a second run it would show the gate a noise that is too small.
    """
    first: dict[tuple[object, ...], str] = {}
    results = []
    for analysis in analyses(traces, settings, rulebook, say=say):
        path, samples = analysis.trace.path, analysis.samples
        same = (analysis.trace.events, analysis.trace.span_ms, repr(samples and samples.metrics))
        if same in first:
            note(f"{path} holds the same recording as {first[same]} before, and counts once")
            continue
        first[same] = path
        results.append(analysis)
    return results


def today() -> str:
    """Return today's date, for the waivers; that of SOURCE_DATE_EPOCH where it is set, so that a run can be repeated."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    zone = datetime.UTC
    now = datetime.datetime.fromtimestamp(int(epoch), zone) if epoch.isdigit() else datetime.datetime.now(zone)
    return now.date().isoformat()
