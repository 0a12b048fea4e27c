"""A process that tries inputs one after the other, and says what each came to; what breaks it breaks nothing else."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from fuzz import kinds
from fuzz.world import Files, World

CPU_SECONDS = 10.0
MOST_MEMORY = 1 << 30
_MOST_ADDRESSES = 8 << 30  # far more than is ever used: a backstop against one huge allocation
_SHORT, _LONG = 2.0, 600.0


def work(folder: Path, seed: int, numbers: range, share: float, chosen: Sequence[str] = kinds.KINDS) -> None:
    """Try the inputs of these *numbers*; the parent reads a line for each from standard output."""
    os.environ["ADVISOR_CACHE"] = "off"
    faulthandler.register(signal.SIGPROF, file=sys.stderr, all_threads=False, chain=True)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
    tries = Tries(folder, World.of(folder / "seeds"), share)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    for number in kinds.of(chosen, numbers):
        out.write(f"{number}\n")
        kind = kinds.kind_of(number)
        damage, files = make(seed, number, tries.world)
        result = tries.run(seed, number, files, kind)
        result["input"] = damage if kind == "trace" else f"{kind}, {damage}"
        out.write(json.dumps(result) + "\n")
        if result["outcome"] == "memory":
            return  # the peak of a process does not go down


def make(seed: int, number: int, world: World) -> tuple[str, Files]:
    """The input of a number: its damage, and its files."""
    damage, files = kinds.module(kinds.kind_of(number)).make(Random(f"{seed} {number}"), world)
    return damage, files


def clocks(kind: str) -> None:
    """Bound conditions as `advisor` does where they are the input.

    Elsewhere their bounds, of the wall clock, mean nothing beside other work: there the processor's time is bounded.
    """
    from advisor.engine import evaluation
    from advisor.rulebook import conditions

    seconds = _SHORT if kind == "rule" else _LONG
    evaluation.QUERY_SECONDS = evaluation.TOTAL_SECONDS = conditions.CHECK_SECONDS = seconds


class Tries:
    """Tries inputs, each in the same folder."""

    def __init__(self, folder: Path, world: World, share: float) -> None:
        self.folder = folder / f"input-{os.getpid()}"
        self.world = world
        self.share = share

    def run(self, seed: int, number: int, files: Files, kind: str = "trace") -> dict[str, Any]:
        """Run one input and report its outcome, its seconds of CPU, and the place of a failure."""
        write(self.folder, files)
        clocks(kind)
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            outcome, message = self._tried(kind, Random(f"{seed} {number} whole")), ""
        except Exception as error:  # noqa: BLE001  (each is what this looks for)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            outcome, message = "failure", f"{type(error).__name__}: {error}"[:2000]
            message += f" ({Path(frame.filename).name}:{frame.lineno})"
            with contextlib.suppress(OSError):
                (self.folder.parent / f"failed-{number}.txt").write_text(traceback.format_exc(), "utf-8", "replace")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_MEMORY:
            outcome, message = "memory", f"more than {MOST_MEMORY >> 20} MB ({outcome})"
        return {"outcome": outcome, "said": message, "seconds": round(time.process_time() - begin, 4)}

    def _tried(self, kind: str, rng: Random) -> str:
        module = kinds.module(kind)
        more = (self.share,) if kind == "trace" else ()
        outcome: str = module.tried(self.folder, rng, self.world, *more)
        return outcome


def write(folder: Path, files: Files) -> None:
    """Leave these files in a folder, and no other."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
