"""Distance of kernels from what the device can do: by operator, by module and by line of the source."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import CodeLine, Name, Text, doc


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Time of some kernels of known work, and the least in which the device could do it, per step (per window without steps)."""

    ms: Annotated[float, doc("The time that they own.")]
    limit_ms: Annotated[float, doc("At the device's peak rates: arithmetic or bytes, whichever takes longer.")]
    reachable_ms: Annotated[float, doc("At the rates that programs reach.")]
    most_ms: Annotated[
        float,
        doc(
            "The most that faster kernels for the same work return of the step: `ms` less `limit_ms`, and no more than all "
            "kernels at their limits return together in the replay."
        ),
    ] = 0.0


class Distance(Times, frozen=True, kw_only=True):
    """Kernels of one operator."""

    op: Annotated[Text, doc("The operator whose work its kernels do.")]


class ModuleDistance(Times, frozen=True, kw_only=True):
    """Kernels that modules of one kind launched, their backward pass included where it is known."""

    module: Annotated[Name, doc("Classes of the innermost nn.Module and of those around it, without their numbers.")]
    count: Annotated[int, doc("Modules of that path.")]


class LineDistance(Times, frozen=True, kw_only=True):
    """Kernels that one line of the user's launched, their backward pass included where it is known."""

    line: Annotated[CodeLine, doc("The innermost frame that is the user's own.")]
