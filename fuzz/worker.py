"""A process that tries inputs one after the other, and says what each came to; what breaks it breaks nothing else."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from fuzz import checks
from fuzz.inputs import make
from fuzz.seeds import load

CPU_SECONDS = 10.0
MOST_MEMORY = 1 << 30
_MOST_ADDRESSES = 8 << 30  # far more than is ever used: a backstop against one huge allocation
_COMPARED = 0.1


def work(folder: Path, seed: int, numbers: range, share: float) -> None:
    """Try the inputs of these *numbers*; the parent reads a line for each from standard output."""
    from advisor import rulebook
    from advisor.engine import evaluation
    from advisor.rulebook import conditions

    # These are of the wall clock, which means nothing beside other work; here the processor's time is bounded.
    evaluation.QUERY_SECONDS = evaluation.TOTAL_SECONDS = conditions.CHECK_SECONDS = 600.0
    faulthandler.register(signal.SIGPROF, file=sys.stderr, all_threads=False, chain=True)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
    seeds = load(folder / "seeds")
    tries = Tries(folder, rulebook.load([rulebook.builtin_rules_dir()]), share)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    for number in numbers:
        out.write(f"{number}\n")
        damage, content = make(seed, number, seeds)
        result = tries.run(seed, number, content)
        result["input"] = damage
        out.write(json.dumps(result) + "\n")
        if result["outcome"] == "memory":
            return  # the peak of a process does not go down


class Tries:
    """Tries inputs, each in the same file."""

    def __init__(self, folder: Path, rulebook: Any, share: float) -> None:
        self.path = folder / f"input-{os.getpid()}.json"
        self.rulebook = rulebook
        self.share = share
        self.last: Any = None
        self.schema = _schema()

    def run(self, seed: int, number: int, content: bytes) -> dict[str, Any]:
        """Run one input and report its outcome, its seconds of CPU, and the place of a failure."""
        self.path.write_bytes(content)
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            outcome, message = self._tried(Random(f"{seed} {number} whole"))
        except Exception as error:  # noqa: BLE001  (each is what this looks for)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            outcome, message = "failure", f"{type(error).__name__}: {error}"[:2000]
            message += f" ({Path(frame.filename).name}:{frame.lineno})"
            with contextlib.suppress(OSError):
                (self.path.parent / f"failed-{number}.txt").write_text(traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_MEMORY:
            outcome, message = "memory", f"more than {MOST_MEMORY >> 20} MB ({outcome})"
        return {"outcome": outcome, "said": message, "seconds": round(time.process_time() - begin, 4)}

    def _tried(self, rng: Random) -> tuple[str, str]:
        trace = checks.read(self.path)
        if isinstance(trace, str):
            return "refused", ""
        if rng.random() >= self.share:
            return "read", ""
        analysis = checks.analyzed(trace, self.rulebook)
        checks.reports(analysis, self.schema if rng.random() < _COMPARED else None)
        if rng.random() < _COMPARED:
            checks.frames(trace)
            if self.last is not None:
                checks.judged(self.last, analysis)
            self.last = analysis
        return "analyzed", ""


def _schema() -> Any:
    """The validator of an analysis' JSON, where jsonschema is installed."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        return None
    from fuzz.seeds import ROOT

    return Draft202012Validator(json.loads((ROOT / "docs" / "analysis.schema.json").read_text()))
