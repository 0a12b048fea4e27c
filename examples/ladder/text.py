"""The ladder in words and plain tables, and both laid out for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ladder.states import Article
from ladder.table import Ladder, Rung

ABSENT = "–"
Value = TypeVar("Value")


class Table(NamedTuple):
    """A table's headings and cells, and which columns hold figures."""

    heads: list[str]
    rows: list[list[str]]
    right: list[bool]


def headline(ladder: Ladder) -> str:
    """Say in a sentence how far it went."""
    climbed = [rung for rung in ladder.rungs if rung.samples_per_s]
    if not climbed:
        return "No state of the ladder ran."
    first, last = climbed[0].samples_per_s or 1.0, climbed[-1].samples_per_s or 0.0
    return (
        f"From {first:,.0f} to {last:,.0f} samples/s in {len(climbed) - 1} changes: {last / first:.2f} times as fast."
    )


def setting(ladder: Ladder) -> str:
    """Describe the model and the machine."""
    machine, first = ladder.machine, ladder.rungs[0].settings
    parameters = f" ({ladder.parameters:,} parameters)" if ladder.parameters else ""
    cores = f"{machine.cores} core{'s' if machine.cores != 1 else ''}"
    return (
        f"Trained: {ladder.network or 'a ResNet-18'}{parameters} on images of {first.size} pixels; "
        f"{machine.name}, {cores}, torch {machine.torch}; {ladder.steps} steps a state, timed without the profiler"
    )


def figures(ladder: Ladder) -> Table:
    """Lay out each state's figures, with the article's in brackets."""
    on_gpu = ladder.machine.device == "cuda"
    shares = ["GPU busy", "utilization", "Tensor Cores"] if on_gpu else ["operators", "loader"]
    rows = []
    for rung in ladder.rungs:
        article, times = rung.article or Article(), rung.step_ms
        if on_gpu:
            cells = [
                _cell(rung.gpu_busy_share, _percent),
                _beside(rung.gpu_utilization, article.gpu_utilization, _percent),
                _beside(rung.tensor_core_share, article.tensor_core_share, _percent),
            ]
        else:
            cells = [_cell(rung.operators_share, _percent), _cell(rung.loader_share, _percent)]
        peak = _cell(rung.peak_memory_bytes or None, _size)
        rows.append(
            [
                str(rung.number),
                rung.title if rung.outcome == "climbed" else f"{rung.title}: {rung.outcome}",
                _beside(times.median if times else None, article.step_ms, lambda ms: f"{_digits(ms)} ms"),
                f"{_digits(times.p10)} to {_digits(times.p90)}" if times else ABSENT,
                _beside(rung.samples_per_s, article.samples_per_s, "{:,.0f}".format),
                *cells,
                f"{peak} ({_digits(article.peak_memory_gb)} GB)" if on_gpu and article.peak_memory_gb else peak,
            ]
        )
    heads = ["", "state", "step", "p10 to p90", "samples/s", *shares, "peak memory"]
    return Table(heads, rows, [True, False, *[True] * (len(heads) - 2)])


def predictions(ladder: Ladder) -> Table:
    """Lay out the advice that led to each change, its prediction and its outcome."""
    heads = ["", "change", "advice before it", "predicted", "by", "became", "article"]
    rows = [
        [
            str(rung.number),
            rung.title,
            _cell(rung.led, lambda advice: f"{advice.rule} ({advice.rank} of {advice.of})"),
            _cell(rung.predicted, lambda predicted: f"{predicted.low:.2f} to {predicted.high:.2f}"),
            _cell(rung.predicted, lambda predicted: predicted.by),
            _cell(rung.became, "{:.2f}".format),
            _cell(rung.article and rung.article.became, "{:.2f}".format),
        ]
        for rung in ladder.rungs[1:]
    ]
    return Table(heads, rows, [True, False, False, True, False, True, True])


def notes(ladder: Ladder) -> list[str]:
    """Say state by state why a figure is not there."""
    return [f"{rung.number}: {note}" for rung in ladder.rungs for note in _notes(rung)]


def _notes(rung: Rung) -> list[str]:
    if rung.because:
        return [f"{rung.outcome}: {rung.because}"]
    return list(dict.fromkeys(note for note in (rung.not_led, rung.not_predicted) if note))


ABOVE = {
    "cuda": "In brackets: the article's, on a V100. GPU busy: kernels, copies and memory being set, of the recorded steps; "
    "utilization: kernels alone, by the TensorBoard plugin's definition; Tensor Cores: of the kernels' time.",
    "cpu": "In brackets: the article's, on a V100. operators and loader are shares of the recorded steps: time in operators, and "
    "time in which the loop waits for its next batch.",
}
BELOW = (
    "advice before it: the rule that asked for the change on the last state that ran, and its place among the findings there. "
    "predicted, became, article: times as fast as that state, in samples a second; predicted by the replay of that state's "
    "trace, or where it cannot be run again by the finding's bound."
)
MEMORY = {
    "cuda": "peak memory: what tensors held on the GPU.",
    "cpu": "peak memory: what the training process held, its libraries included and its workers not.",
}


def render(ladder: Ladder, width: int = 100) -> str:
    """Lay the ladder out for a terminal of *width* columns."""
    device = ladder.machine.device
    lines = _wrapped([headline(ladder), setting(ladder) + "."], width)
    for table, words in ((figures(ladder), [ABOVE[device], MEMORY[device]]), (predictions(ladder), [BELOW])):
        if table.rows:
            lines += ["", *_aligned(table), "", *_wrapped(words, width)]
    if missing := notes(ladder):
        lines += ["", *_wrapped(missing, width)]
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """Put *text* on one line, without characters that move a terminal's cursor or are not to be seen."""
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def _aligned(table: Table) -> list[str]:
    lines = [[printable(cell) for cell in row] for row in (table.heads, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = [str.rjust if right else str.ljust for right in table.right]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _wrapped(parts: list[str], width: int) -> list[str]:
    return [line for part in parts for line in textwrap.wrap(printable(part), width)]


def _cell(value: Value | None, form: Callable[[Value], str]) -> str:
    return ABSENT if value is None else form(value)


def _beside(value: float | None, article: float | None, form: Callable[[float], str]) -> str:
    """Write a figure, with the article's in brackets where there is one."""
    return _cell(value, form) + ("" if article is None else f" ({form(article)})")


def _digits(value: float) -> str:
    """Write three significant digits of a figure above 0."""
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.1f} MiB"
