"""The baseline: a small file that says what a workload costs today, for the gate to compare with.

It holds per-step samples and verdicts, the facts that make two recordings comparable, and why it was changed; no path, no
name of a machine or a person. Keys are sorted and figures rounded, so the same traces give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median

import msgspec

from advisor import files
from advisor.errors import UsageError
from advisor.gating.alike import unlike
from advisor.gating.division import digest
from advisor.privacy import excerpt
from advisor.regex import regex
from advisor.results.analysis import Analysis
from advisor.results.encoding import inert
from advisor.results.samples import Samples, Work
from advisor.results.sites import Sites
from advisor.views.metrics import METRICS

SCHEMA_VERSION = 1
MOST_BYTES = 64 << 20
_MOST = 1e15
_LONGEST = 300
_HEAD = 1 << 16
_SITE = regex(r"\{\n[^{}]*?\"cause\": \"[^{}]*\}")
_BREAK = regex(r"\n *")
_VERDICTS = regex(r"\"verdicts\": \[[\s\w,\"]+\]")
_FIGURES = regex(r"\[[\s\d.,eE+-]+\]")
_SILENT = regex(r"\{\s+\"runs\": \[(?:\s+\[[0., ]*\],?)+\s+\],\s+\"verdicts\": \[[\w\", ]*\]\s+\}")
"""A rule that owns nothing in any run."""


_BUSY, _BUSY_RULE = "busy machine", "profile/busy-machine"
"""Feature of a recording during which the program did not have its cores, and the rule that says so."""


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that must be alike for two recordings to be compared."""

    workload: str
    device: str | None
    vendor: str
    capability: str | None
    world_size: int | None
    features: list[str]
    rank: int | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one figure, a list for each run."""

    unit: str
    runs: list[list[float]]


class RuleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict of a rule in each run, and the ms of each step that its rows own there."""

    verdicts: list[str]
    runs: list[list[float]]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Reason of one change of the baseline, and the number of its runs; the history holds the first one first."""

    reason: str
    runs: int


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """One workload, recorded once or several times."""

    schema_version: int
    advisor: str
    fingerprint: Fingerprint
    steps: list[int]
    metrics: dict[str, Series]
    rules: dict[str, RuleRecord]
    parts: dict[str, dict[str, float]]
    """Parts of each metric: the heaviest by name, a step on average."""
    history: list[Change]
    work: Work | None = None
    """Work that was computed, as far as the recordings tell; None in a baseline of an advisor that did not keep it."""
    program: Sites | None = None
    """Owners of the step by place in the program, to divide a regression over; None in a baseline of an advisor before it."""
    digest: str = ""
    """Digest of the rest but its history, in the file; once loaded it is left only where the rest is not what was written."""

    @property
    def runs(self) -> int:
        """The number of recordings that it was made from."""
        return len(self.steps)

    def times(self) -> dict[str, float]:
        """Return the figures in ms of the typical step."""
        samples = {name: [*chain(*series.runs)] for name, series in self.metrics.items() if series.unit == "ms"}
        return {name: median(values) for name, values in samples.items() if values}


class _Versioned(msgspec.Struct):
    schema_version: int


def fingerprint(analysis: Analysis, workload: str = "") -> Fingerprint:
    """Collect the facts that make this recording comparable with others."""
    device = next((d for d in analysis.trace.devices if d.id == analysis.summary.device), None)
    features = msgspec.structs.asdict(analysis.trace.features)
    noted = analysis.verdicts.noted
    return Fingerprint(
        workload=workload,
        device=device.name if device else None,
        vendor=device.vendor if device else "cpu",
        capability=device.capability if device else None,
        world_size=analysis.trace.world_size,
        features=sorted([name for name, recorded in features.items() if recorded] + [_BUSY] * (_BUSY_RULE in noted)),
        rank=analysis.trace.rank,
    )


def make(analyses: Sequence[Analysis], *, workload: str = "", reason: str = "first baseline") -> Baseline:
    """Return the baseline of repeated runs of one workload. Raises ``UsageError`` where they are not runs of one workload."""
    prints = [fingerprint(analysis, workload) for analysis in analyses]
    samples_of = [_samples(analysis) for analysis in analyses]
    for number, (other, samples) in enumerate(zip(prints[1:], samples_of[1:], strict=True), 2):
        if differing := _apart(prints[0], other) + unlike(samples_of[0].work, samples.work):
            raise UsageError(f"trace {number} is no run of the same workload: {'; '.join(differing)}")
    said = [verdicts(analysis) for analysis in analyses]
    rules = sorted({rule for each in said for rule in each})
    return Baseline(
        schema_version=SCHEMA_VERSION,
        advisor=analyses[0].advisor.version,
        fingerprint=msgspec.structs.replace(prints[0], features=sorted({*prints[0].features, *_busy(prints)})),
        steps=[samples.steps for samples in samples_of],
        metrics={
            name: Series(unit=METRICS[name].unit, runs=[samples.metrics[name] for samples in samples_of])
            for name in sorted(METRICS)
            if all(name in samples.metrics for samples in samples_of)
        },
        rules={
            rule: RuleRecord(
                verdicts=[each.get(rule, "not_run") for each in said],
                runs=[samples.rules.get(rule, [0.0] * len(samples.metrics["step_ms"])) for samples in samples_of],
            )
            for rule in rules
        },
        parts=_parts(samples_of),
        history=[Change(reason=reason, runs=len(analyses))],
        work=samples_of[0].work,
        program=digest([samples.sites for samples in samples_of if samples.sites is not None]),
    )


def _parts(samples_of: Sequence[Samples]) -> dict[str, dict[str, float]]:
    """Return the parts of each metric, a step on average over the runs."""
    totals: dict[str, dict[str, float]] = {}
    for samples in samples_of:
        for metric, parts in samples.parts.items():
            total = totals.setdefault(metric, {})
            for name, value in parts.items():
                total[name] = total.get(name, 0.0) + value / len(samples_of)
    return {metric: {name: round(value, 6) for name, value in parts.items()} for metric, parts in totals.items()}


def _samples(analysis: Analysis) -> Samples:
    if analysis.samples is None:
        raise UsageError(
            f"{analysis.trace.path}: the analysis holds no samples; analyze(trace, samples=True) takes them"
        )
    return analysis.samples


def verdicts(analysis: Analysis) -> dict[str, str]:
    """Return the verdict of each rule; rules on the quality of the profile are not gated."""
    lists = analysis.verdicts
    named = {finding.rule: "fires" for finding in analysis.findings}
    named |= dict.fromkeys(lists.passes, "passes")
    named |= {verdict.rule: "not_applicable" for verdict in lists.not_applicable}
    named |= {verdict.rule: "not_run" for verdict in lists.not_run}
    named |= {failure.rule: "error" for failure in lists.error}
    return {rule: verdict for rule, verdict in named.items() if not rule.startswith("profile/")}


def differences(base: Fingerprint, other: Fingerprint) -> list[str]:
    """List the reasons why two recordings cannot be compared; empty where they can.

    A feature that only one of them has is not among them: the figures that need it are inconclusive, and no more.
    """
    sides = (("the earlier side", base), ("the present one", other))
    return _apart(base, other) + [
        f"the machine was busy while {which} was recorded" for which, side in sides if _busy([side])
    ]


def _busy(prints: Sequence[Fingerprint]) -> set[str]:
    """Return the feature of a busy machine, where one of some recordings has it."""
    return {_BUSY} if any(_BUSY in one.features for one in prints) else set()


def _apart(base: Fingerprint, other: Fingerprint) -> list[str]:
    """List the reasons why two recordings are none of one program, on one device, in one way."""
    texts = []
    for name in ("workload", "device", "vendor", "capability", "world_size"):
        before, after = getattr(base, name), getattr(other, name)
        if before != after:
            texts.append(f"{name.replace('_', ' ')} was {_literal(before)} and is {_literal(after)}")
    if base.rank is not None and other.rank is not None and base.rank != other.rank:
        texts.append(f"rank was {base.rank} and is {other.rank}: take the same rank each time")
    # Shapes and stacks slow the host down, so with and without are two programs.
    changed = [name for name in ("shapes", "stacks", "memory") if (name in base.features) != (name in other.features)]
    recorded = ("recorded now, not before", "recorded before, not now")
    return texts + [f"{name}: {recorded[name in base.features]}" for name in changed]


def _literal(value: object) -> str:
    return "unknown" if value is None else repr(value) if isinstance(value, str) else str(value)


def renamed(base: Baseline, heirs: Mapping[str, Sequence[str]]) -> Baseline:
    """Put the rules of today in place of former ids.

    What a rule was alone, its heir is; where the baseline has the heir itself, that stands. Of a rule that was split, each heir
    was quiet where it was quiet; where it fired, nobody knows which of them did, and they are not known to the baseline.
    """
    rules = {rule: record for rule, record in base.rules.items() if rule not in heirs}
    for old, record in base.rules.items():
        news = heirs.get(old, ())
        if len(news) > 1 and "fires" in record.verdicts:
            continue
        for new in news:
            rules.setdefault(new, record)
    return msgspec.structs.replace(base, rules=rules)


def renew(old: Baseline | None, analyses: Sequence[Analysis], reason: str, workload: str | None = None) -> Baseline:
    """Make the baseline of repeated runs, in place of *old* where there is one, whose name *workload* None takes."""
    if workload is None:
        workload = old.fingerprint.workload if old else ""
    new = make(analyses, workload=workload, reason=reason.strip() or "first baseline")
    return new if old is None else merge(old, new, reason)


def merge(old: Baseline, new: Baseline, reason: str) -> Baseline:
    """Return *new* in place of *old*, with the history of both. Raises ``UsageError`` without a reason or for another workload."""
    if not reason.strip():
        raise UsageError("an update of a baseline needs a reason: --reason '…'")
    if old.fingerprint.workload != new.fingerprint.workload:
        raise UsageError(
            f"the baseline is of workload {old.fingerprint.workload!r}, these traces of {new.fingerprint.workload!r}"
        )
    return msgspec.structs.replace(new, history=[*old.history, Change(reason=reason.strip(), runs=new.runs)])


def dump(baseline: Baseline) -> bytes:
    """Return the file's bytes: sorted keys, a newline at the end."""
    table = msgspec.to_builtins(baseline)
    for rule in table["rules"].values():  # mostly nothing, of some 250 rules
        rule["runs"] = [[value or 0 for value in run] for run in rule["runs"]]
    table["digest"] = _digest(table)
    text = json.dumps(table, indent=1, sort_keys=True, ensure_ascii=True)
    return (inert(_compact(text)) + "\n").encode()


def _digest(table: dict[str, object]) -> str:
    """Return the digest of a file's table, in any layout: a merge of two baselines, or a slip of the hand, is found by it."""
    kept = {key: value for key, value in table.items() if key not in ("digest", "history")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _compact(text: str) -> str:
    """Return lists of figures or verdicts, silent rules and sites on one line each: a diff is read by metric, rule and place."""
    for lists in (_FIGURES, _VERDICTS):
        text = lists.sub(lambda match: " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]"), text)
    text = _SILENT.sub(lambda match: re.sub(r"(?<=[\[{])\s+|\s+(?=[\]}])", "", _BREAK.sub(" ", match[0])), text)
    return _SITE.sub(lambda match: _BREAK.sub(" ", match[0]).replace("{ ", "{", 1)[:-2] + "}", text)


def load(path: Path) -> Baseline:
    """Read a baseline. Raises ``UsageError`` with what is wrong, and what to do.

    One that is not as it was written keeps its digest: nothing is compared with it.
    """
    try:
        data = files.read(path, MOST_BYTES)
    except OSError as error:
        where = path / "advisor-baseline.json" if path.is_dir() else path
        raise UsageError(f"{path}: {error.strerror or error}. Make one: advisor baseline TRACE -o {where}") from error
    try:
        version = msgspec.json.decode(data, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{path}: is of schema version {version}, this advisor reads {SCHEMA_VERSION}. Make it anew: "
                f"advisor baseline TRACE -o {path} --force"
            )
        base = msgspec.json.decode(data, type=Baseline)
        if base.digest and base.digest == _digest(msgspec.json.decode(data)):
            base = msgspec.structs.replace(base, digest="")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is no baseline of advisor{_unlike(path, data, str(error))}") from error
    if wrong := _impossible(base):
        raise UsageError(f"{path}: is no baseline of advisor: {excerpt(wrong, _LONGEST)}")
    return base


def _unlike(path: Path, data: bytes, error: str) -> str:
    """Say how a file is no baseline, and how to make one."""
    make = "; make one: advisor baseline TRACE -o advisor-baseline.json"
    if not data.strip():
        return f": it is empty. Make one: advisor baseline TRACE -o {path} --force"
    trace = b'"traceEvents"' in data[:_HEAD] or path.name.endswith((".gz", ".trace.json"))
    if trace or b'"schema_version"' not in data[:_HEAD]:
        what = "it is a trace" if trace else "it has none of its keys"
        return f": {what}{make}"
    return f": {excerpt(error, _LONGEST)}{make}"


def _impossible(base: Baseline) -> str:
    """Say which figure no recording can have, and arithmetic would overflow on; empty where there is none."""
    for key, value in msgspec.to_builtins(base).items():
        entries = {f"{key}.{name}": entry for name, entry in value.items()} if isinstance(value, dict) else {key: value}
        for name, entry in entries.items():
            for number in _numbers(entry):
                if not abs(number) <= _MOST:
                    return f"{name} holds {max(min(number, 1e308), -1e308):.3g}"
    return ""


def _numbers(value: object) -> Iterator[float]:
    """All numbers in a value, however deep."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value
