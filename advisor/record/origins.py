"""Origins of tensors between the calls of a group: whether what one of them returned went into the input of a later one.

Torch functions tell, one by one. What a function returns comes from what it was given; what was there at the second call comes
from no call behind it. A call of a module that is none of the group stands for one function. Once something that the calls
returned was read into Python, numbers may come from it, and so may tensors that are made of nothing: they count as doubtful, as
does all that came about unseen.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

from advisor.record.known import Known, is_plain, is_told, reference, span, storage_key, version
from advisor.record.numbers import Numbers

Mark = tuple[int, int]
"""Groups whose outputs went into a tensor, a bit each; and those of which they may have."""
NONE: Mark = (0, 0)

_DEEPEST = 6
_MOST_GROUPS = 8
_MOST_BYTES = 1 << 28
_SHAPES = frozenset(
    {
        "__get__", "__set__", "__delete__", "__hash__", "__len__", "backward", "dim", "element_size", "get_device", "has_names",
        "is_complex", "is_conj", "is_contiguous", "is_floating_point", "is_inference", "is_neg", "is_pinned", "is_same_size",
        "is_signed", "ndimension", "nelement", "numel", "retain_grad", "size", "storage_offset", "stride", "type",
    }
)  # fmt: skip
"""Functions that tell nothing of a tensor's numbers."""
_READS = frozenset(
    {
        "apply_", "argwhere", "bincount", "map_", "map2_", "masked_select", "nonzero", "one_hot", "repeat_interleave", "unique",
        "unique_consecutive", "_unique2", "_unique",
    }
)  # fmt: skip
"""Functions that call Python with numbers of a tensor, or return a tensor of a size that depends on them."""


class Origins:
    """Marks of tensors between the calls that stand in one other call. ``pending`` are the groups watched, a bit each."""

    def __init__(self, torch: Any) -> None:
        self.pending = 0
        self.escaped = 0
        self.guessed = 0
        """Groups of which something was taken for independent that two calls do not show: numbers that count up."""
        self._torch = torch
        self._known: list[Known | None] = []
        self._marks: dict[int, tuple[Any, Mark]] = {}
        self._views: dict[int, tuple[Any, Mark]] = {}
        self._modules: dict[int, Mark] = {}
        self._room = _MOST_BYTES
        self._numbers = Numbers(torch)

    def add(self, known: Known) -> int:
        """Watch another group, at its second call; return its bit, 0 where there are too many."""
        if len(self._known) >= _MOST_GROUPS:
            return 0
        bit = 1 << len(self._known)
        self._known.append(known)
        self.pending |= bit
        return bit

    def leave_out(self, bit: int) -> None:
        """Watch a group no more, and let go of what was there at its second call."""
        self.pending &= ~bit
        if bit:
            self._known[bit.bit_length() - 1] = None

    def forget(self) -> None:
        """Let go of all marks, where functions ran unseen; what was there is doubtful from here on."""
        self._marks, self._views = {}, {}
        self.escaped |= self.pending

    def of(self, tensors: list[Any]) -> Mark:
        """Return the mark of what is computed from tensors."""
        given, doubt = NONE
        for tensor in tensors:
            more = self._of(tensor)
            given, doubt = given | more[0], doubt | more[1]
        return given, doubt

    # ---- functions

    def before(self, name: str, args: Any, kwargs: Any) -> Any:
        """Note what a function is about to be given; :meth:`after` takes what this returns."""
        parts = list(leaves(self._torch, (args, kwargs)))
        tensors = [part for part in parts if isinstance(part, self._torch.Tensor)]
        versions = [version(tensor) for tensor in tensors]
        # What is written is read first: afterwards its bytes are others.
        mark = self.of(tensors) if _writes(name, kwargs) else None
        return parts, tensors, versions, mark

    def after(self, function: Any, name: str, given: Any, args: Any, result: Any, frame: FrameType | None) -> None:
        """Mark what a function returned, and what it wrote into."""
        parts, tensors, versions, mark = given
        results = list(leaves(self._torch, result))
        returned = [part for part in results if isinstance(part, self._torch.Tensor)]
        if _reads(self._torch, function, name, args, results):
            self.escaped |= _either(mark or self.of(tensors))
        in_place = mark is not None
        if not returned and not in_place:
            return
        of_numbers = self._of_numbers(name, args, parts, frame)
        keys = {self._key(tensor) for tensor in tensors}
        for each in returned:
            if self._key(each) in keys:
                self._view(each, tensors, of_numbers)
                continue
            mark = mark or self.of(tensors)
            self._set(each, _joined(mark, (0, _either(of_numbers) | (0 if tensors else self.escaped))))
        for tensor, before in zip(tensors, versions, strict=True):
            if version(tensor) != before or (in_place and before is None and _is_written(tensor, tensors, returned)):
                self._write(tensor, _joined(mark or (0, self.pending), of_numbers))

    def made(self, tensor: Any) -> None:
        """Mark a tensor that was made of an array."""
        self._set(tensor, (0, self.escaped))

    def called(self, module: Any, inputs: Any, output: Any, bit: int) -> None:
        """Mark what the call of a module returned; *bit* is that of its group, 0 for one that belongs to none."""
        parts = list(leaves(self._torch, inputs))
        tensors = [part for part in parts if isinstance(part, self._torch.Tensor)]
        numbers = any(not isinstance(part, self._torch.Tensor | None | bool | str) for part in parts)
        mark = _joined(self.of(tensors), (bit, self.escaped if numbers else 0))
        kept = [id(part) for part in module.modules()]
        for each in kept:
            mark = _joined(mark, self._modules.get(each, NONE))
        if _either(mark) & ~bit or mark[1]:
            # It may keep what it was given. What a group's own module keeps is compared from call to call.
            self._modules.update((each, mark) for each in kept)
        keys = {self._key(tensor) for tensor in tensors}
        for part in leaves(self._torch, output):
            if isinstance(part, self._torch.Tensor):
                if self._key(part) in keys:
                    self._view(part, tensors, mark)
                else:
                    self._write(part, mark)
            elif part is not None:
                self.escaped |= _either(mark)
        if bit:
            for tensor in tensors:
                if self._key(tensor) in self._marks and version(tensor) != 0:
                    self._write(tensor, mark)

    # ---- marks

    def _of(self, tensor: Any) -> Mark:
        if not is_told(self._torch, tensor):
            return 0, self.pending
        view, entry = self._views.get(id(tensor)), self._marks.get(self._key(tensor))
        mark = view[1] if view is not None and view[0]() is tensor else NONE
        if entry is not None:
            return _joined(mark, entry[1])
        if type(tensor) is self._torch.nn.Parameter:
            # What updates it is seen, or a backward pass tells.
            self._set(tensor, NONE)
            return mark
        self._room -= len(self._known) * span(tensor) if is_plain(self._torch, tensor) else 0
        if self._room < 0:
            return mark[0], self.pending
        unknown = sum(
            1 << at
            for at, known in enumerate(self._known)
            if known is not None and self.pending >> at & 1 and not known.holds(tensor)
        )
        return _joined(mark, (0, unknown))

    def _key(self, tensor: Any) -> int:
        return storage_key(tensor) if is_told(self._torch, tensor) else -1

    def _set(self, tensor: Any, mark: Mark) -> None:
        if is_told(self._torch, tensor):
            self._marks[self._key(tensor)] = reference(self._torch, tensor), mark

    def _write(self, tensor: Any, mark: Mark) -> None:
        """Mark what was written into, or what may have been there."""
        key = self._key(tensor)
        entry = self._marks.get(key)
        if entry is None and key >= 0 and not tensor.untyped_storage().resizable():
            self.escaped |= _either(mark)  # an array shares this memory
        self._set(tensor, mark if entry is None else _joined(mark, entry[1]))

    def _view(self, tensor: Any, tensors: list[Any], of_numbers: Mark) -> None:
        """Mark a view: by what told which part it is, and as the tensor that it is a view of."""
        key, mark = self._key(tensor), of_numbers
        for each in tensors:
            if self._key(each) != key:
                mark = (mark[0] | _either(self._of(each)), mark[1])
            elif (view := self._views.get(id(each))) is not None and view[0]() is each:
                mark = _joined(mark, view[1])
        if mark != NONE:
            self._views[id(tensor)] = weakref.ref(tensor), mark

    def _of_numbers(self, name: str, args: Any, parts: list[Any], frame: FrameType | None) -> Mark:
        """Return what numbers that were given beside tensors come from. Those that choose a part choose what is computed."""
        if not self.escaped:
            return NONE
        trust = self._numbers.trust(name, args, parts, frame)
        if trust is None:
            self.guessed |= self.escaped
        if trust is not False:
            return NONE
        return (self.escaped, 0) if name == "__getitem__" else (0, self.escaped)


def leaves(torch: Any, value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield all that lists, tuples, dictionaries and slices hold, or the value itself."""
    if isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    elif depth < _DEEPEST and isinstance(value, list | tuple | dict):
        for part in list(value.values()) if isinstance(value, dict) else value:
            yield from leaves(torch, part, depth + 1)
    else:
        yield value


def _joined(one: Mark, other: Mark) -> Mark:
    return one[0] | other[0], one[1] | other[1]


def _either(mark: Mark) -> int:
    return mark[0] | mark[1]


def _writes(name: str, kwargs: Any) -> bool:
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name == "__setitem__" or name.startswith("__i") or kwargs.get("out") is not None


def _is_written(tensor: Any, tensors: list[Any], returned: list[Any]) -> bool:
    """Tell what a function wrote into that nothing counts: the first tensor, or what it returned."""
    return tensor is tensors[0] or any(tensor is each for each in returned)


def _reads(torch: Any, function: Any, name: str, args: Any, results: list[Any]) -> bool:
    """Tell whether Python sees numbers of the tensors that a function is given."""
    if name in _READS or (name == "where" and len(args) == 1):
        return True
    if name == "__getitem__":
        index = leaves(torch, args[1:])
        return any(isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8) for part in index)
    operator = getattr(function, "_qualified_op_name", "aten::")
    if not str(operator).startswith("aten::"):
        return True
    return name not in _SHAPES and not all(isinstance(part, torch.Tensor | None) for part in results)
