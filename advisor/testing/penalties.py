"""Training steps with a penalty on the parameters in the loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from advisor.testing.builder import TraceBuilder

STORE = "torch::autograd::AccumulateGrad"
WEIGHT = [64, 48]
"""Shape of each parameter; the batch has 32 rows."""


@dataclass(frozen=True)
class Call:
    """An operator of a term in a penalty, what its second argument is, its node in the backward pass, and the us of both."""

    name: str
    us: float
    node: str
    node_us: float
    shapes: tuple[Any, ...] = (WEIGHT, [])
    value: str = ""


SUM = Call("aten::sum", 50, "SumBackward0", 3)
POW = Call("aten::pow", 100, "PowBackward0", 200, value="2")
SQUARES = (POW, SUM)
MAGNITUDES = (Call("aten::abs", 100, "AbsBackward0", 200, shapes=(WEIGHT,)), SUM)
NORM = Call("aten::linalg_vector_norm", 150, "LinalgVectorNormBackward0", 203, (WEIGHT, [], [], [], []), "2")
SUB = Call("aten::sub", 1, "SubBackward0", 1, (WEIGHT, WEIGHT, []))
MUL = Call("aten::mul", 100, "MulBackward0", 200, (WEIGHT, WEIGHT))
ADD = Call("aten::add", 5, "AddBackward0", 2, ([], [], []))
SQUARE = Call("aten::pow", 1, "PowBackward0", 1, ([], []), "2")
"""Of a number."""


def penalized(
    term: tuple[Call, ...] = SQUARES,
    *,
    parameters: int = 6,
    behind: tuple[Call, ...] = (),
    passes: int = 1,
    through: bool = True,
    added: bool = True,
    doubled: bool = False,
    sums: bool = True,
    stored: int | None = None,
    activation: bool = False,
    apart: bool = False,
    optimizer: str = "SGD",
    rest_us: float = 5000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Three steps of *passes* micro-batches, with *rest_us* of forward and backward passes, and penalties of *parameters* terms.

    *behind* the terms, which are added up if *sums*, other operators run. *stored* are the layers' parameters, where they are
    fewer. Unless *through*, no backward pass goes through the penalty; if *added*, the engine adds the gradients of each parameter
    in 40 us; if *doubled*, also those of the two factors in a term, in 1. With an *activation* a layer takes a tensor as large as a
    parameter, and the engine adds gradients of such tensors too. If *apart*, the penalty has a backward pass of its own, behind the
    layers', whose gradients are added as they are stored.
    """
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    work = _Work(b, device is not None)
    for step in range(3):
        with b.step():
            for number in range(passes):
                base, half_us = 1000 * (step * passes + number), rest_us / passes / 2
                with work.op("aten::mm", half_us, shapes=[WEIGHT if activation else [32, 48], [48, 64]], seq=base):
                    pass
                calls = [] if apart else _forward(work, term, (parameters, sums), behind, base + 100)
                for call, seq in reversed(calls if through else []):
                    work.node(call, seq, doubled=doubled and call.name == "aten::mul")
                with b.backward("MmBackward0", base), work.op("aten::mm", half_us, shapes=[[48, 32], [32, 64]]):
                    pass
                if activation:
                    work.layer("ReluBackward0", base + 1, added=True, stored=False)
                for at in range(parameters if stored is None else stored):
                    work.layer("TBackward0", base + 2 + at, added=added and through and not apart)
                calls = _forward(work, term, (parameters, sums), behind, base + 100) if apart else []
                for call, seq in reversed(calls):
                    work.node(call, seq, doubled=False)
                    if call is term[0]:
                        work.store(40)
            step_of = f"Optimizer.step#{optimizer}.step"
            with b.annotation(step_of), work.op("aten::_foreach_add_", 1, shapes=[[WEIGHT], [WEIGHT]]):
                pass
            if device:
                b.sync()
    return b


def _forward(
    work: _Work, term: tuple[Call, ...], count: tuple[int, bool], behind: tuple[Call, ...], seq: int
) -> list[tuple[Call, int]]:
    """Run the penalty's operators, and return them with their numbers."""
    parameters, sums = count
    calls = [one for at in range(parameters) for one in ((*term, ADD) if at and sums else term)] + list(behind)
    for number, call in enumerate(calls):
        values = ["", call.value, *([""] * len(call.shapes))][: len(call.shapes)]
        with (
            work.b.python("train.py(30): penalty"),
            work.op(call.name, call.us, shapes=list(call.shapes), values=values, seq=seq + number),
        ):
            pass
    return [(call, seq + number) for number, call in enumerate(calls)]


@dataclass
class _Work:
    """Operators that take their time on the CPU, or in a kernel."""

    b: TraceBuilder
    on_gpu: bool

    @contextmanager
    def op(self, name: str, us: float, **facts: Any) -> Iterator[None]:
        """Run an operator."""
        with self.b.op(name, us=0 if self.on_gpu else us, **facts):
            if self.on_gpu and us:
                self.b.kernel("vectorized_elementwise_kernel", us=us)
            yield

    def node(self, call: Call, seq: int, *, doubled: bool) -> None:
        """Run the backward pass of a call."""
        with self.b.op(f"autograd::engine::evaluate_function: {call.node}", seq=seq, fwd_thread=1):
            with self.op(call.node, call.node_us, seq=seq, fwd_thread=1):
                pass
            if doubled:
                self._add(1)

    def layer(self, name: str, seq: int, *, added: bool, stored: bool = True) -> None:
        """Make a gradient as large as a parameter, which is added to another, and stored."""
        with self.b.op(f"autograd::engine::evaluate_function: {name}", seq=seq, fwd_thread=1):
            with self.b.op(name, seq=seq, fwd_thread=1):
                pass
            if added:
                self._add(40)
        if stored:
            self.store(0)

    def store(self, us: float) -> None:
        """Store a gradient, or add it in so many us to the one that is stored."""
        with (
            self.b.op(f"autograd::engine::evaluate_function: {STORE}", us=2),
            self.b.op(STORE, shapes=[WEIGHT], us=1),
        ):
            if us:
                self._add(us)

    def _add(self, us: float) -> None:
        with self.op("aten::add_", us, shapes=[WEIGHT, WEIGHT, []]):
            pass
