"""Pauses before an optimizer's steps, which tell whether bursts of them may still show, and whether a training has ended."""

from __future__ import annotations

import math

# Times the longest pause before a step after which none like it is to come, and seconds of a pause beyond which that is not waited
# for. A pause is some times as long as usual. Seconds behind a recording for which one is waited for, at the least and at the most.
_PATIENCE, _LONGEST, _PAUSE, _LEAST_WAITED, _MOST_WAITED = 5.0, 3.0, 3.0, 0.5, 20.0
# The same of the first pause alone, for the end of a training: a rollout like it may follow, but nothing like the loading of data.
_PATIENCE_OF_FIRST = 2.0


class Pauses:
    """The longest pauses before steps of optimizers: ``first``, behind the making of the first one, and ``later``; seconds of work.

    *usual* is the time from step to step of a burst in s, 0.0 where that is not known.
    """

    def __init__(self) -> None:
        self.first = self.later = 0.0
        self._until = -math.inf  # when the last one ended
        self._from = -math.inf  # when steps began to take their usual time

    def begin(self, now: float) -> None:
        """Note that steps take their usual time from *now* on."""
        self._from = now

    def note(self, seconds: float, now: float, *, first: bool) -> None:
        """Note the *seconds* before the step that is taken *now*, the *first* of all or another."""
        if first:
            self.first = seconds
        else:
            self.later = max(self.later, seconds)
        if seconds > max(self.first, self.later) / _PAUSE:
            self._until = now

    def no_end(self, usual: float) -> float:
        """Return for how many seconds without a step one may still come: what lies between two bursts is no end of a training."""
        return max(_PATIENCE * _counted(self.later, usual), _PATIENCE_OF_FIRST * _counted(self.first, usual))

    def may_end(self, now: float, usual: float, least: float) -> bool:
        """Tell whether the end of a pause may be near: some times the longest, and *least* seconds, have not passed without one."""
        pause = _counted(max(self.first, self.later), usual)
        if not pause and not least:
            return False
        patience = max(_PATIENCE * pause, least, _LEAST_WAITED)
        return now - max(self._until, self._from) < patience and now - self._from < _MOST_WAITED


def _counted(pause: float, usual: float) -> float:
    """Return the seconds of a pause that count; 0.0 where it is not much longer than usual."""
    return min(pause, _LONGEST) if usual and pause > _PAUSE * usual else 0.0
