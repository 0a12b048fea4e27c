"""Surroundings of rows of which no line is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import advisor
from advisor.report import places
from advisor.results.analysis import Finding
from advisor.testing import TraceBuilder


def readback(folder: Path, *, ranges: tuple[str, ...]) -> Finding:
    """Three steps of two branches on a value of the GPU, each in a range of its own; 4 ms of the host's behind each."""
    b = TraceBuilder(host_us=10, latency_us=2, with_stack=False)
    for _ in range(3):
        with b.step():
            for name in ranges:
                with b.annotation(name):
                    b.kernel("volta_sgemm_128x64_nn", us=5_000)
                    with b.op("aten::is_nonzero"):
                        b.item()
                b.idle(us=4_000)
    found = advisor.analyze(advisor.read(str(b.write(folder / "t.json"))), only=["sync/scalar-readback"])
    (one,) = found.findings
    return one


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        (("## forward ##",), "aten::_local_scalar_dense in aten::is_nonzero under ## forward ##"),
        # Half lies in the one, half in the other: neither is the place.
        (("## forward ##", "## metrics ##"), "aten::_local_scalar_dense in aten::is_nonzero"),
    ],
)
def test_a_readback_without_a_line_is_told_by_what_is_around_it(
    ranges: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    assert places.where(readback(tmp_path, ranges=ranges)) == text


def launches(folder: Path, body: Callable[[TraceBuilder, int], None]) -> Finding:
    """Three steps without stacks, in which the host is late for each of its short kernels: launch-bound."""
    b = TraceBuilder(host_us=2, latency_us=0, with_stack=False)
    for number in range(3):
        with b.step():
            body(b, number)
            b.sync()
    found = advisor.analyze(advisor.read(str(b.write(folder / "t.json"))), only=["gpu-idle/launch-bound"])
    (one,) = found.findings
    return one


def late(b: TraceBuilder, name: str, us: int = 100) -> None:
    """An operator that the GPU waits *us* for."""
    with b.op(name):
        b.idle(us=us)
        b.kernel("volta_sgemm_128x64_nn", us=1)


def test_launches_that_many_operators_make_lie_in_a_node_of_autograd(tmp_path: Path) -> None:
    """Of twelve operators that take the same each four are called in the forward pass, eight by one compiled backward."""

    def body(b: TraceBuilder, number: int) -> None:
        with b.op("CompiledFunction", seq=number):
            for at in range(4):
                late(b, f"aten::forward_{at}")
        with b.backward("CompiledFunctionBackward", number):
            for at in range(8):
                late(b, f"aten::backward_{at}")

    one = launches(tmp_path, body)
    assert places.where(one) == "CompiledFunctionBackward (67 %), CompiledFunction (33 %)"


def test_launches_of_many_nodes_lie_in_the_backward_pass(tmp_path: Path) -> None:
    def body(b: TraceBuilder, number: int) -> None:
        for at in range(4):
            with b.op(f"aten::forward_{at}", seq=10 * number + at):
                late(b, f"aten::part_{at}")
        for at in range(4):
            with b.backward(f"Part{at}Backward0", 10 * number + at):
                late(b, f"aten::backward_{at}", us=250)

    assert places.where(launches(tmp_path, body)) == "backward (71 %) and others"


def test_launches_of_an_operator_that_holds_much_keep_its_name(tmp_path: Path) -> None:
    """A third of the time is one operator's: more than what is left of its caller would be told by the caller's name."""

    def body(b: TraceBuilder, number: int) -> None:
        with b.op("aten::linear"):
            late(b, "aten::addmm", us=400)
            for at in range(8):
                late(b, f"aten::other_{at}")

    assert launches(tmp_path, body).where[0].op == "aten::addmm"


def test_a_process_groups_record_of_its_call_is_no_place_but_the_programs_range_around_it(tmp_path: Path) -> None:
    """Two exchanges of 5 ms a step beside which nothing runs: one of an operator's in the forward pass, one of a range alone."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=2, latency_us=0, with_stack=False, world_size=8)
    for _ in range(3):
        with b.step():
            with b.annotation("## sparse_data_dist ##"), b.annotation("## all2all_data:lengths ##"):
                b.collective("all_to_all", 1 << 20, us=5_000, stream=7)
            with b.annotation("## forward ##"), b.op("All2All_Pooled_Req"):
                b.collective("all_to_all", 1 << 24, us=5_000, stream=7)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=20_000)
            b.sync()
    found = advisor.analyze(advisor.read(str(b.write(tmp_path / "t.json"))))
    one = next(one for one in found.findings if one.rule.startswith("distributed/exposed"))
    assert places.where(one) == "record_param_comms in ## sparse_data_dist ## (50 %), All2All_Pooled_Req (50 %)"
