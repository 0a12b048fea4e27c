"""A closure that an optimizer's step calls, as Lightning's loops do, is a forward and a backward pass like any other."""

from __future__ import annotations

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import Trace
from tests.support.reading import trace_of


def trained(*, closure: bool = True, engine_thread: bool = True) -> Trace:
    """Three steps: 4 ms of forward, 3 of backward, 2 of the optimizer, on host and GPU."""
    b = TraceBuilder()
    for number in range(3):
        with b.step():
            if not closure:
                passes(b, number, engine_thread)
            with b.annotation("Optimizer.step#SGD.step"):
                if closure:
                    passes(b, number, engine_thread)
                with b.op("aten::_foreach_add_", us=2000):
                    b.kernel("multi_tensor_apply_kernel<add>", us=2000)
            b.sync()
    return trace_of(b.to_json())


def passes(b: TraceBuilder, number: int, engine_thread: bool) -> None:
    with b.op("aten::mm", us=4000, seq=number):
        b.kernel("ampere_sgemm_128x64_nn", us=4000)
    with b.annotation("Optimizer.zero_grad#SGD.zero_grad"):
        b.idle(us=100)
    if engine_thread:
        with b.thread(77), b.backward("MmBackward0", number, us=3000):
            b.kernel("ampere_sgemm_128x64_nt", us=3000)
    else:
        with b.backward("MmBackward0", number, us=3000):
            b.kernel("ampere_sgemm_128x64_nt", us=3000)


@pytest.mark.parametrize("closure", [True, False])
@pytest.mark.parametrize("engine_thread", [True, False])
def test_phases_are_those_of_the_same_step_without_a_closure(closure: bool, engine_thread: bool) -> None:
    kernels = trained(closure=closure, engine_thread=engine_thread).kernels
    assert kernels.phase.tolist() == ["forward", "backward", "optimizer"] * 3


@pytest.mark.parametrize("engine_thread", [True, False])
def test_the_optimizer_is_what_is_left_behind_the_backward_pass(engine_thread: bool) -> None:
    rows = trained(engine_thread=engine_thread).optimizers
    assert rows.gpu_ns.tolist() == [2_000_000] * 3
    assert rows.kernel_count.tolist() == [1] * 3
    assert all(2_000_000 <= dur < 2_200_000 for dur in rows.dur_ns)


def test_norms_that_a_hook_logs_behind_the_backward_pass_are_none_of_the_optimizer() -> None:
    """1 ms of norms and 3 ms of logging lie between the backward pass and the update: neither is the optimizer's."""
    b = TraceBuilder()
    for number in range(3):
        with b.step():
            with b.annotation("Optimizer.step#AdamW.step"):
                passes(b, number, engine_thread=True)
                with b.op("aten::linalg_vector_norm", us=1000):
                    b.kernel("reduce_kernel<norm>", us=10)
                b.idle(us=3000)
                with b.op("aten::copy_", us=100):
                    b.kernel("elementwise_kernel<copy>", us=10)
                b.idle(us=700)  # the optimizer looks at its parameters
                with b.op("aten::_foreach_add_", us=2000):
                    b.kernel("multi_tensor_apply_kernel<add>", us=2000)
            b.sync()
    trace = trace_of(b.to_json())
    rows = trace.optimizers
    assert rows.kernel_count.tolist() == [1] * 3
    assert all(2_700_000 <= dur < 3_000_000 for dur in rows.dur_ns)
    assert trace.kernels.phase.tolist() == ["forward", "backward", "forward", "forward", "optimizer"] * 3


def test_an_optimizer_without_a_closure_is_all_of_its_step() -> None:
    rows = trained(closure=False).optimizers
    assert rows.gpu_ns.tolist() == [2_000_000] * 3


def accumulated(parts: int, *, forward: tuple[int, ...] = (6,)) -> TraceBuilder:
    """Two updates of so many backward passes each, behind forward passes of some operators in turn."""
    b = TraceBuilder()
    turn = 0
    for _ in range(2):
        with b.step():
            for _ in range(parts):
                for _ in range(forward[turn % len(forward)]):
                    with b.op("aten::mm", us=10, seq=turn):
                        b.kernel("ampere_sgemm_128x64_nn", us=10)
                with b.thread(77), b.backward("MmBackward0", turn, us=10):
                    b.kernel("ampere_sgemm_128x64_nt", us=10)
                turn += 1
            with b.annotation("Optimizer.step#SGD.step"):
                b.kernel("multi_tensor_apply_kernel<add>", us=10)
    return b


@pytest.mark.parametrize("parts", [1, 4])
def test_backward_passes_of_an_update_are_counted(parts: int) -> None:
    assert trace_of(accumulated(parts).to_json()).facts["backwards_per_step"] == parts


def test_behind_unlike_forward_passes_they_are_no_parts_of_a_batch() -> None:
    """A penalty on gradients takes a second backward pass behind a few operators."""
    assert trace_of(accumulated(2, forward=(9, 2)).to_json()).facts["backwards_per_step"] is None


def test_what_a_step_does_once_makes_no_pass_another() -> None:
    """Clipping by hand runs hundreds of operators outside of gradient mode, before the first pass of the next step."""
    b = TraceBuilder()
    for step in range(3):
        with b.step():
            for turn in range(4):
                with b.op("aten::mm", us=10, seq=10 * step + turn):
                    b.kernel("ampere_sgemm_128x64_nn", us=10)
                with b.thread(77), b.backward("MmBackward0", 10 * step + turn, us=10):
                    b.kernel("ampere_sgemm_128x64_nt", us=10)
            for _ in range(50):
                with b.op("aten::norm", us=1):
                    pass
            with b.annotation("Optimizer.step#SGD.step"):
                b.kernel("multi_tensor_apply_kernel<add>", us=10)
    assert trace_of(b.to_json()).facts["backwards_per_step"] == 4


def test_each_of_several_optimizers_has_passes_of_its_own() -> None:
    """The recorder counts the passes of a step of the loop; a critic's and an actor's are no batch taken in parts."""
    b = TraceBuilder()
    for turn in range(3):
        with b.step():
            for part in ("critic", "actor"):
                with b.op("aten::mm", us=10, seq=2 * turn):
                    b.kernel("ampere_sgemm_128x64_nn", us=10)
                with b.backward("MmBackward0", 2 * turn, us=10):
                    b.kernel(f"{part}_sgemm_128x64_nt", us=10)
                with b.annotation("Optimizer.step#Adam.step"):
                    b.kernel("multi_tensor_apply_kernel<add>", us=10)
    assert trace_of(b.ran_with(backwards_per_step=2).to_json()).facts["backwards_per_step"] == 1
    assert trace_of(accumulated(2).ran_with(backwards_per_step=2).to_json()).facts["backwards_per_step"] == 2


def test_without_an_optimizer_there_is_no_update() -> None:
    b = TraceBuilder()
    with b.step(), b.op("aten::mm", us=10):
        b.kernel("ampere_sgemm_128x64_nn", us=10)
    assert trace_of(b.to_json()).facts["backwards_per_step"] is None
