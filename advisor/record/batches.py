"""Contents of the first batches: how much of their rows, of words or of frames, is padding, and which labels a loss leaves out.

Of rows of differing length beside one another it is noted, too, how much of the batch lies behind their ends.

Values are in no trace. Up to eight batches are looked at, before anything is recorded, and only what lies on the host; of large
ones two, as the steps meanwhile are timed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.reading.program_settings import Uneven

IGNORED = -100
"""Label that cross_entropy leaves out unless it is told another one."""
_BATCHES, _MOST_BATCHES = 2, 8
_SMALL = 1 << 16
"""Numbers of a batch that are looked through in well under a millisecond."""
_NARROWEST, _MOST_ELEMENTS, _MOST_TENSORS, _DEEPEST = 16, 1 << 22, 16, 3
_FEWEST_WORDS = 8
"""Width from which on rows of their own widths may be of words."""
_FEWEST_FRAMES, _FEATURES, _LOOKED_AT = 24, 8, 1 << 20
"""Frames from which on features are taken to have a time; features of a frame, and numbers of a batch, that are looked at."""
_FEWEST_ROWS = 8
"""Rows of the one batch that a call shows, from which on what they are filled up to is no chance."""
_MOSTLY, _DENSE = 0.9, 0.8
"""Rows that begin with something else than padding, and frames of their real part that are: an image's border is on both sides,
and what is sparse holds zeros throughout."""


@dataclass
class Rows:
    """Rows of one tensor: their width, the longest one without what pads it, and the share that is padding.

    ``squares`` is the mean of the squares of their lengths over that of the width, ``height`` how many they are. ``time`` is the
    dimension that is padded, and ``size`` how many numbers each place holds, 0 for words.
    """

    width: int
    longest: int
    padding: float
    squares: float = 1.0
    height: int = 0
    time: int = 1
    size: int = 0


@dataclass
class Batches:
    """Facts of batches; :meth:`look` is given each until there are enough.

    Of a program that makes its batches without a loader, :meth:`look_at_call` is given what a model is called with.
    """

    rows: list[Rows] = field(default_factory=list)
    frames: list[Rows] = field(default_factory=list)
    words: list[Rows] = field(default_factory=list)
    series: list[Rows] = field(default_factory=list)
    ignored: list[float] = field(default_factory=list)
    seen: int = 0
    enough: bool = False
    by_calls: bool = False
    bytes: int | None = None
    pixels: int | None = None
    """Of the largest picture that a sample holds; of several, as of a film, all of them."""
    looked_up: dict[int, list[Rows]] = field(default_factory=dict)

    def look_at_call(self, torch: Any, inputs: Any) -> None:
        """Note what a module is called with, where no loader's batch was seen: the first that holds rows stands for all."""
        if self.seen or self.by_calls:
            return
        try:
            found = [tensor for tensor in _whole_numbers(torch, inputs) if _has_rows(tensor)]
            features = _features(torch, inputs)
            rows = [row for tensor in found if (row := _rows(tensor)).padding > 0]
            frames = None if features is None or len(features) < _FEWEST_ROWS else _frames(torch, features)
        except Exception:  # noqa: BLE001  (as below)
            return
        self.by_calls = bool(found) or features is not None
        self.rows = rows[:1] if len(rows) == len(found) else []
        self.frames = [frames] if frames is not None and frames.padding > 0 else []

    def look_at_lookup(self, torch: Any, embedding: int, ids: Any) -> None:
        """Note the words that an embedding, named by a number, is given, where no loader's batch was seen."""
        rows = self.looked_up.setdefault(embedding, [])
        if self.seen or len(rows) >= _MOST_BATCHES or type(ids) is not torch.Tensor or ids.dim() != 2:
            return
        try:
            tables = [tensor for tensor in _whole_numbers(torch, [ids]) if min(tensor.shape) >= _FEWEST_ROWS]
            words = _turned(tables, _widest(tables))
        except Exception:  # noqa: BLE001  (as below)
            return
        if words is not None:
            rows.append(words)

    def look(self, torch: Any, batch: Any) -> None:
        """Note what the batch holds; what cannot be read is left out."""
        if self.enough:
            return
        self.seen += 1
        self.enough = self.seen >= _MOST_BATCHES
        try:
            self._weigh(torch, batch)
            found = list(_whole_numbers(torch, batch))
            large = sum(tensor.numel() for tensor in found) > _SMALL
            self.enough = self.enough or (large and self.seen >= _BATCHES)
            tables = [tensor for tensor in found if tensor.dim() == 2 and len(tensor)]
            widest = _widest(tables)
            if widest is not None and widest.width >= _NARROWEST:
                self.rows.append(widest)
            words = _turned(tables, widest)
            if words is not None:
                self.words.append(words)
            features = _features(torch, batch)
            if features is not None:
                frames = _frames(torch, features)
                self.frames += [frames] if frames is not None else []
                self.series.append(_series(torch, features, frames))
            shares = [float((tensor == IGNORED).double().mean()) for tensor in found if tensor.numel()]
            if shares:
                self.ignored.append(max(shares))
        except Exception:  # noqa: BLE001  (a batch of a kind that nobody thought of must not end the program)
            return

    def _weigh(self, torch: Any, batch: Any) -> None:
        held = list(tensors(torch, batch))
        self.bytes = max(self.bytes or 0, sum(tensor.numel() * tensor.element_size() for tensor in held)) or None
        pictures = [tensor for tensor in held if tensor.dim() >= 4 and tensor.numel()]
        channels = [
            next((size for size in (each.shape[-3], each.shape[-1]) if size in (1, 3, 4)), 0) for each in pictures
        ]
        sizes = [
            each.numel() // each.shape[0] // count for each, count in zip(pictures, channels, strict=True) if count
        ]
        self.pixels = max(self.pixels or 0, *sizes, 0) or None

    def summary(self) -> dict[str, Any]:
        """Return the fields of ``Recorded``; None where the batches differ in width, or held no such tensor."""
        width, longest, padding = self._padded(self.rows)
        feature_width, feature_longest, feature_padding = self._padded(self.frames)
        return {
            "batch_width": width,
            "batch_longest": longest,
            "padding_share": padding,
            "feature_width": feature_width,
            "feature_longest": feature_longest,
            "feature_padding": feature_padding,
            "uneven": self._all_uneven(),
            "ignored_share": round(min(self.ignored), 4) if _BATCHES <= self.seen == len(self.ignored) else None,
        }

    def _padded(self, rows: list[Rows]) -> tuple[int | None, int | None, float | None]:
        """Width, longest row and share of padding, of batches alike; None where they are not."""
        widths = {row.width for row in rows}
        if len(widths) != 1 or not (self.by_calls or _BATCHES <= self.seen == len(rows)):
            return None, None, None
        longest = math.ceil(sum(row.longest for row in rows) / len(rows))
        return widths.pop(), longest, round(sum(row.padding for row in rows) / len(rows), 4)

    def _all_uneven(self) -> tuple[Uneven, ...]:
        """Return how uneven the rows of a loader's batches are, or else of the words that were looked up with most padding."""
        if self.seen:
            kinds = [(rows, self.seen) for rows in (self.words, self.series)]
            return tuple(one for rows, batches in kinds if (one := self._uneven(rows, batches)) is not None)
        found = [one for rows in self.looked_up.values() if (one := self._uneven(rows, len(rows))) is not None]
        return (max(found, key=lambda one: one.padding * max(one.widths)),) if found else ()

    def _uneven(self, rows: list[Rows], batches: int) -> Uneven | None:
        """Return how uneven the rows of all batches are; None where they are not padded, or not all the same way."""
        padded = [row for row in rows if row.padding]
        if not padded or not _BATCHES <= batches == len(rows):
            return None
        if len({(row.time, row.size) for row in padded}) != 1:
            return None
        # Long batches count for more: by the places of each.
        places, squares = (sum(row.height * row.width**power for row in rows) for power in (1, 2))
        return Uneven(
            rows=max(row.height for row in rows),
            widths=tuple(row.width for row in rows),
            padding=round(sum(row.padding * row.height * row.width for row in rows) / places, 4),
            squares=round(1 - sum(row.squares * row.height * row.width**2 for row in rows) / squares, 4),
            time=padded[0].time,
            size=padded[0].size,
        )


def tensors(torch: Any, value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the tensors in a batch, or in what a module is given: in dictionaries, lists and tuples, a few deep."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    held = getattr(value, "data", None)
    parts = held if isinstance(held, dict) else value  # tokenizers return a dictionary of their own
    if depth < _DEEPEST and isinstance(parts, dict | list | tuple):
        for part in list(parts.values() if isinstance(parts, dict) else parts)[:_MOST_TENSORS]:
            yield from tensors(torch, part, depth + 1)


def _whole_numbers(torch: Any, batch: Any) -> Iterator[Any]:
    """Yield the tensors of whole numbers in a batch that lie on the host."""
    for tensor in tensors(torch, batch):
        if (
            tensor.dtype in (torch.int64, torch.int32)
            and tensor.device.type == "cpu"
            and tensor.numel() <= _MOST_ELEMENTS
        ):
            yield tensor


def _has_rows(tensor: Any) -> bool:
    """Tell a tensor that is a batch of rows, of tokens or the like."""
    return tensor.dim() == 2 and tensor.shape[1] >= _NARROWEST and len(tensor) >= _FEWEST_ROWS


def _extent(row: Rows) -> tuple[int, int]:
    return row.width, row.longest


def _widest(tables: list[Any]) -> Rows | None:
    return max((_rows(tensor) for tensor in tables if tensor.shape[1] >= _FEWEST_WORDS), key=_extent, default=None)


def _turned(tables: list[Any], widest: Rows | None) -> Rows | None:
    """Return the widest rows of words, or those of tensors whose first dimension is time, if more of these is padding.

    Across the rows a part of the padding looks like it as well: where the last ones are the shorter.
    """
    rows = [_rows(tensor.t()) for tensor in tables if tensor.shape[0] >= _FEWEST_WORDS]
    other = max(rows, key=_extent, default=None)
    if other is None or (widest is not None and widest.padding >= other.padding):
        return widest
    return replace(other, time=0)


def _rows(tensor: Any) -> Rows:
    """Measure rows: what pads them is the value that most of them end, or begin, with again and again."""
    height, width = tensor.shape
    best = Rows(width, width, 0.0, height=height)
    for side in (tensor, tensor.flip(1)):
        pad = side[:, -1].mode().values
        kept = (side != pad).flip(1).int().cumsum(1) > 0
        lengths = kept.sum(1)
        if bool((lengths == 0).all()):
            return best  # one value throughout, as a mask of ones: nothing tells what pads it
        padding = 1 - float(lengths.sum()) / (height * width)
        # A row that ends with the value that another one is padded with is none: most have to end with several of them.
        if float((lengths <= width - 2).double().mean()) > 0.5 and padding > best.padding:
            best = Rows(width, int(lengths.max()), padding, _squares(lengths, width), height)
    return best


def _squares(lengths: Any, width: int) -> float:
    """Mean of the squares of rows' lengths, over that of the width."""
    return float((lengths.double() / width).square().mean())


def _features(torch: Any, batch: Any) -> Any | None:
    """Return the largest tensor of floats in a batch, where it may be features over time: rows of numbers, or of frames."""
    found = [
        tensor
        for tensor in tensors(torch, batch)
        if tensor.is_floating_point() and tensor.device.type == "cpu" and tensor.dim() > 1
    ]
    largest: Any = max(found, key=lambda tensor: tensor.numel(), default=None)
    if largest is None or largest.dim() > 3 or not len(largest):
        return None
    sizes = largest.shape if largest.dim() == 3 else largest.shape[1:]
    return largest if largest.layout == torch.strided and max(sizes) >= _FEWEST_FRAMES else None


def _frames(torch: Any, tensor: Any) -> Rows | None:
    """Measure rows of frames, along the dimension that more of is padding: frames at the end that hold one value throughout."""
    found = [_ends(torch, tensor, at) for at in range(1, tensor.dim()) if tensor.shape[at] >= _FEWEST_FRAMES]
    return max(found, key=lambda row: (row.padding, row.width), default=None)


def _series(torch: Any, tensor: Any, frames: Rows | None) -> Rows:
    """Measure rows of frames; along the first dimension, if more of that is padding: it is time then."""
    if frames is not None and (tensor.dim() != 3 or tensor.shape[0] < _FEWEST_FRAMES):
        return frames
    turned = _ends(torch, tensor, 0)
    return turned if frames is None or turned.padding > frames.padding else frames


def _ends(torch: Any, tensor: Any, time: int) -> Rows:
    """Measure rows along a dimension. A few features of each frame tell: real ones are not all the same number."""
    size = tensor.shape[3 - time if time else 2] if tensor.dim() == 3 else 1
    tensor = tensor.movedim(time, 1)
    height, width = tensor.shape[:2]
    wide = tensor.reshape(*tensor.shape[:2], 1) if tensor.dim() == 2 else tensor
    wide = wide[:, :, :: max(wide.shape[2] // _FEATURES, 1)]
    wide = wide[:: max(-(-wide.numel() // _LOOKED_AT), 1)]
    pad = wide[:, -1, 0].mode().values
    kept = (wide != pad).any(2)
    lengths = (kept * torch.arange(1, width + 1)).amax(1)
    whole, real = Rows(width, width, 0.0, height=height, time=time, size=size), int(lengths.sum())
    if not real or float(kept.sum()) < _DENSE * real or float(kept[:, 0].double().mean()) < _MOSTLY:
        return whole
    if float((lengths <= width - 2).double().mean()) <= 0.5:
        return whole
    padding, squares = 1 - real / (len(lengths) * width), _squares(lengths, width)
    return Rows(width, int(lengths.max()), padding, squares, height, time, size)
