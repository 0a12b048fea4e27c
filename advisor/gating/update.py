"""Writing a baseline: whole or not at all, and with the history of every update, however many run at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from advisor import files
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating.baseline import Baseline
from advisor.results.analysis import Analysis
from advisor.results.decision import obstacle


def update(
    path: Path, analyses: Sequence[Analysis], reason: str, workload: str | None = None, *, anew: bool = False
) -> Baseline:
    """Write the baseline of repeated runs in place of the one at *path*, whose history it takes over; not so with *anew*.

    Of several at once each reads what the one before it wrote, so that no history is lost. Raises ``UsageError``, also for a
    recording that nothing steady can be said of.
    """
    if problems := list(filter(None, map(obstacle, analyses))):
        raise UsageError("; ".join(problems))
    with files.alone(path):
        old = None if anew or not path.exists() else baseline.load(path)
        new = baseline.renew(old, analyses, reason, workload)
        try:
            files.write(path, baseline.dump(new))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
    return new
