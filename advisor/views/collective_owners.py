"""Owners of exposed collectives in training: their kind, and the optimizer, pass or range of the program that issued them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.frames.collectives import NAMES, communication, kinds
from advisor.intervals import Ints, alike, fetch
from advisor.timeline.calls import FORWARD, OPTIMIZER, PHASES
from advisor.timeline.context import Context
from advisor.timeline.surroundings import ranges_of
from advisor.views.owners import Owner, short_kernel

_STEPS = "Optimizer.step#"
_PASSES = {"forward": "the forward pass", "backward": "the backward pass", "optimizer": "the optimizer's step"}
_NAMED = 2
"""Places of one kind that are named together, where each is small."""


def collective_owners(context: Context, segments: Ints, least_ns: float) -> list[Owner]:
    """Divide collectives of a training step by their kind and by what issued them: an optimizer, a pass, a range of the program.

    NCCL runs several kinds in a kernel of one name, and the operators that call it are the same in every pass. Of one kind what
    takes less than *least_ns* each is told together.
    """
    ledger, work, host = context.ledger, context.recording.work, context.recording.host
    row, dur = ledger.row[segments], ledger.dur_ns[segments]
    row, dur = row[row >= 0], dur[row >= 0]
    kind = context.once(kinds)[np.searchsorted(communication(context), row)]
    launch = work.launch[row]
    phase = context.phases(launch)
    steps = np.array([name.startswith(_STEPS) for name in context.names], np.bool_)
    by = np.where(phase == OPTIMIZER, fetch(host.name, host.nearest(launch, steps[host.name])), -1)
    by = np.where(phase == FORWARD, ranges_of(context, launch, outermost=True), by)
    plain = np.where(kind == len(NAMES), work.name[row], -1)
    large: list[Owner] = []
    small: dict[str, list[tuple[str, Ints]]] = {}
    first, part = alike(kind, plain, phase, by)
    for number, at in enumerate(first.tolist()):
        name = NAMES[kind[at]] if kind[at] < len(NAMES) else short_kernel(context.names[plain[at]])
        issuer = _issuer(context, PHASES[phase[at]], int(by[at]))
        rows = np.flatnonzero(part == number)
        if dur[rows].sum() >= least_ns:
            large.append(_owner(name, [issuer], row[rows], dur[rows]))
        else:
            small.setdefault(name, []).append((issuer, rows))
    for name, places in small.items():
        places.sort(key=lambda place: -int(dur[place[1]].sum()))
        rows = np.concatenate([rows for _, rows in places])
        large.append(_owner(name, [issuer for issuer, _ in places], row[rows], dur[rows]))
    return large


def _owner(kind: str, issuers: Sequence[str], row: Ints, dur: Ints) -> Owner:
    """Name collectives of a kind by what issued them, the first places where these are several."""
    known = [issuer for issuer in dict.fromkeys(issuers) if issuer]
    places = ", ".join(known[:_NAMED]) + " and others" * (len(known) > _NAMED)
    return Owner(f"{kind} of {places}" if places else kind, int(dur.sum()), row, dur)


def _issuer(context: Context, phase: str, code: int) -> str:
    """Name what issued a collective: an optimizer's class (``Shampoo.step``), a pass, a range by its *code*; nothing without."""
    return context.names[code].removeprefix(_STEPS) if code >= 0 else _PASSES.get(phase, "")
