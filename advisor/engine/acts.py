"""Acts of the fixes: findings that ask for the same change are one line of the plan, with the price of all of them together.

A fix names what it does by short keys, such as ``compile``. A finding whose acts are all among those of another's is done by
that one's fix: with the first ranked of those that do the same, or with the one that does more beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from advisor.results.analysis import Place
from advisor.rulebook.rule import Fix

Acts = frozenset[str]
_NEARLY = 0.9
"""Share of a finding's time that has to lie at some lines for it to be theirs."""


def acts_of(fix: Fix, where: Sequence[Place]) -> Acts:
    """Return the keys of what a fix does; those of a local one with its place, and none where no place is known."""
    if not fix.local:
        return frozenset(fix.acts)
    # Of findings spread over several places the heaviest stands for them; functions are long, so the operator counts too.
    place = next(iter(where), None)
    if place is None or place.op is None:
        return frozenset()
    return frozenset(f"{act} in {place.op} at {place.file}:{place.line}" for act in fix.acts)


def with_lines(
    acts: Mapping[str, Acts],
    rewrites: Mapping[str, Sequence[str]],
    where: Mapping[str, Sequence[Place]],
    rewritten: Mapping[str, Sequence[Place]] | None = None,
) -> dict[str, Acts]:
    """Add the lines that a fix rewrites to its acts, and give those lines to the findings that go with it.

    *rewrites* names those for each rule, *where* holds the places of each finding, *rewritten* those of all that a rule of the
    former matched, as it may have left some to the others. A finding with acts of its own keeps those: its change is another.
    """
    found = dict(acts)
    for rule, others in rewrites.items():
        lines = _lines((rewritten or where).get(rule, ()))
        if sum(lines.values()) < _NEARLY:
            continue
        for other in others:
            theirs = {line: share for line, share in _lines(where.get(other, ())).items() if line in lines}
            if not found.get(other) and sum(theirs.values()) >= _NEARLY:
                found[other] = frozenset(theirs)
                # Unless each rewrites the other's lines, the one that does leads, however little it has left for itself.
                own = () if rule in rewrites.get(other, ()) else (rule,)
                found[rule] |= {*lines, *own}
    return found


def _lines(where: Sequence[Place]) -> dict[str, float]:
    """Return the share of a finding that lies at each line."""
    shares: dict[str, float] = {}
    for place in where:
        if place.file is not None and place.line is not None:
            line = f"{place.file}:{place.line}"
            shares[line] = shares.get(line, 0.0) + (place.share or 0.0)
    return shares


def bundle(first: str, left: Iterable[str], acts: Mapping[str, Acts]) -> list[str]:
    """Return the rules whose fixes are done with that of *first*, among those that are *left*; the one that leads comes first."""
    mine = acts.get(first, frozenset())
    others = [rule for rule in left if rule != first]
    if not mine:
        return [first]
    lead = max(
        (rule for rule in others if mine < acts.get(rule, frozenset())), key=lambda rule: len(acts[rule]), default=first
    )
    also = [rule for rule in others if rule != lead and frozenset() < acts.get(rule, frozenset()) <= acts[lead]]
    return [lead, *([first] if lead != first else []), *also]


def bundles(order: Iterable[str], acts: Mapping[str, Acts]) -> list[list[str]]:
    """Part rules in their order into such bundles."""
    left, found = list(order), []
    while left:
        found.append(bundle(left[0], left, acts))
        left = [rule for rule in left if rule not in found[-1]]
    return found
