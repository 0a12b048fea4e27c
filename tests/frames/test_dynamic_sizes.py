"""Operators whose output's size depends on data leave less for a compiler to take in one piece."""

from __future__ import annotations

import pytest
from support.reading import trace_of

import advisor
from advisor.testing import TraceBuilder

LAUNCH_BOUND = "gpu-idle/launch-bound"


def program(*pieces: int, sized: str = "aten::nonzero", steps: int = 2) -> TraceBuilder:
    """Steps of pieces of so many launches, 50 us apart, with an operator of data-dependent size behind each; then backward."""
    b = TraceBuilder()
    sequence = 0
    for _ in range(steps):
        with b.step():
            made = []
            for piece in pieces:
                for _ in range(piece):
                    sequence += 1
                    made.append(sequence)
                    with b.op("aten::relu", us=50, seq=sequence):
                        b.kernel("vectorized_elementwise_kernel<relu>", us=5)
                with b.op(sized, us=10):
                    b.copy("DtoH", 8, us=1, op=None)
            with b.thread(77):
                for number in reversed(made):
                    with b.backward("ReluBackward0", number, us=50):
                        b.kernel("vectorized_elementwise_kernel<threshold_backward>", us=5)
    return b


def parts(b: TraceBuilder) -> dict[str, set[float]]:
    gaps = trace_of(b.to_json()).gaps
    gaps = gaps[gaps.cause == "host"]
    return {phase: {round(part, 3) for part in rows.unbroken} for phase, rows in gaps.groupby("phase", observed=True)}


def test_between_few_launches_a_compiler_finds_no_piece() -> None:
    assert parts(program(10, 10, 10, 10)) == {"forward": {0.0}, "backward": {0.0}}


def test_a_long_piece_is_compiled_and_its_part_of_the_backward_pass() -> None:
    """40 of 70 launches lie in a piece of 30 or more."""
    found = parts(program(10, 10, 10, 40))
    assert found["forward"] == {0.0, 1.0}
    (backward,) = found["backward"]
    assert backward == pytest.approx(40 / 70, abs=0.05)


def test_without_such_operators_all_is_one_piece() -> None:
    assert parts(program(10, 10, 10, 10, sized="aten::cos")) == {"forward": {1.0}, "backward": {1.0}}


def test_three_a_step_are_no_way_of_the_program() -> None:
    assert parts(program(10, 10, 10)) == {"forward": {1.0}, "backward": {1.0}}


def test_the_price_of_launches_counts_a_fifth_of_what_is_broken() -> None:
    whole, broken = (
        {f.rule: f.saving for f in advisor.analyze(trace_of(program(10, 10, 10, 10, sized=sized).to_json())).findings}
        for sized in ("aten::cos", "aten::nonzero")
    )
    assert whole[LAUNCH_BOUND] is not None
    assert broken[LAUNCH_BOUND] is not None
    assert broken[LAUNCH_BOUND].high_ms == pytest.approx(whole[LAUNCH_BOUND].high_ms / 5, rel=0.1)


def test_many_values_read_back_break_it_as_well() -> None:
    assert parts(program(*[5] * 16, sized="aten::_local_scalar_dense"))["forward"] == {0.0}
    assert parts(program(*[5] * 15, sized="aten::_local_scalar_dense"))["forward"] == {1.0}


def stepping(
    launches: int, *, within: str = "Optimizer.step#AdamW.step", forward: int = 60, read: int = 8
) -> TraceBuilder:
    """Two steps of so many launches forward, with as many values read back within as *read*; backward; then 20 pieces of so many
    launches, a value read back behind each, in an annotation."""
    b = TraceBuilder()
    for number in range(2):
        with b.step():
            made = range(number * 1000 + 1, number * 1000 + 1 + forward)
            for one in made:
                with b.op("aten::relu", us=50, seq=one):
                    b.kernel("vectorized_elementwise_kernel<relu>", us=5)
                if one % 1000 <= read:
                    with b.op("aten::_local_scalar_dense", us=10):
                        pass
            with b.thread(77):
                for one in reversed(made):
                    with b.backward("ReluBackward0", one, us=50):
                        b.kernel("vectorized_elementwise_kernel<threshold_backward>", us=5)
            with b.annotation(within):
                for _ in range(20):
                    for _ in range(launches):
                        with b.op("aten::mul_", us=50):
                            b.kernel("vectorized_elementwise_kernel<mul>", us=2)
                    with b.op("aten::_local_scalar_dense", us=10):
                        pass
    return b


def test_an_optimizer_that_reads_its_step_counts_breaks_nothing_of_the_model() -> None:
    found = parts(stepping(5))
    assert (found["forward"], found["backward"]) == ({1.0}, {1.0})
    assert found["optimizer"] == {0.0}
    # The same outside of an optimizer's step lies around the model, for all that is known.
    assert parts(stepping(5, within="clip"))["backward"] != {1.0}


def test_launches_of_the_optimizer_make_no_piece_of_the_model_long() -> None:
    """Eighteen values read back among 25 launches: none of those pieces is long, however much the optimizer launches."""
    found = parts(stepping(40, forward=25, read=18))
    assert (found["forward"], found["backward"], found["optimizer"]) == ({0.0}, {0.0}, {1.0})


def reading(module: str | None, *, stacks: bool = True) -> TraceBuilder:
    """Two steps of forty launches in a module's forward, with a value read back there, or behind it where *module* is None."""
    b = TraceBuilder(with_stack=stacks)
    for _ in range(2):
        with b.step(), b.python("train.py(10): main"):
            with b.module("Net_0"), b.python("net/model.py(12): forward"), b.op("aten::linear"):
                for _ in range(40):
                    with b.op("aten::relu", us=50):
                        b.kernel("vectorized_elementwise_kernel<relu>", us=5)
                if module is not None:
                    with b.python(module):
                        b.item()
            if module is None:
                b.item()
    return b


@pytest.mark.parametrize(
    ("b", "place"),
    [
        (reading("net/model.py(40): masked"), "model.py:40 in masked"),
        (reading("site-packages/transformers/masks.py(7): ignore"), "masks.py:7 in ignore"),
        (reading(None), None),
        (reading("net/model.py(40): masked", stacks=False), None),
    ],
    ids=["its own", "a library's", "behind the model", "no stacks"],
)
def test_a_value_read_back_inside_a_module_is_said_where_that_is_to_be_captured(
    b: TraceBuilder, place: str | None
) -> None:
    trace = trace_of(b.to_json())
    assert trace.facts["readback"] == place
    (caveat,) = (one.fix.caveat for one in advisor.analyze(trace).findings if one.rule == LAUNCH_BOUND)
    assert ("it reads a value back" in caveat) == (place is not None)
    assert (
        place is None
        or f"no CPU work inside the model (it reads a value back at {place}: out with that first" in caveat
    )
