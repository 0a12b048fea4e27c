"""A training step's time, divided by the passes of it: forward, backward, optimizer."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import doc

Pass = Literal["forward", "backward", "optimizer", "zero_grad", "metrics", "loader", "between"]


class PassTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one pass of a training step."""

    name: Annotated[
        Pass,
        doc(
            "The pass: of work on the device that of the call which launched it, of idle time that in which a thread of the host "
            "is meanwhile. `forward` is all work that no other launched, `metrics` what a range or a library's function of metrics "
            "did beside the backward pass and the optimizer, `loader` the wait for batches, `between` the idle time "
            "between passes."
        ),
    ]
    ms: Annotated[float, doc("Of the steady step (of the window without steps) in ms; all of them add up to it.")]
    idle_ms: Annotated[float, doc("What of it the device neither computes, copies nor communicates, in ms likewise.")]
    host_ms: Annotated[
        float | None,
        doc(
            "Time that the host is in it, its threads together, whatever the device does meanwhile: in operators of the forward "
            "pass, nodes of the backward pass, the optimizer's step, the loader's next. In ms likewise; 0 between passes. None "
            "where the host is so far ahead of the device that it did over a tenth of the launches before that time."
        ),
    ] = 0.0
    again_ms: Annotated[
        float, doc("What of it are kernels of forward work that the backward pass does again (checkpointing), in ms.")
    ] = 0.0
