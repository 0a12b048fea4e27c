"""What kernels were launched for, and what a program does throughout: columns that rules on kernels read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import advisor
from advisor.report import Options, render
from advisor.testing import TraceBuilder
from advisor.timeline.launch_origin import alone_ns, place_shares
from advisor.timeline.program import optimizers
from advisor.trace import Trace, read

HALF = ["c10::Half", "c10::Half"]


def kernels(b: TraceBuilder, path: Path) -> Any:
    return trace(b, path).frame("kernels")


def trace(b: TraceBuilder, path: Path) -> Trace:
    return read(str(b.write(path / "trace.json")))


def headline(b: TraceBuilder, path: Path) -> dict[str, Any]:
    row: dict[str, Any] = trace(b, path).frame("trace").iloc[0].to_dict()
    return row


# ---- where a kernel comes from


def test_the_outermost_operator_is_what_the_program_called(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        with b.annotation("block"), b.op("aten::linear"), b.op("aten::to"), b.op("aten::copy_"):
            b.kernel("cast", us=5)
        b.kernel("of no operator", us=5)
    b.kernel("launched before", us=5, launched=False)
    frame = kernels(b, tmp_path).set_index("name")
    assert (frame.outer_op["cast"], frame.op["cast"]) == ("aten::linear", "aten::copy_")
    assert frame.outer_op.isna()[["of no operator", "launched before"]].all()


def test_in_the_dialect_of_2021_steps_are_no_operators(tmp_path: Path) -> None:
    b = TraceBuilder(dialect="2021")
    with b.step(), b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_"):
        b.kernel("update", us=5)
    assert kernels(b, tmp_path).outer_op[0] == "aten::add_"


def test_the_attention_s_fallback_and_its_backward_are_marked_and_nothing_else(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        with b.op("aten::bmm", seq=1):
            b.kernel("before", us=5)
        with b.op("aten::scaled_dot_product_attention", seq=2), b.op("aten::_scaled_dot_product_attention_math", seq=2):
            with b.op("aten::matmul", seq=3), b.op("aten::bmm", seq=3):
                b.kernel("scores", us=5)
            with b.op("aten::_softmax", seq=4):
                b.kernel("softmax", us=5)
            # It makes no node, and carries the number of the next one that does: the sum's, outside.
            with b.op("aten::to", seq=5):
                b.idle(1)
        with b.op("aten::sum", seq=5):
            b.kernel("sum", us=5)
        with b.thread(7000):
            with b.backward("SumBackward0", seq=5), b.op("aten::expand"):
                b.kernel("sum backward", us=5)
            with b.backward("SoftmaxBackward0", seq=4), b.op("aten::_softmax_backward_data"):
                b.kernel("softmax backward", us=5)
            with b.backward("BmmBackward0", seq=1), b.op("aten::bmm"):
                b.kernel("before, backward", us=5)
    frame = kernels(b, tmp_path)
    assert set(frame.name[frame.math_attention]) == {"scores", "softmax", "softmax backward"}


def test_without_the_fallback_no_kernel_is_marked(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::_scaled_dot_product_flash_attention"):
        b.kernel("flash_fwd_kernel", us=5)
    assert not kernels(b, tmp_path).math_attention.any()


# ---- sizes


@pytest.mark.parametrize(
    ("op", "shapes", "odd"),
    [
        # The result is 768 by 50,257: its rows are no multiple of 8 long.
        ("aten::mm", [[4096, 768], [768, 50257]], True),
        ("aten::mm", [[4096, 768], [768, 50304]], False),
        # 4,097 tokens are the height, and no row gets longer by it.
        ("aten::mm", [[4097, 768], [768, 3072]], False),
        # In the forward pass the shared dimension lies along the rows of the first factor.
        ("aten::mm", [[4096, 1705], [1705, 512]], True),
        ("aten::addmm", [[512], [4096, 1705], [1705, 512], [], []], True),
        ("aten::addmm", [[17], [4096, 1704], [1704, 512], [], []], False),
        ("aten::bmm", [[16, 3601, 64], [16, 64, 3601]], True),
        ("aten::baddbmm", [[16, 56, 56], [16, 56, 16], [16, 16, 56], [], []], False),
        # Not a product of two matrices, or not what one looks like.
        ("aten::linear", [[4096, 1705], [512, 1705], []], None),
        ("aten::mm", [[4096], [4096]], None),
        ("aten::mm", [], None),
        ("aten::mm", ["x", {"y": 1}], None),
    ],
)
def test_odd_sizes_of_products(op: str, shapes: list[Any], odd: bool | None, tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op(op, shapes=shapes, dtypes=HALF):
        b.kernel("some_gemm_kernel", us=5)
    found = kernels(b, tmp_path).odd_sizes[0]
    assert (None if pd.isna(found) else bool(found)) == odd


def test_the_gradient_of_a_weight_sums_over_the_tokens(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.backward("MmBackward0", seq=3):
        # Both factors have rows of even length; 4,097 is the height of one and, transposed, of the other.
        with b.op("aten::mm", shapes=[[768, 4097], [4097, 3072]], dtypes=HALF):
            b.kernel("gemm_of_the_weight", us=5)
        # Neither 4,097 by 767 nor its transpose has rows of even length.
        with b.op("aten::mm", shapes=[[767, 4097], [4097, 3072]], dtypes=HALF):
            b.kernel("gemm_of_another", us=5)
    frame = kernels(b, tmp_path).set_index("name")
    assert frame.odd_sizes.astype(bool).to_dict() == {"gemm_of_the_weight": False, "gemm_of_another": True}


def test_sizes_of_what_is_no_product_are_unknown(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::mm", shapes=[[7, 7], [7, 7]]):
        b.kernel("vectorized_elementwise_kernel", us=5)
    with b.op("aten::mm"):
        b.kernel("some_gemm_kernel", us=5)
    assert kernels(b, tmp_path).odd_sizes.isna().all()


# ---- beside other kernels


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_time_alone_is_what_no_other_kernel_of_the_device_shares() -> None:
    # 0-10 and 6-14 share 6 to 10; 14-20 touches and shares nothing; on device 1 the same times are another's.
    found = alone_ns(ints(0, 0, 0, 1), ints(0, 6, 14, 0), ints(10, 14, 20, 10))
    assert found.tolist() == [6, 4, 6, 10]


def test_three_at_once_and_one_without_length() -> None:
    # 2-8 lies inside 0-10 and is never alone; 4-5 lies inside both; 9-9 takes no time.
    found = alone_ns(ints(0, 0, 0, 0), ints(0, 2, 4, 9), ints(10, 8, 5, 9))
    assert found.tolist() == [4, 0, 0, 0]


def test_no_kernels_share_nothing() -> None:
    assert alone_ns(ints(), ints(), ints()).tolist() == []
    assert place_shares([ints(), ints()], ints()).tolist() == []


def test_shares_of_a_place() -> None:
    # (1, 5) takes 30 + 10 of 100, (1, 6) 40, (2, 5) 20.
    found = place_shares([ints(1, 1, 1, 2), ints(5, 6, 5, 5)], ints(30, 40, 10, 20))
    assert found.tolist() == [0.4, 0.4, 0.4, 0.2]


def test_shares_of_kernels_that_take_no_time() -> None:
    assert place_shares([ints(1, 2)], ints(0, 0)).tolist() == [0.0, 0.0]


# ---- habits of a program


def test_optimizers_by_their_classes(tmp_path: Path) -> None:
    b = TraceBuilder()
    for name in ("SGD", "AdamW", "SGD"):
        with b.annotation(f"Optimizer.step#{name}.step"), b.op("aten::add_"):
            b.kernel("update", us=5)
    with b.annotation("Optimizer.zero_grad#Other.zero_grad"):
        pass
    assert headline(b, tmp_path)["optimizers"] == "AdamW, SGD"
    assert optimizers(["aten::add_"]) is None


@pytest.mark.parametrize(("waits", "share"), [(0, 0.0), (6, 0.5), (12, 1.0)])
def test_launches_that_wait_for_their_kernels(waits: int, share: float, tmp_path: Path) -> None:
    b = TraceBuilder()
    for number in range(12):
        start = b.now_ns / 1000
        b.kernel("long", us=30, at_us=start + 2, host_us=32 if number < waits else 6)
    # Short ones end before their call returns in any program, and count for nothing.
    for _ in range(50):
        b.kernel("short", us=1, at_us=b.now_ns / 1000 + 2)
    assert headline(b, tmp_path)["blocking_launch_share"] == pytest.approx(share)


def test_nine_long_kernels_prove_nothing_about_launches(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(9):
        b.kernel("long", us=30)
    assert pd.isna(headline(b, tmp_path)["blocking_launch_share"])


def test_anomaly_mode_checks_right_below_the_engine(tmp_path: Path) -> None:
    b = TraceBuilder()
    engine = "autograd::engine::evaluate_function: "
    with b.step():
        for node in range(3):
            with b.op(f"{engine}MulBackward0", seq=node, fwd_thread=1):
                with b.op("MulBackward0", seq=node, fwd_thread=1):
                    b.kernel("grad", us=5)
                for _ in range(2 if node < 2 else 0):
                    with b.op("aten::isnan", us=3):
                        pass
        # Where gradients are stored nothing is checked; a test of the program's own inside a node is none of the engine's.
        with b.op(f"{engine}torch::autograd::AccumulateGrad"):
            pass
        with b.op(f"{engine}Mine", seq=9, fwd_thread=1), b.op("Mine", seq=9, fwd_thread=1):
            b.idle(1)
            with b.op("aten::isnan", us=3):
                b.idle(1)
            b.idle(1)
    row = headline(b, tmp_path)
    # Two of the four nodes that have gradients to check.
    assert (row["anomaly_checks"], row["anomaly_mode"]) == (2, True)


def test_a_program_that_looks_for_nan_itself_is_not_in_anomaly_mode(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::isnan"):
        b.kernel("isnan", us=5)
    row = headline(b, tmp_path)
    assert (row["anomaly_checks"], row["anomaly_mode"]) == (0, False)


@pytest.mark.parametrize("device", ["Tesla V100-SXM2-16GB", None])
def test_a_trace_of_the_host_alone_has_these_facts_too(device: str | None, tmp_path: Path) -> None:
    b = TraceBuilder(device)
    with b.step(), b.op("aten::mm", shapes=[[2, 2], [2, 2]]):
        b.idle(5)
    assert len(kernels(b, tmp_path)) == 0
    assert headline(b, tmp_path)["anomaly_checks"] == 0


def test_without_a_host_kernels_come_from_nowhere(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.kernel("volta_sgemm_128x64_nn", us=5, launched=False)
    frame = kernels(b, tmp_path)
    assert frame.outer_op.isna().all()
    assert frame.place_share.tolist() == [0.0]
    assert not frame.math_attention.any()


# ---- occupancy


def occupancies(tmp_path: Path, *written: dict[str, float | None], device: str = "NVIDIA A100-PCIE-40GB") -> Trace:
    """A trace of a kernel of 100 us for each set of figures that stand in for what the profiler estimates."""
    b = TraceBuilder(device)
    with b.step():
        for figures in written:
            b.kernel("ampere_sgemm_128x64_nn", us=100, args=figures)
    return trace(b, tmp_path)


def figures(occupancy: float | None, warps: float | None) -> dict[str, float | None]:
    return {"est. achieved occupancy %": occupancy, "warps per SM": warps, "blocks per SM": 9.5}


def test_a_zero_beside_many_warps_is_no_occupancy(tmp_path: Path) -> None:
    # 40 % and a 0 that cannot be: 40 %, not 20. One block on 108 SMs does round to 0.
    found = occupancies(tmp_path, figures(40, 76), figures(0, 76), figures(0, 0.037))
    assert found.kernels["occupancy"].isna().tolist() == [False, True, False]
    assert found.frame("devices")["achieved_occupancy"][0] == pytest.approx((0.4 + 0) / 2)
    assert found.frame("devices")["sm_efficiency"][0] > 0


def test_a_zero_for_every_kernel_is_not_recorded(tmp_path: Path) -> None:
    found = occupancies(tmp_path, figures(0, 76), figures(0, 0.037), figures(0, None), device="Tesla T4")
    assert found.kernels["occupancy"].isna().all()
    assert found.frame("devices")["achieved_occupancy"].isna().tolist() == [True]


def test_an_occupancy_says_of_how_much_of_the_kernels_time_it_is(tmp_path: Path) -> None:
    # Two of three kernels of 100 us have one.
    found = occupancies(tmp_path, figures(40, 76), figures(0, 76), figures(0, 0.037))
    assert found.frame("devices")["occupancy_share"][0] == pytest.approx(2 / 3)
    text = " ".join(render("text", advisor.analyze(found), Options(verbosity=1)).decode().split())
    assert "known for 66.7 % of kernel time" in text


def test_a_conversion_says_what_it_converts(tmp_path: Path) -> None:
    """A linear layer's input is an activation, weight and bias are weights; an input of the weight's shape tells neither."""
    b = TraceBuilder()
    for width in (16, 64):
        operands = [[width, 64], [64, 64], [64]]
        with b.step(), b.op("aten::linear", shapes=operands):
            for shape in operands:
                with b.op("aten::to"), b.op("aten::copy_", shapes=[shape, shape, []]):
                    b.kernel("cast", us=10)
    with (
        b.op("aten::bmm", shapes=[[8, 64, 64], [8, 64, 64]]),
        b.op("aten::copy_", shapes=[[8, 64, 64], [8, 64, 64], []]),
    ):
        b.kernel("cast", us=10)
    with b.op("aten::copy_", shapes=[[64], [64], []]):
        b.kernel("cast", us=10)
    kernels = read(str(b.write(tmp_path / "trace.json"))).kernels
    found = [None if value != value else value for value in kernels["converts"].tolist()]
    assert found == ["activation", "weight", "weight", None, None, "weight", "activation", None]
