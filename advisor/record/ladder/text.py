"""The ladder as plain tables, and the same tables in Markdown."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from advisor.record.ladder.states import Article
from advisor.record.ladder.table import Ladder, Rung
from advisor.report.plain import clean, number, percent, size
from advisor.report.table import ABSENT, align


class Table(NamedTuple):
    """A table's headings and cells, and which columns hold figures."""

    heads: list[str]
    rows: list[list[str]]
    right: list[bool]


def headline(ladder: Ladder) -> str:
    """How far it went, in a sentence."""
    climbed = [rung for rung in ladder.rungs if rung.samples_per_s]
    if not climbed:
        return "No state of the ladder ran."
    first, last = climbed[0], climbed[-1]
    rates = f"{_rate(first.samples_per_s)} to {_rate(last.samples_per_s)} samples/s"
    times = (last.samples_per_s or 0.0) / (first.samples_per_s or 1.0)
    return f"From {rates} in {len(climbed) - 1} changes: {times:.2f} times as fast."


def setting(ladder: Ladder) -> str:
    """On what it was climbed."""
    machine, first = ladder.machine, ladder.rungs[0].settings
    size_of = f" ({ladder.parameters:,} parameters)" if ladder.parameters else ""
    cores = f"{machine.cores} core{'s' if machine.cores != 1 else ''}"
    return (
        f"Trained: {ladder.network or 'a ResNet-18'}{size_of} on images of {first.size} pixels; "
        f"{machine.name}, {cores}, torch {machine.torch}; {ladder.steps} steps a state, timed without the profiler"
    )


def figures(ladder: Ladder) -> Table:
    """Each state's figures, with the article's in brackets."""
    cuda = ladder.machine.device == "cuda"
    shares = ["GPU busy", "utilization", "Tensor Cores"] if cuda else ["operators", "loader"]
    rows = []
    for rung in ladder.rungs:
        article, times = rung.article or Article(), rung.step_ms
        if cuda:
            made = [
                _share(rung.gpu_busy_share),
                _beside(_share(rung.gpu_utilization), _share(article.gpu_utilization)),
                _beside(_share(rung.tensor_core_share), _share(article.tensor_core_share)),
            ]
        else:
            made = [_share(rung.operators_share), _share(rung.loader_share)]
        theirs = f"{number(article.peak_memory_gb)} GB" if article.peak_memory_gb and cuda else ABSENT
        rows.append(
            [
                str(rung.number),
                rung.title if rung.outcome == "climbed" else f"{rung.title}: {rung.outcome}",
                _beside(
                    f"{number(times.median)} ms" if times else ABSENT,
                    f"{number(article.step_ms)} ms" if article.step_ms else ABSENT,
                ),
                f"{number(times.p10)} to {number(times.p90)}" if times else ABSENT,
                _beside(_rate(rung.samples_per_s), _rate(article.samples_per_s)),
                *made,
                _beside(size(rung.peak_memory_bytes) if rung.peak_memory_bytes else ABSENT, theirs),
            ]
        )
    heads = ["", "state", "step", "p10 to p90", "samples/s", *shares, "peak memory"]
    return Table(heads, rows, [True, False, *[True] * (len(heads) - 2)])


def predictions(ladder: Ladder) -> Table:
    """Of each change: the advice that led to it, what was predicted, what it became."""
    heads = ["", "change", "advice before it", "predicted", "by", "became", "article"]
    rows = []
    for rung in ladder.rungs[1:]:
        led, predicted = rung.led, rung.predicted
        rows.append(
            [
                str(rung.number),
                rung.title,
                f"{led.rule} ({led.rank} of {led.of})" if led else ABSENT,
                f"{predicted.low:.2f} to {predicted.high:.2f}" if predicted else ABSENT,
                predicted.by if predicted else ABSENT,
                f"{rung.became:.2f}" if rung.became else ABSENT,
                f"{rung.article.became:.2f}" if rung.article and rung.article.became else ABSENT,
            ]
        )
    return Table(heads, rows, [True, False, False, True, False, True, True])


def notes(ladder: Ladder) -> list[str]:
    """Why a figure is not there, state by state."""
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
    """The ladder for a terminal of *width* columns."""
    device = ladder.machine.device
    lines = _wrapped([headline(ladder), setting(ladder) + "."], width)
    for table, words in ((figures(ladder), [ABOVE[device], MEMORY[device]]), (predictions(ladder), [BELOW])):
        if table.rows:
            rows = [[clean(cell) for cell in row] for row in table.rows]
            lines += ["", *align(table.heads, rows, table.right, width), "", *_wrapped(words, width)]
    if told := notes(ladder):
        lines += ["", *_wrapped(told, width)]
    return "\n".join(lines) + "\n"


def _wrapped(parts: list[str], width: int) -> list[str]:
    return [line for part in parts for line in textwrap.wrap(clean(part), width)]


def _rate(value: float | None) -> str:
    return f"{value:,.0f}" if value else ABSENT


def _beside(mine: str, theirs: str) -> str:
    """A figure, with the article's in brackets where there is one."""
    return mine if theirs == ABSENT else f"{mine} ({theirs})"


def _share(value: float | None) -> str:
    return ABSENT if value is None else percent(value)
