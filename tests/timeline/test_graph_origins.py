"""Origins of replayed kernels, on built traces whose truth is known: of a capture, of an eager step, of annotations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.traces import real_trace

import advisor
from advisor.testing import TraceBuilder
from advisor.trace import Trace

LAYER = (
    ("aten::layer_norm", "vectorized_layer_norm_kernel", 4),
    ("aten::addmm", "sgemm_128x64_nn", 30),
    ("aten::_softmax", "softmax_warp_forward", 6),
    ("aten::bmm", "sgemm_64x64_nt", 20),
    ("aten::gelu", "gelu_elementwise_kernel", 5),
)
LAYERS = 12


def forward(b: TraceBuilder, left_out: int = -1) -> list[tuple[str, str, str, int]]:
    """Run the layers eagerly; name, operator, module and line of each kernel."""
    truth = []
    for layer in range(LAYERS):
        with b.python(f"model.py({40 + layer}): forward"), b.module(f"Block_{layer}"):
            for op, kernel, us in LAYER:
                if len(truth) != left_out:
                    with b.op(op):
                        b.kernel(kernel, us=us)
                truth.append((kernel, op, f"Block_{layer}", 40 + layer))
    return truth


def replay(b: TraceBuilder, truth: list[tuple[str, str, str, int]], kernels: list[str] | None = None) -> None:
    with b.python("serve.py(9): step"):
        b.graph([(name, 10) for name in kernels or [kernel for kernel, *_ in truth]])


def read(tmp_path: Path, b: TraceBuilder, capture: Path | None = None) -> Trace:
    path = tmp_path / "replay.json.gz"
    b.write(path)
    return advisor.read(str(path), capture=None if capture is None else str(capture))


def rows(trace: Trace) -> list[tuple[str, str, str, int]]:
    kernels = trace.frame("kernels")
    kernels = kernels[kernels["graph"]]
    return list(zip(kernels["name"], kernels["op"], kernels["module"], kernels["line"], strict=True))


def test_eager_step_of_the_same_trace_tells_of_every_replay(tmp_path: Path) -> None:
    b = TraceBuilder()
    truth = forward(b)
    replay(b, truth)
    replay(b, truth)
    trace = read(tmp_path, b)
    assert rows(trace) == truth * 2
    kernels = trace.frame("kernels")
    assert set(kernels.loc[kernels["graph"], "origin"]) == {"eager"}
    assert kernels.loc[~kernels["graph"], "origin"].isna().all()
    note = next(note for note in trace.quality if note.code == "graph-capture")
    assert note.message == "120 of 120 kernels that graphs replayed have their operator from eager steps"


def test_kernels_that_were_added_have_none_and_the_others_are_right(tmp_path: Path) -> None:
    """A replay with a kernel more after every fifth layer, beside an eager run with one less: 97 % right, the rest NULL."""
    b = TraceBuilder()
    truth = forward(b, left_out=33)
    names = [kernel for kernel, *_ in truth]
    names.insert(25, "copy_to_static_input")
    replay(b, truth, names)
    trace = read(tmp_path, b)
    expected = [*truth[:25], None, *truth[25:]]
    kernels = trace.frame("kernels")
    origin = kernels.loc[kernels["graph"], "origin"].isna().tolist()
    right = 0
    for row, unknown, true in zip(rows(trace), origin, expected, strict=True):
        if not unknown:
            assert row == true
            right += 1
    assert origin[25]
    assert origin[34]
    assert right == 59
    assert right >= 0.97 * 60


def test_capture_given_beside_comes_before_what_the_trace_holds(tmp_path: Path) -> None:
    start = TraceBuilder()
    truth = forward(start)
    start.write(tmp_path / "start.json.gz")
    b = TraceBuilder()
    replay(b, truth)
    assert all(module is None or module != module for _, _, module, _ in rows(read(tmp_path, b)))
    trace = read(tmp_path, b, tmp_path / "start.json.gz")
    assert rows(trace) == truth


def test_replay_of_other_code_has_no_origin_and_is_counted(tmp_path: Path) -> None:
    b = TraceBuilder()
    forward(b)
    replay(b, [], [f"other_kernel_{number}" for number in range(20)])
    trace = read(tmp_path, b)
    kernels = trace.frame("kernels")
    assert kernels["origin"].isna().all()
    note = next(note for note in trace.quality if note.code == "graph-origins")
    assert note.message == "20 kernels were replayed by graphs: the trace does not say which operators they are"


def test_layers_that_are_alike_agree_on_the_operator_alone(tmp_path: Path) -> None:
    """A graph of one layer and the next stands anywhere among twelve: its operators are sure, its module and line are not."""
    b = TraceBuilder()
    truth = forward(b)
    replay(b, truth[:10])
    found = rows(read(tmp_path, b))
    assert [op for _, op, _, _ in found] == [op for _, op, _, _ in truth[:10]]
    assert all(line == -1 for *_, line in found)
    assert all(module is None or module != module for _, _, module, _ in found)


def test_annotation_of_a_captured_kernel_is_its_operator(tmp_path: Path) -> None:
    b = TraceBuilder()
    replay(b, [], ["sgemm_128x64_nn", "gelu_elementwise_kernel"])
    path = tmp_path / "annotated.json"
    b.write(path)
    root = json.loads(path.read_text())
    first = next(event for event in root["traceEvents"] if event.get("args", {}).get("graph node id") == 1)
    first["args"]["name"] = "layer 3, attention"
    path.write_text(json.dumps(root))
    kernels = advisor.read(str(path)).frame("kernels")
    assert kernels["origin"].tolist()[0] == "annotation"
    assert kernels["op"].tolist()[0] == "layer 3, attention"
    assert kernels["origin"].isna().tolist() == [False, True]


@pytest.mark.real
def test_capture_of_a_real_engine_tells_of_every_replayed_kernel() -> None:
    """Of 425 kernels 421 are replayed, and the capture launches as many of the same names; the 4 others have their own launch."""
    capture = real_trace("audited/mi300_vllm_graph_capture")
    trace = advisor.read(real_trace("mi300_vllm_graph_replay"), capture=capture)
    kernels = trace.frame("kernels")
    replayed = kernels[kernels["graph"]]
    assert (len(kernels), len(replayed)) == (425, 421)
    assert set(replayed["origin"]) == {"capture"}
    assert replayed["op"].notna().all()
    assert replayed["module"].notna().all()
    assert (
        replayed["library"].str.contains(r":\d+ ").all()
    )  # no frame of the engine is the user's: its line is the library's
    products = replayed[replayed["name"].str.startswith("Cijk_")]
    assert set(products["op"]) <= {"aten::addmm", "aten::mm"}
    attention = replayed[replayed["name"].str.startswith("kernel_unified_attention")]
    assert set(attention["op"]) == {"vllm::unified_attention_with_output"}
    assert len(attention) == 24


def innermost(events: list[dict[str, Any]], launch: dict[str, Any]) -> str:
    """Name of the shortest event around a launch."""
    low, high = launch["ts"], launch["ts"] + launch["dur"]
    around = [event for event in events if event["ts"] <= low and event["ts"] + event["dur"] >= high]
    return str(min(around, key=lambda event: event["dur"])["name"])


@pytest.mark.real
def test_capture_tells_what_its_raw_events_hold() -> None:
    """Operator and module of each kernel are those around the launch of its number between begin and end of the capture."""
    path = real_trace("audited/mi300_vllm_graph_capture")
    with gzip.open(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    events.sort(key=lambda event: event["ts"])
    begin, end = (
        next(event["ts"] for event in events if event["name"] == f"hipStream{word}Capture") for word in ("Begin", "End")
    )
    near = [event for event in events if event["ts"] <= end and event["ts"] + event["dur"] >= begin]
    launches = [event for event in near if "kernel" in event["args"] and begin < event["ts"] < end]
    operators = [event for event in near if event.get("cat") == "cpu_op"]
    modules = [event for event in near if event["name"].startswith("nn.Module: ")]
    kernels = advisor.read(real_trace("mi300_vllm_graph_replay"), capture=path).frame("kernels")
    replayed = kernels[kernels["graph"]].sort_values("start_ns")
    assert len(replayed) >= 415
    assert replayed["name"].tolist() == [launch["args"]["kernel"] for launch in launches]
    assert replayed["op"].tolist() == [innermost(operators, launch) for launch in launches]
    expected = [innermost(modules, launch).removeprefix("nn.Module: ") for launch in launches]
    assert [module.rpartition("/")[2] for module in replayed["module"]] == expected
