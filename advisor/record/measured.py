"""One run without a profiler, as the process that starts it sees it: the steps that it is to time, and what it leaves."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from msgspec import Struct

from advisor.reading.program_settings import Recorded
from advisor.record.steps import ITERATIONS, UNITS

WATCHED = 3
"""Steps from which it is decided what a step is, where no recording says how many it took."""


@dataclass(frozen=True)
class Followed:
    """Steps as a recording found them, which a run is to find again: their *unit*, None where it has to find that as well.

    *skip* steps are watched before it is decided what a step is. Of turns *loop* names the loop (None: any). *behind*: optimizers
    step before these steps, and in none of them. Of iterations *burst* is how many steps an optimizer takes in each, None where
    that differs.
    """

    unit: str | None = None
    loop: str | None = None
    skip: int = WATCHED
    behind: bool = False
    burst: int | None = None

    @classmethod
    def of(cls, recorded: Recorded | None) -> Followed:
        """Return the steps of a recording; any, where it marks them in a way that no run can find."""
        if recorded is None or recorded.steps_by not in UNITS:
            return cls()
        skip = recorded.steps_skipped or WATCHED
        burst = recorded.steps_burst if recorded.steps_by == ITERATIONS else None
        return cls(recorded.steps_by, recorded.steps_loop, skip, bool(recorded.steps_behind), burst)

    @classmethod
    def parsed(cls, options: Namespace) -> Followed:
        """Return the steps that :meth:`options` name, behind :meth:`declare`."""
        return cls(options.by, options.loop, options.skip, options.behind, options.burst)

    @staticmethod
    def declare(parser: ArgumentParser) -> None:
        """Add the options of :meth:`options`."""
        parser.add_argument("--by", help="what a step is; else it is found")
        parser.add_argument("--loop", help="name of the loop whose turns are the steps")
        parser.add_argument("--skip", type=int, default=WATCHED, help="steps from which it is decided what a step is")
        parser.add_argument("--burst", type=int, help="steps of an optimizer that each iteration holds")
        parser.add_argument("--behind", action="store_true", help="behind a training: no optimizer steps in them")

    def options(self) -> list[str]:
        """Return the options that tell these steps to a run."""
        options = ["--skip", str(self.skip)]
        options += ["--by", self.unit] if self.unit else []
        options += ["--loop", self.loop] if self.loop else []
        options += ["--burst", str(self.burst)] if self.burst else []
        return [*options, *(["--behind"] if self.behind else [])]


ANY = Followed()
"""Whatever steps a run finds."""


class Figure(Struct, frozen=True):
    """A loss or an output: of each tensor its count of numbers, mean, mean size, and some of them; ``dtypes`` of the tensors.

    ``updates`` is how many steps of optimizers came before it.
    """

    numbers: tuple[float, ...] = ()
    dtypes: tuple[str, ...] = ()
    updates: int = 0


class Measured(Struct, frozen=True):
    """Steps of one run, wall and processor time in ms each; of a run for checking also what was computed.

    ``unit`` is what a step is (None: none was found), ``ended`` tells that the run was ended for it had steps enough. ``compiled``
    are the numbers of the steps, from 0, in which torch.compile compiled something. ``sum_ms`` are what the same additions took
    around each step, which tell how fast the machine was then; empty where they were not made, as with a GPU.
    ``loaded`` are the files of imported modules, ``outside`` those that were opened to write outside the copied tree.
    """

    error: str = ""
    ended: bool = False
    unit: str | None = None
    step_ms: tuple[float, ...] = ()
    cpu_ms: tuple[float, ...] = ()
    compiled: tuple[int, ...] = ()
    sum_ms: tuple[float, ...] = ()
    losses: tuple[Figure, ...] = ()
    outputs: tuple[Figure, ...] = ()
    autocast: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    torch: str | None = None
    device: str | None = None
    cores: int | None = None
    seconds: float = 0.0
