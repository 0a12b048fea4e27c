"""A change: what of a pair differs between its sides, as figures."""

from __future__ import annotations

import re
from collections.abc import Hashable

from msgspec import Struct

from advisor.gating.division.families import PRODUCTS, family_of, sizes_beside
from advisor.gating.division.side import Side
from advisor.regex import regex
from advisor.results.division import Reason
from advisor.results.sites import Site

_CALLS = 0.02
_OTHER = 0.5
"""Share of a side's time in kernels that the other side lacks, from which on the kernels are others."""
_NHWC = regex(r"nhwc|channels_?last", re.IGNORECASE)
_NCHW = regex(r"nchw", re.IGNORECASE)
_LAYOUTS = 0.5


class Change(Struct):
    """A pair with its reason; ``key`` is what changes are put together by."""

    before: Side
    after: Side
    same_unit: bool
    reason: Reason = "other"
    key: Hashable = ()

    @property
    def ms(self) -> float:
        """Time that it owns after, less what it owned before."""
        return self.after.ms - self.before.ms

    @property
    def lead(self) -> Side:
        """The side that speaks of it: the second where there is one."""
        return self.after if self.after.sites else self.before

    @property
    def site(self) -> Site:
        """The heaviest site of that side."""
        return max(self.lead.sites, key=lambda site: site.ms)

    @property
    def ratio(self) -> float:
        """By which factor a call takes longer; 1 where nothing is known to have run."""
        before, after = self.before, self.after
        if not (before.busy_ms and after.calls and before.calls):
            return 1.0
        return (after.busy_ms / after.calls) / (before.busy_ms / before.calls)

    @property
    def calls_ratio(self) -> float:
        """By which factor it is called more often a step."""
        return self.after.calls / self.before.calls if self.before.calls else 1.0

    @property
    def more_calls(self) -> bool:
        """True where it is called more or less often."""
        before, after = self.before.calls, self.after.calls
        return abs(after - before) > _CALLS * max(before, after)

    @property
    def same(self) -> bool:
        """True where both sides are the same operators."""
        return self.same_unit or self.before.units.keys() == self.after.units.keys()

    @property
    def one_product(self) -> bool:
        """True where both are products of one family, by whatever name: mm and addmm, conv2d and convolution."""
        families = {family_of(site) for side in (self.before, self.after) for site in side.sites}
        return len(families) == 1 and families <= PRODUCTS

    @property
    def types(self) -> set[str]:
        """Number formats of both sides, as far as they are known."""
        return {self.before.dtype, self.after.dtype} - {""}

    @property
    def other_sizes(self) -> bool:
        """True where the shapes differ: without the batch where times are those of a sample."""
        before, after = self.before, self.after
        return self.same and before.shaped and after.shaped and _sizes(before) != _sizes(after)

    @property
    def other_kernels(self) -> bool:
        """True where most of a side's time is in kernels that the other lacks."""
        sides = (self.before, self.after)
        return any(_lacking(side, other) > _OTHER for side, other in (sides, sides[::-1]))

    @property
    def layouts(self) -> tuple[str, str]:
        """Memory formats of both sides by the names of their kernels, where these differ; empty texts else.

        What is not named NHWC is not, where the other side is.
        """
        named = (_layout(self.before), _layout(self.after))
        differ = "NHWC" in named and named[0] != named[1] and _lacking(self.before, self.after) > _OTHER
        return (named[0] or "NCHW", named[1] or "NCHW") if differ else ("", "")

    @property
    def turned(self) -> bool:
        """True where the memory format changed: by the names of kernels, or by those that only turn tensors."""
        more = abs(self.after.layout_calls - self.before.layout_calls)
        return self.same and (more >= _LAYOUTS or bool(self.layouts[0]))


def _sizes(side: Side) -> set[str]:
    return {sizes_beside(text) if side.factor != 1.0 else text for text in side.shapes}


def _layout(side: Side) -> str:
    names = [name for name, _ in side.kernels.most_common(3)]
    named = {word for word, known in (("NHWC", _NHWC), ("NCHW", _NCHW)) for name in names if known.search(name)}
    return named.pop() if len(named) == 1 else ""


def _lacking(side: Side, other: Side) -> float:
    """Return the share of a side's time in kernels that the other lacks."""
    total = sum(side.kernels.values())
    return sum(ms for name, ms in side.kernels.items() if name not in other.kernels) / total if total else 0.0
