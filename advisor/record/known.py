"""Memory that a program holds at one moment: what later has the same bytes, at the same address or anywhere, was there already.

Tensors and arrays are found from the frames that run: in their variables, in lists, tuples and dictionaries there, in objects'
attributes, and in the list that a loop goes through, which may have no name. Of a GPU's memory no byte is read here, as the program
would wait for the device: a tensor there was there already where its memory was, and torch has counted no write into it.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import sys
from bisect import bisect_right
from collections.abc import Iterator
from types import FrameType
from typing import Any

from advisor.record.places import is_library

_MOST_FRAMES, _MOST_PARTS, _DEEPEST = 8, 4096, 3
_MOST_BYTES = 1 << 26
_MOST_ROWS = 1024
_WHOLE_BYTES = 1 << 20
"""Tensors up to this size are compared byte by byte, larger ones by blocks spread over them."""
_BLOCKS, _BLOCK_BYTES = 32, 1 << 12
_PIECES, _PIECE_BYTES = 16, 256
_MOST_SOUGHT = 8
"""Values of loops' variables that it is asked of what holds them: each takes a look at all objects that there are."""


class Known:
    """A copy of what the frames around *frame* hold, and of what *inputs* are parts of."""

    def __init__(self, torch: Any, frame: FrameType | None, inputs: list[Any]) -> None:
        self._torch = torch
        self._numpy = sys.modules.get("numpy")
        self._copies: dict[int, bytes] = {}
        self._held: dict[int, tuple[Any, int | None]] = {}
        self._digests: set[bytes] = set()
        self._room, self._parts = _MOST_BYTES, _MOST_PARTS
        self._seen: set[int] = set()
        for tensor in inputs:
            self._take(tensor)
        frames = list(_frames(frame))
        for each in frames:
            held = dict(each.f_locals)
            self._loop(held, inputs)
            for value in held.values():
                self._look(value, 0)
            for name in each.f_code.co_names:
                value = each.f_globals.get(name)
                if isinstance(value, self._torch.Tensor) or self._is_array(value):
                    self._look(value, 0)
        self._starts = sorted(self._copies)

    def holds(self, tensor: Any) -> bool:
        """Tell whether the bytes of a tensor were there."""
        if not is_plain(self._torch, tensor):
            held = self._held.get(storage_key(tensor)) if is_told(self._torch, tensor) else None
            return held is not None and held[1] == version(tensor)
        start, extent = tensor.data_ptr(), span(tensor)
        at = bisect_right(self._starts, start) - 1
        if at >= 0:
            offset = start - self._starts[at]
            copy = self._copies[self._starts[at]]
            if offset + extent <= len(copy) and copy[offset : offset + extent] == ctypes.string_at(start, extent):
                return True
        return digest(tensor) in self._digests

    def _look(self, value: Any, depth: int) -> None:
        if self._parts <= 0 or id(value) in self._seen:
            return
        self._parts -= 1
        if isinstance(value, self._torch.Tensor) or self._is_array(value):
            self._take(value)
            return
        if depth >= _DEEPEST:
            return
        if isinstance(value, list | tuple | dict):
            self._seen.add(id(value))
            for part in list(value.values() if isinstance(value, dict) else value):
                self._look(part, depth + 1)
        elif isinstance(value, self._torch.nn.Module):
            for part in list(value._buffers.values()):  # means and deviations, tables, windows
                self._look(part, depth + 1)
        elif _is_object(value):
            self._seen.add(id(value))
            for part in list(vars(value).values()):
                self._look(part, depth + 1)

    def _is_array(self, value: Any) -> bool:
        return self._numpy is not None and isinstance(value, self._numpy.ndarray)

    def _loop(self, held: dict[str, Any], inputs: list[Any]) -> None:
        """Look into lists without a name that hold what the inputs are made of: a loop goes through them."""
        named = {id(value) for value in held.values()}
        sought = [value for value in held.values() if self._shares(value, inputs)][:_MOST_SOUGHT]
        sought += [part for value in held.values() if isinstance(value, list | tuple) and len(value) < _MOST_SOUGHT
                   for part in value if self._shares(part, inputs)][:_MOST_SOUGHT]  # fmt: skip
        tuples: list[Any] = []
        for holder in gc.get_referrers(*sought) if sought else ():
            if isinstance(holder, list | tuple) and holder is not sought and id(holder) not in named:
                self._look(holder, 0)
                if isinstance(holder, tuple) and len(holder) < _MOST_SOUGHT:
                    tuples.append(holder)
        self._lists_of(tuples)

    def _lists_of(self, tuples: list[Any]) -> None:
        """Look into lists of tuples, as of zip or of samples and labels."""
        for outer in gc.get_referrers(*tuples) if tuples else ():
            if isinstance(outer, list) and outer is not tuples:
                self._look(outer, 0)

    def _shares(self, value: Any, inputs: list[Any]) -> bool:
        if not (isinstance(value, self._torch.Tensor) or self._is_array(value)):
            return False
        if isinstance(value, self._torch.Tensor) and not is_plain(self._torch, value):
            told = is_told(self._torch, value)
            return told and any(storage_key(tensor) == storage_key(value) for tensor in inputs)
        own = self._range(value)
        return own is not None and any(own[0] <= tensor.data_ptr() < own[0] + own[1] for tensor in inputs)

    def _range(self, value: Any) -> tuple[int, int] | None:
        """Return begin and length of the memory that a tensor or an array is a part of."""
        if isinstance(value, self._torch.Tensor):
            if not is_plain(self._torch, value):
                return None
            storage = value.untyped_storage()
            return int(storage.data_ptr()), int(storage.nbytes())
        while self._is_array(value.base):
            value = value.base
        if value.dtype.hasobject or not (value.flags.c_contiguous or value.flags.f_contiguous):
            return None
        return int(value.__array_interface__["data"][0]), int(value.nbytes)

    def _take(self, value: Any) -> None:
        if isinstance(value, self._torch.Tensor) and not is_plain(self._torch, value):
            if is_told(self._torch, value):
                self._held.setdefault(storage_key(value), (reference(self._torch, value), version(value)))
            return
        own = self._range(value)
        if own is None or own[1] <= len(self._copies.get(own[0], b"")) or own[1] > self._room:
            return
        self._room -= own[1]
        self._copies[own[0]] = ctypes.string_at(*own)
        array = value if self._is_array(value) else None
        tensor = self._torch.from_numpy(array) if array is not None and array.flags.writeable else value
        if isinstance(tensor, self._torch.Tensor):
            tensor = tensor.detach()
            self._digests.add(digest(tensor))
            if tensor.dim() > 1 and tensor.shape[0] <= _MOST_ROWS:
                self._digests.update(digest(row) for row in tensor)


def on_host(tensor: Any) -> bool:
    """Tell whether a tensor lies on the host."""
    return bool(tensor.device.type == "cpu")


def on_gpu(tensor: Any) -> bool:
    """Tell whether a tensor lies on a GPU."""
    return bool(tensor.device.type == "cuda")


def is_plain(torch: Any, tensor: Any) -> bool:
    """Tell whether a tensor's bytes can be read."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and on_host(tensor) and tensor.layout == torch.strided


def is_told(torch: Any, tensor: Any) -> bool:
    """Tell whether a tensor can be told from others: by its bytes, or on a GPU by its memory and the writes into that."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and (on_host(tensor) or on_gpu(tensor)) and tensor.layout == torch.strided


def storage_key(tensor: Any) -> int:
    """Return the number of a tensor's memory, which views share; a later one may have it once nothing refers to this."""
    return int(tensor.untyped_storage()._cdata)


def reference(torch: Any, tensor: Any) -> Any:
    """Return a weak reference to a tensor's memory: while there is one, no other memory takes its number."""
    return torch.multiprocessing.reductions.StorageWeakRef(tensor.untyped_storage())


def version(tensor: Any) -> int | None:
    """Return how often a tensor was written into; None where nothing counts it."""
    return None if tensor.is_inference() else int(tensor._version)


def span(tensor: Any) -> int:
    """Return the bytes from a tensor's first element to its last."""
    if not tensor.numel():
        return 0
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return int((sum((size - 1) * stride for size, stride in strides) + 1) * tensor.element_size())


def digest(tensor: Any, most: int | None = None) -> bytes:
    """Return what is the same for tensors of the same numbers in the same order; of *most* of them, spread over it."""
    flat = tensor.detach().reshape(-1)
    flat = (flat if most is None or flat.numel() <= most else flat[:: -(-flat.numel() // most)]).contiguous()
    length = flat.numel() * flat.element_size()
    found = hashlib.blake2b(ctypes.string_at(flat.data_ptr(), length) if length else b"", digest_size=16)
    found.update(str(flat.dtype).encode())
    return found.digest()


def sampled(tensor: Any) -> bytes:
    """Return what is the same for tensors of the same bytes from first to last element; of large ones blocks are read."""
    found = hashlib.blake2b(digest_size=16)
    for start, length in _blocks(span(tensor)):
        found.update(ctypes.string_at(tensor.data_ptr() + start, length))
    return found.digest()


def fetched(torch: Any, tensor: Any) -> bytes:
    """Return the same as :func:`sampled` of a tensor on a GPU. The program waits for the device: only in steps that nobody times.

    Raises RuntimeError while a graph is captured, which does not allow it.
    """
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("a graph is captured")
    found, start = hashlib.blake2b(digest_size=16), tensor.storage_offset() * tensor.element_size()
    with torch.no_grad():
        memory = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        memory.set_(tensor.untyped_storage(), start, (span(tensor),), (1,))
        parts = [memory[at : at + length] for at, length in _blocks(span(tensor))]
        whole = torch.cat(parts).cpu()
    found.update(ctypes.string_at(whole.data_ptr(), whole.numel()) if whole.numel() else b"")
    return found.digest()


def components(torch: Any, tensor: Any) -> list[Any]:
    """Return the tensors of plain memory that a tensor is: itself, or indices and values of a sparse one; none for other kinds."""
    if is_plain(torch, tensor):
        return [tensor]
    if type(tensor) is not torch.Tensor or not on_host(tensor):
        return []
    if tensor.layout == torch.sparse_coo:
        found = [tensor._indices(), tensor._values()]
    elif tensor.layout == torch.sparse_csr:
        found = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    else:
        return []
    return found if all(is_plain(torch, part) for part in found) else []


def glimpse(tensor: Any) -> int:
    """Return what is the same for tensors of the same bytes, of a few pieces spread over them: enough to see that others differ."""
    length, start = span(tensor), tensor.data_ptr()
    if length <= _PIECES * _PIECE_BYTES:
        return hash(ctypes.string_at(start, length)) if length else 0
    ends = (length - _PIECE_BYTES) / (_PIECES - 1)
    return hash(b"".join(ctypes.string_at(start + int(ends * at), _PIECE_BYTES) for at in range(_PIECES)))


def _blocks(length: int) -> Iterator[tuple[int, int]]:
    """Yield begin and length of what is read of so many bytes."""
    if length <= _WHOLE_BYTES:
        yield 0, length
        return
    for block in range(_BLOCKS):
        yield (length - _BLOCK_BYTES) * block // (_BLOCKS - 1), _BLOCK_BYTES


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the innermost frames of the user's code at *frame* and around it."""
    left = _MOST_FRAMES
    while frame is not None and left:
        if not is_library(frame.f_code.co_filename):
            left -= 1
            yield frame
        frame = frame.f_back


def _is_object(value: Any) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value) and not _is_module(value)


def _is_module(value: Any) -> bool:
    return isinstance(value, type(sys))
