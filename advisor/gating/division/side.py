"""One side of a pair: what its sites come to together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from advisor.gating.division.families import WORK, unit_of
from advisor.results.division import Portion
from advisor.results.sites import Site

_KERNELS = 3
_KNOWN = 0.5
"""Part of a side's time in which shapes or limits must be known to speak of them."""


class Weights(dict[str, float]):
    """Times by name."""

    def most_common(self, most: int | None = None) -> list[tuple[str, float]]:
        """Return the heaviest names, each with its time; equal ones by name."""
        return sorted(self.items(), key=lambda item: (-item[1], item[0]))[:most]


@dataclass(frozen=True)
class Side:
    """Sites of one side, with the factor from their ms to those of the division."""

    sites: tuple[Site, ...]
    factor: float = 1.0
    on_cpu: bool = False

    @cached_property
    def ms(self) -> float:
        """ms that they own."""
        return sum(site.ms for site in self.sites) * self.factor

    @cached_property
    def calls(self) -> float:
        """Kernels, copies or operators; of waits how many."""
        return sum(site.calls for site in self.sites)

    @cached_property
    def busy_ms(self) -> float:
        """Time that these last, hidden or not."""
        return sum(site.busy_ms for site in self.sites) * self.factor

    @cached_property
    def mb(self) -> float | None:
        """MB that they move; None where one is unknown."""
        sizes = [site.mb for site in self.sites]
        return None if None in sizes else self.factor * sum(size for size in sizes if size is not None)

    @cached_property
    def layout_calls(self) -> float:
        """Kernels that do nothing but turn a tensor from one layout into another."""
        return sum(site.calls for site in self.sites if site.kind == "layout")

    @cached_property
    def kernels(self) -> Weights:
        """Kernels by busy time."""
        return self._summed(lambda site: site.kernel)

    @cached_property
    def units(self) -> Weights:
        """Operators by busy time."""
        return self._summed(unit_of)

    @cached_property
    def dtype(self) -> str:
        """Number format of most of the time; empty where unknown."""
        return _most(self._summed(lambda site: site.dtype))

    @cached_property
    def shapes(self) -> Weights:
        """Shapes by busy time, those that are known."""
        return Weights({text: weight for text, weight in self._summed(lambda site: site.shapes).items() if text})

    @property
    def copies(self) -> bool:
        """True where it is copies alone."""
        return all(site.cause == "copy" for site in self.sites)

    @property
    def shaped(self) -> bool:
        """True where the shapes of most of it are known."""
        total = sum(_weight(site) for site in self.sites)
        return sum(self.shapes.values()) >= _KNOWN * total

    def _summed(self, name: Callable[[Site], str]) -> Weights:
        found: Weights = Weights()
        for site in self.sites:
            found[name(site)] = found.get(name(site), 0.0) + _weight(site)
        return found

    def samples(self) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """ms in each step; None where they were not kept."""
        kept = [site.samples for site in self.sites]
        if not kept or not all(kept) or len({len(values) for values in kept}) > 1:
            return None
        total: np.ndarray[tuple[int], np.dtype[np.float64]] = np.sum(np.array(kept, np.float64), axis=0) * self.factor
        return total

    def portion(self) -> Portion:
        """Return it as plain data."""
        working = sum(site.ms for site in self.sites if site.cause in WORK) * self.factor
        gpu = 0.0 if self.on_cpu else working
        limits = [(site.limit_ms, site.busy_ms) for site in self.sites if site.limit_ms is not None]
        known = sum(busy for _, busy in limits) * self.factor
        limit = sum(ms for ms, _ in limits if ms is not None) * self.factor
        names = [name for name, _ in self.kernels.most_common(_KERNELS) if name]
        waits = all(site.cause not in WORK for site in self.sites)
        return Portion(
            gpu_ms=gpu,
            host_ms=self.ms - gpu,
            calls=self.calls,
            kernels=[] if waits else names,
            shapes=_most(self.shapes),
            dtype=self.dtype,
            limit_ms=limit if known and known >= _KNOWN * self.busy_ms else None,
        )


def _weight(site: Site) -> float:
    """Return the time by which a site counts: how long it lasts, of waits what it owns."""
    return max(site.busy_ms, site.ms, 1e-9)


def _most(counter: Weights) -> str:
    """Return the heaviest text that is not empty, where it is more than what is unknown."""
    known = [(text, weight) for text, weight in counter.most_common() if text]
    return known[0][0] if known else ""


def merged(sides: Iterable[Side]) -> Side:
    """Put several together."""
    several = list(sides)
    return Side(tuple(site for side in several for site in side.sites), several[0].factor, several[0].on_cpu)
