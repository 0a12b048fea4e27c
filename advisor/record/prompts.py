"""Prompts of a language model: how many tokens all rows of several calls begin with.

Values are in no trace, and none of the tokens goes into one. An embedding's inputs are copied, on their own device and with
one operator, before anything is recorded; what they have in common is worked out as the recording is written.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from advisor.reading.program_settings import Prompts as Seen
from advisor.record import modes

_LOOKED_AT = (1, 2, 3, 5, 8)
"""Calls of an embedding with prompts that are copied: a prompt that comes again and again tells of itself in distant ones too."""
_NARROWEST = 16
"""Tokens of a row from which on it may hold a prompt."""
_MOST_ROWS, _MOST_ELEMENTS = 64, 1 << 18
_MOST_TABLES = 4
_SAME = 2
"""Places of a row in which a text still is the one before: where it was generated on, or a token of it was exchanged."""
_RUN = 8
"""Equal tokens in a row that stand for something else, which each prompt has of its own: an image, or a sound."""
_COUNTED = 0.9
"""Part of neighbours that differ by one from which on numbers are positions, and no tokens."""


@dataclass
class _Call:
    """A copy of what an embedding was given: *rows* of *tokens*, and how many rows there were before some were taken."""

    tokens: Any
    rows: int


@dataclass
class _Table:
    """Calls of one embedding, which has so many *entries*: how many had prompts, and copies of some."""

    entries: int
    calls: int
    copies: list[_Call]


class Prompts:
    """Told by :meth:`look` what embeddings are called with; ``enough`` once nothing more is wanted."""

    def __init__(self) -> None:
        self.enough = False
        self._tables: dict[int, _Table] = {}
        self._seen: Seen | None = None

    def look(self, torch: Any, embedding: Any, ids: Any) -> None:
        """Copy what an embedding is given, if it may hold prompts and nobody else takes notice of a copy."""
        # A trace takes down whatever is asked of a tensor: that first.
        if self.enough or type(ids) is not torch.Tensor or _is_watched(torch, ids) or not _holds_prompts(torch, ids):
            return
        if embedding.training and torch.is_grad_enabled():
            return
        table = self._tables.get(id(embedding))
        if table is None:
            if len(self._tables) >= _MOST_TABLES:
                return
            table = self._tables[id(embedding)] = _Table(int(embedding.weight.shape[0]), 0, [])
        table.calls += 1
        if table.calls in _LOOKED_AT:
            height, width = ids.shape
            most = min(max(_MOST_ELEMENTS // width, 2), _MOST_ROWS)
            table.copies.append(_Call(ids.detach()[:: -(-height // most)].clone(), height))
        self.enough = all(each.calls >= _LOOKED_AT[-1] for each in self._tables.values())

    def summary(self) -> Seen | None:
        """Return what the prompts of an embedding have in common, of that with the most, and let go of the copies.

        None where too few were seen.
        """
        self.enough = True
        found = [] if self._seen is None else [self._seen]
        for table in self._tables.values():
            with suppress(Exception):  # a device that has failed must not cost the recording
                calls = [_Call(call.tokens.cpu(), call.rows) for call in table.copies]
                # The first call may warm the model up, or make a cache.
                found += [seen for skipped in (0, 1) if (seen := _common(calls[skipped:], table.entries)) is not None]
        self._tables.clear()
        self._seen = max(found, key=lambda seen: seen.tokens, default=None)
        return self._seen


def _holds_prompts(torch: Any, ids: Any) -> bool:
    """Tell a batch of rows of tokens."""
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        return False
    narrow = ids.shape[1] < _NARROWEST or not len(ids)
    return not narrow and ids.shape[1] * 2 <= _MOST_ELEMENTS and ids.device.type in ("cpu", "cuda")


def _is_watched(torch: Any, ids: Any) -> bool:
    """Tell whether an operator would be seen, or kept, by what the program does at the moment: a graph, a mode, a profiler."""
    return bool(
        torch.jit.is_tracing()
        or torch.autograd._profiler_enabled()
        or modes.stacked(torch)
        or torch._C._functorch.is_functorch_wrapped_tensor(ids)
        or (ids.device.type == "cuda" and torch.cuda.is_current_stream_capturing())
    )


def _common(calls: list[_Call], entries: int) -> Seen | None:
    """Return what the rows of several prompts begin with; None where there are no two that differ."""
    if len(calls) < 2:
        return None
    rows = [[row.tolist() for row in call.tokens] for call in calls]
    plain = _of_rows(rows)
    bare = _of_rows(_without_padding(rows))
    best = max((seen for seen in (plain, bare) if seen is not None), key=lambda seen: seen[0], default=None)
    if best is None:
        return None
    return Seen(entries=entries, tokens=best[0], rows=max(call.rows for call in calls), calls=best[1])


def _of_rows(calls: list[list[list[int]]]) -> tuple[int, int] | None:
    """Return how many tokens all rows begin with, and the number of calls that differ; None where that is one."""
    different: list[list[list[int]]] = []
    for rows in calls:
        if rows and not any(_is_same(rows, other) for other in different):
            different.append(rows)
    if len(different) < 2:
        return None
    texts = [row for rows in calls for row in rows]
    # Of the shortest text at least the last token is computed.
    return min(_text(_begin(texts)), min(map(len, texts)) - 1), len(different)


def _begin(texts: list[list[int]]) -> list[int]:
    """Return the tokens that all texts begin with: those of the first and the last, if all are put in order."""
    first, last = min(texts), max(texts)
    at = 0
    while at < min(len(first), len(last)) and first[at] == last[at]:
        at += 1
    return first[:at]


def _text(tokens: list[int]) -> int:
    """Return how many of the tokens are text, up to what stands for an image; none of positions."""
    steps = [after - before for before, after in pairwise(tokens)]
    if steps and steps.count(1) >= _COUNTED * len(steps):
        return 0
    run = 0
    for at, step in enumerate(steps):
        run = run + 1 if step == 0 else 0
        if run == _RUN - 1:
            return at + 2 - _RUN
    return len(tokens)


def _is_same(rows: list[list[int]], others: list[list[int]]) -> bool:
    """Tell whether calls are of the same texts: as far as both go, but for a few places."""
    if len(rows) != len(others):
        return False
    pairs = zip(rows, others, strict=True)
    return all(sum(map(int.__ne__, row, other)) <= _SAME for row, other in pairs)


def _without_padding(calls: list[list[list[int]]]) -> list[list[list[int]]]:
    """Return rows without what they are padded with at their begin: the number that one of them begins with most often."""
    rows = [row for call in calls for row in call]
    longest = max(rows, key=lambda row: _run(row, row[0]))
    pad = longest[0]
    bare = [[row[_run(row, pad) :] for row in call] for call in calls]
    return [[row for row in call if row] for call in bare]  # a row of padding alone fills a batch up


def _run(row: list[int], value: int) -> int:
    """Return how often a row begins with a value."""
    return next((at for at, token in enumerate(row) if token != value), len(row))
