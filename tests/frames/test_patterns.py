"""Patterns: small traces whose expected values are worked out by hand, and what real traces hold."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT
from support.traces import trace

from advisor import rulebook
from advisor.pipeline import analyze
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

find = importlib.import_module("advisor.frames.patterns.find")  # the package has a function of this name

GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float>>(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 9, false, false>"
Q, K, S, V = [16, 256, 64], [16, 64, 256], [16, 256, 256], [16, 256, 64]


def frame(builder: TraceBuilder, tmp_path: Path) -> Any:
    return opened(builder, tmp_path).frame("patterns")


def opened(builder: TraceBuilder, tmp_path: Path) -> Trace:
    return read(str(builder.write(tmp_path / "trace.json")))


def launch(b: TraceBuilder, name: str, kernel: str, us: float, *shapes: list[int], seq: int | None = None) -> None:
    with b.op(name, shapes=list(shapes), seq=seq):
        b.kernel(kernel, us=us)


# ---- attention


def test_attention_owns_what_runs_on_the_scores_and_its_backward(tmp_path: Path) -> None:
    b = TraceBuilder()
    launch(b, "aten::bmm", GEMM, 100, Q, K, seq=1)
    launch(b, "aten::mul", POINTWISE, 10, S, [], seq=2)
    launch(b, "aten::tril", POINTWISE, 7, [256, 256], [])  # the mask itself: not on the scores
    launch(b, "aten::linear", GEMM, 50, [4096, 64], [64, 64], seq=3)  # the values, projected late: a product
    launch(b, "aten::_softmax", SOFTMAX, 20, S, [], [], seq=4)
    launch(b, "aten::bmm", GEMM, 100, S, V, seq=5)
    for name, seq, kernel, us in (
        ("BmmBackward0", 5, GEMM, 200),
        ("SoftmaxBackward0", 4, SOFTMAX, 30),
        ("AddmmBackward0", 3, GEMM, 90),
        ("MulBackward0", 2, POINTWISE, 11),
        ("BmmBackward0", 1, GEMM, 200),
    ):
        with b.backward(name, seq, shapes=[S]):
            b.kernel(kernel, us=us)
    table = frame(b, tmp_path)
    (row,) = table.to_dict("records")
    assert row["kind"] == "attention"
    assert (row["seq_len"], row["head_dim"]) == (256, 64)
    # 10 + 20 forward, 30 + 11 backward; with the products, the mask and the projection 100 + 7 + 50 + 100 more, and the
    # gradients of the products twice 200. Its cost is that but for mask and projection.
    assert (row["own_count"], row["own_ns"], row["backward_ns"]) == (4, 71_000, 41_000)
    assert (row["kernel_count"], row["gpu_ns"]) == (10, 728_000)
    assert row["cost_ns"] == 671_000
    assert row["op"] == "aten::_softmax"


def test_autocast_wraps_a_product_in_another_of_its_name(tmp_path: Path) -> None:
    """The cast of the probabilities inside the outer product is a pass over the scores; that of the values is none."""
    b = TraceBuilder()
    launch(b, "aten::baddbmm", GEMM, 100, S, Q, K, [], [], seq=1)
    launch(b, "aten::_softmax", SOFTMAX, 20, S, [], [], seq=2)
    with b.op("aten::bmm", shapes=[S, V], dtypes=["float", "float"], seq=3):
        for shape, us in ((S, 15), (V, 4)):
            with b.op("aten::to", shapes=[shape]), b.op("aten::_to_copy", shapes=[shape]):
                launch(b, "aten::copy_", POINTWISE, us, shape, shape)
        launch(b, "aten::bmm", GEMM, 100, S, V, seq=4)
    table = frame(b, tmp_path)
    assert table["own_ns"].tolist() == [35_000]
    assert table["head_dim"].tolist() == [64]


@pytest.mark.parametrize(
    ("first", "second", "scores"),
    [
        ([Q, K], [[16, 128, 128], V], S),  # the second product takes another matrix
        ([Q, [16, 64, 128]], [S, V], S),  # the first gives another
        ([Q, K], [S, V], [4096, 8]),  # the softmax runs over something else: a router, a loss
    ],
)
def test_no_attention_where_the_shapes_do_not_meet(first: Any, second: Any, scores: Any, tmp_path: Path) -> None:
    b = TraceBuilder()
    launch(b, "aten::bmm", GEMM, 100, *first)
    launch(b, "aten::_softmax", SOFTMAX, 20, scores, [], [])
    launch(b, "aten::bmm", GEMM, 100, *second)
    assert frame(b, tmp_path).empty


def test_a_product_in_between_does_not_hide_the_attention(tmp_path: Path) -> None:
    """Relative positions add a second product to the scores before the softmax."""
    b = TraceBuilder()
    launch(b, "aten::bmm", GEMM, 100, Q, K)
    launch(b, "aten::bmm", GEMM, 60, Q, [16, 64, 511])
    launch(b, "aten::add", POINTWISE, 10, S, S)
    launch(b, "aten::_softmax", SOFTMAX, 20, S, [], [])
    launch(b, "aten::bmm", GEMM, 100, S, V)
    assert frame(b, tmp_path)["own_ns"].tolist() == [30_000]


@pytest.mark.parametrize("mask", [[16, 1, 256], [1, 256, 256], [1, 1, 1], S])
def test_a_mask_that_the_first_product_adds_may_be_broadcast(mask: list[int], tmp_path: Path) -> None:
    """MultiheadAttention adds its mask of keys, one row for all queries, in the product."""
    b = TraceBuilder()
    launch(b, "aten::baddbmm", GEMM, 100, mask, Q, K, [], [])
    launch(b, "aten::_softmax", SOFTMAX, 20, S, [], [])
    launch(b, "aten::bmm", GEMM, 100, S, V)
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["own_ns"], row["head_dim"]) == (20_000, 64)


def test_without_shapes_only_what_is_pointwise_throughout(tmp_path: Path) -> None:
    def model(between: str) -> Any:
        b = TraceBuilder(record_shapes=False)
        launch(b, "aten::bmm", GEMM, 100)
        launch(b, "aten::mul", between, 10)
        launch(b, "aten::_softmax", SOFTMAX, 20)
        launch(b, "aten::bmm", GEMM, 100)
        return frame(b, tmp_path)

    assert model(POINTWISE)["own_ns"].tolist() == [30_000]
    assert model(GEMM).empty


def test_elementwise_chain_leaves_the_scores_to_the_attention(tmp_path: Path) -> None:
    """Scaling, mask and dropout of the scores are a chain as well; of the two fixes the attention's goes further."""
    b = TraceBuilder("NVIDIA A100-SXM4-40GB")
    for _ in range(3):
        with b.step():
            launch(b, "aten::bmm", GEMM, 100, Q, K)
            for us in (200, 210, 220):
                launch(b, "aten::mul", POINTWISE, us, S, [])
            launch(b, "aten::_softmax", SOFTMAX, 200, S, [], [])
            launch(b, "aten::bmm", GEMM, 100, S, V)
            for us in (100, 110, 120):
                launch(b, "aten::gelu" if us == 110 else "aten::mul", POINTWISE, us, V)
    book = rulebook.load([ROOT / "rules"])
    findings = {finding.rule: finding for finding in analyze(opened(b, tmp_path), book).findings}
    assert findings["kernels/unfused-attention"].cost_ms == pytest.approx(
        1.03, rel=0.01
    )  # 200 + 210 + 220 + 200, products 200
    assert findings["kernels/elementwise-chain"].cost_ms == pytest.approx(0.33, rel=0.01)  # 100 + 110 + 120


# ---- loops


def test_a_loop_counts_its_turns_and_owns_the_idle_between(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        for _ in range(12):
            with b.python("train.py(9): pick"):
                with b.op("aten::select", us=10):
                    pass
                launch(b, "aten::tanh", POINTWISE, 3)
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["kind"], row["repeats"], row["length"], row["detail"]) == ("loop", 12, 2, "select, tanh")
    assert (row["file"], row["line"]) == ("train.py", 9)
    assert (row["own_count"], row["own_ns"]) == (12, 36_000)
    # A turn takes the host 16 us: 10 to select and 6 to launch. The first kernel starts at 18 us, the last at 18 + 11 x 16;
    # between them the GPU runs 11 of the 12 kernels. All of it is idle but those, and the 18 us at the start.
    assert row["idle_ns"] == 18_000 + 11 * 16_000 - 11 * 3_000


def test_two_loops_in_a_row_are_two(tmp_path: Path) -> None:
    b = TraceBuilder()
    for name in ("aten::tanh", "aten::exp"):
        for _ in range(15):
            with b.op("aten::select", us=4):
                pass
            launch(b, name, POINTWISE, 3)
    table = frame(b, tmp_path)
    assert table["detail"].tolist() == ["select, tanh", "select, exp"]
    assert table["repeats"].tolist() == [15, 15]


def test_what_repeats_without_an_index_is_no_loop_over_one(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(50):
        launch(b, "aten::mul", POINTWISE, 3)
        launch(b, "aten::add", POINTWISE, 3)
    for _ in range(10):  # enough to ask, too few between the others
        with b.op("aten::select", us=4):
            pass
    assert not (frame(b, tmp_path)["own_ns"] > 0).any()


def test_a_loop_without_an_index_is_the_same_operators_at_one_line(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step(), b.python("train.py(60): average"):
        for size in range(12):  # parameters: each of another shape
            launch(b, "aten::mul_", POINTWISE, 3, [size + 1])
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["kind"], row["repeats"], row["length"], row["line"]) == ("repeat", 12, 1, 60)


def test_a_cell_called_step_by_step_is_a_loop_though_it_has_weights(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(12):
        with b.python("train.py(29): forward"):
            with b.op("aten::select", us=4):
                pass
            with b.op("aten::lstm_cell"), b.op("aten::linear"):
                b.kernel(GEMM, us=3)
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["kind"], row["repeats"], row["detail"]) == ("loop", 12, "select, lstm_cell")


def test_the_idle_of_a_loop_is_its_own_though_its_backward_has_more_calls(tmp_path: Path) -> None:
    def loop(nodes: int) -> TraceBuilder:
        b = TraceBuilder(host_us=10, latency_us=0)
        for turn in range(12):
            with b.python("train.py(36): rows"):
                with b.op("aten::select", us=10):
                    pass
                launch(b, "aten::tanh", POINTWISE, 3, seq=turn + 1)
        with b.thread(2):
            for turn in range(12):
                with b.backward("TanhBackward0", turn + 1):
                    for _ in range(nodes):
                        b.kernel(POINTWISE, us=3)
        return b

    (few,) = frame(loop(1), tmp_path).to_dict("records")
    (many,) = frame(loop(5), tmp_path).to_dict("records")
    # A turn takes the host 20 us, of which the GPU works 3: 17 are the loop's in each, and 7 before each of the backward's
    # kernels, which the host launches every 10 us.
    assert few["idle_ns"] >= 11 * 17_000 + 11 * 7_000
    assert many["idle_ns"] - few["idle_ns"] == 12 * 4 * 7_000


def test_a_loop_inside_an_operator_of_torch_is_not_the_users(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::lstm"):
        for _ in range(30):
            with b.op("aten::select", us=4):
                pass
            launch(b, "aten::tanh", POINTWISE, 3)
    assert frame(b, tmp_path).empty


# ---- what checkpointing computes again


def test_recompute_is_what_runs_forward_inside_backward(tmp_path: Path) -> None:
    b = TraceBuilder()
    launch(b, "aten::linear", GEMM, 100, seq=1)
    with b.backward("ReluBackward0", 2):
        with b.op("aten::clone", seq=10):  # the random state, saved first
            b.kernel(POINTWISE, us=2)
        launch(b, "aten::linear", GEMM, 100, seq=10)
        launch(b, "aten::relu", POINTWISE, 5, seq=11)
        with b.op("aten::threshold_backward"):
            b.kernel(POINTWISE, us=6)
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["kind"], row["detail"], row["op"]) == ("recompute", "ReluBackward0", "aten::linear")
    assert (row["own_ns"], row["backward_ns"], row["length"]) == (107_000, 107_000, 3)


def test_on_the_cpu_recompute_is_all_of_its_time_at_the_line_that_asked_for_it(tmp_path: Path) -> None:
    """The block runs at lines 18 and 29, called from 44 in the forward pass and from 99 in the backward pass."""
    block = "net.py(18): forward;net.py(29): forward;"
    b = TraceBuilder(None, host_us=0)
    stacks = {"forward": block + "net.py(44): forward;net.py(97): fit", "again": block + "net.py(99): fit"}
    with b.op("aten::mkldnn_convolution", us=50), b.op("aten::add", us=10):
        pass
    with b.op("aten::linear", seq=1, args={"Call stack": stacks["forward"]}), b.op("aten::addmm", us=100):
        pass
    with b.backward("ReluBackward0", 2):
        b.idle(us=20)  # hooks, before the first operator
        with b.op("aten::linear", seq=10, args={"Call stack": stacks["again"]}), b.op("aten::addmm", us=100):
            pass
        b.idle(us=30)  # Python from one operator to the next
        with b.op("aten::relu", seq=11, us=5, args={"Call stack": stacks["again"]}):
            pass
        with b.op("aten::threshold_backward", us=6):
            pass
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["kind"], row["file"], row["line"], row["length"]) == ("recompute", "net.py", 44, 2)
    assert row["cost_ns"] == 155_000


# ---- transfers


def test_two_tensors_of_one_size_but_not_one_shape_are_no_round_trip(tmp_path: Path) -> None:
    b = TraceBuilder()
    for shape, direction in (([64, 32], "DtoH"), ([32, 64], "HtoD"), ([64, 32], "HtoD")):
        with b.op("aten::to", shapes=[shape]):
            b.copy(direction, 8192, us=10)
    assert frame(b, tmp_path).empty  # the next of that size is another's, and so is what follows it


def test_one_copy_back_answers_the_last_copy_to_the_host(tmp_path: Path) -> None:
    b = TraceBuilder()
    for direction in ("DtoH", "DtoH", "HtoD"):
        with b.op("aten::to", shapes=[[64, 32]]):
            b.copy(direction, 8192, us=10)
    table = frame(b, tmp_path)
    assert table["kind"].tolist() == ["pingpong"]
    assert table["own_ns"].tolist() == [20_000]


# ---- the frame as a whole


def test_segments_of_a_row_are_worth_its_cost(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        for _ in range(12):
            with b.op("aten::select", us=10):
                pass
            launch(b, "aten::tanh", POINTWISE, 3)
        launch(b, "aten::bmm", GEMM, 100, Q, K)
        launch(b, "aten::_softmax", SOFTMAX, 20, S, [], [])
        launch(b, "aten::bmm", GEMM, 100, S, V)
    trace = opened(b, tmp_path)
    table = trace.frame("patterns")
    assert sorted(table["kind"]) == ["attention", "loop"]
    for row in range(len(table)):
        own = trace.claims("patterns", np.arange(len(table)) == row)
        assert trace.ledger.dur_ns[own].sum() == table["cost_ns"].iloc[row]


@pytest.mark.parametrize("device", ["Tesla V100-SXM2-16GB", None])
def test_nothing_to_find(device: str | None, tmp_path: Path) -> None:
    b = TraceBuilder(device)
    with b.op("aten::mul", shapes=[[3]], us=5):
        pass
    trace = opened(b, tmp_path)
    table = trace.frame("patterns")
    assert table.empty
    assert list(table.columns)[:4] == ["step", "start_ns", "dur_ns", "cost_ns"]
    assert not len(trace.claims("patterns", np.zeros(0, np.bool_)))


def test_the_gpu_alone(tmp_path: Path) -> None:
    b = TraceBuilder()
    b.kernel(SOFTMAX, us=5, launched=False)
    assert frame(b, tmp_path).empty


def test_keys_and_values_stacked_in_one_are_a_cache_that_is_copied(tmp_path: Path) -> None:
    """Five tokens in two layers; the first two concatenations only tell how long the cache was."""
    b = TraceBuilder()
    for token in range(5):
        for _ in range(2):
            launch(b, "aten::cat", "CatArrayBatchedCopy", 50, [2, 8, 16, 579 + token, 128], [2, 8, 16, 1, 128])
    table = frame(b, tmp_path)
    assert table["kind"].tolist() == ["copied-cache"] * 8
    assert table["seq_len"].tolist() == [580, 580, 581, 581, 582, 582, 583, 583]
    assert table["own_ns"].sum() == 8 * 50_000


def test_hostile_shapes_and_nesting(tmp_path: Path) -> None:
    """Sizes past int64, lists that are none, operators a thousand deep: no error, and no attention."""
    events: list[dict[str, Any]] = []
    dims = [
        "[[9999999999,9999999999,9999999999],[9999999999,9999999999,9]]",
        "[[[[",
        '"x"',
        "[[-1,2,3]]",
        "[[1e9]]",
        "[]",
    ]
    for index, name in enumerate(("aten::bmm", "aten::_softmax", "aten::bmm", "aten::select") * 6):
        events.append(
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": index * 10, "dur": 9,
             "args": {"Input Dims": dims[index % len(dims)], "Sequence number": 2**62, "Fwd thread id": index % 3}}
        )  # fmt: skip
    deep = {"ph": "X", "cat": "cpu_op", "name": "aten::_softmax", "pid": 1, "tid": 2}
    events += [deep | {"ts": depth, "dur": 5000 - 2 * depth} for depth in range(1200)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert read(str(path)).frame("patterns")["own_ns"].sum() == 0


@pytest.mark.parametrize("parted", [False, True])
def test_experts_stand_at_the_line_below_which_their_stacks_are_not_the_gates(parted: bool, tmp_path: Path) -> None:
    """The function that called the gate calls the experts, whose own frame all share; one of another line parts further up."""
    b = TraceBuilder(with_stack=False)
    tokens, gate, expert = [64, 32], [3, 32], [32, 32]
    stack = {"Call stack": "moe.py(50): forward;train.py(9): main"}
    with b.op("aten::linear", shapes=[tokens, gate, []], args=stack):
        b.kernel(GEMM, us=10)
    launch(b, "aten::argmax", POINTWISE, 10, [64, 3])
    for number in range(3):
        line = 70 if parted and number == 2 else 58
        stack = {"Call stack": f"feedforward.py(126): forward;moe.py({line}): forward;train.py(9): main"}
        with b.op("aten::linear", shapes=[tokens, expert, []], args=stack):
            b.kernel(GEMM, us=100)
    (row,) = frame(b, tmp_path).to_dict("records")
    assert (row["kind"], row["repeats"]) == ("dense-experts", 3)
    assert (row["file"], row["line"]) == (("train.py", 9) if parted else ("moe.py", 58))


# ---- finders that fail


def test_a_finder_that_fails_costs_its_own_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules on its kind are errors, and no others: a large tensor that is picked late is found all the same."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        with b.op("aten::mul", shapes=[[8192, 64], []], us=1000):
            pass
        with b.op("aten::index_select", shapes=[[8192, 64], [], [64]], values=["", "0", ""], us=1):
            pass
        with b.op("aten::mm", shapes=[[64, 64], [64, 8]], us=10):
            pass
    path = b.write(tmp_path / "trace.json")
    assert analyze(read(path)).verdicts.error == []

    def fails(_: object) -> None:
        raise IndexError("no such row")

    finders = [(kind, fails if kind == "full-sort" else finder) for kind, finder in find._FINDERS]
    monkeypatch.setattr(find, "_FINDERS", finders)
    monkeypatch.setattr(find, "loops", fails)
    found = analyze(read(path))
    messages = {failure.rule: failure.message for failure in found.verdicts.error}
    assert messages == {"cpu/full-sort": "match.where: IndexError: no such row"}
    assert [finding.rule for finding in found.findings if "late-pick" in finding.rule]


def test_each_rule_on_patterns_asks_for_a_kind_that_a_finder_finds() -> None:
    """One that does not would be silent where its finder failed."""
    for rule in rulebook.load([ROOT / "rules"]).rules:
        if rule.match.frame == "patterns":
            assert rule.compiled.where is not None
            assert [kind for kind in find.KINDS if f"'{kind}'" in rule.compiled.where.sql], rule.id


@pytest.mark.parametrize(("kind", "finder"), find._FINDERS, ids=lambda one: one if isinstance(one, str) else "")
def test_finders_stand_beside_the_kind_that_they_find(kind: str, finder: Callable[..., object]) -> None:
    assert f'"{kind}"' in Path(inspect.getfile(finder)).read_text()


# ---- real traces


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        # 24 vision layers of 5,185 patches and 12 text layers of 5 tokens, five images, each with a loop that moves its inputs.
        ("h100_owlv2_large.json.gz", {"attention": 180, "separate-projections": 5, "repeat": 5, "label-part": 4}),
        ("a100_megatron_tp8/rank0.json.gz", {"attention": 40}),
        # Ten attentions; the eleven other softmaxes are the routers' and the output's.
        # A causal mask in each layer: new_ones, tril, bitwise_not.
        ("a100_switch_transformer.json.gz", {"attention": 10, "dense-experts": 10, "rebuilt": 9}),
        ("h100_bert_small.json.gz", {"separate-projections": 4}),  # scaled_dot_product_attention
        ("h100_qwen_0.5b.json.gz", {"attention-copy": 24, "separate-projections": 48}),
        ("v100_resnet50_workers0.json.gz", {}),
        # Four checkpointed layers, three steps; 62 parameters, each scaled into a bucket and copied back.
        ("mi300_resnet_ddp_checkpointing.json.gz", {"recompute": 12, "repeat": 6, "reducer": 372}),
        ("a100_particle_transformer/batch32.json.gz", {"attention": 10, "conv-bias": 4}),
        ("mi250_minitoy_train.json.gz", {"cpu-created": 2}),
        ("a100_copies_pinned.json.gz", {}),  # copies both ways of one shape, which are not one tensor
    ],
)
def test_what_real_traces_hold(name: str, kinds: dict[str, int]) -> None:
    table = trace(name).frame("patterns")
    assert table["kind"].value_counts().to_dict() == kinds
