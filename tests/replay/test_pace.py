"""Prices of one rank among others, and of communication with little to hide behind: worked out by hand on built traces."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support.traces import analysis

import advisor
from advisor.engine.run import run
from advisor.replay.effect import Keep, effect
from advisor.replay.pace import clause, room_ns
from advisor.replay.pricing import Replay
from advisor.replay.queue import effects
from advisor.report import Options, render
from advisor.results.analysis import Finding
from advisor.rulebook import builtin_rules_dir, load
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

A100 = "NVIDIA A100-SXM4-80GB"


def built(b: TraceBuilder) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        return read(str(b.write(Path(folder) / "t.json")))


def facts(trace: Trace) -> dict[str, Any]:
    return trace.frame("trace").iloc[0].to_dict()


def rank(*lasting_us: int, nbytes: int = 1 << 20, wasted_us: int = 500) -> Trace:
    """One step: before each all-reduce of one size 200 us of a product and as much of a copy that nothing needs."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False, world_size=8)
    with b.step():
        for us in lasting_us:
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=200)
            with b.op("aten::copy_"):
                b.copy("DtoH", 1 << 22, us=wasted_us, pinned=False)
            b.collective("all_reduce", nbytes, us, stream=7, host_us=2)
        b.sync()
    return built(b)


def saving(trace: Trace, rule: str) -> Finding:
    return next(one for one in advisor.analyze(trace).findings if one.rule == rule)


@pytest.mark.parametrize(("ranks", "most_ms"), [(8, 0.95 * 12.0), (2, 0.95 * 3.75)])
def test_stops_make_a_rank_wait_for_no_more_than_all_others_are_stopped(ranks: int, most_ms: float) -> None:
    """Steps with four all-reduces that last 3 ms longer than the fastest, 12 in all; in three of four the thread stops for 5 ms.

    That is 3.75 ms a step: seven others who are stopped as much explain all of the waiting, one other explains so much of it.
    """
    b = TraceBuilder(A100, world_size=ranks, rank=0, host_us=2, latency_us=0, with_stack=False)
    for number in range(4):
        with b.step():
            for block, us in enumerate((1000, 4000, 4000, 4000, 4000)):
                before = b.collective("all_reduce", 64 << 20, us, stream=7)
                for at in range(10):
                    with b.op(f"aten::add{at}", us=20):
                        if number and (block, at) == (number, number):
                            b.idle(us=5000)
                        b.kernel("vectorized_elementwise_kernel", us=20, after=[before])
            b.sync()
    found = saving(built(b), "cpu/stalled-behind-waits")
    assert found.cost_ms == 0
    assert found.saving is not None
    assert found.saving.low_ms == 0
    assert found.saving.high_ms == pytest.approx(most_ms, rel=0.1)


def stopped_before_collectives(*, others_late: bool) -> Trace:
    """Steps in each of which the thread stops for 5 ms with the GPU idle, before a collective into which the rank came last.

    With *others_late* three of the others last 3 ms longer than the exchange of 1 ms takes.
    """
    b = TraceBuilder(A100, world_size=8, rank=0, host_us=2, latency_us=0, with_stack=False)
    for number in range(4):
        with b.step():
            for block in range(5):
                stopped = block == number + 1
                before = b.collective(
                    "all_reduce", 64 << 20, 1000 if stopped or block == 4 or not others_late else 4000, stream=7
                )
                b.sync()
                for at in range(10):
                    with b.op(f"aten::add{at}", us=20):
                        if (block, at) == (number, number + 1):
                            b.idle(us=5000)
                        b.kernel("vectorized_elementwise_kernel", us=20, after=[before])
            b.sync()
    return built(b)


@pytest.mark.parametrize("others_late", [True, False])
def test_stops_of_one_rank_return_nothing_for_sure_where_others_are_late_as_well(others_late: bool) -> None:
    """Other ranks that are late as well may hold a collective just as long as this one did.

    Where none is, no rank but this one is late: half of 5 ms a step come back at the least.
    """
    found = saving(stopped_before_collectives(others_late=others_late), "cpu/stalled-thread")
    assert found.saving is not None
    assert found.cost_ms == pytest.approx(5, rel=0.1)
    words = "what curing this rank alone is sure to return: nothing, as it waits for others for"
    if others_late:
        assert found.saving.low_ms == 0
        assert words in found.saving.basis
        assert found.saving.high_ms > 0.9 * found.cost_ms
    else:
        assert found.saving.low_ms == pytest.approx(0.5 * 5, rel=0.1)
        assert words not in found.saving.basis


@pytest.mark.parametrize("others_late", [True, False])
def test_fixes_behind_one_that_is_not_sure_cannot_count_on_it(others_late: bool) -> None:
    """Cautiously the stops are still there for them, where curing this rank alone may return nothing; else half is gone."""
    trace = stopped_before_collectives(others_late=others_late)
    stops = run(trace, load([builtin_rules_dir()])).matches["cpu/stalled-thread"]
    left = effects(Replay(trace.context), [stops])
    rule = stops.rule.id
    assert left.hopeful[rule].think.min() < 0.1
    assert left.cautious[rule].think.min() == pytest.approx(1.0 if others_late else 0.5, abs=0.01)


def test_a_fix_of_collectives_takes_no_stops_of_the_thread_along() -> None:
    """Ranks with uneven batches wait less when they are even; a thread that is stopped meanwhile still is."""
    b = TraceBuilder(A100, world_size=8, rank=0, host_us=2, latency_us=0, with_stack=False)
    with b.step():
        for block, us in enumerate((1000, 4000, 4000, 4000, 4000)):
            before = b.collective("all_reduce", 64 << 20, us, stream=7)
            for at in range(10):
                with b.op(f"aten::add{at}", us=20):
                    if (block, at) in {(1, 1), (2, 2), (3, 3)}:
                        b.idle(us=5000)
                    b.kernel("vectorized_elementwise_kernel", us=20, after=[before])
        b.sync()
    trace = built(b)
    rules = load([builtin_rules_dir()])
    stops = run(trace, rules).matches["cpu/stalled-behind-waits"]
    graph = Replay(trace.context).graph
    assert graph is not None
    even = replace(
        stops,
        rule=next(rule for rule in rules.rules if rule.id == "distributed/uneven-batches"),
        rows=np.zeros(5, np.bool_),
    )
    assert effect(trace.context, graph, stops, hopeful=True).think.min() < 0.1
    assert effect(trace.context, graph, even, hopeful=True).think.min() == 1
    assert effect(trace.context, graph, even, hopeful=True).call.min() == 1


def test_waiting_is_what_lasts_beyond_the_fastest_of_its_size() -> None:
    """Ten all-reduces: two of 100 us, in which the rank came last, and eight of 2100: 16 ms of 17 are waiting."""
    found = facts(rank(*[100, *[2100] * 4] * 2))
    assert found["rank_wait_share"] * found["steady_ns"] == pytest.approx(16e6, rel=0.01)
    assert found["rank_last_share"] == pytest.approx(0.2)


def test_waiting_for_late_ranks_does_not_hide() -> None:
    """Of 17 ms in collectives 1 is the exchange, of which half hides at most; where nobody waits, what 2 ms of products leave."""
    rule = "distributed/exposed-forward-communication"
    waits, alone = rank(*[100, *[2100] * 4] * 2), rank(*[100] * 10)
    claims = [run(trace, load([builtin_rules_dir()])).matches[rule] for trace in (waits, alone)]
    assert room_ns(waits.context, claims[0]) == pytest.approx(0.5e6, rel=0.01)
    assert room_ns(alone.context, claims[1]) == pytest.approx(2e6, rel=0.01)
    assert "the other ranks, too, come as much sooner" in clause(waits.context, claims[0])
    assert clause(alone.context, claims[1]) == ""


def test_a_rank_that_never_waits() -> None:
    found = facts(rank(*[100] * 10))
    assert found["rank_wait_share"] == pytest.approx(0.0)
    assert found["rank_last_share"] == pytest.approx(1.0)


def test_four_collectives_tell_nothing() -> None:
    found = facts(rank(100, 2100, 2100, 2100))
    assert found["rank_wait_share"] is None or found["rank_wait_share"] != found["rank_wait_share"]


def test_a_fix_of_own_work_returns_for_sure_only_what_the_others_wait_for() -> None:
    """The same copies: in a rank that came last into three of five collectives they are surely worth three fifths of what they are
    in one that waits for nobody; and as much as there, where the change makes the other ranks as much faster. In one that came last
    into one of five nothing is sure: what made the others late goes on doing so.
    """
    alone, waits, seldom = (
        saving(rank(*lasting), "transfer/pageable-copy").saving
        for lasting in ([100] * 10, [*[100] * 3, *[2100] * 2] * 2, [100, *[2100] * 4] * 2)
    )
    assert seldom is not None
    assert alone is not None
    assert waits is not None
    assert waits.high_ms == pytest.approx(alone.high_ms, rel=0.05)
    assert 0 < waits.low_ms <= 0.6 * alone.low_ms * 1.05 + 1e-9
    assert seldom.low_ms == 0
    assert seldom.high_ms == pytest.approx(alone.high_ms, rel=0.05)
    assert waits.low_ms == pytest.approx(0.6 * alone.low_ms, rel=0.2)
    assert "waits for others in some collectives: it came last, or beside the last, into 60 % of them" in waits.basis
    assert "waits for others in most collectives: it came last, or beside the last, into 20 % of them" in seldom.basis
    assert "this rank waits" not in alone.basis


def test_the_headline_says_how_much_of_communication_is_waiting() -> None:
    made = advisor.analyze(rank(*[100, *[2100] * 4] * 2, wasted_us=20))
    assert made.headline is not None
    assert "in collectives, 16 of 17 ms waiting for other ranks" in made.headline.text


def test_no_more_communication_hides_than_there_is_computation() -> None:
    """Each step 1 ms of products and 6 of all-reduces: at most 1 ms of these can hide, not seven tenths of 6."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False, world_size=8)
    for _ in range(5):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=500)
            with b.op("autograd::engine::evaluate_function: MmBackward0"), b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nt", us=500)
            b.collective("all_reduce", 1 << 28, 6000, stream=7, host_us=2)
            b.sync()
    found = [f for f in advisor.analyze(built(b)).findings if f.rule.endswith("-communication")]
    assert len(found) == 1
    assert found[0].saving is not None
    assert found[0].saving.high_ms == pytest.approx(1.0, rel=0.01)


def test_work_before_collectives_that_others_hold_up_returns_nothing_for_sure() -> None:
    """The copies lie before the eight all-reduces of 2100 us alone: others come later, so nothing is gained unless they change."""
    b = TraceBuilder(A100, host_us=0, latency_us=0, with_stack=False, world_size=8)
    with b.step():
        for us in [100, *[2100] * 4] * 2:
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nn", us=200)
            if us > 100:
                with b.op("aten::copy_"):
                    b.copy("DtoH", 1 << 22, us=500, pinned=False)
            b.collective("all_reduce", 1 << 20, us, stream=7, host_us=2)
        b.sync()
    found = [f for f in advisor.analyze(built(b)).findings if f.rule == "transfer/pageable-copy"]
    assert len(found) == 1
    assert found[0].saving is not None
    assert found[0].saving.low_ms == pytest.approx(0.0, abs=1e-6)
    assert found[0].saving.high_ms > 1


def overlapped(backward_us: int) -> Trace:
    """Backward work of so long beside an all-reduce of 5 ms, in a recording without a host: nothing is run again."""
    b = TraceBuilder("AMD Instinct MI300X", host_us=0, latency_us=0, world_size=8)
    for number in range(4):
        at = number * 10_000
        b.kernel("batched_transpose_16x32_half", us=500, launched=False, at_us=at)
        b.kernel("igemm_fwd_gtcx3_nhwc_bf16", us=1500, launched=False, at_us=at + 500)
        b.kernel("igemm_bwd_gtcx3_nhwc_bf16", us=backward_us - 500, launched=False, at_us=at + 2000)
        b.kernel("batched_transpose_32x16_half", us=500, launched=False, at_us=at + 1500 + backward_us)
        b.kernel(
            "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
            us=5000,
            stream=4,
            launched=False,
            at_us=at + 2000,
        )
    return built(b)


def test_what_runs_beside_a_collective_that_outlasts_it_returns_nothing() -> None:
    """Of two transposes of 0.5 ms the second lies beside the all-reduce. Where that ends first, both return their time."""
    longer, shorter = (saving(overlapped(us), "kernels/layout-transpose") for us in (3000, 6000))
    assert longer.saving is not None
    assert shorter.saving is not None
    assert longer.cost_ms == pytest.approx(shorter.cost_ms) == pytest.approx(4.0)
    assert longer.saving.high_ms == pytest.approx(2.0)
    assert shorter.saving.high_ms == pytest.approx(4.0)
    assert "50 % of it runs beside a collective that outlasts it, and returns nothing" in longer.saving.basis
    assert "outlasts" not in shorter.saving.basis


@pytest.mark.parametrize(("late", "window_ms"), [(0.0, 24.0), (0.5, 16.0), (1.0, 8.0)])
def test_ranks_that_are_late_no_more(late: float, window_ms: float) -> None:
    """Ten times 700 us of work, and all-reduces of 100 and 2100 us, of which 100 are the exchange: 16 of 24 ms are waiting."""
    replay = Replay(rank(*[100, *[2100] * 4] * 2).context)
    assert replay.graph is not None
    keep = Keep.all_of(replay.graph)
    keep.late = late
    assert replay.run(keep, everywhere=True)[1].window_ns / 1e6 == pytest.approx(window_ms, rel=0.02)
    assert replay.run(keep)[1].window_ns / 1e6 == pytest.approx(24.0, rel=0.02)  # this rank's change alone


def test_a_stopped_thread_is_priced_with_the_ranks_that_are_stopped_alike() -> None:
    """Real: rank 2 of eight idles 51 ms in stops of its own thread, and waits 364 ms for others, whose threads stop as often.

    Run again with all eight traces (by an auditor), half of the stops gone everywhere return 239 ms, and 95 % 438.
    """
    made = analysis("a100_megatron_tp8/rank2")
    found = next(one for one in made.findings if one.rule == "cpu/stalled-thread")
    assert found.late_ms == pytest.approx(364, rel=0.01)
    assert found.saving is not None
    assert found.saving.low_ms == 0
    assert 239 < found.saving.high_ms <= found.cost_ms + found.late_ms
    assert "364 ms of waiting for other ranks" in render("text", made, Options(verbosity=1)).decode()


def test_collectives_without_length_hide_nothing() -> None:
    """A fuzzer's find: kernels of communication that all last 0 ns, in a recording that is not run again."""
    b = TraceBuilder("AMD Instinct MI300X", host_us=0, latency_us=0, world_size=8)
    b.kernel("batched_transpose_16x32_half", us=500, launched=False, at_us=0)
    b.kernel("igemm_fwd_gtcx3_nhwc_bf16", us=1500, launched=False, at_us=500)
    b.kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", us=0, stream=4, launched=False, at_us=600)
    found = saving(built(b), "kernels/layout-transpose")
    assert found.saving is not None
    assert found.saving.high_ms == pytest.approx(0.5)


@pytest.mark.real
@pytest.mark.parametrize("number", [0, 6])
def test_what_is_exchanged_is_left_when_no_rank_is_late(number: int) -> None:
    """81 all-reduces of 67 MB take 0.59 ms each however early all ranks come: half of 48.4 ms can hide beside products at most."""
    result = analysis(f"a100_megatron_tp8/rank{number}.json.gz")
    found = next(one for one in result.findings if one.rule == "distributed/exposed-forward-communication")
    assert found.after is None
    assert found.saving is not None
    assert 5 <= found.saving.high_ms <= 48.5 / 2
    assert found.saving.low_ms == 0


def test_what_holds_a_program_back_that_only_copies() -> None:
    """Three steps of a copy in each direction by a slow link: no kernel computes, so computing holds nothing back."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            b.copy("HtoD", 50_000_000, us=10_000, pinned=True, stream=20)
            b.copy("DtoH", 50_000_000, us=8_000, pinned=True, stream=20)
            b.sync()
    (step,) = advisor.analyze(built(b)).plan
    assert step.rules == ["transfer/large-copy"]
    assert step.bound_by == "copies"


def stopped_in_launches(stopped_us: int) -> Trace:
    """Steps of fifty operators of 20 us; in three of four one launch takes so much longer than all others' 2 us."""
    b = TraceBuilder(A100, host_us=2, latency_us=0, with_stack=False)
    for number in range(4):
        with b.step():
            for at in range(50):
                with b.op(f"aten::add{at}", us=20):
                    stops = number and at == 10 * number
                    b.kernel("vectorized_elementwise_kernel", us=1, host_us=2 + stopped_us if stops else 2)
            b.sync()
    return built(b)


def without_kernels(trace: Trace, *, hopeful: bool) -> Keep:
    """Rest that is left where all kernels go, cautiously two fifths of them."""
    rules, graph = load([builtin_rules_dir()]), Replay(trace.context).graph
    assert graph is not None
    one = next(iter(run(trace, rules).matches.values()))
    rule = next(rule for rule in rules.rules if rule.id == "precision/cast-churn")
    rows = np.ones(len(trace.frame("kernels")), np.bool_)
    return effect(trace.context, graph, replace(one, rule=rule, rows=rows, returns=(1.0, 1.0)), hopeful=hopeful)


def test_a_launch_in_which_the_thread_was_stopped_takes_none_of_the_stop_along() -> None:
    """Of 5,002 us the launch itself took 2; all other launches of the three steady steps go entirely."""
    trace = stopped_in_launches(5000)
    left, graph = without_kernels(trace, hopeful=True), Replay(trace.context).graph
    assert graph is not None
    long, launches = graph.length >= 5_000_000, graph.length == 2_000
    assert (long.sum(), launches.sum()) == (3, 147)
    assert left.call[long] == pytest.approx(1.0, abs=0.001)
    assert left.call[launches] == pytest.approx(0.0)


def test_what_a_thread_without_a_core_is_spared_is_not_sure() -> None:
    """Stopped for 15 of some 19 ms it is short of a core, and others may take what launches spare it; for 0.3 ms it is not."""
    starved, fed = (without_kernels(stopped_in_launches(us), hopeful=False) for us in (5000, 100))
    assert starved.call.min() == starved.think.min() == 1
    assert fed.call.min() == pytest.approx(0.6)
    assert starved.dur.max() == pytest.approx(0.6)
