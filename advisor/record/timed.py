"""Ranks that a measured program starts itself, with ``torch.multiprocessing.spawn``: each times its own steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.record import timing
from advisor.record.measured import Followed


@dataclass(frozen=True)
class Timed:
    """A rank's function, and how its steps are measured. It travels to the rank's process, so it holds only what can."""

    function: Callable[..., Any]
    out: Path
    root: Path
    check: bool
    most: int
    least: int
    followed: Followed
    dropout: bool = True

    def __call__(self, rank: int, *arguments: Any) -> Any:
        """Run the function as the process *rank*, measured; what was found lies beside ``out``."""
        # All ranks have to end with the same step, or one would wait for the others.
        most = timing.most_of_ranks(self.most, self.least)
        run = timing.Run(self.check, most, self.least, float("inf"), self.followed, dropout=self.dropout)
        out = timing.of_rank(self.out, rank)
        outside = timing.watch_files(self.root, out) if self.check else []
        error = "an exception"
        try:
            with run.listening():
                result = self.function(rank, *arguments)
            error = ""
            return result
        except SystemExit as leaving:
            error = "" if run.ended or leaving.code in (None, 0) else f"exit status {leaving.code}"
            raise
        finally:
            run.leave(out, error, outside)
