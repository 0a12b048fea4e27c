"""Copies of a model in Python: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.testing import TraceBuilder

DEEP = "site-packages/torch/nn/parameter.py(74): __deepcopy__;/usr/lib/python3.11/copy.py(128): deepcopy;"
SAVES = "site-packages/torch/nn/modules/module.py(2143): _save_to_state_dict;"
LOADS = "site-packages/torch/nn/modules/module.py(2345): _load_from_state_dict;"
OTHER = "site-packages/torch/optim/optimizer.py(900): load_state_dict;"
CLONED = [("aten::clone", DEEP), ("aten::detach", DEEP)]


def call(b: TraceBuilder, name: str, stack: str) -> None:
    """Run an operator of 3 us, 2 us of which copy numbers where it is a clone, behind 10 us of Python."""
    held = {"Call stack": stack + "train.py(50): main"}
    b.idle(us=10)
    with b.op(name, us=3, args=held):
        if name == "aten::clone":
            with b.op("aten::copy_", us=2, args=held):
                pass


def rows(
    each: list[tuple[str, str]], tmp_path: Path, *, between: str = "", parameters: int = 10
) -> list[dict[str, Any]]:
    """Rows of two steps in which each parameter goes through some operators, and one of another kind runs in the middle."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(2):
        with b.step():
            call(b, "aten::mkldnn_convolution", "")
            for number in range(parameters):
                if between and number == parameters // 2:
                    call(b, between, "")
                for name, stack in each:
                    call(b, name, stack)
            call(b, "aten::relu", "")
    table = advisor.read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return [dict(row) for _, row in table[table["kind"] == "copied-model"].iterrows()]


def test_a_deep_copy_owns_its_operators_and_the_python_between_them(tmp_path: Path) -> None:
    one, other = rows(CLONED, tmp_path)
    assert (one["step"], other["step"]) == (0, 1)
    assert (one["op"], one["detail"], one["repeats"]) == ("aten::clone", "deepcopy", 10)
    # Twenty operators of 3 us, and 19 stretches of 10 us between them; that before the first is not its own.
    assert (one["cost_ns"], one["idle_ns"]) == (250_000, 190_000)
    # Ten times 2 us copy the numbers.
    assert one["part"] == pytest.approx(1 - 20 / 250, abs=1e-5)
    trace = advisor.read(str(tmp_path / "trace.json"))
    table = trace.frame("patterns")
    claimed = trace.claims("patterns", (table["kind"] == "copied-model").to_numpy(np.bool_))
    assert trace.ledger.dur_ns[claimed].sum() == one["cost_ns"] + other["cost_ns"]


@pytest.mark.parametrize(
    ("each", "found"),
    [
        pytest.param(
            [("aten::detach", SAVES), ("aten::copy_", LOADS)], ["load_state_dict"] * 2, id="loaded of another"
        ),
        pytest.param([("aten::copy_", LOADS)], [], id="loaded of a file"),
        pytest.param([("aten::detach", SAVES)], [], id="only listed"),
        pytest.param([("aten::detach", SAVES), ("aten::copy_", OTHER)], [], id="an optimizer's state"),
        pytest.param([("aten::clone", DEEP)], [], id="tensors that are no parameters"),
        pytest.param([("aten::clone", ""), ("aten::detach", "")], [], id="the program's own copies"),
    ],
)
def test_what_a_copy_is_told_by(tmp_path: Path, each: list[tuple[str, str]], found: list[str]) -> None:
    assert [row["detail"] for row in rows(each, tmp_path)] == found


STORAGE = "site-packages/torch/storage.py(253): clone;site-packages/torch/storage.py(237): __deepcopy__;"
PLAIN = "site-packages/torch/_tensor.py(134): __deepcopy__;/usr/lib/python3.11/copy.py(128): deepcopy;"
NODE = "torch::autograd::AccumulateGrad"


@pytest.mark.parametrize(
    ("shape", "copies"), [pytest.param([8, 4], 2, id="a weight's"), pytest.param([8, 5], 0, id="a sample's")]
)
def test_tensors_of_a_state_are_known_by_the_shapes_of_gradients(tmp_path: Path, shape: list[int], copies: int) -> None:
    b = TraceBuilder(None, host_us=0)
    for number in range(2):
        with b.step():
            for _ in range(10):
                for name, stack, sizes, us in (
                    ("aten::copy_", STORAGE, [[128], [128], []], 4),
                    ("aten::new_empty", PLAIN, [shape, []], 1),
                    ("aten::set_", PLAIN, [[], []], 1),
                ):
                    b.idle(us=10)
                    with b.op(name, shapes=sizes, us=us, args={"Call stack": stack + "train.py(50): main"}):
                        pass
            with b.op("aten::mm", shapes=[[2, 4], [4, 8]], seq=number, us=10):
                pass
            with b.backward("MmBackward0", number), b.op("aten::mm", shapes=[[8, 2], [2, 4]], us=10):
                pass
            with b.op(f"autograd::engine::evaluate_function: {NODE}"), b.op(NODE, shapes=[[8, 4]], us=1):
                pass
    table = advisor.read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    found = table[table["kind"] == "copied-model"]
    assert found["repeats"].tolist() == [10] * copies
    assert found["detail"].tolist() == ["deepcopy"] * copies
    # Ten times 6 us of operators, and 29 stretches of 10 us between them, of which ten times 4 us copy the numbers.
    assert found["cost_ns"].tolist() == [350_000] * copies
    assert found["part"].tolist() == pytest.approx([1 - 40 / 350] * copies, abs=1e-5)


def test_other_operators_end_a_copy(tmp_path: Path) -> None:
    assert rows(CLONED, tmp_path, between="aten::relu") == []
    assert [row["repeats"] for row in rows(CLONED, tmp_path, between="aten::relu", parameters=16)] == [8] * 4
