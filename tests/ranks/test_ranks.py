"""What only many ranks show: values worked out by hand on built traces, and three collectives of a real run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace
from support.ranks import BOOK, COMPUTE_US, GPU, MESSAGE_US, ONLY, STEP_US, close, rank, ranks, read, together
from support.traces import analysis as analyzed

import advisor
from advisor.pipeline import analyze_many
from advisor.ranks.digest import Digest, digest
from advisor.ranks.job import Job
from advisor.ranks.matching import find_shift, match
from advisor.ranks.rewrite import rewrite
from advisor.ranks.summary import ranks_of
from advisor.report.figures import waits
from advisor.report.redact import redact
from advisor.results.ranks import Across, RankRow
from advisor.testing import TraceBuilder
from advisor.timeline.ledger import CAUSES


def jobs(folder: Path, builders: Sequence[TraceBuilder]) -> Job:
    job, _ = ranks_of([digest(trace) for trace in read(folder, builders)])
    assert job is not None
    return job


def straggler(across: Across) -> Any:
    found = [finding for finding in across.findings if finding.rule == "distributed/straggler"]
    assert len(found) == 1, across.verdicts
    return found[0]


# ---- a planted amount


def test_a_late_rank_is_priced_at_what_the_others_wait(tmp_path: Path) -> None:
    # Three of four ranks wait 10 ms for rank 2 in each step of 100 ms: 30 / 4 = 7.5 ms on average.
    _, across = together(tmp_path, ranks({2: 10_000}))
    finding = straggler(across)
    assert close(finding.cost_ms, 7.5)
    assert close(finding.cost_share, 0.075)
    assert finding.occurrences == 12  # three ranks, four steps
    assert finding.evidence.rows[0][:3] == [2, "compute", "all_reduce"]
    assert [close(row.wait_ms, 10) if row.rank != 2 else row.wait_ms == 0 for row in across.ranks] == [True] * 4
    assert [row.late_share for row in across.ranks] == [0, 0, 1, 0]
    assert close(across.ranks[2].caused_ms, 7.5)
    assert across.clocks.comparable
    assert across.clocks.collectives == 4
    assert across.clocks.residual_ms == 0
    assert across.quality == []


def test_what_held_the_late_rank_up_is_named(tmp_path: Path) -> None:
    _, across = together(tmp_path, ranks({1: 8_000}, as_host=True))
    assert straggler(across).evidence.rows[0][:2] == [1, "host"]


def test_the_screen_names_the_ranks_that_are_waited_for_and_how_long(tmp_path: Path) -> None:
    # Rank 2 is 10 ms late to each step of 100: the mean over four ranks is 7.5, as it does not wait for itself.
    _, across = together(tmp_path, ranks({2: 10_000}))
    assert waits(across) == (
        "Ranks wait for each other for 0–10 % of their step: rank 2 comes late, and the others wait 10.0 ms a step for it."
    )


def test_no_rank_is_named_where_ranks_hardly_wait(tmp_path: Path) -> None:
    _, across = together(tmp_path, ranks({2: 1_000}))
    assert waits(across) == "Ranks wait for each other for 0–1 % of their step."


def test_ranks_late_in_turn_share_the_blame(tmp_path: Path) -> None:
    # Steps alternate: in even ones rank 0 is 12 ms late, in odd ones rank 3 by 4 ms. Means: 9 and 3 ms, over all steps 6.
    builders = []
    for number in range(4):
        b = TraceBuilder(GPU, rank=number, world_size=4)
        for step in range(4):
            late, latest = ((12_000, 12_000) if step % 2 == 0 else (0, 4_000)) if number == 0 else (0, 12_000)
            if number and step % 2:
                late, latest = (4_000 if number == 3 else 0), 4_000
            with b.step():
                b.kernel("ampere_sgemm_128x64_tn", us=COMPUTE_US + late - 200, at_us=step * STEP_US + 200)
                at = step * STEP_US + COMPUTE_US + late
                b.collective("all_reduce", 4_000_000, us=latest - late + MESSAGE_US, at_us=at)
                b.seek((step + 1) * STEP_US)
        builders.append(b)
    _, across = together(tmp_path, builders)
    assert close(straggler(across).cost_ms, 6.0)
    assert [row.late_share for row in across.ranks] == [0.5, 0, 0, 0.5]
    assert close(across.ranks[0].caused_ms, 4.5)
    assert close(across.ranks[3].caused_ms, 1.5)


def test_a_rank_waits_whenever_the_steps_of_the_others_begin(tmp_path: Path) -> None:
    """All come to the first all-reduce at 50 ms and leave it at 61, but for rank 2, whose step begins at 55 and who comes at 60;
    and rank 1, whose step begins at 52, when it has waited for 2 ms."""
    builders = []
    for number in range(3):
        b = TraceBuilder(GPU, rank=number, world_size=3)
        begins, arrives = {0: (0, 50_000), 1: (52_000, 50_000), 2: (55_000, 60_000)}[number]
        b.seek(0)
        if arrives < begins:  # launched before the first step
            b.collective("all_reduce", 4_000_000, us=11_000, at_us=arrives)
        b.seek(begins)
        for step in range(3):
            start = step * STEP_US
            with b.step():
                if step or arrives > begins:
                    first = max(start + 200, begins + 200)
                    comes = start + 50_000 if step else arrives
                    b.kernel("ampere_sgemm_128x64_tn", us=comes - first, at_us=first)
                    b.collective("all_reduce", 4_000_000, us=61_000 - arrives if not step else MESSAGE_US, at_us=comes)
                b.sync("cudaDeviceSynchronize")
                b.seek((step + 1) * STEP_US)
        builders.append(b)
    frame = jobs(tmp_path, builders).arrivals.frame
    first = frame[frame["collective"] == 0].set_index("rank")
    assert first["late_rank"].unique().tolist() == [2]
    assert first["step"].tolist() == [0, 0, 0]
    # Rank 0 waits from 50 to 60, rank 1 in its steps from 52 on; what is left of 11 and 9 ms is the exchange.
    assert [round(ns / 1e6, 2) for ns in first["wait_ns"]] == [10, 8, 0]
    assert [round(ns / 1e6, 2) for ns in first["cost_ns"]] == [10, 8, 0]
    assert frame.loc[frame["collective"] > 0, "wait_ns"].tolist() == [0] * 6


def test_waiting_that_computation_hides_costs_nothing(tmp_path: Path) -> None:
    builders = ranks({2: 10_000})
    for number, b in enumerate(builders):
        if number != 2:
            for step in range(4):
                b.kernel("ampere_sgemm_64x32_tn", us=10_000, at_us=step * STEP_US + COMPUTE_US, stream=9)
    _, across = together(tmp_path, builders)
    # Of the 11 ms that the kernel runs, 1 ms is exposed: no more than that would be saved by coming together.
    assert across.findings == []
    assert close(across.ranks[0].wait_ms, 1.0)


# ---- what must change nothing


@pytest.mark.parametrize("clocks", [(0, 5_000_000, -80_000_000, 1_000), (0, 3_600_000_000_000, 0, 0)])
def test_clocks_that_differ_change_nothing(tmp_path: Path, clocks: Sequence[int]) -> None:
    builders = [rank(number, 10_000 * (number == 2), 10_000, clock_ns=clocks[number]) for number in range(4)]
    _, across = together(tmp_path, builders)
    assert close(straggler(across).cost_ms, 7.5)
    offsets = [row.clock_offset_ms for row in across.ranks]
    assert [round((offset or 0) - (offsets[0] or 0), 6) for offset in offsets] == [clock / 1e6 for clock in clocks]


def test_the_order_of_the_traces_changes_nothing(tmp_path: Path) -> None:
    there, back = ranks({2: 10_000}), list(reversed(ranks({2: 10_000})))
    names = [f"r{number}.json" for number in range(4)]
    _, one = together(tmp_path, there, names)
    _, other = together(tmp_path, back, names[::-1])
    places = [replace(across, ranks=[replace(row, trace=None) for row in across.ranks]) for across in (one, other)]
    assert places[0] == places[1]
    assert [row.trace for row in one.ranks] == [row.trace for row in reversed(other.ranks)] == [0, 1, 2, 3]
    assert [row.rank for row in other.ranks] == [0, 1, 2, 3]


def test_a_missing_rank_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    # Ranks 0, 1 and 2 of four: two of three wait 10 ms.
    _, across = together(tmp_path, ranks({2: 10_000})[:3])
    assert close(straggler(across).cost_ms, 20 / 3)
    assert [note.code for note in across.quality] == ["ranks-missing"]
    assert "1 of 4 ranks were not given (rank 3)" in across.quality[0].message


def test_where_the_late_rank_is_missing_nothing_is_said(tmp_path: Path) -> None:
    builders = [builder for number, builder in enumerate(ranks({2: 10_000})) if number != 2]
    _, across = together(tmp_path, builders)
    assert across.findings == []
    assert across.verdicts.passes == ["distributed/few-cores", "distributed/straggler", "distributed/uneven-experts"]


@pytest.mark.parametrize("numbered", [True, False])
def test_ranks_may_have_recorded_different_steps(tmp_path: Path, numbered: bool) -> None:
    # Rank 1 recorded steps 1 to 5, the others 0 to 3: steps 1 to 3 are shared by all, and the rest by the others.
    builders = [
        rank(number, 10_000 * (number == 2), 10_000, steps=range(1, 6) if number == 1 else range(4), numbered=numbered)
        for number in range(4)
    ]
    job = jobs(tmp_path, builders)
    frame = job.arrivals.frame
    assert job.obstacle == ""
    seen = frame.groupby("collective")["ranks_seen"].first().tolist()
    assert seen == [3, 4, 4, 4]
    assert set(frame.loc[frame["late"], "rank"]) == {2}
    assert np.allclose(frame.loc[frame["rank"] == 1, "wait_ns"], 10e6, rtol=0.01)


def test_a_rank_given_twice_counts_once(tmp_path: Path) -> None:
    analyses, across = together(tmp_path, [*ranks({2: 10_000}), ranks({2: 10_000})[1]])
    assert len(analyses) == 5
    assert close(straggler(across).cost_ms, 7.5)
    assert [note.code for note in across.quality] == ["rank-twice"]
    assert "trace4.json is left out beside" in across.quality[0].message


def test_a_rank_may_be_named_by_its_file(tmp_path: Path) -> None:
    names = [f"run7_rank{number}.json" for number in range(4)]
    _, across = together(tmp_path, ranks({2: 10_000}, rank_known=False), names)
    assert [row.rank for row in across.ranks] == [0, 1, 2, 3]
    assert close(straggler(across).cost_ms, 7.5)


# ---- what cannot be compared


def test_traces_that_are_no_ranks_have_nothing_across(tmp_path: Path) -> None:
    alone = TraceBuilder(GPU)
    alone.kernel("ampere_sgemm_128x64_tn", us=100)
    same = [rank(0, 0, 0), rank(0, 0, 0)]  # two runs of rank 0, as before and after a change
    for builders in ([alone, alone], same):
        analyses, across = analyze_many(read(tmp_path, builders), BOOK, only=ONLY)
        assert across is None
        assert len(analyses) == 2
        asked = [verdict.rule for verdict in analyses[0].verdicts.not_run + analyses[0].verdicts.not_applicable]
        assert "distributed/straggler" in asked  # nobody else answers


def test_one_trace_says_how_to_give_all(tmp_path: Path) -> None:
    analyses, across = analyze_many(read(tmp_path, [rank(0, 0, 0)]), BOOK, only=ONLY)
    assert across is None
    (unmet,) = (verdict for verdict in analyses[0].verdicts.not_run if verdict.rule == "distributed/straggler")
    assert unmet.needs == ["ranks"]
    assert "all of them at once" in unmet.how
    (trace,) = read(tmp_path, [rank(0, 0, 0)])
    assert trace.frame("arrivals").empty


def test_clocks_that_jump_forbid_a_verdict_and_say_so(tmp_path: Path) -> None:
    builders = []
    for number in range(2):
        b = TraceBuilder(GPU, rank=number, world_size=2)
        for step in range(8):
            start = step * STEP_US + number * (0, 40_000, 13_000, 25_000)[step % 4]
            with b.step():
                b.kernel("ampere_sgemm_128x64_tn", us=10_000, at_us=start + 200)
                b.collective("all_reduce", 4_000_000, us=40_000, at_us=start + 10_200)
                b.seek((step + 1) * STEP_US)
        builders.append(b)
    _, across = together(tmp_path, builders)
    assert across.findings == []
    assert not across.clocks.comparable
    assert across.clocks.residual_ms > 10
    (unmet,) = (verdict for verdict in across.verdicts.not_run if verdict.rule == "distributed/straggler")
    assert unmet.how == across.clocks.because
    assert "clocks do not allow it: the ends of collectives scatter by" in unmet.how
    assert all(row.wait_ms is None and row.late_share is None and row.caused_ms is None for row in across.ranks)


def test_one_unsteady_clock_does_not_spoil_the_others(tmp_path: Path) -> None:
    builders = ranks({2: 10_000}, count=5)[:4]
    b = TraceBuilder(GPU, rank=4, world_size=5)
    for step in range(4):
        start = step * STEP_US + (0, 9_000, 3_000, 5_000)[step]
        with b.step():
            b.kernel("ampere_sgemm_128x64_tn", us=COMPUTE_US - 200, at_us=start + 200)
            b.collective("all_reduce", 4_000_000, us=11_000, at_us=start + COMPUTE_US)
            b.seek((step + 1) * STEP_US)
    _, across = together(tmp_path, [*builders, b])
    assert [note.code for note in across.quality] == ["clock-unsteady"]
    assert across.ranks[4].wait_ms is None
    # Three wait 10 ms; the cost is the mean over the five that were given.
    assert close(straggler(across).cost_ms, 6.0)


def test_ranks_that_run_something_else_are_named(tmp_path: Path) -> None:
    other = TraceBuilder(GPU, rank=3, world_size=4)
    for step in range(4):
        with other.step():
            other.kernel("ampere_sgemm_128x64_tn", us=1_000)
            for _ in range(3):
                other.collective("all_gather", 1_000, us=50)
            other.seek((step + 1) * STEP_US)
    _, across = together(tmp_path, [*ranks({2: 10_000})[:3], other])
    codes = [note.code for note in across.quality]
    assert "ranks-differ" in codes
    assert "rank 3 does not run the collectives" in across.quality[codes.index("ranks-differ")].message
    assert close(straggler(across).cost_ms, 5.0)  # two of four given wait 10 ms


def test_a_rank_without_a_gpu_is_left_out(tmp_path: Path) -> None:
    blind = TraceBuilder(GPU, rank=3, world_size=4)
    with blind.step(), blind.op("aten::mm"):
        blind.call("cudaLaunchKernel", 6)
    _, across = together(tmp_path, [*ranks({2: 10_000})[:3], blind])
    assert [row.rank for row in across.ranks] == [0, 1, 2]
    assert {note.code for note in across.quality} == {"rank-without-gpu", "ranks-missing"}


# ---- matching


def test_groups_are_matched_each_by_itself(tmp_path: Path) -> None:
    job = jobs(tmp_path, ranks({2: 10_000}, groups=("0", "tp")))
    assert sorted(group.name for group in job.groups) == ["0 [0, 1, 2, 3]", "tp [0, 1, 2, 3]"]
    frame = job.arrivals.frame
    waits = frame.groupby("group_name", observed=True)["wait_ns"].sum()
    assert close(waits["0 [0, 1, 2, 3]"], 12 * 10e6)
    assert waits["tp [0, 1, 2, 3]"] == 0  # all come to it together, straight from the other


def test_groups_of_other_ranks_do_not_mix(tmp_path: Path) -> None:
    # Ranks 0 and 1 are one tensor-parallel group, 2 and 3 another, under one name; all four share a third.
    builders = []
    for number in range(4):
        b = TraceBuilder(GPU, rank=number, world_size=4)
        mine = [0, 1] if number < 2 else [2, 3]
        for step in range(4):
            with b.step():
                start, late = step * STEP_US, 6_000 if number == 1 else 0
                b.kernel("ampere_sgemm_128x64_tn", us=20_000 + late, at_us=start + 200)
                said = {"Process Group Ranks": str(mine), "Group size": 2}
                _collective(b, said, us=(6_000 if number == 0 else 0) + 500, at_us=start + 20_200 + late)
                done = start + 20_200 + (6_500 if number < 2 else 500)
                b.kernel("ampere_sgemm_128x64_tn", us=20_000, at_us=done)
                both = start + 46_700
                _collective(b, {}, us=both + 1_000 - (done + 20_000), at_us=done + 20_000, group="all", stream=21)
                b.seek((step + 1) * STEP_US)
        builders.append(b)
    job = jobs(tmp_path, builders)
    assert sorted(group.name for group in job.groups) == ["all [0, 1, 2, 3]", "tp [0, 1]", "tp [2, 3]"]
    frame = job.arrivals.frame
    waits = frame.groupby(["group_name", "rank"], observed=True)["wait_ns"].sum()
    assert close(waits["tp [0, 1]", 0], 4 * 6e6)
    assert waits["tp [2, 3]"].sum() == 0
    assert close(waits["all [0, 1, 2, 3]", 2], 4 * 6e6)  # in the group of all, ranks 2 and 3 wait for the first pair


def _collective(
    b: TraceBuilder, said: Mapping[str, Any], *, us: int, at_us: int, group: str = "tp", stream: int = 20
) -> None:
    before = len(b._line.events)
    b.collective("all_reduce", 4_000_000, us=us, at_us=at_us, group=group, stream=stream)
    for event in b._line.events[before:]:
        if "Process Group Ranks" in getattr(event, "args", {}):
            event.args.update(said)


def test_numbers_in_the_group_go_before_everything(tmp_path: Path) -> None:
    # Nothing tells the steps apart but Seq: rank 1 recorded two collectives later, by a clock that hides it.
    builders = []
    for number in range(2):
        b = TraceBuilder(GPU, rank=number, world_size=2)
        for at in range(6):
            b.kernel("ampere_sgemm_128x64_tn", us=1_000, at_us=at * 2_000 + 100)
            _collective(b, {"Seq": 7 + at + 2 * number}, us=500, at_us=at * 2_000 + 1_200)
        builders.append(b)
    (group,) = jobs(tmp_path, builders).groups
    assert group.rows.tolist() == [[2, 0], [3, 1], [4, 2], [5, 3]]


def test_names_and_numbers_are_read_from_around_the_launch(tmp_path: Path) -> None:
    b = TraceBuilder(GPU, rank=0, world_size=2)
    message = {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1000, "Group size": 2}
    message |= {"Process Group Name": "3", "Process Group Ranks": [0, 5], "Seq": 41}
    with b.op("record_param_comms", args=message):
        b.idle(us=2)
        with b.annotation("nccl:all_reduce"):
            b.idle(us=2)
            b.kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", us=50, stream=20)
            b.idle(us=2)
        b.idle(us=2)
    (row,) = read(tmp_path, [b])[0].frame("collectives").to_dict("records")
    assert (row["kind"], row["dtype"], row["bytes"], row["group_size"]) == ("all_reduce", "BFloat16", 2000, 2)
    assert (row["group_name"], row["group_ranks"], row["seq"]) == ("3", "[0, 5]", 41)


def test_a_message_is_sized_by_its_operand_where_nothing_else_says(tmp_path: Path) -> None:
    b = TraceBuilder(GPU, rank=0, world_size=2)
    with b.op("record_param_comms"):
        b.idle(us=2)
        with b.op("nccl:all_reduce", shapes=[[4, 2048, 4096]], dtypes=["c10::Half"]):
            b.kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", us=50, stream=20)
    (row,) = read(tmp_path, [b])[0].frame("collectives").to_dict("records")
    assert (row["dtype"], row["bytes"]) == ("Half", 4 * 2048 * 4096 * 2)


def test_sequences_that_differ_are_not_matched(tmp_path: Path) -> None:
    digests = [digest(trace) for trace in read(tmp_path, ranks({}, count=2))]
    groups, strange = match(digests)
    assert (len(groups), strange) == (1, [])
    from advisor.ranks.matching import _sequences

    ((_, base),) = _sequences(0, digests[0])
    ((_, other),) = _sequences(1, digests[1])
    assert find_shift(base, other) == 0
    other.kind[:] = 1
    assert find_shift(base, other) is None


# ---- what is said


def test_exposed_communication_says_whom_the_rank_waits_for(tmp_path: Path) -> None:
    analyses, _ = together(tmp_path, ranks({2: 10_000}))
    alone, _ = analyze_many(read(tmp_path, ranks({2: 10_000}))[:1], BOOK, only=ONLY)
    rule = "distributed/exposed-forward-communication"
    (before,) = (finding for finding in alone[0].findings if finding.rule == rule)
    (told,) = (finding for finding in analyses[0].findings if finding.rule == rule)
    assert told.title == "The GPU waits in collectives, mostly for rank 2"
    assert "91 % of this time (10 of 11 ms) passes before the last rank has come" in told.why
    assert "Rank 0 waits for rank 2 (100 % of the waiting)." in told.why
    assert before.saving is not None
    assert told.saving is not None
    assert close(told.saving.high_ms, before.saving.high_ms / 11)  # 1 of 11 ms is the message
    assert not [finding for finding in analyses[2].findings if finding.rule == rule]  # the late rank waits for nobody
    asked = [verdict.rule for verdict in analyses[0].verdicts.not_run]
    assert "distributed/straggler" not in asked  # answered across


def test_waiting_that_a_rank_knows_of_is_not_taken_off_its_price_twice(tmp_path: Path) -> None:
    """Of 11 ms 10 are waiting: by itself the rank prices what hides of 11, of 1 where it tells waiting from the exchange."""
    rule = "distributed/exposed-forward-communication"
    (alone,), _ = analyze_many(read(tmp_path, ranks({2: 10_000}))[:1], BOOK, only=ONLY)
    row = RankRow(
        rank=0, path="", steps=1, step_ms=None, gpu_busy_share=None, compute_share=None, communication_share=None,
        wait_ms=10.0, wait_share=None, late_share=None, caused_ms=None, clock_offset_ms=None, clock_residual_ms=None,
    )  # fmt: skip
    arrivals = pd.DataFrame({"rank": [0], "step": [0], "cost_ns": [10_000_000], "late_rank": [2]})
    (before,) = (finding for finding in alone.findings if finding.rule == rule)
    assert before.saving is not None
    for known_ms, left in ((None, 1 / 11), (2.0, 1 / 11), (8.0, 1 / 3), (10.0, 1.0), (10.5, 1.0)):
        # Waiting of under 15 % of the step is in the price.
        summary = msgspec.structs.replace(alone.summary, rank_wait_ms=known_ms, steady_ms=20.0)
        told = rewrite(msgspec.structs.replace(alone, summary=summary), row, arrivals, [], BOOK.rules)
        (after,) = (finding for finding in told.findings if finding.rule == rule)
        assert after.saving is not None
        assert close(after.saving.high_ms, left * before.saving.high_ms)


def test_what_is_said_across_names_no_folder(tmp_path: Path) -> None:
    _, across = together(tmp_path, [*ranks({2: 10_000}), ranks({2: 10_000})[1]])
    cut = redact(across)
    assert [row.path for row in cut.ranks] == [f"trace{number}.json" for number in range(4)]
    assert str(tmp_path) not in str(cut)


def test_a_digest_is_small(tmp_path: Path) -> None:
    import pickle

    (trace,) = read(tmp_path, [rank(0, 0, 0)])
    made: Digest = pickle.loads(pickle.dumps(digest(trace)))
    assert len(made.collectives) == 4
    assert made.before.shape == (4, len(CAUSES))
    assert len(pickle.dumps(made)) < 20_000


# ---- a real run


def test_three_collectives_of_a_real_run(real: Any) -> None:
    """Eight ranks of one tensor-parallel step. Starts and ends read from the files, in ms since the first collective."""
    digests = [digest(advisor.read(real(f"a100_megatron_tp8/rank{number}.json.gz"))) for number in range(8)]
    job, notes = ranks_of(digests)
    assert job is not None
    assert (notes, job.obstacle) == ([], "")
    found = job.arrivals
    assert found.collectives == 84
    assert found.impossible == 0
    assert found.noise_ns < 100_000  # the clocks of one machine agree: ends scatter by tens of us
    frame = found.frame
    wanted = {
        # collective: (late rank, ms after the median of the others, mean wait by the files' own clocks)
        3: (0, 7.71, 6.74),  # starts 64.65 (rank 0) against 56.93 ... 56.97
        10: (6, 10.15, 8.88),  # 118.61 (rank 6) against 108.43 ... 108.50
        67: (0, 19.06, 14.41),  # 516.27 (rank 0); 510.72 (rank 6) and 501.81 (rank 5) against 497.20 ... 497.22
    }
    for number, (late, by_ms, mean_ms) in wanted.items():
        rows = frame[frame["collective"] == number]
        assert len(rows) == 8
        assert rows["late_rank"].unique().tolist() == [late]
        assert abs(rows["late_by_ns"].iloc[0] / 1e6 - by_ms) < 0.03
        assert abs(rows["wait_ns"].mean() / 1e6 - mean_ms) < 0.03
        assert rows["late_cause"].unique().tolist() == ["host"]


def test_ranks_0_and_6_keep_the_others_waiting(real: Any) -> None:
    traces = (advisor.read(real(f"a100_megatron_tp8/rank{number}.json.gz")) for number in range(8))
    analyses, across = analyze_many(traces, BOOK, only=ONLY)
    assert across is not None
    # Too few cores hold them up (tests/ranks/test_turns.py): the waits, 0.57 of the step, and what devices idle.
    (finding,) = across.findings
    assert finding.rule == "distributed/few-cores"
    assert finding.severity == "high"
    assert 0.65 < finding.cost_share < 0.7
    worst = sorted(across.ranks, key=lambda row: -(row.caused_ms or 0))
    assert {row.rank for row in worst[:2]} == {0, 6}
    assert sum(row.caused_ms or 0 for row in worst[:2]) > 0.75 * finding.cost_ms
    for analysis in analyses:
        said = [finding.title for finding in analysis.findings if finding.category == "distributed"]
        assert all(
            "bucket" not in finding.fix.after for finding in analysis.findings if finding.category == "distributed"
        )
        assert said[0].startswith("The GPU waits in collectives, mostly for rank")
        worth = [(finding.saving.high_ms if finding.saving else 0) for finding in analysis.findings]
        assert worth == sorted(worth, reverse=True)  # all are likely: what is first is what to do first


def test_a_message_larger_than_any_machine_is_of_unknown_size(tmp_path: Path) -> None:
    b = TraceBuilder(GPU, rank=0, world_size=2)
    with b.op("record_param_comms", args={"dtype": "Float", "In msg nelems": (1 << 62) + 1}):
        b.idle(us=2)
        with b.op("nccl:all_reduce"):
            b.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", us=50, stream=20)
    (row,) = read(tmp_path, [b])[0].frame("collectives").to_dict("records")
    assert pd.isna(row["bytes"])


@pytest.mark.real
def test_the_plan_of_a_rewritten_rank_begins_with_steady_time() -> None:
    """300 of its 330 ms are start-up, of which no price speaks."""
    analysis = analyzed("audited/a100_particle_batch8_cold")
    row = RankRow(
        rank=0, path="", steps=0, step_ms=None, gpu_busy_share=None, compute_share=None, communication_share=None,
        wait_ms=1.0, wait_share=None, late_share=None, caused_ms=None, clock_offset_ms=None, clock_residual_ms=None,
    )  # fmt: skip
    arrivals = pd.DataFrame({"rank": [0], "step": [0], "cost_ns": [1000], "late_rank": [1]})
    plan = rewrite(analysis, row, arrivals, [], BOOK.rules).plan
    assert plan[0].step_ms_before == analysis.summary.priced_ms < 40


def test_ranks_on_the_cpu_are_read_as_any(tmp_path: Path) -> None:
    """Their ledger is of operators, not of a device's work."""
    builders = []
    for number in range(2):
        b = TraceBuilder(None, rank=number, world_size=2, host_us=0)
        for _ in range(3):
            with b.step(), b.op("aten::mm", us=1000):
                pass
        builders.append(b)
    assert [digest(trace).passes_ns for trace in read(tmp_path, builders)] == [0, 0]


def test_ranks_that_exchange_over_gloo_are_read_as_any(tmp_path: Path) -> None:
    """Waits for messages are operators' in their ledger, and no kernel's."""
    builders = []
    for number in range(2):
        b = TraceBuilder(None, rank=number, world_size=2, host_us=0)
        for _ in range(3):
            with b.step():
                with b.op("aten::mm", us=1000), b.op("c10d::allreduce_", us=10):
                    pass
                with b.thread(77), b.annotation("gloo:all_reduce", us=500):
                    pass
        builders.append(b)
    assert [len(digest(trace).messages) for trace in read(tmp_path, builders)] == [0, 0]
