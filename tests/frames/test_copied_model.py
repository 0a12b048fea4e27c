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


def test_other_operators_end_a_copy(tmp_path: Path) -> None:
    assert rows(CLONED, tmp_path, between="aten::relu") == []
    assert [row["repeats"] for row in rows(CLONED, tmp_path, between="aten::relu", parameters=16)] == [8] * 4
