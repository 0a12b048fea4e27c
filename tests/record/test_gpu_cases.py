"""The part "cases" of benchmarks/gpu.py without a GPU: remedies compute what the cases do, and traces stand beside truths."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.recording import needs_torch

sys.path.append(str(ROOT / "benchmarks"))

pytestmark = needs_torch

# Cases whose remedy gives the same numbers.
SAME = {
    "mm_three_projections",
    "mm_lora",
    "mm_rows_one_by_one",
    "mm_split_inner",
    "mm_in_a_loop",
    "mm_bias_apart",
    "mm_turned_factor",
    "mm_fp32",
    "bmm_expanded",
    "bmm_scores_apart",
    "bmm_einsum_heads",
    "experts_dense",
    "conv_nchw",
    "conv_nchw_training",
    "conv_depthwise_nchw",
    "conv_patches",
    "conv_transposed",
    "conv_1x1_nchw",
    "conv3d_nchw",
    "attention_mask",
    "attention_by_hand",
    "attention_by_hand_training",
    "attention_repeated_heads",
    "sum_of_seven",
    "sum_outer",
    "sort_for_ten",
    "batch_norm_nchw",
    "cross_entropy_fp32",
    "index_gradient",
    "cat_many_small",
    "topk_one_row",
    "masked_select",
    "repeat_for_sum",
    "one_hot",
    "gelu_by_hand_training",
    "layer_norm_by_hand_training",
    "own_matmul",
    "own_softmax",
    "own_half_matmul",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A bench on the CPU; the number of threads is as before after it."""
    import torch
    from gpu_parts.bench import Bench

    threads = torch.get_num_threads()
    yield Bench(tmp_path_factory.mktemp("cases") / "cases.jsonl", time.time() + 600, "cpu")
    torch.set_num_threads(threads)


def flat(found: Any) -> Any:
    """All numbers of an answer in one row."""
    import torch
    from torch.utils._pytree import tree_leaves

    return torch.cat([leaf.detach().float().flatten() for leaf in tree_leaves(found)])


def test_every_case_and_remedy_runs_and_the_same_answers_agree(bench: Any) -> None:
    import torch
    from gpu_parts.case import Maker
    from gpu_parts.cases import CASES

    assert set(CASES) >= SAME
    for name, case in CASES.items():
        answers = []
        for repaired in (False, True) if case.fix else (False,):
            torch.manual_seed(0)
            answers.append(case.build(Maker(bench), repaired)())
        if name in SAME:
            slow, fast = (flat(answer) for answer in answers)
            assert slow.shape == fast.shape, name
            # Numbers of eight bits, added up in another order.
            assert float((slow - fast).abs().max()) <= 0.03 * float(slow.abs().max()), name
            assert float(slow.abs().max()) > 0, name


def test_names_of_all_families_come_in_turn_and_once() -> None:
    from gpu_parts.cases import CASES, interleaved

    names = interleaved()
    assert sorted(names) == sorted(CASES)
    assert names[:5] == [
        "mm_few_tiles_long",
        "conv_nchw",
        "attention_head_80",
        "pointwise_transposed",
        "near_copy",
    ]


def test_a_case_leaves_a_trace_and_its_truth(bench: Any, tmp_path: Path) -> None:
    from gpu_parts.case import take
    from gpu_parts.cases import CASES

    found = take(bench, "mm_few_tiles_long", CASES["mm_few_tiles_long"], tmp_path)
    truth = json.loads((tmp_path / "mm_few_tiles_long.json").read_text())
    # Without a GPU no side is above 24.
    assert (truth["op"], truth["shapes"], truth["dtype"]) == ("aten::mm", [[24, 24], [24, 24]], "bfloat16")
    assert (truth["reason"], truth["fix"], truth["rows"]) == ("few-tiles", "eight times the rows", [1, 8])
    assert truth["gain"] == pytest.approx(1 - truth["fixed_ms"] / 8 / truth["ms"])
    assert [row[:2] for row in truth["kernels"] if row[0] == "aten::mm"] == [["aten::mm", 1.0]]
    with gzip.open(tmp_path / truth["trace"]) as trace:
        events = json.load(trace)["traceEvents"]
    steps = [event for event in events if event["ph"] == "X" and event["name"].startswith("ProfilerStep#")]
    products = [event for event in events if event["ph"] == "X" and event["name"] == "aten::mm"]
    assert (len(steps), len(products)) == (3, 3 * truth["calls_a_step"])
    assert products[0]["args"]["Input Dims"] == [[24, 24], [24, 24]]
    from gpu_parts.report import markdown

    empty = {part: {} for part in ("device", "reachable", "rates", "operators", "settings", "traces")}
    text = markdown({**empty, "cases": {"case/mm_few_tiles_long": found, "case/other": {"error": "no memory"}}})
    assert "| mm_few_tiles_long | few-tiles | eight times the rows | aten::mm | 24x24 24x24 | bfloat16 |" in text
    assert "- case/other: no memory" in text


def test_operators_of_the_backward_pass_are_told(bench: Any) -> None:
    from gpu_parts.case import Maker, operators
    from gpu_parts.cases import CASES

    found = operators(bench, CASES["mm_vocabulary_training"].build(Maker(bench), False))
    # A product forward, one for the input's gradient, one for the weight's: 16 rows, 16 wide, 12 columns.
    products = sorted(row["shapes"] for row in found["operators"] if row["op"] == "aten::mm")
    assert products == [[[12, 16], [16, 16]], [[16, 12], [12, 16]], [[16, 16], [16, 12]]]


def test_a_trace_that_is_too_large_is_recorded_with_fewer_calls(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpu_parts import case
    from gpu_parts.cases import CASES

    call = CASES["mm_thin"].build(case.Maker(bench), False)
    assert case.record(bench, call, tmp_path / "a.json.gz", 4.0)["calls_a_step"] == 2
    monkeypatch.setattr(case, "LARGEST", 10)
    assert case.record(bench, call, tmp_path / "b.json.gz", 4.0)["calls_a_step"] == 1
