"""`launchers`: one row per rank of a run whose host's ranks were given, and how many of their threads run at once."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import Frame
from advisor.frames.schema import COMMON, Schema, integer, real

_OWN = {
    "step": "0: a row speaks of the whole recording",
    "start_ns": "0",
    "dur_ns": "how long the rank's threads stand still: nothing that they do begins or ends, and they wait for nothing",
    "cost_ns": "what the device idles meanwhile, and what other ranks wait in collectives for this rank's host",
}
SCHEMA = Schema(
    "launchers",
    "the launching threads of a rank beside those of the other ranks of its host, by that host's own clock; empty for one trace, "
    "and where two ranks of one host were not given or not known to be of one",
    (
        *(
            column if column.name not in _OWN else integer(column.name, column.unit, _OWN[column.name])
            for column in COMMON
        ),
        integer("rank", "", "the rank", "distributedInfo.rank, else the file's name"),
        integer("host", "", "number of its host among those given"),
        integer("host_ranks", "", "ranks of that host"),
        integer("host_running", "", "of these, how many most often have a thread that runs while another rank stands still"),
        integer("host_still", "", "how many stand still then, most often"),
        real(
            "host_share",
            "share",
            "of the time that the recordings of the host have in common: so many run, and another stands still",
        ),
        real("host_held_share", "share", "of the same time: any rank stands still"),
        real("host_chance_share", "share", "what host_share would be if the ranks stood still independently of each other"),
        real("still_share", "share", "of the rank's window: it stands still"),
        real("stopped_share", "share", "of what it stands still: inside calls that take far longer than their like"),
        integer("idle_ns", "ns", "what the device idles while it stands still"),
        integer("caused_ns", "ns", "what other ranks wait in collectives for it, where its host held it up"),
    ),
)  # fmt: skip


def empty() -> Columns:
    """The columns, and no rows."""
    blank = {"DOUBLE": np.float64, "BIGINT": np.int64}
    return Columns(
        {
            column.name: Series.texts([]) if column.type == "VARCHAR" else np.zeros(0, blank[column.type])
            for column in SCHEMA.columns
        }
    )


FRAME = Frame(
    SCHEMA,
    build=lambda context: empty(),  # one rank does not show when the others stand still
    evidence=("rank", "host_running", "host_ranks", "round(dur_ns / 1e6, 3) AS still_ms"),
    owns=lambda context, mask: np.zeros(0, np.int64),  # advisor.ranks.job has a ledger of all ranks
)
