"""Large tensors of the step before that a step reads and lets go of: a state that goes on, of which the new one takes the place.

What is there as a watched step begins is known by its memory. What an operator of the step reads of that, and what is gone as it
ends, was made by an earlier step for this one: a trace, which tells sizes alone, takes it for any other tensor as large.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from advisor.reading.program_settings import MOST_ENTRIES, Carried
from advisor.record.known import is_told, reference, storage_key

LEAST = 1 << 18
"""Elements of a tensor from which on a late pick is looked at."""


class Goers:
    """Shown what operators of watched steps read, from :meth:`begin` to :meth:`end` each; :meth:`summary` is of all of them."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._there: dict[int, tuple[Any, Carried]] = {}
        self._read: set[int] = set()
        self._found: dict[Carried, None] = {}

    def begin(self) -> None:
        """Take note of the large tensors that are there."""
        self._there, self._read = {}, set()
        for key, each, size in self._large():
            self._there.setdefault(key, (reference(self._torch, each), size))

    def see(self, given: Iterable[Any]) -> None:
        """Note the tensors that an operator reads."""
        if not self._there:
            return
        for part in given:
            if isinstance(part, self._torch.Tensor):
                if is_told(self._torch, part):
                    self._read.add(storage_key(part))
            elif isinstance(part, list | tuple):
                self.see(part)

    def end(self) -> None:
        """Find those that were read and are gone, where one as large that the step made is left; hold nothing of the others.

        Without one in its place what went is no state: a batch that a loader had made.
        """
        gone = {size for key, (held, size) in self._there.items() if key in self._read and held.expired()}
        if gone:
            self._found |= dict.fromkeys(gone & {size for key, _, size in self._large() if key not in self._there})
        self._there, self._read = {}, set()

    def _large(self) -> Iterator[tuple[int, Any, Carried]]:
        """Yield the large tensors that there are, each with the key of its memory and its size."""
        for each in gc.get_objects():
            if type(each) is self._torch.Tensor and is_told(self._torch, each) and each.numel() >= LEAST:
                yield storage_key(each), each, Carried(each.numel(), each.element_size())

    def summary(self) -> tuple[Carried, ...]:
        """Return the sizes of those that went, the largest first."""
        return tuple(sorted(self._found, key=lambda size: -size.elements * size.bytes)[:MOST_ENTRIES])
