"""Batches of engines: their calls, their replays, the work that they launched, and who waits behind a prefill."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import real_trace

import advisor
from advisor.frames.patterns.generation import _chains
from advisor.testing import TraceBuilder
from advisor.testing.serving import SGLANG, VLLM, annotation, batch, layers
from advisor.timeline.batches import batches
from advisor.trace import Trace


def opened(b: TraceBuilder, tmp_path: Path) -> Trace:
    return advisor.read(str(b.write(tmp_path / "built.json.gz")))


def test_calls_and_replays_of_each_batch(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=1, latency_us=0)
    batch(b, annotation(VLLM, prompts=2, prompt_tokens=300), layers(6, 5), host_us=3)
    batch(b, annotation(VLLM, decoding=2), layers(6, 5))
    b.kernel("at::native::vectorized_elementwise_kernel", us=5)
    trace = opened(b, tmp_path)
    found = batches(trace.context)
    assert found.engine == (VLLM, VLLM)
    assert (found.sequences.tolist(), found.tokens.tolist()) == ([2, 2], [300, 2])
    assert (found.launches.tolist(), found.replays.tolist()) == ([24, 1], [0, 1])
    assert found.eager.tolist() == [True, False]
    assert [int((found.of_work == number).sum()) for number in (0, 1, -1)] == [24, 24, 1]
    kernels = trace.frame("kernels")
    assert kernels["batch_phase"].dropna().tolist() == ["prefill"] * 24 + ["decode"] * 24
    assert kernels["batch_tokens"].dropna().astype(int).tolist() == [300] * 24 + [2] * 24
    assert (trace.facts["decode_batches"], trace.facts["eager_decodes"], trace.facts["replayed_decodes"]) == (1, 0, 1)


def split(*, named: str, batches: int = 4) -> TraceBuilder:
    """Batches of vLLM as it annotates them since sampling has a call of its own: 16 us of the model in the annotation, then 3
    kernels of 5 us that sample and a graph of 4 us that drafts; 40 us of the host from there to the next batch, at most."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(batches):
        with b.annotation("execute_context_0(0)_generation_4(12)"):
            b.graph(layers(2, 2))
        parts = {
            "ranges": (b.annotation("gpu_model_runner: sample"), b.annotation("gpu_model_runner: draft")),
            "stacks": (
                b.python("/usr/lib/python3/dist-packages/vllm/v1/worker/gpu_worker.py(641): sample_tokens"),
                b.python("vllm/v1/worker/gpu_model_runner.py(3371): propose_draft_token_ids"),
            ),
            "nothing": (nullcontext(), nullcontext()),
        }[named]
        with parts[0]:
            for _ in range(3):
                b.kernel("radixSortKVInPlace", us=5)
            if named == "stacks":
                with parts[1]:
                    b.graph(layers(1, 1))
        if named != "stacks":
            with parts[1]:
                b.graph(layers(1, 1))
        b.sync()
        b.idle(us=40)
    return b


@pytest.mark.parametrize("named", ["ranges", "stacks", "nothing"])
def test_what_is_launched_behind_an_annotation_is_of_its_batch(named: str, tmp_path: Path) -> None:
    """8 kernels of the model, 3 of sampling and 4 of drafting; of the last batch, what nothing names is nobody's."""
    trace = opened(split(named=named), tmp_path)
    found = batches(trace.context)
    last = 8 if named == "nothing" else 15
    assert [int((found.of_work == number).sum()) for number in range(4)] == [15, 15, 15, last]
    assert int(found.drafts.sum()) == (0 if named == "nothing" else 16)
    assert int(found.samples.sum()) == (12 if named == "ranges" else 0)
    # Its own launches, and whether it is eager, are those of the model.
    assert (found.launches.tolist(), found.replays.tolist()) == ([1] * 4, [1] * 4)


@pytest.mark.parametrize("named", ["ranges", "stacks"])
def test_sampling_and_drafting_are_not_between_batches(named: str, tmp_path: Path) -> None:
    gaps = opened(split(named=named), tmp_path).frame("gaps")
    # The host's 40 us behind each of the first three, before the fourth is launched.
    assert int(gaps["between_ns"].sum()) == pytest.approx(3 * 40_000, abs=3 * 2_000)


def test_a_wait_in_the_rest_of_a_batch_is_the_engine_s(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(2):
        with b.annotation("execute_context_0(0)_generation_4(4)"):
            b.graph(layers(2, 2))
        with b.annotation("gpu_model_runner: bookkeep"):
            b.sync()
    assert opened(b, tmp_path).frame("syncs")["of_engine"].tolist() == [True, True]


def test_time_between_batches_is_the_host_s_alone(tmp_path: Path) -> None:
    """Of 100 us behind a batch 30 are a wait; 20 in the next batch's annotation are that batch's."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for number in range(2):
        with b.annotation(annotation(SGLANG, decoding=8)):
            if number:
                b.idle(us=20)
            b.graph(layers(2, 10))
        b.sync()
        b.idle(us=70)
        b.call("cudaEventSynchronize", 30)
    gaps = opened(b, tmp_path).frame("gaps")
    assert int(gaps["between_ns"].sum()) == 70_000
    assert int(gaps["dur_ns"].sum()) == 121_000


@pytest.mark.parametrize(
    ("order", "waiting"),
    [
        ([16, (1,), 17], [16]),
        ([16, (1,), (2,), 19], [16, 16]),
        ([16, (1,), 5], [4]),
        ([16, (4,), 4], [0]),
        ([(4,), 4], [0]),
        ([16, (1,)], [0]),
    ],
)
def test_sequences_that_wait_behind_a_prefill(
    order: Sequence[int | tuple[int]], waiting: list[int], tmp_path: Path
) -> None:
    b = TraceBuilder(host_us=1, latency_us=0)
    for each in order:
        prompts = each[0] if isinstance(each, tuple) else 0
        decoding = 0 if isinstance(each, tuple) else each
        name = annotation(SGLANG, prompts=prompts, prompt_tokens=100 * prompts, decoding=decoding)
        batch(b, name, layers(1, 10))
    frame = opened(b, tmp_path).frame("batches")
    assert frame["waiting"][frame["phase"] == "prefill"].tolist() == waiting
    assert frame["waiting"][frame["phase"] != "prefill"].eq(0).all()


def test_trace_of_no_engine_has_no_batches(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=10)
    trace = opened(b, tmp_path)
    assert len(trace.frame("batches")) == 0
    assert trace.facts["decode_batches"] == 0
    assert trace.frame("gaps")["between_ns"].eq(0).all()


@pytest.mark.real
def test_what_was_queued_before_the_recording_is_no_time_of_a_batch() -> None:
    (row,) = advisor.read(real_trace("mi300_sglang_decode")).frame("batches").to_dict("records")
    assert (row["phase"], row["sequences"], row["tokens"], row["replays"], row["eager"]) == ("decode", 32, 32, 1, False)
    assert row["gpu_ns"] == pytest.approx(10.45e6, rel=0.01)


@given(
    st.integers(1, 50),
    st.integers(1, 4),
    st.integers(5, 12),
    st.integers(1, 5),
    st.lists(st.integers(1, 100), max_size=6),
)
def test_chains_are_found_wherever_they_begin(first: int, grows: int, turns: int, each: int, before: list[int]) -> None:
    """A stretch that grows by one number, equally many of each length, behind any others."""
    lengths = [first + 1000 + grows * turn for turn in range(turns) for _ in range(each)]
    found = _chains(np.array(before + lengths, np.int64), 5)
    assert (len(before) + each, len(before) + len(lengths), grows) in found or (
        # What came before may belong to it.
        any(low <= len(before) + each and high == len(before) + len(lengths) for low, high, _ in found)
    )


@given(st.lists(st.integers(1, 6), max_size=60))
def test_chains_grow_by_what_they_say(lengths: list[int]) -> None:
    values = np.array(lengths, np.int64)
    for low, high, grows in _chains(values, 3):
        inside = values[low:high]
        steps = np.diff(np.unique(inside))
        assert (np.diff(inside) >= 0).all()
        assert (steps == grows).all()
        assert values[low - 1] == values[low] - grows
