"""A memory snapshot, read: the peak of each device, and what lives then."""

from __future__ import annotations

from msgspec import Struct, field


class Held(Struct):
    """An allocation that lives at the peak."""

    bytes: int
    stack: int
    """Into ``Snapshot.stacks``; -1 where the snapshot does not say."""
    time_ns: int | None
    """None where it was made before the history begins."""


class Peak(Struct):
    """The moment at which most is allocated on one device, and what lives then."""

    device: int
    bytes: int
    time_ns: int
    held: list[Held] = field(default_factory=list)


class Snapshot(Struct):
    """A snapshot, read."""

    peaks: list[Peak]
    """Of each device with events, the most first."""
    stacks: list[str]
    """Stacks as lines ``file(line): function``, the innermost first."""
    events: int
    first_ns: int
    last_ns: int
