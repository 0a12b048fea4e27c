"""``with advisor.profile(...)``: recording a loop that marks its steps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import UsageError
from advisor.record import STACKS, require_torch

if TYPE_CHECKING:
    from advisor.record.session import Session


class profile:
    """Record the steps of a loop to a trace that ``advisor analyze`` reads.

        with advisor.profile("trace.json.gz") as p:
            for batch in loader:
                train(batch)
                p.step()

    *p.step()* marks the end of a step. The first *skip* steps are left out, one more warms the profiler up, *steps* are
    recorded, and two more for the source lines where *stacks* is ``"second"``; ``"inline"`` records stacks with the timings,
    ``"none"`` leaves them out. Without any ``p.step()`` the whole block is recorded, with stacks only if they are ``"inline"``.
    Of several ranks each writes a file of its own, ``trace.rank0.json.gz`` and so on. What becomes of it is said on stderr,
    and not at all where *quiet*. ``written`` is the path once the file is there. Raises UsageError where torch is missing
    or *path* cannot be written, or exists and *force* is not set.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = "trace.json.gz",
        *,
        steps: int = 5,
        skip: int = 3,
        stacks: str = "second",
        force: bool = False,
        quiet: bool = False,
    ) -> None:
        require_torch()
        if stacks not in STACKS:
            raise UsageError(f'stacks="{stacks}": expected one of {", ".join(STACKS)}')
        if steps < 1 or skip < 1:
            raise UsageError("steps= and skip= must be 1 or more")
        from advisor.record.launch import rank
        from advisor.record.session import Options
        from advisor.record.writing import check_output, name_for

        self._options = Options(name_for("", os.fspath(path), rank()), steps, skip, STACKS[stacks])
        check_output(self._options.path, force=force)
        self._quiet = quiet
        self._session: Session | None = None

    @property
    def written(self) -> Path | None:
        """The file, once it is written."""
        return self._session.written if self._session is not None else None

    def __enter__(self) -> profile:
        from advisor.record.session import Session

        self._session = Session(self._options, self._say, finds_steps=False)
        self._session.begin(whole_block=True)
        return self

    def step(self) -> None:
        """Mark the end of a step."""
        if self._session is not None:
            self._session.mark()

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.end()

    def _say(self, line: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"advisor: {line}\n")
            sys.stderr.flush()
