"""Reasons for which kernels are slow: by hand from sizes, and on kernels of an H100 that are slow for one reason each."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from support.paths import ROOT

import advisor
from advisor.roofline import reasons
from advisor.roofline.families import work
from advisor.roofline.reasons import reason
from advisor.roofline.signature import read
from advisor.roofline.work import Work

CASES = ROOT / "sample_traces" / "h100" / "cases"
H100, MI300 = 132, 304
HALF = "c10::BFloat16"
# Cases whose word is another one than that of the sizes, or of which nothing is wrong.
UNTOLD = {
    "conv_depthwise3_last", "conv_depthwise7_last",  # in the best form there is
    "conv_1x1_nchw",  # a product in either layout
    "conv_dilated_12", "conv_transposed",  # NCHW is named first, and mends most of it
    "attention_head_80", "attention_head_256",  # multiples of 8
    "mm_partial_wave_2", "mm_lora", "mm_tall_narrow", "attention_decode", "mm_skinny_1", "mm_skinny_16",  # near the limit
    "mm_split_inner", "mm_few_rows_training", "conv_nchw", "sum_of_seven", "sum_outer", "softmax_wide_fp32", "sort_64_bit",
}  # fmt: skip


def of(name: str, *shapes: list[int], strides: list[list[int]] | None = None, values: list[str] | None = None) -> Work:
    dims = json.dumps(list(shapes)).encode()
    types = json.dumps([HALF if shape else "Scalar" for shape in shapes]).encode()
    steps = json.dumps(strides).encode() if strides else b""
    texts = json.dumps(values).encode() if values else b""
    signature = read(name, dims, types, steps, texts)
    assert signature is not None
    found = work(signature)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("shapes", "sms", "expected"),
    [
        ([[512, 16384], [16384, 512]], H100, "few-tiles"),  # 4 x 4 tiles
        ([[1024, 512], [512, 1024]], H100, "few-tiles"),  # 64 tiles of 66
        ([[1152, 512], [512, 1024]], H100, ""),  # 72 tiles, over half of 132 multiprocessors
        ([[1152, 512], [512, 1024]], MI300, "few-tiles"),
        ([[4096, 4096], [4096, 4095]], H100, "misaligned"),
        ([[8, 8192], [8192, 8191]], H100, "matrix-vector"),  # a vector's loads are not those of tiles
        ([[64, 64], [64, 64]], H100, "tiny"),
        ([[131072, 32], [32, 32]], H100, "thin"),
        ([[8192, 8192], [8192, 8192]], H100, ""),
        ([[2176, 4096], [4096, 1024]], H100, "partial-wave"),  # 136 tiles: a second wave of 4
    ],
)
def test_products_by_their_sizes(shapes: list[list[int]], sms: int, expected: str) -> None:
    assert reason(of("aten::mm", *shapes), sms) == expected


def test_without_the_number_of_multiprocessors_tiles_tell_nothing() -> None:
    assert reason(of("aten::mm", [512, 4096], [4096, 512]), None) == ""


def test_strides_tell_a_factor_that_is_misaligned_though_its_sizes_are_even() -> None:
    sizes = [4096, 1024], [1024, 4096]
    assert reason(of("aten::mm", *sizes, strides=[[1025, 1], [4096, 1]]), H100) == "misaligned"
    assert reason(of("aten::mm", *sizes, strides=[[1, 4096], [4096, 1]]), H100) == ""


def convolution(
    source: list[int], weight: list[int], *, stride: int = 1, dilation: int = 1, groups: int = 1, last: bool = True
) -> Work:
    _, c, h, w = source
    steps = [c * h * w, 1, w * c, c] if last else [c * h * w, h * w, w, 1]
    values = [
        "",
        "",
        "[1, 1]",
        f"[{stride}, {stride}]",
        f"[{dilation}, {dilation}]",
        str(groups),
        "False",
        "False",
        "True",
    ]
    return of("aten::cudnn_convolution", source, weight, *[[]] * 7, strides=[steps, [], *[[]] * 7], values=values)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (convolution([64, 384, 56, 56], [384, 1, 3, 3], groups=384), "depthwise"),
        (convolution([64, 256, 56, 56], [256, 8, 3, 3], groups=32), "grouped"),
        (convolution([64, 3, 224, 224], [768, 3, 16, 16], stride=16), "patches"),
        (convolution([64, 3, 224, 224], [64, 3, 7, 7], stride=2), "few-channels"),
        (convolution([64, 256, 56, 56], [256, 256, 3, 3], last=False), "channels-first"),
        (convolution([64, 256, 56, 56], [256, 256, 1, 1], last=False), ""),
        (convolution([64, 65, 56, 56], [65, 65, 3, 3]), "odd-channels"),
        (convolution([8, 256, 64, 64], [256, 256, 3, 3], dilation=12), "dilated"),
        (convolution([64, 192, 17, 17], [192, 192, 1, 7]), "uneven-window"),
        (convolution([1, 1024, 7, 7], [1024, 1024, 3, 3]), "few-tiles"),
        (convolution([64, 256, 56, 56], [256, 256, 3, 3]), ""),
    ],
)
def test_convolutions_by_their_sizes(given: Work, expected: str) -> None:
    assert reason(given, H100) == expected


@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        ([[8192, 1], [1, 8192], []], "strided"),
        ([[8192, 1], [8192, 1], []], ""),
        # Orders that differ further out leave rows whole.
        ([[1 << 20, 64, 8192, 1], [1 << 20, 16384, 64, 1], []], ""),
    ],
)
def test_operands_that_are_read_across_their_rows(strides: list[list[int]], expected: str) -> None:
    shape = [8192, 8192] if len(strides[0]) == 2 else [64, 128, 256, 64]
    assert reason(of("aten::add", shape, shape, [], strides=strides), H100) == expected


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ([1024, 1024], [1024, 1], "mask"),
        ([4, 16, 1024, 1024], [0, 0, 1024, 1], "mask"),  # one for all, expanded
        ([4, 16, 1024, 1024], [1024, 0, 0, 1], "mask"),  # of the keys of each sequence
        ([4, 16, 1024, 1024], [], "mask"),  # strides that were not recorded
        ([4, 16, 1024, 1024], [0, 1 << 20, 1024, 1], "bias"),
        ([16, 1024, 1024], [1 << 20, 1024, 1], "bias"),
        ([1, 1, 1024, 1024], [1 << 20, 1 << 20, 1024, 1], "mask"),
    ],
)
def test_a_bias_is_of_each_heads_own_numbers(shape: list[int], strides: list[int], expected: str) -> None:
    q = [[4, 16, 1024, 64]] * 3
    steps = [[1 << 20, 65536, 64, 1]] * 3
    work = of("aten::scaled_dot_product_attention", *q, shape, [], [], [], [], strides=[*steps, strides, *[[]] * 4])
    assert reason(work, H100) == expected


@cache
def weighed(name: str) -> tuple[str, float, float]:
    """The reason that holds most of a case's kernel time, the efficiency there, and the part of all its time that would go."""
    kernels = advisor.read(CASES / f"{name}.json.gz").kernels
    kernels = kernels[kernels["cost_ns"] > 0]
    cost = kernels["cost_ns"].to_numpy().astype(float)
    text = kernels["reason"].astype(object).fillna("near").to_numpy()
    heaviest = max(set(text), key=lambda one: cost[text == one].sum())
    gone = 1 - np.nan_to_num(kernels["remedied_ns"].to_numpy() / kernels["dur_ns"].to_numpy(), nan=1.0)
    efficiency = float(np.nanmedian(kernels["efficiency"].to_numpy()[text == heaviest]))
    return str(heaviest), efficiency, float((gone * cost).sum() / cost.sum())


def cases() -> list[str]:
    return sorted(path.name.removesuffix(".json") for path in CASES.glob("*.json"))


def truth(name: str) -> dict[str, object]:
    return dict(json.loads((CASES / f"{name}.json").read_text()))


@pytest.mark.parametrize(
    "name", [name for name in cases() if truth(name)["reason"] in reasons.REASONS[1:] and name not in UNTOLD]
)
def test_a_kernel_that_an_h100_runs_slowly_has_its_reason(name: str) -> None:
    found, efficiency, _ = weighed(name)
    assert found == truth(name)["reason"], name
    assert efficiency < reasons.NEAR


def test_a_sum_of_seven_neighbours_is_slow_for_their_number_and_takes_as_long_in_columns_as_measured() -> None:
    found, _, said = weighed("sum_of_seven")
    assert found == "narrow-sums"
    assert abs(said - float(str(truth("sum_of_seven")["gain"]))) < 0.05


@pytest.mark.parametrize(
    ("shape", "strides", "dims", "expected"),
    [
        ([1 << 20, 7], [7, 1], [1], "narrow-sums"),
        ([1 << 20, 7], [7, 1], [-1], "narrow-sums"),
        ([1 << 20, 3, 3], [9, 3, 1], [1, 2], "narrow-sums"),
        ([7, 1 << 20], [1, 7], [0], "narrow-sums"),
        ([7, 1 << 20], [1 << 20, 1], [0], ""),  # neighbours are of different sums
        ([1 << 20, 7], [7, 1], [0], ""),
        ([1 << 20, 7], [7, 1], [0, 1], ""),
        ([1 << 20, 3, 3], [9, 3, 1], [0, 2], ""),
        ([1 << 20, 32], [32, 1], [1], ""),  # a warp's load
        ([1000, 7], [7, 1], [1], ""),
    ],
)
def test_sums_of_a_few_neighbours(shape: list[int], strides: list[int], dims: list[int], expected: str) -> None:
    work = of("aten::sum", shape, [], [], [], strides=[strides, [], [], []], values=["", str(dims), "False", ""])
    assert reason(work, H100) == expected


@pytest.mark.parametrize("name", ["near_add", "near_attention", "near_conv", "near_mm", "near_mm_fp16"])
def test_a_kernel_near_its_limit_has_no_reason(name: str) -> None:
    found, efficiency, _ = weighed(name)
    assert found == "near"
    assert efficiency >= reasons.NEAR


MEASURED = {
    "misaligned",
    "few-tiles",
    "depthwise",
    "patches",
    "odd-channels",
    "mask",
    "head-size",
    "strided",
    "grouped",
}


def test_what_a_remedy_returns_is_what_an_h100_returned() -> None:
    """Nine in ten cases return what is said of them, or differ by less than a sixth of their time."""
    off = {}
    for name in cases():
        one = truth(name)
        if one["reason"] not in MEASURED or not one.get("fix") or name in UNTOLD or float(str(one["gain"])) < 0.05:
            continue
        found, _, said = weighed(name)
        if found == one["reason"]:
            off[name] = said - float(str(one["gain"]))
    assert len(off) >= 20
    near = [name for name, difference in off.items() if abs(difference) <= 1 / 6]
    assert len(near) >= 0.9 * len(off), {name: round(value, 2) for name, value in off.items() if name not in near}
