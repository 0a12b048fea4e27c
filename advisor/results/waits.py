"""Waits of the host while the device works: they cost nothing where they lie, and the host's lead behind them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Text, doc


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that waits for the device."""

    op: Annotated[Text | None, doc("The operator; None outside of any.")]
    around: Annotated[Text | None, doc("The program's outermost range around it; None where there is none.")]
    ms: Annotated[float, doc("What it waits there while kernels run, in ms of a step.")]
    idle_ms: Annotated[
        float,
        doc(
            "At most so much of `host` would go without it, in ms of a step: what the device idles for launches behind each wait "
            "in the same step, each ns the last wait's before it that lasts longer, and no more than kernels run in the wait."
        ),
    ]


class LeadLost(msgspec.Struct, frozen=True, kw_only=True):
    """Waits for values and copies in which the device catches up with the host, so that launches behind them come too late."""

    wait_ms: Annotated[
        float, doc("What threads that launch work wait in those named while kernels run, in ms of a step.")
    ]
    idle_ms: Annotated[float, doc("Their idle time, in ms of a step.")]
    where: Annotated[
        list[Waiting],
        doc("The operators that wait, the one with most idle time behind it first: a fifth of it or more each."),
    ]
    others: Annotated[
        list[Waiting],
        doc(
            "Operators that wait as well, a fifth of all such waits or more each, with less of the idle time behind them: not in "
            "`wait_ms`. Empty in older analyses."
        ),
    ] = []
