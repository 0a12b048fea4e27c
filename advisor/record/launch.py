"""``advisor record``: a script from its start to its end, with a recording around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from advisor.record import script
from advisor.record.leaving import Finished, end_process, end_with_starter, endable
from advisor.record.session import Options, Session
from advisor.record.spawned import recorded_ranks

NOTHING = 2


def rank() -> int | None:
    """Return the rank of this process where torchrun started several; None where it is alone."""
    size, number = os.environ.get("WORLD_SIZE", ""), os.environ.get("RANK", "")
    return int(number) if size.isdigit() and number.isdigit() and int(size) > 1 else None


def record(
    target: str,
    arguments: Sequence[str],
    options: Options,
    say: Callable[[str], None],
    *,
    module: bool = False,
    force: bool = False,
) -> int:
    """Run a script and record it, or the ranks that it starts.

    Returns the exit status: the script's, or 2 where it went well and left no recording. Whatever ends the script, what was
    recorded until then is written first.
    """
    end_with_starter()
    script.prepare(target, arguments, module=module)
    session = Session(options, say)
    session.begin()
    try:
        with endable(), recorded_ranks(session, options, say, force=force):
            status = script.run(target, module=module)
    except Finished as finished:
        session.end()
        if finished.from_elsewhere:
            end_process()
        return 0
    except KeyboardInterrupt:
        say("interrupted")
        session.end()
        raise
    except SystemExit as leaving:
        if session.inherited:
            if isinstance(leaving.code, str):
                sys.stderr.write(leaving.code + "\n")
            _end_fork(leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None))
        session.end()
        if leaving.code in (None, 0) and not session.recorded:
            return NOTHING
        raise
    if session.inherited:
        _end_fork(status)
    session.end()
    return status or (0 if session.recorded else NOTHING)


def _end_fork(status: int) -> NoReturn:
    """End a child that was forked under a profiler, as multiprocessing ends its own.

    The profiler's threads did not come along, and Python's way out would wait for them for ever.
    """
    end_process(status)
