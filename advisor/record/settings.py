"""Settings of the program: its loaders, optimizers, autocast regions and compilations, each with its place in the source."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from advisor.reading.program_settings import Autocast, Compiled, Loader, Optimizer
from advisor.record.batches import Batches
from advisor.record.looks import Looks
from advisor.record.places import caller
from advisor.record.prompts import Prompts
from advisor.record.ready import Ready
from advisor.record.workers import Workers

_MOST = 64
_REMADE = 3
"""Loaders made at one place, each iterated once, from which on the program makes one for each pass: two may be for two datasets."""
_ITERABLE = 1
"""Kind of dataset by which torch names one that yields its samples."""


class Settings:
    """Collector of settings; :meth:`summary` returns those that go into the trace."""

    def __init__(self) -> None:
        self._places: WeakKeyDictionary[Any, tuple[str, int]] = WeakKeyDictionary()
        self._loader_of: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._loaders: dict[int, Loader] = {}
        self._passes: WeakKeyDictionary[Any, list[int]] = WeakKeyDictionary()  # iterators made, by loader
        self._passed: dict[int, list[int]] = {}  # the same, which outlives a loader that no loop goes over any more
        self._iterated: dict[
            tuple[str, int], list[int]
        ] = {}  # by place: loaders that were iterated, most passes over one
        self._optimizers: dict[int, Optimizer] = {}
        self._autocast: dict[Autocast, None] = {}
        self._compiled: dict[Compiled, None] = {}
        self.batches = Batches()
        self.ready = Ready()
        self.prompts = Prompts()
        self.workers = Workers()
        self.looks = Looks()

    def remember(self, subject: Any) -> None:
        """Note the place where a loader or optimizer is created."""
        self._places[subject] = caller(sys._getframe(1))

    def iterates(self, iterator: Any, loader: Any) -> None:
        """Note the iterator of a loader."""
        self._loader_of[iterator] = loader
        place = self._places.get(loader)
        if place is not None and (place in self._iterated or len(self._iterated) < _MOST):
            passes = self._passes.setdefault(loader, [0])
            passes[0] += 1
            counted = self._iterated.setdefault(place, [0, 0])
            counted[0] += passes[0] == 1
            counted[1] = max(counted[1], passes[0])
        workers = int(getattr(loader, "num_workers", 0) or 0)
        self.workers.starts(workers)
        self.looks.fetches |= not workers

    def batch(self, iterator: Any) -> None:
        """Note the loader of an iterator that is asked for a batch while steps are recorded."""
        loader = self._loader_of.get(iterator)
        key = id(iterator if loader is None else loader)
        if key in self._loaders or len(self._loaders) >= _MOST:
            return
        workers = int(getattr(iterator, "_num_workers", 0) or 0)
        batch_size = getattr(getattr(iterator, "_index_sampler", None), "batch_size", None)
        if batch_size is None:
            batch_size = getattr(loader, "batch_size", None)
        prefetch = getattr(iterator, "_prefetch_factor", None) if workers else None
        file, line = ("", 0) if loader is None else self._places.get(loader, ("", 0))
        if loader is not None and loader in self._passes:
            self._passed[key] = self._passes[loader]
        self._loaders[key] = Loader(
            workers=workers,
            pin_memory=bool(getattr(iterator, "_pin_memory", False)),
            prefetch=prefetch if isinstance(prefetch, int) else None,
            persistent=bool(getattr(iterator, "_persistent_workers", False)),
            batch_size=batch_size if isinstance(batch_size, int) else None,
            iterable=getattr(iterator, "_dataset_kind", 0) == _ITERABLE,
            samples=_samples(loader),
            file=file,
            line=line,
        )

    def _remade(self, place: tuple[str, int]) -> bool:
        made, most = self._iterated.get(place, (0, 0))
        return made >= _REMADE and most == 1

    def stepped(self, optimizer: Any) -> None:
        """Note an optimizer that took a step."""
        if id(optimizer) in self._optimizers or len(self._optimizers) >= _MOST:
            return
        groups = optimizer.param_groups
        first = groups[0] if groups else {}
        file, line = self._places.get(optimizer, ("", 0))
        self._optimizers[id(optimizer)] = Optimizer(
            kind=type(optimizer).__name__,
            foreach=_flag(first.get("foreach")),
            fused=_flag(first.get("fused")),
            tensors=sum(len(group["params"]) for group in groups),
            file=file,
            line=line,
        )

    def autocast(self, device: str, dtype: str) -> None:
        """Note an autocast region that is entered."""
        if len(self._autocast) < _MOST:
            file, line = caller(sys._getframe(1))
            self._autocast[Autocast(device, dtype.removeprefix("torch."), file, line)] = None

    @property
    def has_compiled(self) -> bool:
        """True where the program called ``torch.compile``."""
        return bool(self._compiled)

    def compiled(self, **options: Any) -> None:
        """Note a call of ``torch.compile`` with *options*."""
        if len(self._compiled) >= _MOST:
            return
        file, line = caller(sys._getframe(1))
        backend = options.get("backend", "inductor")
        call = Compiled(
            mode=str(options.get("mode") or "default"),
            dynamic=_flag(options.get("dynamic")),
            fullgraph=bool(options.get("fullgraph", False)),
            backend=backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__),
            file=file,
            line=line,
        )
        self._compiled[call] = None

    def summary(self) -> dict[str, Any]:
        """Return the collected fields of :class:`advisor.reading.program_settings.Recorded`."""
        return {
            "loaders": tuple(
                replace(
                    loader,
                    remade=self._remade((loader.file, loader.line)),
                    passes=self._passed[key][0] if key in self._passed else None,
                )
                for key, loader in self._loaders.items()
            ),
            "optimizers": tuple(self._optimizers.values()),
            "autocast": tuple(self._autocast),
            "compiled": tuple(self._compiled),
            **self.workers.summary(self.batches.pixels),
            **self.looks.summary(),
            "batch_bytes": self.batches.bytes,
            "prompts": self.prompts.summary(),
            **self.batches.summary(),
        }


def _samples(loader: Any) -> int | None:
    """Count the samples of a loader's dataset; None where it has no length."""
    try:
        return len(loader.dataset)
    except Exception:  # noqa: BLE001  (a dataset's own method may raise whatever it likes)
        return None


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)
