"""Rules that look at the same work: none counts what another one counts, and no more comes back than there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.reading.program_settings import Uneven
from advisor.testing import TraceBuilder

A100 = "NVIDIA A100-SXM4-40GB"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
ROWS, WIDTH, CLASSES, HIDDEN = 8, 512, 8000, 128


def padded(longest: int) -> TraceBuilder:
    """Steps of 8 ms: a model of 5 ms on rows of *longest* words, padded to 512, and their logits of which 95 % have no label."""
    b = TraceBuilder(A100)
    b.ran_with(
        uneven=(Uneven(rows=ROWS, widths=(WIDTH, WIDTH), padding=0.95, squares=0.99),),
        batch_width=WIDTH,
        batch_longest=longest,
        batch_bytes=8 * ROWS * WIDTH,
        ignored_share=0.95,
    )
    for step in range(3):
        with b.step():
            with b.op("aten::embedding", shapes=[[CLASSES, HIDDEN], [ROWS, WIDTH]]):
                b.kernel("gather", us=10)
            with b.op("aten::addmm", shapes=[[HIDDEN], [ROWS * WIDTH, HIDDEN], [HIDDEN, HIDDEN]], seq=2 * step):
                b.kernel(GEMM, us=4_990)
            with b.op("aten::addmm", shapes=[[CLASSES], [ROWS * WIDTH, HIDDEN], [HIDDEN, CLASSES]], seq=2 * step + 1):
                b.kernel(GEMM, us=2_900)
            with b.op("aten::nll_loss_forward", shapes=[[ROWS * WIDTH, CLASSES], [ROWS * WIDTH]]):
                b.kernel("nll_loss", us=100)
            b.sync()
    return b


def found(builder: TraceBuilder, tmp_path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Findings by rule, and the reasons of rules that do not apply."""
    analysis = advisor.analyze(advisor.read(builder.write(tmp_path / "t.json")))
    savings = [finding.saving for finding in analysis.findings if finding.saving is not None]
    step_ms = analysis.summary.step_ms.median
    assert 0 <= sum(saving.high_ms for saving in savings) <= step_ms
    assert analysis.plan[-1].step_ms_after["low"] >= 0
    because = {verdict.rule: verdict.because for verdict in analysis.verdicts.not_applicable}
    return {finding.rule: finding for finding in analysis.findings}, because


def test_labels_that_are_left_out_since_rows_are_padded(tmp_path: Path) -> None:
    findings, because = found(padded(40), tmp_path)
    assert findings["kernels/padded-batches"].cost_ms == pytest.approx(8.0)
    assert because["kernels/unlabelled-logits"] == "its time is already owned by kernels/padded-batches"
    assert "data-loading/unsorted-lengths" not in findings


def test_labels_that_are_left_out_in_rows_that_fill_the_width(tmp_path: Path) -> None:
    """Then data-loading/unsorted-lengths says how much of the width short rows leave."""
    findings, _ = found(padded(500), tmp_path)
    assert "kernels/padded-batches" not in findings
    assert findings["kernels/unlabelled-logits"].cost_ms == pytest.approx(3.0)


def test_labels_that_are_left_out_in_padded_rows_on_the_cpu(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    b.ran_with(ignored_share=0.95, batch_width=WIDTH, batch_longest=50)
    for _ in range(3):
        with b.step():
            with b.op("aten::embedding", shapes=[[CLASSES, HIDDEN], [ROWS, WIDTH]], us=10):
                pass
            with b.op("aten::addmm", shapes=[[CLASSES], [ROWS * WIDTH, HIDDEN], [HIDDEN, CLASSES]], us=3000):
                pass
            with b.op("aten::nll_loss_forward", shapes=[[ROWS * WIDTH, CLASSES], [ROWS * WIDTH]], us=100):
                pass
    findings, because = found(b, tmp_path)
    assert findings["cpu/padded-batches"].cost_ms == pytest.approx(3.11)
    assert because["cpu/unlabelled-logits"] == "its time is already owned by cpu/padded-batches"


def crops(*, repeated: bool = False) -> TraceBuilder:
    """Steps that call a model for each of 40 crops, of a kernel of 5 us in front of which the GPU waits for the host."""
    place: dict[str, Any] = {"module": "Net", "calls": 40, "file": "read.py", "line": 20}
    b = TraceBuilder(A100, host_us=8)
    again = [place | {"repeats": 39, "share": 0.975}] if repeated else []
    b.ran_with(singles=[place | {"loops": 1, "share": 1.0}], repeats=again)
    for _ in range(3):
        with b.step():
            for _ in range(40):
                with b.python("read.py(7): main"), b.python("read.py(20): read"):
                    with b.op("aten::select", shapes=[[40, 64], [], []], args={"Call stack": "read.py(19): read"}):
                        pass
                    stack = "read.py(30): forward;read.py(20): read;read.py(7): main"
                    with b.op("aten::addmm", shapes=[[64], [1, 64], [64, 64]], args={"Call stack": stack}):
                        b.idle(us=40)
                        b.kernel(GEMM, us=5, grid=(4, 1, 1))
            with b.op("aten::sort", args={"Call stack": "read.py(22): read"}):
                b.kernel("radixSort", us=500)
            b.sync()
    return b


def test_a_loop_over_samples_is_no_loop_of_operators(tmp_path: Path) -> None:
    findings, _ = found(crops(), tmp_path)
    assert findings["kernels/one-by-one"].severity == "high"
    others = {"kernels/for-loop-indexing", "kernels/python-loop", "gpu-idle/launch-bound", "gpu-idle/python-code"}
    assert not others & set(findings)


def test_samples_of_which_nearly_all_are_the_same(tmp_path: Path) -> None:
    findings, because = found(crops(repeated=True), tmp_path)
    assert findings["cpu/repeated-module"].severity == "high"
    assert because["kernels/one-by-one"] == "its time is already owned by cpu/repeated-module"


def masked() -> TraceBuilder:
    """Steps of four layers that each build a causal mask at line 14, of numbers alone, and multiply something for 1 ms."""
    b = TraceBuilder(A100, host_us=1)
    b.ran_with(constants=[{"calls": 12, "share": 1.0, "file": "model.py", "line": 14}])
    size = 1024

    def run(name: str, us: float, shapes: list[list[int]], types: list[str], values: list[str]) -> None:
        args = {"Call stack": "model.py(14): mask;model.py(7): main"}
        with b.op(name, shapes=shapes, dtypes=types, values=values, us=0 if us else 1, args=args):
            if us:
                b.kernel("elementwise_kernel", us=us)

    for _ in range(3):
        with b.step():
            for _ in range(4):
                run("aten::arange", 1, [[]] * 5, ["Scalar", "", "", "", "Scalar"], [str(size), "", "", "", "False"])
                run("aten::unsqueeze", 0, [[size], []], ["long int", "Scalar"], ["", "0"])
                run("aten::unsqueeze", 0, [[size], []], ["long int", "Scalar"], ["", "1"])
                both = [[1, size], [size, 1], []]
                run("aten::sub", 200, both, ["long int", "long int", "Scalar"], ["", "", "1"])
                run("aten::gt", 200, [[size, size], []], ["long int", "Scalar"], ["", "0"])
                with b.op("aten::mm", shapes=[[4096, 4096]] * 2, args={"Call stack": "model.py(20): main"}):
                    b.kernel(GEMM, us=1000)
            b.sync()
    return b


def test_a_mask_that_is_built_again_is_no_constant_besides(tmp_path: Path) -> None:
    findings, because = found(masked(), tmp_path)
    assert findings["kernels/rebuilt-mask"].severity == "high"
    assert because["cpu/constant-again"] == "its time is already owned by kernels/rebuilt-mask"


def encoded(**watched: Any) -> TraceBuilder:
    """Steps on the CPU of 2 ms: lines 12 and 13 each encode the same, for 400 us in line 5, and line 20 does the rest."""
    b = TraceBuilder(None, host_us=0)
    b.ran_with(again=[{"calls": 1, "share": 1.0, "earlier": 12, "file": "run.py", "line": 13}], **watched)
    for _ in range(3):
        with b.step():
            for line in (12, 13):
                with b.op("aten::addmm", us=400, args={"Call stack": f"run.py(5): encode;run.py({line}): main"}):
                    pass
            with b.op("aten::mm", us=1200, args={"Call stack": "run.py(20): main"}):
                pass
    return b


def test_a_function_that_computes_the_same_in_every_step_is_not_counted_twice(tmp_path: Path) -> None:
    """Before the loop neither of the two calls is left."""
    place = {"file": "run.py", "line": 5}
    findings, because = found(encoded(unchanged=[place | {"work": "same", "calls": 2, "share": 1.0}]), tmp_path)
    assert findings["cpu/unchanged-input"].cost_ms == pytest.approx(0.8)
    assert because["cpu/repeated-function"] == "its time is already owned by cpu/unchanged-input"


def test_one_line_leads_to_what_a_module_computes_again(tmp_path: Path) -> None:
    """Line 13 leads to the one call of two that is spare: its 400 us are the finding, priced once."""
    place = {"file": "run.py", "line": 5, "module": "Encoder", "calls": 2, "repeats": 1, "share": 0.5}
    findings, _ = found(encoded(repeats=[place]), tmp_path)
    assert findings["cpu/repeated-function"].cost_ms == pytest.approx(0.4)
    assert [place.line for place in findings["cpu/repeated-function"].where] == [13]
    assert "cpu/repeated-module" not in findings


def test_a_function_of_samples_whose_second_call_is_spare(tmp_path: Path) -> None:
    """Of two calls the first one is of samples alone, and may be kept for later epochs."""
    place = {"file": "run.py", "line": 5, "work": "samples", "calls": 2, "share": 1.0}
    findings, _ = found(encoded(unchanged=[place]), tmp_path)
    assert findings["cpu/repeated-function"].cost_ms == pytest.approx(0.4)
    assert findings["cpu/samples-again"].cost_ms == pytest.approx(0.4)
