"""Phases of a serving engine or a diffusion pipeline: figures of an iteration in each."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the iterations that the engine annotated as of one phase."""

    phase: Annotated[Name, doc("prefill, decode, mixed (both in a batch), or diffusion: a whole pipeline.")]
    engine: Annotated[Name, doc("Engine whose form the annotations have.")]
    iterations: Annotated[int, doc("Iterations that were recorded.")]
    sequences: Annotated[float | None, doc("Sequences (of a diffusion: images) a batch; None where not annotated.")] = (
        None
    )
    tokens: Annotated[float | None, doc("Tokens that a batch computes; None where not annotated.")] = None
    ms: Annotated[
        float | None,
        doc(
            "ms from the first to the last GPU work that an iteration launched, without what waited for work queued before the "
            "recording; None where the trace links none."
        ),
    ] = None
    token_ms: Annotated[
        float | None,
        doc(
            "That time over the tokens of the batch; None where either is unknown, and where drafts are among the tokens: how "
            "many of them are kept a trace does not say."
        ),
    ] = None
    host_ms: Annotated[float, doc("ms of the annotation on the host.")]
    launches: Annotated[float, doc("Calls that launched work, a graph's replay as one of them.")]
    kernels: Annotated[float, doc("Kernels that ran for it.")]
    busy_share: Annotated[
        float | None, doc("Share of `ms` in which that work ran; None where replays of graphs lack kernels.")
    ] = None
    attention_share: Annotated[float | None, doc("Of the kernels' time: attention. None where no kernel shows it.")] = (
        None
    )
    experts_share: Annotated[
        float | None, doc("Mixture of experts, routing included. None where no kernel shows it.")
    ] = None
    sampling_share: Annotated[float | None, doc("Choice of the next token. None where no kernel shows it.")] = None
    drafting_share: Annotated[
        float | None, doc("Drafting the next tokens (speculative decoding). None where no range or function shows it.")
    ] = None
    collectives_share: Annotated[
        float | None,
        doc(
            "Collectives, such as the all-reduce behind each half of a layer. None where there are none, and in older analyses."
        ),
    ] = None
    collective: Annotated[
        Name | None, doc("The kind that most of their time is of, as `kind` in `collectives`; None likewise.")
    ] = None
    collectives_ms: Annotated[
        float | None, doc("ms of that time in a batch, waiting for other ranks included; None likewise.")
    ] = None
