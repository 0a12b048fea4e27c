"""Lines that say where the time goes: the causes, the kinds of kernels, and what the CPU does meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.report import figures, step_time
from advisor.report.lines import Line, filled
from advisor.report.plain import clean, columns
from advisor.report.savings import duration
from advisor.results.analysis import Summary
from advisor.results.host_time import HostTime
from advisor.results.kernel_time import KernelTime


def time_line(summary: Summary, width: int) -> str:
    """Return ``step 126 ms: compute 49.8 %, host 23.1 %, other 2.0 %``, as much as fits a line."""
    parts = [(part.cause.replace("_", " "), part.percent) for part in figures.causes(summary)]
    parts = [(name, percent) for name, percent in parts if percent >= SHOWN]
    if not parts:
        return figures.span(summary)
    unit = ("mean step" if figures.uneven(summary) else "step") if summary.step_ms else "window"
    unit = f"cold {unit}" if summary.cold else unit
    whole, aside = duration(figures.whole_ms(summary)), ""
    if summary.unsteady:
        unit += " steady" if summary.step_ms and not summary.cold else " outside start-up"
        aside = "" if summary.step_ms else f" of {duration(summary.extent_ms or summary.window_ms)}"
    if summary.step_ms and figures.uneven(summary):
        whole += f" (median {duration(summary.step_ms.median)})"
    # A cause that there is no room for tells more than how long the recording is, which the headline says of one with start-up; and
    # than that others are small.
    forms = [_best_fitting(f"{unit} {whole}{aside}: ", parts, width)]
    forms += [_fitting(f"{unit} {whole}{more}: ", parts, width, digits) for digits in (1, 0) for more in (aside, "")]
    forms.append(_fitting(f"{unit} {whole}: ", parts, width, 0, rest=False))
    hides_none = (text for count, text in forms if all(part < _LEFT_OUT for _, part in parts[count:]))
    return next(hides_none, max(forms[:-1], key=lambda form: form[0])[1])


def _listed_kinds(families: Sequence[KernelTime], total: float) -> list[tuple[str, float]]:
    """Return each named kind of kernels as the line has it, with its share in percent."""
    return [
        (f"{clean(part.family)} {100 * part.share:.0f} %{step_time.with_casts(part, total)}", 100 * part.share)
        for part in families
        if part.family != REST
    ]


def kernels_lines(
    summary: Summary, width: int, least: float | None = None, rows: int = 2, *, much: float | None = None
) -> list[Line]:
    """Return ``kernels 62.7 ms: matrix products 47 %, softmax 31 %, other 22 %``, where kernels take so much of the step.

    Of a program on the CPU its operators. In one line, of two *rows* where that leaves *much* to the others, in percent.
    """
    families = summary.kernel_time or summary.operator_time
    total = sum(part.ms for part in families)
    if not total or total < (KERNELS if least is None else least) * summary.whole_ms:
        return []
    first = _of_families(summary, total)
    parts = _listed_kinds(families, total)
    texts = [text for text, _ in parts]
    rest = 100 - sum(part for _, part in parts)
    two: list[Line] = []
    for count in range(sum(part >= _LEAST for _, part in parts), 0, -1):
        left = rest + sum(part for _, part in parts[count:])
        listed = [*texts[:count], *([f"{REST} {left:.0f} %"] if left >= _SHOWN_WHOLE else [])]
        lines = filled(first, listed, width)
        if len(lines) == 1:
            return two if two and left >= (_MUCH_LEFT if much is None else much) else lines
        two = two or (lines if len(lines) == _ROWS <= rows else [])
    return two


def _of_families(summary: Summary, total: float) -> str:
    """Return the start of that line."""
    if not summary.kernel_time:
        return f"operators {duration(total)}: "
    return f"kernels {duration(total)}{' (mean step)' if summary.mean_apart else ''}: "


def host_lines(summary: Summary, width: int, most: int) -> list[Line]:
    """Return ``waits for the CPU 142 ms: backward 64 %, optimizer 22 %, ...``, where that is much of the step.

    In as many lines as there is room for, *most*. Every part of a twentieth or more is named for which there is room; functions
    of one file behind the first of them.
    """
    mean = step_time.with_mean_waits(summary)
    summary, of_mean = mean, " (mean)" if mean is not summary else ""
    total = sum(part.ms for part in summary.host_time)
    if not total or total < KERNELS * summary.whole_ms:
        return []
    named = [part for part in summary.host_time if part.kind != "others" and part.share >= PART]
    for count in range(len(named), 0, -1):
        rest = 100 - sum(100 * part.share for part in named[:count])
        parts = [f"{name} {100 * part.share:.0f} %" for part, name in _of_files(named[:count])]
        listed = [*parts, *([f"{REST} {rest:.0f} %"] if rest >= _SHOWN_WHOLE else [])]
        what = "time by line" if named[0].kind == "line" else "waits for the CPU"
        # In a single line there is no room for what these waits are divided in.
        room = width - columns(what + of_mean) - len(" :") if most > 1 else 0
        lines = filled(f"{what} {step_time.waits_for(summary, room)}{of_mean}: ", listed, width)
        if len(lines) <= min(HOST_ROWS, most):
            return lines
    return []


def _of_files(parts: Sequence[HostTime]) -> list[tuple[HostTime, str]]:
    """Name parts in short; a function of the file of that before it without the file, one of its name by the line alone."""
    files: dict[str, list[HostTime]] = {}
    for part in parts:
        files.setdefault(
            part.where.split(":")[0] if part.kind in ("function", "line") else step_time.host_part(part), []
        ).append(part)
    named: list[tuple[HostTime, str]] = []
    for group in files.values():
        said = ""
        for at, part in enumerate(group):
            name = step_time.host_part(part)
            place = name.partition(":")[2]
            line, _, function = place.partition(" ")
            named.append((part, name if not at else f":{line}" if function == said else f":{place}"))
            said = function
    return named


def unprofiled_line(summary: Summary, width: int) -> str:
    """Return the same of the step without the profiler, where that is divided otherwise; else nothing."""
    shares, recorded = summary.unprofiled_causes, summary.steady_causes
    if (
        summary.unprofiled_ms is None
        or not shares
        or all(abs(shares.get(k, 0.0) - v) < _UNLIKE for k, v in recorded.items())
    ):
        return ""
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    parts = [(cause.replace("_", " "), 100 * part) for cause, part in ordered if 100 * part >= SHOWN]
    return in_a_line(f"without the profiler {duration(summary.unprofiled_ms)}: ", parts, width)


def in_a_line(first: str, parts: Sequence[tuple[str, float]], width: int) -> str:
    """Return as many of the causes, with their percents, as fit a line; the others together.

    Where one of *_HIDDEN* percent or more would be among these, percents are whole ones if that shows more.
    """
    return _best_fitting(first, parts, width)[1]


def _best_fitting(first: str, parts: Sequence[tuple[str, float]], width: int) -> tuple[int, str]:
    """Return how many of the causes such a line names, and the line."""
    count, text = _fitting(first, parts, width, 1)
    if any(part >= _HIDDEN for _, part in parts[count:]):
        more, shorter = _fitting(first, parts, width, 0)
        if more > count:
            return more, shorter
    return count, text


def _fitting(
    first: str, parts: Sequence[tuple[str, float]], width: int, digits: int, *, rest: bool = True
) -> tuple[int, str]:
    """Return how many of the causes fit a line, and the line; *rest*: with what the others come to."""
    least = SHOWN if digits else _SHOWN_WHOLE
    for count in range(sum(part >= least for _, part in parts), 0, -1):
        others = sum(part for _, part in parts[count:])
        listed = [*parts[:count], *([(REST, others)] if rest and others >= least else [])]
        text = first + ", ".join(f"{name} {part:.{digits}f} %" for name, part in listed)
        if columns(text) <= width:
            return count, text
    return 0, first.rstrip(": ")


_UNLIKE = 0.1
"""Difference of a cause's share from which on the step without the profiler has a line of its own."""
KERNELS, KERNELS_ALONE, _LEAST = 0.1, 0.05, 1.5
"""Of the step: kernels of less are not divided, and where nothing was found. Percent of their time: a family of less is one of the
others."""
HOST_ROWS, PART = 4, 0.05
"""Lines at most of the time in which the GPU waits for the CPU; a part of less of it is one of the others."""
_ROWS, _MUCH_LEFT, SOME_LEFT = 2, 10.0, 4.5
"""Lines that they are divided in at most, the second only where the first leaves so many percent to the others, or so many where
the screen has lines left."""
REST = "other"
"""Family of kernels that are of no other: shown with those that have no room."""
SHOWN = 0.05
"""Percent from which on a cause does not round to nothing."""
_SHOWN_WHOLE = 0.5
"""The same of whole percents."""
_LEFT_OUT, _HIDDEN = 5.0, 10.0
"""Percent of a cause that is too much to stand among others where the time of the whole recording, tenths or what these come to
take its room; the same of a step without the profiler."""
