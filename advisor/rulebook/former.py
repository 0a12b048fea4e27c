"""Former ids of rules: settings, assertions and baselines may still say them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from advisor.rulebook.rule import RuleFile


def former(rules: Iterable[RuleFile]) -> dict[str, tuple[str, ...]]:
    """Map each former id to the rules that stand for it now: one, or those that it was split into."""
    heirs: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        for old in rule.formerly:
            heirs[old] = (*heirs.get(old, ()), rule.id)
    return heirs


def renamed(names: Iterable[str], heirs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Put the rules of today in place of former ids; all else, globs among it, stays as it is."""
    return tuple(dict.fromkeys(new for name in names for new in heirs.get(name, (name,))))


def note(name: str, heirs: Mapping[str, Sequence[str]]) -> str:
    """Say what became of a former id: ``kernels/many-tiny is now gpu-idle/launch-bound``."""
    return f"{name} is now {' and '.join(heirs[name])}"
