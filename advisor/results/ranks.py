"""Several ranks of one run: what only their traces together show. Times are milliseconds, shares 0 to 1."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.analysis import Finding, QualityNote, Verdicts
from advisor.results.field import FilePath, Name, Text, Wording, doc


class RankRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rank beside the others. ``None`` where its trace does not hold what is needed.

    Waits, ``late_share`` and ``caused_ms`` are None where arrivals cannot be compared, the two figures on its clock where it
    shares too few collectives with the others. Waits are per step, per window without steps.
    """

    rank: Annotated[int, doc("As the trace says, else as the name of the file says.")]
    path: Annotated[FilePath, doc("The path of its trace, as it was given.")]
    steps: Annotated[int, doc("Steps counted; 0 where its trace has none.")]
    step_ms: Annotated[float | None, doc("Its median step; None without steps.")]
    gpu_busy_share: Annotated[float | None, doc("Kernels, copies and memsets, of its window.")]
    compute_share: Annotated[float | None, doc("Of its steps: kernels that compute.")]
    communication_share: Annotated[float | None, doc("Of its steps: communication that nothing hides.")]
    wait_ms: Annotated[float | None, doc("Per step: exposed communication before the last rank has come to it.")]
    wait_share: Annotated[float | None, doc("The same as a share of its steps.")]
    late_share: Annotated[float | None, doc("Of the collectives whose order the clocks decide: those it came to last.")]
    caused_ms: Annotated[
        float | None,
        doc("Per step: what the ranks wait for it, on average over them all; not where stages of a pipeline meet."),
    ]
    clock_offset_ms: Annotated[float | None, doc("How far its clock is ahead of the one that is compared with.")]
    clock_residual_ms: Annotated[float | None, doc("Scatter of its ends of collectives, a robust standard deviation.")]
    trace: Annotated[int | None, doc("Place of its analysis in `traces`, from 0; None outside of a report.")] = None
    loader_share: Annotated[float | None, doc("Of its steps: idle, waiting for a DataLoader; None without one.")] = None
    peak_memory_bytes: Annotated[int | None, doc("Most that was allocated at once; None without memory events.")] = None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the ranks that tell it, in ms, or bytes where its name says so."""

    figure: Annotated[
        Name,
        doc(
            "step_ms, compute_ms, communication_ms (exposed), wait_ms (of it, for late ranks), loader_ms, host_ms (idle), "
            "peak_memory_bytes; times are per step."
        ),
    ]
    ranks: Annotated[int, doc("Ranks whose traces tell it.")]
    min: Annotated[float, doc("The least of them.")]
    median: Annotated[float, doc("Their median.")]
    max: Annotated[float, doc("The most of them.")]
    min_rank: Annotated[int, doc("The rank that has the least, the first of several.")]
    max_rank: Annotated[int, doc("The rank that has the most, the first of several.")]


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one kind and size in one process group, per step: means over the ranks that run them."""

    group: Annotated[Name, doc("Name and ranks of the process group; stream-N where the traces do not name it.")]
    kind: Annotated[Name, doc("all_reduce, all_gather and so on; unknown where the name does not tell.")]
    bytes: Annotated[int | None, doc("Size of the message sent in; None where unknown.")]
    ranks: Annotated[int, doc("Ranks that run such collectives; the figures are means over them.")]
    count: Annotated[float, doc("Per step.")]
    time_ms: Annotated[float, doc("Per step: from start to end, hidden or not.")]
    exposed_ms: Annotated[float, doc("Per step: what no computation hides.")]
    wait_ms: Annotated[float | None, doc("Of that, before the last rank has come; None where that is unknown.")]
    bus_gbps: Annotated[
        float | None,
        doc(
            "Bus bandwidth in GB/s, net of waiting: what each rank has to send over the shortest time that any rank spends in the "
            "collective, since the last to come waits for nobody; over the mean of these times. None where traces do not match, "
            "the size, the group's size or the kind is unknown, and in older results."
        ),
    ] = None


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that ranks waited in, from the first that came to the last; None for what is unknown."""

    collective: Annotated[int, doc("Number of the collective, as in the frame `arrivals`.")]
    kind: Annotated[Name | None, doc("all_reduce, all_gather and so on; None where unknown.")]
    group: Annotated[Name | None, doc("The process group; None where unknown.")]
    bytes: Annotated[int | None, doc("Size of the message sent in; None where unknown.")]
    op: Annotated[Text | None, doc("The operator that launched it on the last rank; None where unknown.")]
    step: Annotated[int | None, doc("Number of the ProfilerStep; None outside the steps.")]
    start_ms: Annotated[float, doc("When the last rank came, since the first event of all traces.")]
    late_rank: Annotated[int, doc("The rank that came last.")]
    late_by_ms: Annotated[float, doc("How long after the median of the other ranks it came.")]
    late_cause: Annotated[Name | None, doc("What it did longer than the others, as in `summary.causes`.")]
    wait_ms: Annotated[float, doc("Exposed wait in this one collective, a rank on average.")]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Time that one rank waits for another, per step."""

    rank: Annotated[int, doc("The rank that waits.")]
    late_rank: Annotated[int, doc("The rank that it waits for.")]
    wait_ms: Annotated[float, doc("Per step.")]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Work in which some ranks differ from most: a kernel, or the shapes of an operator."""

    ranks: Annotated[list[int], doc("Those that differ alike.")]
    what: Annotated[Name, doc("kernel: how often it runs; shapes: an operator's.")]
    name: Annotated[Text, doc("Name of the kernel or the operator.")]
    here: Annotated[Name, doc("How often it runs there, or its shapes there.")]
    usual: Annotated[Name, doc("The same on most ranks.")]
    ms: Annotated[float, doc("GPU time per step there, above (or below) that of the usual rank.")]


class Turns(msgspec.Struct, frozen=True, kw_only=True):
    """Number of the ranks of one host that run at once, by that host's own clock. Shares are of the time that their recordings have
    in common."""

    ranks: Annotated[list[int], doc("The ranks of that host.")]
    running: Annotated[int, doc("How many of them most often run while another stands still.")]
    still: Annotated[int, doc("How many stand still then, most often.")]
    share: Annotated[float, doc("So many run, and another stands still.")]
    held_share: Annotated[float, doc("Any of them stands still.")]
    chance_share: Annotated[float, doc("What `share` would be if they stood still independently of each other.")]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a pipeline, where all its ranks were given. Times are per step."""

    stage: Annotated[int, doc("Its number, from 0: that which sends before it receives anything.")]
    ranks: Annotated[list[int], doc("The ranks that are this stage: one of each pipeline.")]
    compute_ms: Annotated[float, doc("What it computes, but for the optimizer: of its ranks the least.")]
    wait_ms: Annotated[float, doc("What its ranks wait for other stages, on average.")]
    wait_share: Annotated[float, doc("The same as a share of their steps.")]
    micro_batches: Annotated[
        int, doc("Micro-batches of the pipeline; with several stages in turn on a rank, so many times as many.")
    ]


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of the clocks of different ranks, by the ends of the collectives that they share."""

    collectives: Annotated[int, doc("Collectives that several of the traces hold.")]
    residual_ms: Annotated[float, doc("The largest `clock_residual_ms` of ranks that can be compared; else 0.")]
    comparable: Annotated[bool, doc("Whether arrivals of different ranks can be compared.")]
    because: Annotated[Wording | None, doc("Why they cannot; None where they can.")]


class Across(msgspec.Struct, frozen=True, kw_only=True):
    """Results that only the traces of several ranks together show."""

    ranks: Annotated[list[RankRow], doc("A row a rank, in order.")]
    world_size: Annotated[int | None, doc("Ranks of the run; None where no trace says it.")]
    step_ms: Annotated[float | None, doc("Median of the ranks' median steps; None without steps.")]
    clocks: Annotated[Clocks, doc("How well the ranks' clocks can be compared.")]
    quality: Annotated[list[QualityNote], doc("What is missing or cannot be compared.")]
    findings: Annotated[list[Finding], doc("Ordered as those of a trace; costs are means over the ranks.")]
    verdicts: Annotated[Verdicts, doc("What the rules that need several ranks came to that is no finding.")]
    spreads: Annotated[list[Spread], doc("How the figures of the ranks spread.")] = []
    traffic: Annotated[list[Traffic], doc("By group, kind and size, the longest exposed first; at most 20.")] = []
    lags: Annotated[list[Lag], doc("The collectives that were waited in longest; at most 10.")] = []
    waits: Annotated[list[Wait], doc("Who waits for whom, the longest first; at most 256 pairs.")] = []
    differences: Annotated[list[Difference], doc("Work in which some ranks differ from most; at most 10.")] = []
    turns: Annotated[list[Turns], doc("How many ranks of each host run at once; none where no host is known.")] = []
    stages: Annotated[
        list[Stage], doc("Stages of the pipeline, in order; none where there is none, or not all of it was given.")
    ] = []
