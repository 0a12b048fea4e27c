"""Lines of generated code by Inductor's provenance: of torch 2.13, as it was written for a model of two equal blocks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.errors import TraceError
from advisor.testing import TraceBuilder

NET = "/home/u/proj/net.py"


def stack(line: int, code: str) -> str:
    """A stack as Dynamo keeps it: of the loop over blocks, and of the line in the block."""
    loop = f'  File "{NET}", line 14, in forward\n    for b in s.blocks: x = b(x)\n                           ^^^^\n'
    return f'{loop}  File "{NET}", line {line}, in forward\n    {code}\n'


NORM, UP, GELU = stack(7, "h = s.ln(x)"), stack(8, "h = F.gelu(s.up(h))"), stack(8, "h = F.gelu(s.up(h))")
DOWN = stack(9, "return x + s.down(h) * 0.5")
# What torch 2.13 wrote, but for the names of kernels, which there are those of the CPU.
GRAPH: dict[str, Any] = {
    "triton_per_fused_native_layer_norm_0:1": [NORM],
    "extern_kernels.addmm:2": [UP],
    "triton_poi_fused_gelu_1:3": [GELU],
    "extern_kernels.addmm:4": [DOWN],
    "triton_per_fused_add_mul_native_layer_norm_2:5": [NORM, DOWN, DOWN],
    "extern_kernels.addmm:6": [UP],
    "triton_poi_fused_gelu_1:7": [GELU],
    "extern_kernels.addmm:8": [DOWN],
}


def run(b: TraceBuilder, graph: dict[str, Any] = GRAPH, leave_out: int = 0) -> None:
    """Launch what a graph calls, as its code does, in the range around it."""
    with b.annotation("## Call CompiledFxGraph fdm4 ##"):
        for call in list(graph)[: len(graph) - leave_out]:
            name = call.partition(":")[0].replace("extern_kernels.", "aten::")
            with b.op(name):
                b.kernel("sm80_xmma_gemm_f32f32" if name == "aten::addmm" else name, us=20)


def lines(tmp_path: Path, b: TraceBuilder, data: bytes) -> list[int]:
    (tmp_path / "provenance").write_bytes(data)
    trace = advisor.read(str(b.write(tmp_path / "t.json")), provenance=str(tmp_path / "provenance"))
    return [int(line) for line in trace.frame("kernels")["line"]]


def log(*graphs: dict[str, Any]) -> bytes:
    """The log of TORCH_TRACE: what it names stands behind its line, with a tab in front."""
    head = 'V1129 01:58:31.169000 25814 torch/_inductor/compile_fx.py:1632] {"artifact": {"name": "%s", "encoding": "json"}}\n'
    text = head % "inductor_provenance_tracking_node_mappings" + "\t{}\n"
    for graph in graphs:
        text += head % "inductor_provenance_tracking_kernel_stack_traces" + f"\t{json.dumps(graph)}\n"
    return text.encode()


EXPECTED = [7, 8, 8, 9, 9, 8, 8, 9]


def test_calls_have_the_line_that_most_of_them_computes(tmp_path: Path) -> None:
    b = TraceBuilder()
    run(b)
    run(b)
    assert lines(tmp_path, b, json.dumps(GRAPH).encode()) == EXPECTED * 2
    trace = advisor.read(str(tmp_path / "t.json"), provenance=str(tmp_path / "provenance"))
    kernels = trace.frame("kernels")
    assert kernels["fused_lines"].tolist()[4] == "proj/net.py:7, proj/net.py:9"
    assert set(kernels["function"]) == {"forward"}
    assert set(kernels["file"]) == {"proj/net.py"}
    note = next(note for note in trace.quality if note.code == "provenance")
    assert note.message == "16 of 16 calls of generated code have their lines from Inductor's provenance"


@pytest.mark.parametrize("packed", [False, True])
def test_the_log_of_torch_and_kernel_information_say_the_same(tmp_path: Path, packed: bool) -> None:
    b = TraceBuilder()
    run(b)
    data = log(GRAPH)
    assert lines(tmp_path, b, gzip.compress(data) if packed else data) == EXPECTED
    information = {call: {"stack_traces": stacks, "post_grad_nodes": ["mul"]} for call, stacks in GRAPH.items()}
    assert lines(tmp_path, b, json.dumps(information).encode()) == EXPECTED


def test_operators_outside_of_compiled_code_are_none_of_its_calls(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.op("aten::addmm"):
        b.kernel("sm80_xmma_gemm_f32f32", us=20)
    run(b)
    assert lines(tmp_path, b, log(GRAPH)) == [-1, *EXPECTED]


def test_a_name_in_two_graphs_has_a_line_where_both_agree(tmp_path: Path) -> None:
    other = {"triton_poi_fused_gelu_1:1": [stack(80, "y")], "triton_per_fused_native_layer_norm_0:2": [NORM]}
    b = TraceBuilder()
    run(b, {"triton_poi_fused_gelu_1:1": [], "triton_per_fused_native_layer_norm_0:2": []})
    one = {"triton_poi_fused_gelu_1:3": [GELU], "triton_per_fused_native_layer_norm_0:4": [NORM]}
    assert lines(tmp_path, b, log(one, other)) == [-1, 7]


def test_calls_that_are_fewer_than_the_graph_s_have_none_unless_all_are_alike(tmp_path: Path) -> None:
    b = TraceBuilder()
    run(b, leave_out=1)
    assert lines(tmp_path, b, log(GRAPH)) == [7, -1, 8, -1, 9, -1, 8]


def test_texts_that_the_reader_cut_to_the_same_keep_their_codes(tmp_path: Path) -> None:
    """Two stacks and two files that differ behind what is kept of a text: the codes of what comes after them are as before."""
    b = TraceBuilder()
    run(b)
    with b.op("aten::relu"):
        b.kernel("relu", us=20)
    root = json.loads(b.to_bytes())
    events = [event for event in root["traceEvents"] if event.get("cat") == "cpu_op"]
    for at, event in enumerate(events):
        deep = ";".join(["/usr/lib/python3.12/site-packages/torch/nn.py(1): call"] * 2000)
        event.setdefault("args", {})["Call stack"] = f"{deep};/u/last{at}.py(1): f"
        event["args"]["kernel_file"] = f"{'x' * 20_000}{at}"
    events[-1]["args"] |= {"Call stack": "/u/proj/train.py(33): step", "kernel_file": "/tmp/torchinductor_u/ab/last.py"}
    (tmp_path / "t.json").write_text(json.dumps(root))
    (tmp_path / "provenance").write_bytes(log(GRAPH))
    kernels = advisor.read(str(tmp_path / "t.json"), provenance=str(tmp_path / "provenance")).frame("kernels")
    assert kernels["line"].tolist() == [*EXPECTED, 33]
    assert kernels["generated"].tolist()[-1] == "torchinductor/ab/last.py"
    fused = kernels["fused_lines"].astype(object)
    assert fused.where(fused.notna(), None).tolist()[-2:] == ["proj/net.py:9", None]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[1]", b'{"a": 1}', b'{"a:1": ["no stack"]}', b'{"a:1": {"stack_traces": 3}}', b"\xff" * 99,
        b'{"cppCodeToPost": {"triton_poi_fused_0:1": ["mul"]}, "version": 2.0}', b'{"a":' * 5000, log(), log({"a:1": []}),
        json.dumps({f"{'x' * 2000}:1": [NORM]}).encode(), json.dumps({f"a:{'9' * 40}": [NORM]}).encode(),
    ],
)  # fmt: skip
def test_what_holds_no_stacks_is_an_error_that_says_how_to_make_one(tmp_path: Path, data: bytes) -> None:
    b = TraceBuilder()
    run(b)
    with pytest.raises(TraceError, match=r"provenance: "):
        lines(tmp_path, b, data)
