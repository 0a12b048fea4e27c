"""Owners of the host's idle time on traces small enough to work out by hand. Times in us unless they say ns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.testing import TraceBuilder
from advisor.testing.workloads import GEMM, Part, behind
from advisor.timeline.owners import is_processor
from advisor.trace import Trace, read

PACKAGES = "/venv/lib/python3.12/site-packages"


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def gaps_of(part: Part, folder: Path, **options: Any) -> list[tuple[str | None, str | None, int]]:
    """Owner, holder and length in us of the stretches of idle before the work, one in each step."""
    gaps = trace_of(behind(part, **options), folder).gaps
    columns = (gaps["owner"].astype(object), gaps["holder"].astype(object), gaps["dur_ns"])
    return [(o if o == o else None, h if h == h else None, int(ns) // 1000) for o, h, ns in zip(*columns, strict=True)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{PACKAGES}/transformers/image_transforms.py(390): normalize", True),
        ("transformers/models/videomae/image_processing_videomae.py(235): preprocess", True),
        ("transformers/tokenization_utils_tokenizers.py(857): _encode_plus", True),
        (f"{PACKAGES}/transformers/pipelines/video_classification.py(129): preprocess", True),
        (f"{PACKAGES}/transformers/pipelines/base.py(1200): forward", False),
        (f"{PACKAGES}/transformers/models/bert/modeling_bert.py(9): forward", False),
        (f"{PACKAGES}/torchvision/transforms/functional.py(350): normalize", True),
        (f"{PACKAGES}/torchvision/models/resnet.py(133): forward", False),
        ("/usr/lib/python3/dist-packages/scipy/ndimage/_filters.py(3): gaussian_filter", True),
        ("<built-in method encode_batch of tokenizers.Tokenizer object at 0x7f>", True),
        ("<built-in method append of list object at 0x7f>", False),
        ("nn.Module: CLIPImageProcessor_0", False),
        ("train.py(3): normalize", False),
        ("", False),
    ],
)
def test_a_processor_is_known_by_its_library(name: str, expected: bool) -> None:
    assert is_processor(name) is expected


def test_the_place_is_the_deepest_function_of_which_one_call_holds_half(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.python(f"{PACKAGES}/diffusers/pipelines/flux.py(100): __call__"):  # 4 ms
            with b.python(
                f"{PACKAGES}/diffusers/pipelines/pipeline_utils.py(1135): _execution_device"
            ):  # 2.4 ms: over half
                for _ in range(4):
                    with b.python(f"{PACKAGES}/diffusers/hooks.py(5): unwrap"):  # 400 us each
                        b.idle(us=400)
                with b.python("torch/nn/modules/module.py(2821): modules"):  # has no place
                    b.idle(us=800)
            b.idle(us=1600)

    trace = trace_of(behind(part), tmp_path)
    gaps = trace.gaps
    assert gaps["dur_ns"].tolist() == [4_000_000] * 4
    assert gaps["owner"].tolist() == ["function"] * 4
    assert gaps["holder"].tolist() == ["diffusers/pipelines/pipeline_utils.py:1135 _execution_device"] * 4
    assert gaps["holder_calls"].tolist() == [4] * 4
    assert gaps["holder_ns"].tolist() == [9_600_000] * 4
    # 1.6 and 0.8 of 2.4 ms.
    assert (
        gaps["holder_parts"].tolist() == ["unwrap 67 %, modules 33 %"] * 4
        or gaps["holder_parts"].tolist() == ["unwrap 67 %, torch/nn/modules/module.py(2821): modules 33 %"] * 4
    )
    assert gaps["library"].tolist() == ["diffusers/pipelines/pipeline_utils.py:1135 _execution_device"] * 4
    assert (gaps["file"].tolist(), gaps["line"].tolist()) == (["train.py"] * 4, [20] * 4)


def test_a_function_that_calls_itself_lasts_as_long_as_the_outermost_call(tmp_path: Path) -> None:
    reset = f"{PACKAGES}/diffusers/hooks.py(248): reset"

    def part(b: TraceBuilder) -> None:
        with b.python(reset), b.python(reset):
            b.idle(us=3000)

    gaps = trace_of(behind(part), tmp_path).gaps
    assert gaps["holder_calls"].tolist() == [8] * 4
    assert gaps["holder_ns"].tolist() == [12_000_000] * 4


def test_a_first_call_far_above_the_others_is_no_function_to_hoist(tmp_path: Path) -> None:
    done: list[int] = []

    def part(b: TraceBuilder) -> None:
        with b.python("report.py(5): write"):
            b.idle(us=1000 if done else 10_000)
        done.append(1)

    write = "report.py:5 write"
    assert gaps_of(part, tmp_path) == [("first call", write, 10_000), *[("function", write, 1000)] * 3]


def test_nine_times_the_others_is_a_call_like_them(tmp_path: Path) -> None:
    done: list[int] = []

    def part(b: TraceBuilder) -> None:
        with b.python("report.py(5): write"):
            b.idle(us=1000 if done else 9_000)
        done.append(1)

    assert [owner for owner, _, _ in gaps_of(part, tmp_path)] == ["function"] * 4


def test_the_first_call_of_an_operator_far_above_the_others(tmp_path: Path) -> None:
    done: list[int] = []

    def part(b: TraceBuilder) -> None:
        with b.op("aten::view", us=1000 if done else 10_000):
            pass
        done.append(1)

    # Of three calls in all: with more of them the ledger itself calls it start-up.
    assert [owner for owner, _, _ in gaps_of(part, tmp_path, steps=3)] == ["first call", None, None]


def test_an_operator_in_a_function_is_not_the_functions(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.python("report.py(5): write"), b.op("aten::view", us=3000):
            pass

    assert [owner for owner, _, _ in gaps_of(part, tmp_path)] == [None] * 4


def test_short_stretches_have_no_function(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.python("report.py(5): write"):
            b.idle(us=999)

    assert gaps_of(part, tmp_path) == [(None, None, 999)] * 4


def test_what_takes_less_than_half_of_a_stretch_does_not_own_it(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.python(f"{PACKAGES}/PIL/Image.py(2200): resize"):
            b.idle(us=1400)
        b.idle(us=1600)

    # main() holds it all, the processor 1.4 of 3 ms.
    assert gaps_of(part, tmp_path) == [("function", "train.py:20 main", 3000)] * 4


def test_operators_of_a_processor_are_its_own(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.python(f"{PACKAGES}/torchvision/transforms/functional.py(350): normalize"):
            b.idle(us=500)
            with b.op("aten::div", us=2500):
                pass

    trace = trace_of(behind(part, steps=1), tmp_path)
    rows = trace.gaps[["cause", "owner", "dur_ns"]].astype(object).to_numpy().tolist()
    assert rows == [["host", "processor", 500_000], ["operator", "processor", 2_500_000]]


def test_ddps_buffers_are_owned_until_the_last_broadcast_before_the_model(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        b.kernel(GEMM, us=100)
        with b.annotation("DistributedDataParallel.forward"):
            b.idle(us=600)
            with b.op("c10d::broadcast_", us=400):
                pass
            with b.op("aten::conv2d", us=100):
                b.kernel(GEMM, us=100)
            with b.op("c10d::broadcast_", us=1000):
                pass
            b.kernel(GEMM, us=100)
    gaps = trace_of(b, tmp_path).gaps
    # 0 to 1000 is the buffers', of which the kernel hides 100; behind the convolution it is the model's own broadcast.
    assert gaps[["owner", "dur_ns"]].astype(object).where(
        gaps[["owner", "dur_ns"]].notna(), None
    ).to_numpy().tolist() == [
        ["buffers", 900_000],
        [None, 1_000_000],
    ]


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#Shampoo.zero_grad", "optimizer"),
        ("Optimizer.step#Shampoo.step", None),
        ("step", None),
    ],
)
def test_torchs_own_optimizers_own_their_host_code(name: str, owner: str | None, tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.annotation(name, us=300):
            pass

    assert [found for found, _, _ in gaps_of(part, tmp_path)] == [owner] * 4


def test_clipping_groups_as_well(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.python("torch/nn/utils/clip_grad.py(40): clip_grad_norm_"):
            b.idle(us=300)

    assert [owner for owner, _, _ in gaps_of(part, tmp_path)] == ["optimizer"] * 4


def test_a_collective_on_the_cpu_owns_what_the_thread_waits_for_it(tmp_path: Path) -> None:
    def part(b: TraceBuilder) -> None:
        with b.thread(77, join=False), b.annotation("gloo:all_reduce", us=1000):
            pass
        with b.op("aten::view", us=300):
            pass
        b.idle(us=700)

    # 700 of 1000 us: most of the stretch.
    assert gaps_of(part, tmp_path, with_stack=False) == [("collective", None, 1000)] * 4


def between(us: int, lines: tuple[int, int]) -> Part:
    """Python of so many us between two operators of 5 us, with the lines that the recorder marked."""

    def part(b: TraceBuilder) -> None:
        for name, line, after in (("aten::empty", lines[0], us), ("aten::to", lines[1], 0)):
            with b.op(name, us=5, args={"Call stack": f"train.py({line}): main"}):
                pass
            b.idle(us=after)

    return part


@pytest.mark.parametrize(("lines", "line"), [((70, 70), 70), ((70, 75), -1)])
def test_python_between_two_operators_has_their_line_where_it_is_one(
    lines: tuple[int, int], line: int, tmp_path: Path
) -> None:
    gaps = trace_of(behind(between(3000, lines), with_stack=False), tmp_path).gaps
    assert gaps["owner"].tolist() == ["python"] * 4
    assert gaps["op"].isna().all()  # outside operators, though its line is theirs
    assert gaps["line"].tolist() == [line] * 4
    assert (gaps["since_op"].tolist(), gaps["until_op"].tolist()) == (["aten::empty"] * 4, ["aten::to"] * 4)
    assert (gaps["since_line"].tolist(), gaps["until_line"].tolist()) == ([lines[0]] * 4, [lines[1]] * 4)


def test_a_short_stretch_between_two_operators_has_a_place_and_no_owner(tmp_path: Path) -> None:
    gaps = trace_of(behind(between(900, (70, 70)), with_stack=False), tmp_path).gaps
    assert gaps["owner"].isna().all()
    assert gaps["line"].tolist() == [70] * 4


def test_an_operator_that_plans_for_each_length_is_named_and_is_no_python(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(6):
        with b.step(), b.python("decode.py(475): step"):
            for at in range(10):
                length = 100 + number if not at else 64
                with b.op("aten::_cudnn_attention_forward", shapes=[[8, 16, 1, 64], [8, 16, length, 64]]):
                    b.idle(us=20 if at else 5000)
                    b.kernel(GEMM, us=20, host_us=20)
    gaps = trace_of(b, tmp_path).gaps
    planned = gaps[(gaps["dur_ns"] > 1_000_000) & (gaps["cause"] != "startup")]
    assert len(planned) >= 3
    assert set(planned["cause"]) == {"operator"}
    assert set(planned["op"]) == {"aten::_cudnn_attention_forward"}
    assert set(planned["owner"]) == {"selection"}
