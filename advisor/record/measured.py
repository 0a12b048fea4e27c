"""The result of one run without a profiler, as its process leaves it for the one that started it."""

from __future__ import annotations

from msgspec import Struct


class Figure(Struct, frozen=True):
    """A loss or an output: of each tensor its count of numbers, mean, mean size, and some of them; ``dtypes`` of the tensors.

    ``updates`` is how many steps of optimizers came before it.
    """

    numbers: tuple[float, ...] = ()
    dtypes: tuple[str, ...] = ()
    updates: int = 0


class Measured(Struct, frozen=True):
    """Steps of one run, wall and processor time in ms each; of a run for checking also what was computed.

    ``unit`` is what a step is (None: none was found), ``ended`` tells that the run was ended for it had steps enough.
    ``loaded`` are the files of imported modules, ``outside`` those that were opened to write outside the copied tree.
    """

    error: str = ""
    ended: bool = False
    unit: str | None = None
    step_ms: tuple[float, ...] = ()
    cpu_ms: tuple[float, ...] = ()
    losses: tuple[Figure, ...] = ()
    outputs: tuple[Figure, ...] = ()
    autocast: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    torch: str | None = None
    device: str | None = None
    cores: int | None = None
    seconds: float = 0.0
