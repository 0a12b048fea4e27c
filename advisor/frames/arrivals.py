"""`arrivals`: one row per collective and rank, which only the traces of several ranks together can fill."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import COUNT, Frame
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text

_OWN = {
    "step": "the rank's step that the collective starts in; -1 outside its steps",
    "start_ns": "when this rank's kernel starts, since the first event of all traces, by the aligned clock",
    "cost_ns": "the part of wait_ns that nothing hides: what the rank would save if nobody were late",
}

SCHEMA = Schema(
    "arrivals",
    "a collective as one rank ran it, where several ranks of one run were given; empty for one trace",
    (
        *(
            column if column.name not in _OWN else integer(column.name, column.unit, _OWN[column.name])
            for column in COMMON
        ),
        integer("rank", "", "the rank", "distributedInfo.rank, else the file's name"),
        integer("collective", "", "number of the collective; the same on all ranks that took part in it"),
        text("kind", "as in `collectives`; only kinds in which all ranks wait for all"),
        integer("bytes", "bytes", "size of the message sent in; NULL where unknown"),
        text("group_name", "process group; stream-N where the traces do not name it"),
        integer("group_size", "", "ranks in the group; NULL where unknown"),
        integer("ranks_seen", "", "ranks of the group whose traces hold this collective"),
        integer("ahead_ns", "ns", "how long before the last rank it arrived, by the aligned clock; 0 for the last"),
        integer("wait_ns", "ns", "how long its kernel ran before the last rank arrived; 0 where the clocks leave that open"),
        flag("late", "it arrived last, by more than the clocks leave open"),
        integer("late_rank", "", "who arrived last; NULL where the clocks leave that open"),
        integer("late_by_ns", "ns", "how long after the median of the other ranks that rank arrived; NULL with late_rank"),
        text("late_cause", "what the late rank did longer than the other ranks since the collective before: "
             "compute, host, loader ... as in `steps`; NULL with late_rank"),
        real("late_more_compute", "", "by which share that rank computes longer per step than the median of the "
             "group's other ranks; NULL with late_rank"),
        flag("late_same_work", "that rank runs the kernels of the group's other ranks, on their shapes and as often: "
             "but for 2 % of its time; NULL without shapes, or where its list of kernels does not tell"),
        real("late_more_sent", "", "by which share that rank sends more in an all-to-all than the others on average: behind "
             "experts, how many more tokens it got; NULL for other kinds, where sizes are unknown, and with late_rank"),
        flag("late_by_experts", "an all-to-all whose last rank computed longer than the others since the collective before, most "
             "of it in matrix products, and sends more in it (or the kernel is of a library that exchanges tokens): its experts "
             "got more tokens"),
        real("late_larger_share", "share", "of late_by_ns: what operators take, as a rule, on operands that are larger by as much "
             "as that rank's are in this step; NULL on GPUs, without shapes, and with late_rank"),
        real("late_larger_steps", "share", "of the steps: that rank has larger operands in them; NULL on GPUs, without shapes, in "
             "fewer than five steps, of which chance may take all, and with late_rank"),
        real("late_more_share", "share", "of late_by_ns: operators that it calls more often than the others in this step; NULL as "
             "late_larger_share"),
        real("late_beyond_share", "share", "of late_by_ns: what that rank spends more in late_cause than the others in three of "
             "four steps and more, beyond late_slower; NULL as late_larger_share"),
        real("late_slower", "", "by which share that rank takes longer than the others for equal operators, in the median of the "
             "steps; NULL as late_larger_share"),
        flag("across_stages", "ranks of different stages of one pipeline meet in it: who comes early waits for the pipeline to "
             "drain, as it does in the messages of `stages`"),
    ),
)  # fmt: skip


def empty() -> Columns:
    """The columns, and no rows."""
    blank = {"BOOLEAN": np.bool_, "DOUBLE": np.float64, "BIGINT": np.int64}
    return Columns(
        {
            column.name: Series.texts([]) if column.type == "VARCHAR" else np.zeros(0, blank[column.type])
            for column in SCHEMA.columns
        }
    )


FRAME = Frame(
    SCHEMA,
    build=lambda context: empty(),  # one rank does not show when the others arrived
    evidence=("rank", "kind", COUNT, "round(sum(wait_ns) / 1e6, 3) AS wait_ms"),
    owns=lambda context, mask: np.zeros(
        0, np.int64
    ),  # of no single trace's ledger: advisor.ranks.job has one of all ranks
)
