"""The ranks of one run as the engine of rules sees a trace: a frame `arrivals`, and a ledger of what its rows cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from msgspec import Struct

from advisor.columns import Columns
from advisor.counting import duration
from advisor.errors import UsageError
from advisor.frames import SCHEMAS
from advisor.frames.values import typed
from advisor.intervals import EMPTY, Bools, Ints, Spans, summed
from advisor.ranks.arrivals import Arrivals, arrivals
from advisor.ranks.clocks import IMPOSSIBLE_SHARE, Clocks, align
from advisor.ranks.digest import Digest
from advisor.ranks.matching import Group, match
from advisor.ranks.pipelines import Pipelines, find, stages
from advisor.ranks.turns import Host, hosts, launchers

# Share of a step that the clocks may leave open before the question who waits for whom is left open too: where less is
# open, no finding of 5 % is missed for it.
OPEN_SHARE = 0.05
# What a late rank did longer than the others where its host, not its device or its data, held it up.
_HOST = ("host", "operator", "unknown")


class Costs(Struct, frozen=True):
    """One segment for each row of `arrivals`, as long as it costs; one for each rank, what its device idles while its threads
    stand still; one for each row of `stages`; and one for the rest of all ranks' time."""

    dur_ns: Ints
    step: Ints
    counted: Bools
    counted_ns: int

    def spans(self, cause: str) -> Spans:
        """Time in which a cause owns the devices: of several ranks none is told apart."""
        return EMPTY


class Job:
    """Several ranks of one run. Everything is worked out from their digests, on first use."""

    def __init__(self, digests: Sequence[Digest], ranks: Sequence[int]) -> None:
        self.digests = list(digests)
        self.ranks = list(ranks)

    @cached_property
    def _matching(self) -> tuple[list[Group], list[tuple[str, int]]]:
        return match(self.digests)

    @property
    def groups(self) -> list[Group]:
        """Process groups, with the collectives that their ranks share."""
        return self._matching[0]

    @property
    def strange(self) -> list[tuple[str, int]]:
        """Group and rank (by its index) of sequences that are unlike those of the others."""
        return self._matching[1]

    @cached_property
    def clocks(self) -> Clocks:
        """Offsets between the clocks."""
        return align(self.digests, self.groups)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Arrivals of the ranks at the collectives."""
        return arrivals(self.digests, self.ranks, self.groups, self.clocks, self.pipelines)

    @cached_property
    def pipelines(self) -> Pipelines:
        """Pipelines that the ranks are stages of."""
        return find(self.digests, self.ranks)

    @cached_property
    def stages(self) -> pd.DataFrame:
        """The frame of that name."""
        frame = self.arrivals.frame
        here = self._drains & (frame["step"].to_numpy(np.int64) >= 0) & (not self.obstacle)
        met = dict.fromkeys(self.ranks, 0)
        for rank, ns in zip(
            frame["rank"].to_numpy()[here].tolist(), frame["cost_ns"].to_numpy()[here].tolist(), strict=True
        ):
            met[rank] += ns
        return stages(self.digests, self.ranks, self.pipelines, met)

    @cached_property
    def _drains(self) -> Bools:
        """Flag the rows of `arrivals` whose waiting is told of by `stages`."""
        flags: Bools = self.arrivals.frame["across_stages"].to_numpy(np.bool_)
        return flags if self.pipelines.stages else np.zeros(len(flags), np.bool_)

    @cached_property
    def obstacle(self) -> str:
        """Reason that nothing can be said of who waits for whom; empty where it can."""
        if not self.groups:
            return "The traces share no collectives: give the traces of ranks of one run, recorded over the same steps."
        if not self.clocks.usable.sum() > 1 or not self.arrivals.collectives:
            return (
                "Too few collectives are in more than one of the traces to compare their clocks: record the same steps "
                "on all ranks."
            )
        arrivals = self.arrivals
        if arrivals.impossible > IMPOSSIBLE_SHARE * arrivals.collectives:
            return (
                f"The clocks do not allow it: {arrivals.impossible:,} of {arrivals.collectives:,} collectives would end before "
                "their last rank arrives. Give the traces of one run, recorded over the same steps."
            )
        spent = int(arrivals.frame["cost_ns"].to_numpy()[arrivals.frame["step"].to_numpy() >= 0].sum())
        counted_ns = self.counted_ns
        if counted_ns and arrivals.undecided_ns >= OPEN_SHARE * counted_ns and arrivals.undecided_ns > spent:
            return (
                f"The clocks do not allow it: the ends of collectives scatter by {duration(arrivals.noise_ns / 1e6)} between the "
                f"ranks, and {100 * arrivals.undecided_ns / counted_ns:.0f} % of the step is waited in collectives whose arrivals "
                "lie closer together than that. Traces of one machine, or of machines whose clocks are kept by PTP, agree "
                "better."
            )
        return ""

    # ---- what the engine asks of a trace

    @cached_property
    def features(self) -> frozenset[str]:
        """Features that all ranks recorded; `ranks` where their arrivals can be compared."""
        common = frozenset.intersection(*(digest.features for digest in self.digests))
        return common | {"distributed"} | (frozenset() if self.obstacle else {"ranks"})

    @property
    def gpu_expected(self) -> bool:
        """Ranks that communicate on a GPU have one."""
        return not all(digest.on_cpu for digest in self.digests)

    @cached_property
    def ledger(self) -> Costs:
        """All ranks' counted time, of which each row of `arrivals` has its cost."""
        frame = self.arrivals.frame
        cost = frame["cost_ns"].to_numpy(np.int64)
        step = frame["step"].to_numpy(np.int64)
        counted = step >= 0
        counted_ns = self.counted_ns
        idle = np.array([digest.idle_ns for digest in self.digests], np.int64)
        between = self.stages["cost_ns"].to_numpy(np.int64)
        # What ranks wait where stages meet is in the rows of `stages`.
        met = int(cost[counted & self._drains].sum()) if len(between) else 0
        rest = max(counted_ns - int(cost[counted].sum()) - int(idle.sum()) - int(between.sum()) + met, 0)
        more = np.concatenate([idle, between, [rest]])
        dur_ns, steps = np.append(cost, more), np.append(step, np.zeros(len(more), np.int64))
        return Costs(dur_ns, steps, np.append(counted, np.ones(len(more), np.bool_)), counted_ns)

    @property
    def counted_ns(self) -> int:
        """All ranks' counted time."""
        return sum(digest.counted_ns for digest in self.digests)

    @cached_property
    def hosts(self) -> list[Host]:
        """Count of the launching threads of each host that run at once."""
        return hosts(self.digests, self.clocks)

    @cached_property
    def _held_up(self) -> Ints:
        """For each row of `arrivals` the rank, by its index, that its host held up, and that others wait for; else -1."""
        frame = self.arrivals.frame
        late = frame["late_rank"].fillna(-1).to_numpy(np.int64)
        by_host = frame["late_cause"].isin(_HOST).to_numpy() & (frame["step"].to_numpy(np.int64) >= 0)
        member = {rank: at for at, rank in enumerate(self.ranks)}
        return np.array([member.get(rank, -1) for rank in np.where(by_host, late, -1).tolist()], np.int64)

    @cached_property
    def launchers(self) -> pd.DataFrame:
        """The frame of that name."""
        here = self._held_up >= 0
        cost = self.arrivals.frame["cost_ns"].to_numpy(np.int64)
        caused = summed(self._held_up[here], cost[here], len(self.digests))
        return launchers(self.digests, self.ranks, self.hosts, caused)

    @property
    def step_ms(self) -> float | None:
        """Median of the ranks' median steps; None where none has steps."""
        steps = [digest.step_ms for digest in self.digests if digest.step_ms is not None]
        return float(np.median(steps)) if steps else None

    @property
    def unprofiled(self) -> None:
        """Steps without the profiler: each rank's own, and none of the job."""
        return None

    @property
    def whole_ms(self) -> float:
        """Time that shares are taken of: the ranks' typical step (the mean where steps differ), in the middle, or the window."""
        if self.step_ms is None:
            return self.window_ns / 1e6
        return float(np.median([digest.whole_ms for digest in self.digests if digest.step_ms is not None]))

    @property
    def step_count(self) -> int:
        """Steps of a rank, in the middle."""
        return int(np.median([digest.step_count for digest in self.digests]))

    @property
    def window_ns(self) -> int:
        """Window of a rank, in the middle."""
        return int(np.median([digest.window[1] - digest.window[0] for digest in self.digests]))

    def columns(self, name: str, columns: Sequence[str] | None = None) -> Columns:
        """A frame as the rules ask it; all *columns* of it."""
        return Columns.of_pandas(self.frame(name))

    def frame(self, name: str) -> pd.DataFrame:
        """`arrivals`, or `trace` with the facts of the ranks in one row."""
        if name == "arrivals":
            return self.arrivals.frame
        if name == "launchers":
            return self.launchers
        if name == "stages":
            return self.stages
        if name == "trace":
            return self._facts
        raise UsageError(f"no frame {name!r} across ranks; there are arrivals, launchers, stages and trace")

    def lacks_events(self, segments: Ints) -> bool:
        """Nothing: what was taken out of a rank's file is that rank's report's to say."""
        return False

    def claims(self, frame: str, mask: Bools) -> Ints:
        """Segments of the ledger that rows own: those of `arrivals` and `stages` their own, those of `launchers` what is waited
        for the rank, and what its device idles."""
        if frame == "arrivals":
            return np.flatnonzero(mask)
        if frame == "stages":
            return len(self._held_up) + len(self.digests) + np.flatnonzero(mask)
        if frame != "launchers":
            return np.zeros(0, np.int64)
        ranks = set(self.launchers["rank"].to_numpy()[mask].tolist())
        members = np.array([at for at, rank in enumerate(self.ranks) if rank in ranks], np.int64)
        waits = np.flatnonzero(np.isin(self._held_up, members))
        return np.concatenate([waits, len(self._held_up) + members])

    def returns(self, frame: str, mask: Bools) -> tuple[float, float]:
        """All of it."""
        return 1.0, 1.0

    def behind(self, frame: str, mask: Bools) -> tuple[Ints, Ints]:
        """None: what several ranks show goes with no operators."""
        return np.zeros(0, np.int64), np.zeros(0, np.int64)

    def around(self, frame: str, mask: Bools, weights: Ints, op: str) -> str | None:
        """None: rows of several traces lie in nothing together."""
        return None

    def held(self, frame: str, mask: Bools, weights: Ints) -> list[tuple[str, float]]:
        """None: the rows are of several traces."""
        return []

    def harness(self, frame: str) -> Bools:
        """None: a benchmark runs in one process."""
        return np.zeros(len(self.frame(frame)), np.bool_)

    def failed(self, frame: str) -> dict[str, Exception]:
        """None: rows are missing in no part."""
        return {}

    def costs(self, frame: str, mask: Bools, segments: Ints) -> None:
        """Nothing else: no rank's time is divided here."""

    @cached_property
    def _facts(self) -> pd.DataFrame:
        """Facts in which all ranks agree, the median of shares and other fractions; the rest is unknown."""
        row: dict[str, Any] = {}
        for column in SCHEMAS["trace"].columns:
            values = [digest.facts.get(column.name) for digest in self.digests]
            known = [value for value in values if not pd.isna(value)]
            value = None
            if len(known) == len(values) and all(fact == known[0] for fact in known):
                value = known[0]
            elif known and column.type == "DOUBLE":
                value = float(np.median([float(fact) for fact in known]))
            row[column.name] = typed([value], column).pandas()
        row["distributed"] = pd.Series([True], dtype="boolean")
        row["stage_count"] = pd.Series([self.pipelines.stages], dtype="Int64")
        return pd.DataFrame(row)
