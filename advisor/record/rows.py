"""Rows of a batch that a module computes although another row of it is the same: copies made before it, not behind it.

A row is a position in the first dimension. Rows count as the same where all that the module is given of them is equal to the
byte, and what it returns of them is close: whatever it has of its own (dropout, a state) makes the results differ.

On a GPU the device adds each row's bytes up, by weights, and the program waits for a number a row: in a step that nobody times.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from typing import Any

from advisor.record.batches import tensors
from advisor.record.known import is_told, on_gpu

LEAST_SHARE = 0.5
"""Rows that are there already, of all, from which on a call counts."""
_LEAST_BYTES = 64
"""A row of less, such as a token's number or a flag, is often there twice, and is no work to speak of."""
_MOST_ROWS, _MOST_BYTES = 1 << 15, 1 << 26
_PROBE = 64
_CLOSE = 1e-3
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
"""Types of the sizes of numbers, by which bytes are read."""
_FACTORS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9)
_CHUNK = 1 << 21
"""Numbers that are added up at once: the memory that it takes is what the recorder adds to the program's."""


def repeated(torch: Any, inputs: Any, output: Any, *, waits: bool = True) -> float:
    """Return the share of a call's rows that are the same as an earlier row; 0 where few are, or it cannot be told.

    Without *waits* rows on a GPU are not looked at.
    """
    held = list(tensors(torch, inputs))
    rows = next((tensor.shape[0] for tensor in held if tensor.dim() > 1), 0)
    given, returned = (
        [each for each in part if each.dim() and each.shape[0] == rows] for part in (held, tensors(torch, output))
    )
    if not 1 < rows <= _MOST_ROWS or not returned or not _is_work(given, rows):
        return 0.0
    if all(_is_on_gpu(torch, each) for each in given + returned):
        return _on_gpu(torch, given, returned, rows) if waits else 0.0
    return _on_host(torch, given, returned, rows) if all(map(_is_plain, given + returned)) else 0.0


def _on_host(torch: Any, given: list[Any], returned: list[Any], rows: int) -> float:
    """Return that share of tensors on the host."""
    with torch.no_grad():
        told = _told_apart(torch, given, rows)
        # Of most batches a few numbers of each row tell that they differ.
        for probed in (True, False):
            first = _first_of(given, rows, probed)
            share = sum(at < row and tells for row, (at, tells) in enumerate(zip(first, told, strict=True))) / rows
            if share < LEAST_SHARE:
                return 0.0
        same = torch.tensor(first)
        alike = all(_is_close(torch, tensor.detach(), tensor.detach()[same]) for tensor in returned)
    return share if alike else 0.0


def _is_on_gpu(torch: Any, tensor: Any) -> bool:
    return on_gpu(tensor) and is_told(torch, tensor) and not tensor.is_complex()


def _on_gpu(torch: Any, given: list[Any], returned: list[Any], rows: int) -> float:
    """Return the same share of tensors on a GPU."""
    if sum(each.numel() * each.element_size() for each in returned) > _MOST_BYTES:
        return 0.0
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        return 0.0
    with torch.no_grad():
        first = list[int]()
        for probed in (True, False):
            sums = torch.stack([part for tensor in given for part in _sums(torch, tensor, rows, probed)], 1).tolist()
            firsts: dict[tuple[int, ...], int] = {}
            first = [firsts.setdefault(tuple(row), at) for at, row in enumerate(sums)]
            if sum(at < row for row, at in enumerate(first)) / rows < LEAST_SHARE:
                return 0.0
        told = _told_apart(torch, given, rows)
        share = sum(at < row and tells for row, (at, tells) in enumerate(zip(first, told, strict=True))) / rows
        if share < LEAST_SHARE:
            return 0.0
        same = torch.tensor(first).to(given[0].device)
        alike = all(_is_close(torch, tensor.detach(), tensor.detach()[same]) for tensor in returned)
    return share if alike else 0.0


def _sums(torch: Any, tensor: Any, rows: int, probed: bool) -> list[Any]:
    """Return two numbers of each row of a tensor: sums of all its numbers, as they are stored, by weights of their places."""
    flat = tensor.detach().reshape(rows, -1)
    if probed and flat.shape[1] > _PROBE:
        flat = flat[:, :: flat.shape[1] // _PROBE]
    sums = [torch.zeros(rows, dtype=torch.int64, device=flat.device) for _ in _FACTORS]
    kind, step = getattr(torch, _INTEGERS[flat.element_size()]), max(_CHUNK // rows, 1)
    for at in range(0, flat.shape[1], step):
        numbers = flat[:, at : at + step].contiguous().view(kind).to(torch.int64)
        places = torch.arange(at + 1, at + 1 + numbers.shape[1], device=flat.device)
        for total, factor in zip(sums, _FACTORS, strict=True):
            mixed = places * factor
            mixed = (mixed ^ (mixed >> 29)) * factor
            total += (numbers * (mixed ^ (mixed >> 31))).sum(1)
    return sums


def _is_work(given: list[Any], rows: int) -> bool:
    """Tell whether a row is large enough to be work, and all of them small enough to be compared."""
    sizes = [_row_bytes(tensor) for tensor in given]
    large = (size >= _LEAST_BYTES and each.is_floating_point() for size, each in zip(sizes, given, strict=True))
    return sum(sizes) * rows <= _MOST_BYTES and any(large)


def _told_apart(torch: Any, given: list[Any], rows: int) -> list[bool]:
    """Return which rows are not of one number throughout: that is padding, or an input made up to time a model."""
    told = torch.zeros(rows, dtype=torch.bool, device=given[0].device)
    for tensor in given:
        flat = tensor.detach().reshape(rows, -1)
        if tensor.is_floating_point() and flat.shape[1]:
            told |= flat.amax(1) != flat.amin(1)
    return list(told.tolist())


def _is_plain(tensor: Any) -> bool:
    return tensor.device.type == "cpu" and str(tensor.layout) == "torch.strided" and not tensor.is_complex()


def _row_bytes(tensor: Any) -> int:
    return int(math.prod(tensor.shape[1:]) * tensor.element_size())


def _first_of(tensors: list[Any], rows: int, probed: bool) -> list[int]:
    """Return for each row the first one that is the same; by some of each row's numbers only, where *probed*."""
    digests = [hashlib.blake2b(digest_size=16) for _ in range(rows)]
    for tensor in tensors:
        flat = tensor.detach().reshape(rows, -1)
        if probed and flat.shape[1] > _PROBE:
            flat = flat[:, :: flat.shape[1] // _PROBE]
        flat = flat.contiguous()
        width = flat.shape[1] * flat.element_size()
        data = ctypes.string_at(flat.data_ptr(), rows * width) if width else b""
        for row, digest in enumerate(digests):
            digest.update(data[row * width : (row + 1) * width])
    firsts: dict[bytes, int] = {}
    return [firsts.setdefault(digest.digest(), row) for row, digest in enumerate(digests)]


def _is_close(torch: Any, tensor: Any, other: Any) -> bool:
    """Tell whether results are the same but for rounding, which depends on a row's place in a matrix."""
    if not tensor.is_floating_point():
        return bool(torch.equal(tensor, other))
    size = float(tensor.abs().max()) if tensor.numel() else 0.0
    return math.isfinite(size) and bool(((tensor - other).abs().max() <= _CLOSE * size) if tensor.numel() else True)
