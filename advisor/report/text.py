"""``-f text``: what a person reads in ten minutes, first things first.

Every figure is one of the JSON or follows from it: milliseconds of a cause are its share times the median step.
GiB are powers of 1024. Text of the trace and of the rules is data and goes through ``plain.clean``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from advisor.analysis import Across, Analysis, Finding, Place, QualityNote, Summary
from advisor.report import Options, ranks
from advisor.report.causes import meaning, on_cpu, spoken
from advisor.report.document import Several, analyses
from advisor.report.plain import clean, clean_lines, milliseconds, number, pad, percent, percents, shorten, size
from advisor.report.table import align, evidence

FULL_FINDINGS = 8
PLACES = 5
BAR = 30

_SGR = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "33", "green": "32", "cyan": "36", "magenta": "35"}
_SEVERITY = {"high": "red", "medium": "yellow", "low": "cyan", "note": "dim"}


class Page:
    """Lines in the making, of one width and with or without colour."""

    def __init__(self, options: Options) -> None:
        self.lines: list[str] = []
        self.width = options.width
        self.color = options.color
        self.verbosity = options.verbosity

    def paint(self, text: str, style: str) -> str:
        """*text* in a colour, where colours are wanted."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.color and text else text

    def line(self, text: str = "") -> None:
        self.lines.append(text)

    def heading(self, text: str) -> None:
        self.lines += ["", self.paint(text, "bold")]

    def labelled(self, label: str, text: str, indent: int = 4, room: int = 9) -> None:
        """*text* as one paragraph, wrapped beside its *label*."""
        first, rest = " " * indent + self.paint(pad(label, room), "dim"), " " * (indent + room)
        width = max(20, self.width - indent - room)
        for part in textwrap.wrap(" ".join(clean(text).split()), width, break_long_words=False, break_on_hyphens=False):
            self.line(first + part)
            first = rest

    def prose(self, label: str, text: str) -> None:
        """A rule's text of one or more paragraphs, parted by blank lines."""
        for paragraph in text.strip().split("\n\n"):
            if paragraph.strip():
                self.labelled(label, paragraph)
                label = ""


# Below so many steps a spread says less than the steps themselves.
FEW = 5
# What reading lost: codes of quality notes that a reader in a hurry must see too.
DAMAGE = frozenset({"truncated", "gzip-truncated", "gzip-damaged", "skipped", "metadata"})


def render(document: Analysis | Several, options: Options) -> str:
    """The report as plain text, with ANSI colours only where ``options.color`` asks for them."""
    page = Page(options)
    many = analyses(document)
    if isinstance(document, Several) and len(many) > 1 and page.verbosity >= 0:
        _overview(page, many)
    for index, analysis in enumerate(many):
        if isinstance(document, Several) and page.verbosity >= 0:
            page.lines += ["", page.paint("═" * page.width, "dim")]
        elif index:
            page.line()
        _one(page, analysis)
    if isinstance(document, Several) and document.across:
        _across(page, document.across)
    return "\n".join(page.lines).lstrip("\n") + "\n"


def _across(page: Page, across: Across) -> None:
    if page.verbosity < 0:
        page.lines += ["", page.paint(ranks.heading(across), "bold")]
        _short(page, across.findings)
        return
    page.lines += ["", page.paint("═" * page.width, "dim"), page.paint(ranks.heading(across), "bold"), ""]
    header, *rows = ranks.table(across, page.width - 2, every=page.verbosity > 0)
    page.lines += ["  " + page.paint(header, "dim"), *("  " + row for row in rows)]
    if len(rows) < len(across.ranks):
        page.line(page.paint(f"  and {len(across.ranks) - len(rows):,} more ranks (-v)", "dim"))
    page.labelled("", ranks.legend(across), indent=2, room=0)
    page.labelled("", ranks.clocks(across), indent=2, room=0)
    for index, finding in enumerate(across.findings, 1):
        _finding(page, index, finding, None, full=True)
    if not across.findings and across.verdicts.passes:
        page.line()
        page.labelled("", "No findings across the ranks.", indent=2, room=0)
    _notes(page, across.quality, "What is missing across the ranks")
    for failure in across.verdicts.error:
        page.labelled("-", f"failed: {failure.rule}: {failure.message}", indent=2, room=2)


def _one(page: Page, analysis: Analysis) -> None:
    page.line(page.paint(_title(analysis), "bold"))
    if page.verbosity < 0:
        _quiet(page, analysis)
        return
    page.line()
    _figures(page, analysis)
    _causes(page, analysis.summary)
    _findings(page, analysis)
    _plan(page, analysis)
    _quality(page, analysis)
    _verdicts(page, analysis)


def _title(analysis: Analysis) -> str:
    trace, steps = analysis.trace, analysis.summary.steps
    names = [
        (clean(device.name) if device.name else f"unnamed {device.vendor} GPU")
        + (f" ({size(device.memory_bytes)})" if device.memory_bytes else "")
        for device in trace.devices
    ]
    devices = [
        f"{count} × {name}" if count > 1 else name
        for name, group in groupby(sorted(names))
        for count in (len(list(group)),)
    ]
    parts = [clean(trace.path), *(devices or ["a GPU of no name" if trace.features.gpu else "no GPU in the trace"])]
    parts.append(f"{steps} step{'s' if steps != 1 else ''}" if steps else "no steps")
    if trace.torch:
        parts.append(f"torch {clean(trace.torch)}")
    if trace.rank is not None and trace.world_size and trace.world_size > 1:
        parts.append(f"rank {trace.rank} of {trace.world_size}")
    return " · ".join(parts)


def _span(summary: Summary) -> str:
    step = summary.step_ms
    return f"step {milliseconds(step.median)}" if step else f"window {milliseconds(summary.window_ms)}"


def whole_ms(summary: Summary) -> float:
    """What a share is a share of: the median step, or the window of a trace without steps."""
    return summary.step_ms.median if summary.step_ms else summary.window_ms


def _per(summary: Summary | None) -> str:
    return "a step" if summary is None or summary.step_ms else "in the window"


def _over(summary: Summary | None, word: str) -> str:
    """`` in 5 steps``: what counts and sums of rows cover, where that is more than one step."""
    count = summary.steps if summary else 0
    return f" {word} {count} steps" if count > 1 else ""


def _memory(summary: Summary) -> str:
    text = size(summary.peak_memory_bytes)
    if summary.memory_bytes and summary.peak_memory_bytes is not None:
        text += f" of {size(summary.memory_bytes)} ({percent(summary.peak_memory_bytes / summary.memory_bytes)})"
    return text


def _figures(page: Page, analysis: Analysis) -> None:
    summary = analysis.summary
    rows: list[tuple[str, str | None, str]] = []
    if step := summary.step_ms:
        count = len(step.samples)
        which = f"{count} steps" + (" after the first" if count < summary.steps else "")
        spread = f"p10 {number(step.p10)} – p90 {number(step.p90)} ms over {which}"
        if count < FEW:
            spread = "of " + ", ".join(number(sample) for sample in step.samples) + f" ms, {which}"
        rows.append(("step time", milliseconds(step.median), f"median; {spread}" if count > 1 else "one step"))
    else:
        rows.append(("step time", None, ""))
        rows.append(("window", milliseconds(summary.window_ms), "the trace has no steps"))
    if on_cpu(summary):
        rows.append(("on the CPU", spoken(summary), "of the main thread's time"))
        _rows(page, rows)
        return
    used = summary.gpu_utilization
    shown = used.get(str(summary.device), next(iter(used.values()), None)) if used else None
    others = ", ".join(f"GPU {clean(name)} {percent(share)}" for name, share in used.items()) if len(used) > 1 else ""
    rows += [
        ("GPU busy", _share(summary.gpu_busy_share), "kernels, copies and memsets, of the window"),
        ("GPU utilization", _share(shown), others or "kernels only, by the TensorBoard plugin's definition and window"),
        (
            "SM efficiency",
            _share(summary.sm_efficiency),
            "estimated: multiprocessors that had work; the plugin's definition and window",
        ),
        (
            "achieved occupancy",
            _share(summary.achieved_occupancy),
            "estimated: warps that were resident, of those that fit",
        ),
        ("Tensor Cores", _share(summary.tensor_core_share), "of kernel time"),
        ("peak memory", None if summary.peak_memory_bytes is None else _memory(summary), ""),
    ]
    _rows(page, rows)


def _rows(page: Page, rows: Sequence[tuple[str, str | None, str]]) -> None:
    """Figures with their names and what they mean; those that are absent in one line below."""
    present = [(name, figure, hint) for name, figure, hint in rows if figure is not None]
    words = ("peak memory", "on the CPU")
    wide = max((len(figure) for name, figure, _ in present if name not in words), default=0)
    for name, figure, hint in present:
        text = f"  {pad(name, 20)}{pad(figure, wide, right=name not in words)}"
        page.line((text + ("  " + page.paint(hint, "dim") if hint else "")).rstrip())
    if missing := [name for name, figure, _ in rows if figure is None]:
        page.labelled("not recorded", ", ".join(missing), indent=2, room=20)


def _share(share: float | None) -> str | None:
    return None if share is None else percent(share)


def _bar(share: float) -> str:
    """A bar to the eighth of a column; whatever is there at all shows."""
    eighths = max(1, round(8 * BAR * share))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _causes(page: Page, summary: Summary) -> None:
    whole = whole_ms(summary)
    unit = "a step's" if summary.step_ms else "the window's"
    device = "the host; no GPU work" if summary.device is None else f"GPU {summary.device}"
    device = "the main thread, on the CPU" if on_cpu(summary) else device
    page.heading(f"Where {unit} {milliseconds(whole)} go ({device})")
    causes = sorted(((share, name) for name, share in summary.causes.items() if share > 0), reverse=True)
    if not causes:
        page.line("  not recorded")
        return
    shown = percents([share for share, _ in causes])
    for (share, name), part in zip(causes, shown, strict=True):
        hint = meaning(name, summary)
        bar = page.paint(pad(_bar(share), BAR), "yellow" if hint.startswith("idle") else "green")
        hint = hint.removeprefix("idle: ") if summary.device is None else hint
        figures = f"{number(share * whole):>8} ms {part:>6.1f} %"
        page.line(f"  {pad(clean(name), 14)}{bar}{figures}  {page.paint(hint, 'dim')}".rstrip())
    total = sum(share for share, _ in causes)
    page.line(f"  {pad('together', 14)}{' ' * BAR}{number(total * whole):>8} ms {sum(shown):>6.1f} %")


def _findings(page: Page, analysis: Analysis) -> None:
    real = [finding for finding in analysis.findings if finding.severity != "note"]
    notes = [finding for finding in analysis.findings if finding.severity == "note"]
    if not real:
        page.heading("No findings")
        if analysis.verdicts.not_run:
            page.line("  No rule that could run fired; what could not run is named below.")
    else:
        page.heading(f"{len(real)} finding{'s' if len(real) > 1 else ''}, first things first")
    full = len(real) if page.verbosity > 0 else FULL_FINDINGS
    for index, finding in enumerate(real, 1):
        _finding(page, index, finding, analysis.summary, full=index <= full)
    if len(real) > full:
        page.line(page.paint(f"\n    From number {full + 1} on in short; -v shows them whole.", "dim"))
    if notes:
        page.heading("Noted")
        for finding in notes:
            worth = percent(finding.cost_share) if finding.cost_ms else "unpriced"
            page.labelled("-", f"{finding.title} ({finding.rule}, {worth})", indent=2, room=2)
            if page.verbosity > 0 and finding.fix.title:
                page.labelled("→", finding.fix.title, indent=4, room=2)


def price(finding: Finding, summary: Summary | None) -> str:
    """The saving in words: ``saves up to 28.1 ms of 121 ms a step (23.2 %), cautiously 21.0 ms (17.4 %)``."""
    saving = finding.saving
    if saving is None:
        return "not known" if finding.cost_ms else "none of its own: a risk, or memory"
    of = f" of {milliseconds(whole_ms(summary))}" if summary else ""
    text = f"saves up to {milliseconds(saving.high_ms)}{of} {_per(summary)} ({percent(saving.high_share)})"
    if saving.low_ms <= 0 < saving.high_ms:
        text += ", perhaps nothing"
    elif saving.low_ms < saving.high_ms:
        text += f", cautiously {milliseconds(saving.low_ms)} ({percent(saving.low_share)})"
    return text


def _finding(page: Page, index: int, finding: Finding, summary: Summary | None, *, full: bool) -> None:
    severity = page.paint(pad(finding.severity.upper(), 6), _SEVERITY[finding.severity])
    page.line()
    page.line(f"{index:>2}. {severity}  {page.paint(clean(finding.title), 'bold')}")
    page.line(f"    {page.paint(clean(finding.rule), 'cyan')} · {finding.confidence}")
    page.labelled("price", price(finding, summary))
    times = f"{finding.occurrences:,} occurrence{'s' if finding.occurrences != 1 else ''}{_over(summary, 'in')}"
    if finding.cost_ms:
        times = f"{milliseconds(finding.cost_ms)} {_per(summary)} ({percent(finding.cost_share)}), {times}"
    page.labelled("cost", times)
    if finding.saving is not None and full:
        page.labelled("got by", finding.saving.basis)
    shown = finding.where if page.verbosity > 0 else finding.where[: PLACES if full else 1]
    for number_, place in enumerate(shown):
        page.labelled("" if number_ else "where", describe(place))
    if len(shown) < len(finding.where) and full:
        page.labelled("", f"and {len(finding.where) - len(shown)} more (-v)")
    if not full:
        page.labelled("fix", finding.fix.title)
        return
    if finding.evidence.rows:
        page.line()
        header, *rows = evidence(finding.evidence.columns, finding.evidence.rows, page.width - 4)
        page.lines += ["    " + page.paint(header, "dim"), *("    " + row for row in rows)]
        if over := _over(summary, "counts and sums over"):
            page.line("    " + page.paint(f"({over.strip()})", "dim"))
        page.line()
    page.prose("why", finding.why)
    effort = f" ({finding.fix.effort})" if finding.fix.effort else ""
    page.labelled("fix", finding.fix.title + effort)
    _code(page, "before", finding.fix.before)
    _code(page, "after", finding.fix.after)
    page.prose("caveat", finding.fix.caveat)
    page.prose("verify", finding.fix.verify)
    if page.verbosity > 0:
        for reference in finding.references:
            page.labelled("see", f"{reference.title}: {reference.url}")


def _code(page: Page, label: str, code: str) -> None:
    if not code.strip():
        return
    page.line("    " + page.paint(label, "dim"))
    style = "red" if label == "before" else "green"
    page.lines += ["      " + page.paint(line, style) if line else "" for line in clean_lines(code)]


def describe(place: Place) -> str:
    """``train.py:54 in train → torch/optim/sgd.py:80 step (module ResNet_0, op aten::add_) 84.0 %``."""
    user = ""
    if place.file:
        user = place.file + (f":{place.line}" if place.line is not None and place.line >= 0 else "")
        user += f" in {place.function}" if place.function else ""
    text = " → ".join(shorten(clean(part)) for part in (user, place.library) if part)
    inside = ", ".join(
        f"{kind} {shorten(clean(name))}" for kind, name in (("module", place.module), ("op", place.op)) if name
    )
    if inside:
        text = f"{text} ({inside})" if text else inside
    return f"{text or 'no place recorded'}  {percent(place.share)}"


def _plan(page: Page, analysis: Analysis) -> None:
    if not analysis.plan:
        return
    page.heading("In this order")
    rows = []
    for index, step in enumerate(analysis.plan, 1):
        after = [number(step.step_ms_after[key]) for key in ("low", "high") if key in step.step_ms_after]
        then = f"{number(step.step_ms_before)} → {' – '.join(dict.fromkeys(after))} ms"
        rows.append([str(index), clean(step.title), then, f"{step.speedup:.2f}×"])
    lines = align(["", "fix", "step", ""], rows, [True, False, False, True], page.width - 2)
    page.lines += ["  " + line for line in lines]


def _quality(page: Page, analysis: Analysis) -> None:
    _notes(page, analysis.quality, "Quality of this profile")


def _notes(page: Page, notes: Sequence[QualityNote], heading: str) -> None:
    if not notes:
        return
    page.heading(heading)
    for note in notes:
        page.labelled("-", f"{note.message} ({note.code})", indent=2, room=2)
        if note.advice:
            page.labelled("→", note.advice, indent=4, room=2)


def _verdicts(page: Page, analysis: Analysis) -> None:
    verdicts = analysis.verdicts
    fired = len({finding.rule for finding in analysis.findings})
    counts = [
        (fired, "fired"),
        (len(verdicts.passes), "passed"),
        (len(verdicts.not_applicable), "not applicable"),
        (len(verdicts.not_run), "not run"),
        (len(verdicts.error), "failed"),
    ]
    text = ", ".join(f"{count} {name}" for count, name in counts if count or name in ("fired", "passed"))
    page.line()
    page.labelled("Rules", text, indent=0)
    by_how: dict[str, list[tuple[str, list[str]]]] = {}
    for skipped in verdicts.not_run:
        by_how.setdefault(skipped.how, []).append((skipped.rule, skipped.needs))
    for how, rules in by_how.items():
        needs = ", ".join(dict.fromkeys(need for _, missing in rules for need in missing))
        page.labelled("-", f"{len(rules)} not run, for want of {needs}: {how}", indent=2, room=2)
        if page.verbosity > 0:
            page.labelled("", ", ".join(rule for rule, _ in rules), indent=4, room=0)
    for failure in verdicts.error:
        page.labelled("-", f"failed: {failure.rule}: {failure.message}", indent=2, room=2)
    if page.verbosity > 0:
        if verdicts.passes:
            page.labelled("-", "passed: " + ", ".join(verdicts.passes), indent=2, room=2)
        for item in verdicts.not_applicable:
            page.labelled("-", f"not applicable: {item.rule}: {item.because}", indent=2, room=2)


def _quiet(page: Page, analysis: Analysis) -> None:
    summary = analysis.summary
    device = f"GPU busy {percent(summary.gpu_busy_share)} · peak memory {_memory(summary)}"
    page.line(f"{_span(summary)} · {spoken(summary) if on_cpu(summary) else device}")
    if damage := [note.code for note in analysis.quality if note.code in DAMAGE]:
        page.line(f"incomplete: {', '.join(damage)}; figures speak of what is left")
    _short(page, analysis.findings)


def _short(page: Page, findings: Sequence[Finding]) -> None:
    if not findings:
        page.line("no findings")
    for index, finding in enumerate(findings, 1):
        gain = f"up to {percent(finding.saving.high_share)}" if finding.saving else "unpriced"
        severity = page.paint(pad(finding.severity, 6), _SEVERITY[finding.severity])
        page.line(f"{index:>2}. {severity}  {pad(gain, 12)}  {clean(finding.rule)}: {clean(finding.title)}")


def _overview(page: Page, many: Sequence[Analysis]) -> None:
    rows = []
    for analysis in many:
        summary = analysis.summary
        first = next((finding.rule for finding in analysis.findings), "no findings")
        rows.append([clean(analysis.trace.path), _span(summary), percent(summary.gpu_busy_share), clean(first)])
    page.heading(f"{len(many)} traces")
    header, *lines = align(["trace", "time", "GPU busy", "first"], rows, [False, True, True, False], page.width - 2)
    page.lines += ["  " + page.paint(header, "dim"), *("  " + line for line in lines)]
