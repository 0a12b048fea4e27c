"""Collectives beside the link that carries them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import Name, doc

LimitedBy = Literal["late ranks", "latency", "slow link", "link"]


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one kind and size of group on the busiest device, of known size."""

    kind: Annotated[Name, doc("all_reduce, all_gather, reduce_scatter, broadcast, all_to_all or reduce.")]
    group_size: Annotated[int, doc("Ranks in the group.")]
    count: Annotated[int, doc("Collectives in the recording.")]
    median_bytes: Annotated[int, doc("Median size of the message sent in.")]
    bus_gbps: Annotated[
        float,
        doc(
            "Bus bandwidth of all of them together: what each rank had to send over the time of the exchange; over the kernels' "
            "time, waiting included, where waited_share is None."
        ),
    ]
    best_gbps: Annotated[float, doc("The same of the best of them: where hardly anybody was late.")]
    latency_us: Annotated[
        float | None,
        doc(
            "Of the fastest of each size, fitted as a fixed time and a time a byte: the fixed time. None where fewer than three "
            "sizes, or sizes less than eight times apart, tell it."
        ),
    ]
    fitted_gbps: Annotated[float | None, doc("Of the same fit, the bus bandwidth of endless messages; None likewise.")]
    link_gbps: Annotated[
        float | None,
        doc(
            "What the device's links to other GPUs carry a direction, by the table; None where it has none or is unknown, and "
            "for groups of more than eight ranks, which go over a network."
        ),
    ]
    waited_share: Annotated[
        float | None,
        doc(
            "Of their time, what exceeds the fit, or the fastest of the size: waiting for late ranks, as one rank sees it. None "
            "where nothing tells it of half of their time."
        ),
    ]
    limited_by: Annotated[
        LimitedBy | None,
        doc(
            "late ranks: waiting takes half of the time and more; latency: the fixed time takes longer than the bytes do, as of "
            "small messages; slow link: the best reaches under three tenths of the device's links; link: none of these. None "
            "where nothing tells."
        ),
    ]
