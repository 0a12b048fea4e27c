"""`stages`: rows on each rank of a pipeline, which only the traces of all its ranks together can fill."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import Frame
from advisor.frames.schema import COMMON, Schema, flag, integer, text

_OWN = {
    "step": "0: a row speaks of the whole recording",
    "start_ns": "0",
    "dur_ns": "what the rank waits for other stages in counted steps: in messages between them beyond what the fastest of their "
    "size take, and in collectives in which stages meet before the last one has come",
    "cost_ns": "the part of it that the row speaks of",
}
SCHEMA = Schema(
    "stages",
    "what a rank of a pipeline waits for the other stages, in three parts; empty for one trace, and where not all ranks of the "
    "pipeline were given",
    (
        *(
            column if column.name not in _OWN else integer(column.name, column.unit, _OWN[column.name])
            for column in COMMON
        ),
        integer("rank", "", "the rank", "distributedInfo.rank, else the file's name"),
        integer("stage", "", "its stage, from 0: that which sends before it receives anything"),
        integer("stages", "", "stages of the pipeline"),
        integer("pipelines", "", "pipelines side by side: copies for other data, or parts of each layer"),
        text("part", "uneven: stages that all compute as long as the mean would not wait it; filling: what the first micro-batch "
             "takes to reach the last stage and the last gradients to come back; other: the rest"),
        integer("micro_batches", "", "in a step: stretches of computation behind which a stage sends to the next; with several "
                "stages in turn on a rank, so many times as many"),
        integer("computes_ns", "ns", "what the rank computes in a step, but for the optimizer"),
        integer("stage_ns", "ns", "the same of the stage: of its ranks, the least, as one of them may be slow"),
        integer("mean_ns", "ns", "the same of all stages, their mean"),
        flag("slowest", "no stage takes longer"),
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
    build=lambda context: empty(),  # one rank does not show what the other stages compute
    evidence=("stage", "rank", "part", "round(cost_ns / 1e6, 3) AS waits_ms"),
    owns=lambda context, mask: np.zeros(0, np.int64),  # advisor.ranks.job has a ledger of all ranks
)
