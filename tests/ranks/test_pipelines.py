"""Pipelines among the ranks: what a stage waits and why, worked out by hand; the order of stages; and look-alikes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.ranks import BOOK, GPU, ONLY, close, ranks, read, together

from advisor.cache import codec
from advisor.frames.peers import peers
from advisor.pipeline import analyze_many
from advisor.ranks.digest import MESSAGE, Digest, digest
from advisor.ranks.job import Job
from advisor.ranks.pipelines import PARTS, find
from advisor.ranks.summary import ranks_of
from advisor.report import Options, render
from advisor.report.figures import waits
from advisor.results.ranks import Across
from advisor.results.several import Several
from advisor.testing import TraceBuilder
from advisor.testing.stages import order, pipeline, record, simulate

EVEN, LONG = (1_000, 2_000), (1_500, 3_000)
OF_STAGES = {"distributed/uneven-stages", "distributed/pipeline-bubble"}
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def job(folder: Path, builders: Sequence[TraceBuilder]) -> Job:
    found, _ = ranks_of([digest(trace) for trace in read(folder, builders)])
    assert found is not None
    return found


def told(across: Across) -> dict[str, Any]:
    return {finding.rule: finding for finding in across.findings}


# ---- what the stages wait


def test_the_simulated_schedules_last_as_long_as_worked_out() -> None:
    # (8 + 4 - 1) x 3 ms, either way.
    for schedule in ("1f1b", "gpipe"):
        events = simulate([EVEN] * 4, 8, schedule, message_us=0)
        assert max(event.end for stage in events for event in stage) == 33_000
    assert order(2, 4, 3, "1f1b") == [
        ("forward", 0), ("forward", 1), ("backward", 0), ("forward", 2), ("backward", 1), ("backward", 2),
    ]  # fmt: skip


def test_waiting_is_parted_into_uneven_stages_and_the_rest(tmp_path: Path) -> None:
    # Stages compute 24, 24, 36 and 24 ms in passes of 43.5 ms: they wait 19.5, 19.5, 7.5 and 19.5, 16.5 on average. Of that
    # 7/8 x (36 - 27) = 7.875 for the third one, and the rest is less than 3/8 x 27 = 10.125.
    found = job(tmp_path, pipeline([EVEN, EVEN, LONG, EVEN], 8, replicas=2, message_us=1))
    frame = found.stages
    assert len(frame) == 8 * len(PARTS)
    assert found.pipelines.stages == 4
    assert frame["stage"].tolist() == [rank // 2 for rank in range(8) for _ in PARTS]
    assert set(frame["pipelines"]) == {2}
    assert set(frame["micro_batches"]) == {8}
    assert sorted(set(frame.loc[frame["slowest"], "rank"])) == [4, 5]
    waited = frame.groupby("rank")["dur_ns"].first() / 4e6
    assert [round(ms, 1) for ms in waited] == [19.5, 19.5, 19.5, 19.5, 7.5, 7.5, 19.5, 19.5]
    by_part = frame.groupby("part", observed=True)["cost_ns"].sum() / 4e6 / 8
    assert close(by_part["uneven"], 7.875)
    assert close(by_part["filling"], 16.5 - 7.875)
    assert by_part["other"] < 0.05
    assert frame.groupby("rank")["cost_ns"].sum().sub(frame.groupby("rank")["dur_ns"].first()).abs().max() <= 2


def test_the_parts_are_never_more_than_what_is_waited(tmp_path: Path) -> None:
    # Messages that last as long as the passes: most of what is bare is exchange.
    frame = job(tmp_path, pipeline([EVEN, EVEN, LONG, EVEN], 4, message_us=1_000)).stages
    assert (frame["cost_ns"] >= 0).all()
    assert frame.groupby("rank")["cost_ns"].sum().sub(frame.groupby("rank")["dur_ns"].first()).abs().max() <= 2


def test_the_report_of_eight_ranks(tmp_path: Path) -> None:
    traces, across = together(tmp_path, pipeline([EVEN, EVEN, LONG, EVEN], 8, replicas=2))
    findings = told(across)
    assert set(findings) == OF_STAGES
    uneven = findings["distributed/uneven-stages"]
    rows = [dict(zip(uneven.evidence.columns, row, strict=True)) for row in uneven.evidence.rows]
    slowest = [row for row in rows if row["slowest"]]
    assert [(row["stage"], row["ranks"], row["first_rank"], row["of_the_mean"]) for row in slowest] == [(2, 2, 4, 1.33)]
    assert close(uneven.saving.high_ms, 7.87)
    assert close(uneven.saving.low_ms, 0.4 * 7.87)
    for trace in traces:
        # The norm over all ranks is where the pipeline drains: no bucket of gradients.
        assert [finding.rule for finding in trace.findings] == ["distributed/pipeline-wait"]
        assert "DistributedDataParallel" not in trace.findings[0].fix.after


def test_the_report_leads_with_the_stages(tmp_path: Path) -> None:
    traces, across = together(tmp_path, pipeline([EVEN, EVEN, LONG, EVEN], 8, replicas=2))
    assert [(stage.stage, stage.ranks) for stage in across.stages] == [
        (0, [0, 1]),
        (1, [2, 3]),
        (2, [4, 5]),
        (3, [6, 7]),
    ]
    assert [round(stage.compute_ms) for stage in across.stages] == [24, 24, 36, 24]
    # 43.5 ms of passes, but for messages: 7.6 and 20 of a step of 45.5 ms.
    assert [round(stage.wait_share, 2) for stage in across.stages] == [0.44, 0.43, 0.17, 0.44]
    assert waits(across) == (
        "The 4 stages of the pipeline wait for each other for 17\u201344 % of their step; stage 2 computes longest, 36.0 ms, and "
        "27.0 ms is the mean."
    )
    # In the norm the first stage is last by design: nobody is said to wait for it.
    assert not across.waits
    assert not across.lags
    assert all(not row.caused_ms for row in across.ranks)
    for form in ("text", "markdown", "html"):
        report = render(form, Several(traces=traces, across=across), Options(verbosity=1)).decode()
        assert "Stages of the pipeline" in report
        assert "slowest" in report


def test_equal_stages_are_said_to_be_equal(tmp_path: Path) -> None:
    _, across = together(tmp_path, pipeline([EVEN] * 4, 8, norm=False))
    assert waits(across).endswith("they compute about equally long.")


def test_sixty_four_ranks(tmp_path: Path) -> None:
    # Eight stages of 4 ms in eight micro-batches, the last 6: 32 and 48 ms. 7/8 x (48 - 34) = 12.25 ms.
    builders = pipeline([(1_500, 2_500)] * 7 + [(2_250, 3_750)], 8, replicas=8, message_us=10, steps=3)
    assert len(builders) == 64
    _, across = analyze_many(read(tmp_path, builders), BOOK, only=ONLY, views=False)
    assert across is not None
    findings = told(across)
    assert set(findings) == OF_STAGES
    assert close(findings["distributed/uneven-stages"].cost_ms, 12.25)
    rows = findings["distributed/uneven-stages"].evidence.rows
    assert [(row[0], row[2], row[3]) for row in rows if row[1]] == [(7, 8, 56)]
    # 7/8 x 34 ms
    assert close(findings["distributed/pipeline-bubble"].cost_ms, 29.75)


def test_where_stages_meet_nobody_is_a_straggler(tmp_path: Path) -> None:
    # The first stage is done last, and all others wait for it in the norm: 2, 4 and 6 ms.
    _, across = together(tmp_path, pipeline([EVEN] * 4, 8))
    assert set(told(across)) == {"distributed/pipeline-bubble"}
    assert across.verdicts.passes.count("distributed/straggler") == 1


def test_a_slow_copy_is_still_a_straggler(tmp_path: Path) -> None:
    # Rank 3 computes 1.3 times as long: 7.2 ms in eight micro-batches. Its copies wait in the reductions of their stages.
    _, across = together(tmp_path, pipeline([EVEN] * 4, 8, replicas=2, slow={3: 1.3}))
    assert set(told(across)) == {"distributed/pipeline-bubble", "distributed/straggler"}
    assert close(told(across)["distributed/pipeline-bubble"].cost_ms, 9)


def test_of_a_part_of_the_pipeline_nothing_is_said_but_what_to_record(tmp_path: Path) -> None:
    _, across = together(tmp_path, pipeline([EVEN, EVEN, LONG, EVEN], 8, replicas=2)[:6])
    assert not across.findings
    missing = {verdict.rule: verdict for verdict in across.verdicts.not_run}
    assert set(missing) == OF_STAGES
    assert all(verdict.needs == ["stage_count"] for verdict in missing.values())
    assert all("all ranks of the pipeline" in verdict.how for verdict in missing.values())


# ---- look-alikes


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_other_ways_to_divide_the_work_are_no_pipeline(tmp_path: Path, kind: str) -> None:
    builders = []
    for number in range(4):
        b = TraceBuilder(GPU, rank=number, world_size=4, host_us=1, latency_us=0)
        for step in range(4):
            with b.step():
                start = step * 20_000
                for layer in range(4):
                    late = 1_000 * (number == 2)
                    with b.op("aten::mm"):
                        b.kernel("ampere_sgemm_128x64_tn", us=3_000 + late, at_us=start + layer * 5_000 + 50)
                    at = start + layer * 5_000 + 3_050 + late
                    b.collective(kind, 4_000_000, us=1_500 - late, at_us=at)
                b.seek(start + 20_000)
        builders.append(b)
    traces, across = together(tmp_path, builders)
    assert not OF_STAGES & set(told(across))
    assert {verdict.rule for verdict in across.verdicts.not_applicable} >= OF_STAGES
    assert "distributed/straggler" in told(across)
    assert not any(finding.rule == "distributed/pipeline-wait" for trace in traces for finding in trace.findings)


def test_one_late_rank_of_a_data_parallel_run(tmp_path: Path) -> None:
    _, across = together(tmp_path, ranks({2: 10_000}))
    assert set(told(across)) == {"distributed/straggler"}


def ring(count: int, *, coalesced: bool) -> list[TraceBuilder]:
    """Attention over parts of the sequence: each step every rank sends its keys on, and gets those of the rank before it."""
    builders = []
    for number in range(count):
        b = TraceBuilder(GPU, rank=number, world_size=count, host_us=1, latency_us=0)
        group = list(range(count))
        for _ in range(4):
            with b.step():
                for layer in range(2 * count):
                    pair = (("send", (number + 1) % count), ("recv", (number - 1) % count))
                    if coalesced:
                        for what, other in pair:
                            with b.op("record_param_comms", args=record(what, other, group, 8_000_000)):
                                pass
                        with b.annotation("nccl:coalesced"):
                            b.kernel(KERNEL, us=2_000)
                    else:
                        for stream, (what, other) in enumerate(pair):
                            with b.op("record_param_comms", args=record(what, other, group, 8_000_000)):
                                b.kernel(KERNEL, us=2_000, stream=20 + stream)
                    with b.backward("FlashAttentionBackward", seq=layer):
                        b.kernel("flash_bwd_kernel", us=1_000)
                b.collective("all_reduce", 4, us=100)
                b.sync("cudaDeviceSynchronize")
        builders.append(b)
    return builders


@pytest.mark.parametrize("coalesced", [False, True])
@pytest.mark.parametrize("count", [2, 4])
def test_a_ring_is_no_pipeline(tmp_path: Path, count: int, coalesced: bool) -> None:
    traces, across = together(tmp_path, ring(count, coalesced=coalesced))
    assert not OF_STAGES & set(told(across))
    assert {verdict.rule for verdict in across.verdicts.not_applicable} >= OF_STAGES
    rules = {finding.rule for trace in traces for finding in trace.findings}
    assert "distributed/pipeline-wait" not in rules
    assert "distributed/exposed-communication" in rules


def test_a_ring_of_ranks_that_are_stages_too(tmp_path: Path) -> None:
    """Messages of different process groups are told apart."""
    b = TraceBuilder(GPU, rank=0, world_size=4, host_us=1, latency_us=0)
    for _ in range(2):
        with b.step():
            for call in ("send", "both", "both", "recv"):
                with b.op("aten::linear"):
                    b.kernel("ampere_bf16_s16816gemm_128x64_tn", us=2_000)
                for what in ("send", "recv") if call == "both" else (call,):
                    for other, group in ((1, [0, 2]), (1, [0, 1])):
                        for way in (what,) if group == [0, 2] else ("send", "recv"):
                            with b.op("record_param_comms", args=record(way, other, group, 8_000_000)):
                                b.kernel(KERNEL, us=100)
    frame = read(tmp_path, [b])[0].frame("collectives")
    flags = frame.groupby(["peers", "kind"], observed=True)["between_stages"].agg(["all", "any"])
    assert flags.loc["2"].to_numpy().all()
    assert not flags.loc["1"].to_numpy().any()


# ---- the order of the stages


def messages(*calls: tuple[str, int]) -> pd.DataFrame:
    """The messages of one rank, in two steps: ``("F", 1)`` computes, then sends to rank 1, ``("f", 1)`` receives from it."""
    rows = []
    for step in range(2):
        for number, (call, peer) in enumerate(calls):
            rows.append((len(rows), 10, 10, peer, call.isupper(), 8, step, 100 * step + number, 0, True))
    return pd.DataFrame(rows, columns=list(MESSAGE))


@pytest.fixture
def base(tmp_path: Path) -> Digest:
    return digest(read(tmp_path, ranks({}, count=1))[0])


def jobs(base: Digest, *tables: pd.DataFrame) -> list[Digest]:
    fields = {name: getattr(base, name) for name in base.__struct_fields__}
    return [Digest(**(fields | {"rank": rank, "messages": table})) for rank, table in enumerate(tables)]


def test_stages_are_in_the_order_of_the_first_messages(base: Digest) -> None:
    # Rank 2 is the first stage, then 0, then 1.
    digests = jobs(
        base,
        messages(("f", 2), ("F", 1), ("f", 1), ("F", 2)),
        messages(("f", 0), ("F", 0)),
        messages(("F", 0), ("f", 0)),
    )
    found = find(digests, [0, 1, 2])
    assert found.stages == 3
    assert found.stage.tolist() == [1, 2, 0]
    assert found.micro_batches == 1
    assert found.part([0, 2])
    assert not found.part([1])


def test_ranks_with_several_stages_in_turn(base: Digest) -> None:
    # Two chunks on each of three ranks: the last sends its first chunk on to the first. Four stretches of sends: two micro-batches.
    digests = jobs(
        base,
        messages(
            ("F", 1), ("F", 1), ("f", 2), ("F", 1), ("f", 2), ("F", 1), ("f", 1), ("F", 2), ("f", 1), ("F", 2), ("f", 1)
        ),
        messages(("f", 0), ("F", 2), ("f", 0), ("F", 2), ("F", 2), ("F", 2), ("f", 2), ("F", 0), ("f", 2), ("F", 0)),
        messages(("f", 1), ("F", 0), ("f", 1), ("F", 0), ("F", 1), ("F", 1), ("f", 0), ("F", 1), ("f", 0), ("F", 1)),
    )
    found = find(digests, [0, 1, 2])
    assert found.stages == 3
    assert found.stage.tolist() == [0, 1, 2]
    assert found.micro_batches == 4


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_rank_that_was_not_given(base: Digest, gone: int) -> None:
    tables = [
        messages(("F", 1), ("f", 1)),
        messages(("f", 0), ("F", 2), ("f", 2), ("F", 0)),
        messages(("f", 1), ("F", 1)),
    ]
    digests = jobs(base, *tables)
    here = [rank for rank in range(3) if rank != gone]
    found = find([digests[rank] for rank in here], here)
    assert found.stages is None
    assert found.part([0, 1]) == (gone != 1)


def test_no_messages_no_pipeline(base: Digest) -> None:
    assert find([base, base], [0, 1]).stages == 0


def test_a_digest_with_messages_travels(tmp_path: Path) -> None:
    before = digest(read(tmp_path, pipeline([EVEN] * 2, 2))[0])
    assert len(before.messages)
    after = codec.decode(codec.encode(before), Digest)
    pd.testing.assert_frame_equal(after.messages, before.messages)
    assert after.passes_ns == before.passes_ns


# ---- what torch writes


def calls(*spans: tuple[str, dict[str, object]], rank: int = 1) -> TraceBuilder:
    """One step of the rank in which messages are called for and run, each in an annotation inside of a record, where it has one."""
    b = TraceBuilder(GPU, rank=rank, world_size=4, host_us=1, latency_us=0)
    with b.step():
        for name, args in spans:
            with b.op("aten::linear"):
                b.kernel("ampere_bf16_s16816gemm_128x64_tn", us=1_000)
            if args:
                with b.op("record_param_comms", args=args), b.annotation(name, us=5):
                    b.kernel(KERNEL, us=100)
            else:
                with b.annotation(name):
                    b.kernel(KERNEL, us=100)
    return b


def test_the_other_rank_is_read_from_the_record(tmp_path: Path) -> None:
    trace = read(tmp_path, [calls(("nccl:send 0->1", record("send", 1, [1, 3], 8_000)))])[0]
    found = trace.context.once(peers)
    assert found.rank.tolist() == [3]
    assert found.sent.tolist() == [8_000]
    assert trace.frame("collectives")["peers"].tolist() == ["3"]
    assert trace.frame("collectives")["kind"].tolist() == ["send"]


def test_else_from_the_annotation_and_the_group(tmp_path: Path) -> None:
    args = {key: value for key, value in record("recv", 1, [1, 3], 8_000).items() if key != "Src Rank"}
    found = read(tmp_path, [calls(("nccl:recv 0<-1", args))])[0].context.once(peers)
    assert found.rank.tolist() == [3]
    assert found.sends.tolist() == [False]
    cut = args | {"Process Group Ranks": "[1, 3, ..., 9]"}
    assert read(tmp_path, [calls(("nccl:recv 0<-1", cut))])[0].context.once(peers).rank.tolist() == [-1]


def test_else_from_the_annotation_alone_where_its_numbers_are_those_of_all_ranks(tmp_path: Path) -> None:
    # Rank 1 calls itself 1, so the group is that of all ranks; rank 3 that calls itself 1 is in a group that is not known.
    for rank, expected in ((1, [2]), (3, [-1])):
        found = read(tmp_path, [calls(("nccl:send 1->2", {}), rank=rank)])[0].context.once(peers)
        assert found.rank.tolist() == expected


def test_messages_that_are_coalesced_are_of_the_next_kernel(tmp_path: Path) -> None:
    trace = read(tmp_path, [pipeline([EVEN] * 3, 4, coalesced=True)[1]])[0]
    frame = trace.frame("collectives")
    assert frame.loc[frame["between_stages"], "peers"].tolist()[:4] == ["0", "2", "0", "2"]
    found = trace.context.once(peers)
    assert (found.work >= 0).all()
    assert len(found.work) > len(np.unique(found.work))
    # 4 ranks' norm is no message, and its group holds both neighbours.
    assert frame.loc[frame["across_stages"], "kind"].unique().tolist() == ["all_reduce"]


def test_an_all_to_all_runs_in_a_kernel_of_the_same_name(tmp_path: Path) -> None:
    b = TraceBuilder(GPU, rank=0, world_size=2)
    with b.step():
        for _ in range(4):
            b.kernel("ampere_bf16_s16816gemm_128x64_tn", us=100)
            b.collective("all_to_all", 4_000, us=100)
    frame = read(tmp_path, [b])[0].frame("collectives")
    assert frame["kind"].unique().tolist() == ["all_to_all"]
    assert frame["peers"].isna().all()
    assert not frame["between_stages"].any()
