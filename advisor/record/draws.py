"""Generators that a program draws random numbers from: where their state is the same afterwards, a call drew none.

The states lie on the host, also those of a GPU's generators: to read them waits for nothing.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Any

from advisor.record.known import digest


def drawn(torch: Any, devices: Iterable[int]) -> tuple[Any, ...]:
    """Return what changes where a number is drawn: by torch, on the host and on GPUs of these numbers, by NumPy, or by Python.

    Raises RuntimeError where a GPU's generator cannot be asked, as while a graph is captured.
    """
    numpy = sys.modules.get("numpy")
    states = [digest(torch.default_generator.get_state()), hash(random.getstate())]
    if numpy is not None and hasattr(numpy, "random"):
        kind, keys, *others = numpy.random.get_state()
        states.append((kind, keys.tobytes(), *others))
    states += [digest(torch.cuda.default_generators[device].get_state()) for device in sorted(devices)]
    return tuple(states)
