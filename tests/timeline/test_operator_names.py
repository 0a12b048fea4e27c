"""Views compute nothing; what is named like one may."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor import trace
from advisor.testing import TraceBuilder
from advisor.timeline.operator_names import is_view, moves_no_data

VIEWS = [
    "slice",
    "select",
    "as_strided",
    "as_strided_",
    "expand",
    "unfold",
    "view",
    "reshape",
    "_reshape_alias",
    "_unsafe_view",
    "transpose",
    "transpose_",
    "permute",
    "t",
    "detach",
    "detach_",
    "alias",
    "unsqueeze",
    "squeeze_",
    "narrow",
    "split",
    "split_with_sizes",
    "unsafe_split",
    "chunk",
    "unbind",
    "lift_fresh",
    "diagonal",
    "view_as_real",
    "_conj",
    "movedim",
    "flatten",
    "expand_as",
    "tensor_split",
    "hsplit",
    "broadcast_to",
    "swapaxes",
    "numpy_T",
]
WORK = [
    "slice_backward",
    "select_backward",
    "slice_scatter",
    "select_scatter",
    "as_strided_scatter",
    "view_copy",
    "expand_copy",
    "narrow_copy",
    "index_select",
    "index",
    "masked_select",
    "repeat",
    "unfold_backward",
    "im2col",
    "conj_physical",
    "threshold",
    "tanh",
    "tile",
    "triu",
    "realign",
    "transpose_copy",
    "flattened",
    "values_sum",
    "copy_",
    "clone",
    "mul",
    "softmax",
    "squeeze_and_excite",
]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view(name: str) -> None:
    assert is_view(f"aten::{name}")
    assert moves_no_data(f"aten::{name}")


@pytest.mark.parametrize("name", WORK)
def test_work_that_is_named_like_a_view(name: str) -> None:
    assert not is_view(f"aten::{name}")
    assert not moves_no_data(f"aten::{name}")


@pytest.mark.parametrize(
    "name", ["empty", "empty_strided", "to", "item", "_local_scalar_dense", "contiguous", "resize_"]
)
def test_what_only_allocates_or_hands_on_is_no_view_and_moves_nothing(name: str) -> None:
    assert not is_view(f"aten::{name}")
    assert moves_no_data(f"aten::{name}")


def test_the_operators_of_a_library_are_no_views() -> None:
    assert not is_view("torchvision::view")
    assert not is_view("my::slice")


def test_a_gap_under_views_holds_no_work_of_the_cpu(tmp_path: Path) -> None:
    # On AMD: 400 us in as_strided and 300 in a sort between two kernels, and only the sort computes.
    b = TraceBuilder("AMD Instinct MI300X", host_us=0, latency_us=0)
    with b.step():
        with b.op("aten::mm"):
            b.kernel("Cijk_Ailk_Bljk_SB_MT64x64", us=10)
        with b.op("aten::as_strided", us=400):
            pass
        with b.op("aten::sort", us=300):
            pass
        with b.op("aten::mm"):
            b.kernel("Cijk_Ailk_Bljk_SB_MT64x64", us=10)
        b.sync()
    found = trace.read(str(b.write(tmp_path / "t.json")))
    gaps = found.gaps
    assert gaps["cpu_work_ns"].sum() == 300_000
    assert found.ops.loc[found.ops["view"], "name"].tolist() == ["aten::as_strided"]
