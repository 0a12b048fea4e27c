"""Lines of kernels that compiled code launches: those of the model, where the operators of its graph carry them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import advisor
from advisor.reading.tracebacks import frames
from advisor.testing import TraceBuilder
from advisor.timeline.fused_names import operators

TRACEBACK = """  File "/home/somebody/project/train.py", line 80, in <module>
    out = model(x)
  File "/home/somebody/project/model.py", line 31, in forward
    y = torch.relu(self.inner(x)); z = y
  File "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
"""


def test_frames_of_a_traceback_are_innermost_first() -> None:
    assert frames(TRACEBACK).split(";") == [
        "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py(125): forward",
        "/home/somebody/project/model.py(31): forward",
        "/home/somebody/project/train.py(80): <module>",
    ]
    assert frames("No model stack trace available") == ""
    assert frames('File "a;b.py", line 3, in f') == ""


def test_lines_of_the_model_come_before_the_call_of_its_graph(tmp_path: Path) -> None:
    b = TraceBuilder()
    call = b.python("torch/_inductor/output_code.py(628): __call__")
    with b.python("train.py(80): <module>"), b.op("Torch-Compiled Region: 0/0"), call:
        with b.op("aten::addmm"), b.python("torch/_ops.py(100): call"):
            b.kernel("sgemm", us=10)
        with b.op("aten::relu"):
            b.kernel("relu", us=10)
    root: dict[str, Any] = json.loads(b.to_bytes())
    next(e for e in root["traceEvents"] if e["name"] == "aten::addmm")["args"]["stack_trace"] = TRACEBACK
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(root))
    kernels = advisor.read(str(path)).frame("kernels")
    assert list(zip(kernels["file"], kernels["line"], strict=True)) == [("project/model.py", 31), ("train.py", 80)]
    assert "somebody" not in kernels.to_csv()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("triton_poi_fused_add_cos_sin_0", ["add", "cos", "sin"]),
        ("triton_per_fused__to_copy_add_native_layer_norm_native_layer_norm_backward_view_9",
         ["_to_copy", "add", "native_layer_norm", "native_layer_norm_backward", "view"]),
        ("triton_poi_fused_silu_silu_backward_5", ["silu", "silu_backward"]),
        ("triton_poi_fused_add_copy__mul_3", ["add", "copy_", "mul"]),
        ("triton_poi_fused_copy__0", ["copy_"]),
        ("triton_poi_fused_add__softmax_3", ["add", "_softmax"]),
        ("triton_poi_fused_0", []),
        ("void at::native::vectorized_elementwise_kernel", []),
    ],
)  # fmt: skip
def test_operators_that_a_kernel_is_fused_of(kernel: str, expected: list[str]) -> None:
    assert list(operators(kernel)) == expected


@given(
    st.lists(st.sampled_from(["add", "_to_copy", "native_layer_norm", "mul", "select_backward", "view"]), min_size=1)
)
def test_fused_operators_come_back(names: list[str]) -> None:
    """Names are sorted and stand once, as Inductor writes them."""
    names = sorted(set(names))
    assert list(operators(f"triton_poi_fused_{'_'.join(names)}_12")) == names


def test_kernels_say_what_is_fused_and_where_its_code_is(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("triton_poi_fused_add_relu_0"):
        b.kernel("triton_poi_fused_add_relu_0", us=10)
    with b.op("aten::mm"):
        b.kernel("sgemm", us=10)
    root: dict[str, Any] = json.loads(b.to_bytes())
    for event in root["traceEvents"]:
        if event.get("cat") == "cpu_op" and event["name"].startswith("triton"):
            event.setdefault("args", {})["kernel_file"] = "/tmp/torchinductor_somebody/ab/cabc.py"
            event["args"]["kernel_kwargs"] = "XBLOCK=2,R0_BLOCK=2048,name=/home/somebody"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(root))
    kernels = advisor.read(str(path)).frame("kernels")
    assert kernels["fused"].astype(object).where(kernels["fused"].notna(), None).tolist() == ["add, relu", None]
    assert kernels["generated"].astype(object).where(kernels["generated"].notna(), None).tolist() == [
        "torchinductor/ab/cabc.py",
        None,
    ]
    sizes = kernels["generated_sizes"].astype(object)
    assert sizes.where(sizes.notna(), None).tolist() == ["XBLOCK=2, R0_BLOCK=2048", None]


def test_newlines_in_the_sizes_and_the_file_of_generated_code_make_no_lines_of_the_program(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("triton_poi_fused_add_relu_0"):
        b.kernel("triton_poi_fused_add_relu_0", us=10)
    root: dict[str, Any] = json.loads(b.to_bytes())
    (event,) = (event for event in root["traceEvents"] if event.get("cat") == "cpu_op")
    event.setdefault("args", {})["kernel_file"] = "/tmp/torchinductor_somebody/a\nb/cabc.py"
    event["args"]["kernel_kwargs"] = "XBLOCK=2,\nR0_BLOCK=2048,\nname=x"
    (tmp_path / "trace.json").write_text(json.dumps(root))
    kernels = advisor.read(str(tmp_path / "trace.json")).frame("kernels")
    assert kernels["generated"].tolist() == ["torchinductor/a b/cabc.py"]
    assert kernels["generated_sizes"].tolist() == ["XBLOCK=2, R0_BLOCK=2048"]
    assert kernels["fused_lines"].isna().all()
