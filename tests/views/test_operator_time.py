"""Families of operators of programs on the CPU. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import analysis as real

import advisor
from advisor.frames.families import operator_family
from advisor.report import Options, render
from advisor.testing import TraceBuilder


@pytest.mark.parametrize(
    ("operator", "outer", "family"),
    [
        ("aten::mkldnn_convolution", "aten::conv2d", "convolutions"),
        ("aten::bernoulli_", "aten::dropout", "dropout"),
        ("aten::mul", "aten::dropout", "dropout"),
        ("aten::mul", "aten::mul", "elementwise"),
        ("aten::addmm", "aten::linear", "matrix products"),
        ("mkldnn::_linear_pointwise", "", "matrix products"),
        ("aten::mkldnn_rnn_layer", "aten::lstm", "recurrent layers"),
        ("aten::native_batch_norm", "aten::batch_norm", "batch norm"),
        ("aten::gelu", "aten::gelu", "activations"),
        ("aten::copy_", "aten::linear", "copies"),
        ("aten::bmm", "aten::scaled_dot_product_attention", "attention"),
        ("aten::sum", "aten::sum", "reductions"),
        ("mylib::tokenize", "", "other"),
    ],
)
def test_an_operator_is_of_the_family_that_it_or_what_calls_it_names(operator: str, outer: str, family: str) -> None:
    assert operator_family(operator, outer) == family
    assert operator_family(operator, outer, optimizing=True) == "optimizer"


def test_each_moment_is_the_innermost_operators(tmp_path: Path) -> None:
    """Of a step 6 ms in a product, 1 of them in the copy that it makes first; 3 in dropout, of two operators; 1 ms of Python."""
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            with b.op("aten::linear"), b.op("aten::addmm"):
                with b.op("aten::copy_"):
                    b.idle(us=1000)
                b.idle(us=5000)
            with b.op("aten::dropout"):
                with b.op("aten::bernoulli_"):
                    b.idle(us=2000)
                with b.op("aten::mul"):
                    b.idle(us=1000)
            b.idle(us=1000)
    made = advisor.analyze(str(b.write(tmp_path / "trace.json")))
    assert [(part.family, round(part.ms, 2)) for part in made.summary.operator_time] == [
        ("matrix products", 5.0),
        ("dropout", 3.0),
        ("copies", 1.0),
    ]
    text = render("text", made, Options(width=80)).decode()
    assert "operators 9.00 ms: matrix products 56 %, dropout 33 %, copies 11 %" in text
    whole = " ".join(render("text", made, Options(verbosity=1)).decode().split())
    assert "Operators, 9.00 ms a step: matrix products 5.00 ms (55.6 %)" in whole


def test_a_real_program_on_the_cpu_says_what_it_computes() -> None:
    """By the raw file: convolutions 1,062 ms; dropout 985, bernoulli_ 684 of it; batch norm 348, gelu 336, softmax 144."""
    summary = real("audited/a100_particle_on_cpu").summary
    ms = {part.family: part.ms for part in summary.operator_time}
    assert ms["convolutions"] == pytest.approx(1062, rel=0.01)
    assert ms["dropout"] == pytest.approx(985, rel=0.01)
    assert ms["batch norm"] == pytest.approx(348, rel=0.01)
    assert ms["softmax"] == pytest.approx(144, rel=0.01)
    assert sum(ms.values()) == pytest.approx(summary.steady_causes["compute"] * summary.whole_ms)
    assert summary.kernel_time == []
